import json
import re

import pytest

from hiveacid.jobs.report import CompactReport, RunReport, ScriptReport
from hiveacid.spark.application import main


@pytest.mark.parametrize("read_as", [RunReport, CompactReport, ScriptReport])
@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"target": "db.t"}, "job.job must be one of add_columns, .*, not None"),
        ({"job": "vacuum", "target": "db.t"}, "not 'vacuum'"),
        (["job"], "must be a JSON object"),
    ],
)
def test_a_job_of_an_unknown_kind_is_reported_to_the_caller(job, message, read_as, tmp_path):
    (tmp_path / "job.json").write_text(json.dumps(job))
    report = tmp_path / "report.json"

    assert main(["--job", str(tmp_path / "job.json"), "--report", str(report)]) == 20

    error = read_as.from_dict(json.loads(report.read_text())).error
    assert error.id == "InvalidJob"
    assert re.search(message, error.message)
