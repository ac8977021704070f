"""The log of a task, where progress must not drown in what Spark says."""

import pytest
from airflow.providers.common.compat.sdk import AirflowException

from airflow_hiveacid import DeleteJob, HiveAcidDeleteOperator
from airflow_hiveacid.progress import Phase, PhaseClock, PhaseLog

OPERATOR = HiveAcidDeleteOperator(task_id="t", job=DeleteJob(target="db.t", where="id = 1"))


@pytest.fixture
def progress(capsys):
    """What a driver prints of a phase."""
    with PhaseClock([PhaseLog()])(Phase.READ):
        pass
    begun, ended = capsys.readouterr().out.splitlines()
    return begun, ended


def logged(capsys, *wanted):
    """Those of some texts that the log has, in its order."""
    lines = capsys.readouterr().out.splitlines()
    return [text for line in lines for text in wanted if f"] {text} " in line]


def test_what_spark_says_is_folded_and_progress_is_not(spark_submit, context, capsys, progress):
    begun, ended = progress
    output = ["INFO started", "INFO registered", begun, "INFO task 0", ended, "INFO stopped"]
    spark_submit.will(report={"job": "delete", "target": "db.t"}, output="\n".join(output))

    OPERATOR.execute(context)

    group = ("::group::Spark", "::endgroup::")
    assert logged(capsys, *output, *group) == [
        group[0],
        *output[:2],
        group[1],
        begun,
        group[0],
        output[3],
        group[1],
        ended,
        group[0],
        output[5],
        group[1],
    ]


def test_no_group_stays_open_when_spark_fails(spark_submit, context, capsys):
    spark_submit.will(exit_code=1, output="INFO started\nERROR out of luck")

    with pytest.raises(AirflowException, match="out of luck"):
        OPERATOR.execute(context)

    groups = logged(capsys, "::group::Spark", "::endgroup::")
    assert groups == ["::group::Spark", "::endgroup::"]
