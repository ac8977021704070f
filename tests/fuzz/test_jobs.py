"""Jobs, reports and notes as JSON."""

import json

from hiveacid.drivers.run_files import RunFiles, Started
from hiveacid.jobs import codec
from hiveacid.jobs.codec import encode
from hiveacid.jobs.job_json import from_json, to_json
from hiveacid.jobs.report import CleanReport, CompactReport, RunReport
from hiveacid.parser.script import to_script
from hiveacid.records.run_notes import RunNote
from tests.fuzz.driver import INPUTS, Source, fuzz

SCRIPT = """
INSERT OVERWRITE TABLE a PARTITION (d = '1') SELECT * FROM b;
UPDATE a SET x = 1 WHERE y IN (SELECT z FROM c);
MERGE INTO a t USING b s ON t.id = s.id WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *;
DELETE FROM a WHERE b; TRUNCATE TABLE a; ALTER TABLE a COMPACT 'major'; CREATE TABLE e (id int)
"""
JOBS = [encode(to_script(SCRIPT)), *encode(to_script(SCRIPT))["statements"]]
REPORTS = [
    RunReport(job="merge", target="a.b", write_ids={"a.b": 3}, seconds={"write": 0.5}).to_dict(),
    CompactReport(target="a.b").to_dict(),
    CleanReport(target="a.b").to_dict(),
    encode(Started(application_id="app", txn_ids=(1,), write_ids={"a.b": 3})),
]


def text(source: Source, seeds) -> str:
    """A document with other values, and at times with other letters."""
    found = json.dumps(source.json_like(source.random.choice(seeds)))
    return source.text([found]) if source.random.random() < 0.3 else found


@INPUTS
def test_jobs(inputs):
    def read(given):
        job = from_json(given)
        job.validate()
        from_json(to_json(job))

    fuzz(read, lambda source: text(source, JOBS), inputs)


@INPUTS
def test_reports(inputs, tmp_path):
    file = tmp_path / "report.json"
    files = RunFiles(str(file))

    file.touch()
    (tmp_path / "report.json.started").hardlink_to(file)

    def read(given):
        # A file that is cut to nothing first goes to the disk when it is closed, which takes long.
        with file.open("r+b") as stream:
            stream.write(given)
            stream.truncate()
        files.read_started()
        for kind in (RunReport, CompactReport, CleanReport):
            files.read_report(kind)
        codec.read_obligation(RunNote, given, "note")

    fuzz(read, lambda source: text(source, REPORTS).encode(errors="surrogatepass"), inputs)
