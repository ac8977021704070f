import json
from dataclasses import replace

import pytest

from hiveacid.errors import CorruptFile, InvalidJob, LockTimeout, WriteConflict
from hiveacid.jobs.maintenance_jobs import MaintenanceReport, TableMaintenance
from hiveacid.jobs.report import (
    CleanReport,
    CompactReport,
    ErrorReport,
    KeptDirectory,
    PartitionReport,
    RemovedDirectory,
    RunReport,
    TableReport,
)
from hiveacid.rules.names import TableRef
from hiveacid.upkeep.compaction.table import joint_report

ERROR = ErrorReport(id="WriteConflict", message="m", remedy="r", retryable=True)


@pytest.mark.parametrize(
    "report",
    [
        RunReport(job="delete", target="a.b"),
        RunReport(
            job="merge",
            target="a.b",
            txn_id=7,
            write_ids={"a.b": 3},
            rows_inserted=1,
            rows_updated=2,
            rows_deleted=3,
            files=4,
            bytes=5,
            partitions=("d=1", "d=2"),
            seconds={"open": 0.25, "commit": 1},
            warnings=("slow",),
            restarts=1,
            already_done=True,
            error=ERROR,
        ),
        CompactReport(
            target="a.b",
            partitions=(
                PartitionReport(
                    table="a.b",
                    partition="d=1",
                    type="major",
                    outcome="compacted",
                    reason="It has no base.",
                    txn_id=7,
                    published=("base_0000003_v0000007",),
                    replaced=("delta_0000001_0000001_0000", "delta_0000003_0000003_0000"),
                    rows=5,
                    seconds={"read": 0.5},
                ),
                PartitionReport(table="a.b", outcome="failed", reason="r", error=ERROR),
            ),
            warnings=("slow",),
        ),
        CleanReport(
            target="a.b",
            dry_run=True,
            removed=(RemovedDirectory("d=1/delta_0000001_0000001_0000", 12, "obsolete"),),
            kept=(KeptDirectory("d=1/strange", "not ours"),),
            bytes=12,
            requests_cleaned=(4, 5),
            error=ERROR,
        ),
    ],
)
def test_a_report_survives_json(report):
    assert type(report).from_dict(json.loads(json.dumps(report.to_dict()))) == report


def test_a_broken_report_is_an_error():
    with pytest.raises(InvalidJob, match=r"report\.files must be a whole number"):
        RunReport.from_dict({"job": "x", "target": "a.b", "files": "3"})


def test_our_errors_contain_remedies():
    assert ErrorReport.of(WriteConflict("Row 1 changed.", remedy="Run again.")) == ErrorReport(
        id="WriteConflict",
        message="Row 1 changed.",
        remedy="Run again.",
        retryable=True,
        exit_code=10,
    )


@pytest.mark.parametrize(
    ("error", "message"), [(KeyError("x"), "'x'"), (MemoryError(), "MemoryError()")]
)
def test_other_errors_contain_the_cause(error, message):
    report = ErrorReport.of(error)
    assert (report.id, report.message, report.retryable) == (type(error).__name__, message, False)


PERMANENT, TEMPORARY = CorruptFile("bucket_0 is broken."), LockTimeout("Transaction 7 waited.")


@pytest.mark.parametrize("order", [(PERMANENT, TEMPORARY), (TEMPORARY, PERMANENT)])
def test_a_retryable_failure_decides_for_a_retry_in_any_order(order):
    errors = [ErrorReport.of(error) for error in order]
    partitions = [
        PartitionReport(table="a.b", partition=name, outcome="failed", reason="", error=error)
        for name, error in zip(("p=1", "p=2"), errors, strict=True)
    ]
    tables = tuple(
        TableMaintenance(table=name, error=error)
        for name, error in zip(("a.b", "a.c"), errors, strict=True)
    )
    compaction = joint_report(TableRef("a", "b"), partitions).error
    maintenance = MaintenanceReport(surveyed=3, tables=tables).error
    message = "Transaction 7 waited."
    expected = ErrorReport.of(TEMPORARY)
    assert compaction == replace(expected, message=f"2 of 2 failed (a.b/p=1, a.b/p=2): {message}")
    assert maintenance == replace(expected, message=f"2 of 3 tables failed (a.b, a.c): {message}")


def test_permanent_failures_are_reported_as_the_first_of_them():
    errors = [ErrorReport.of(error) for error in (PERMANENT, InvalidJob("There is no p=3."))]
    joint = ErrorReport.joint(errors, "2 of 2 failed (p=1, p=3)")
    assert joint is not None
    assert (joint.id, joint.retryable) == ("CorruptFile", False)
    assert ErrorReport.joint([], "0 of 2 failed ()") is None


def test_a_short_record_counts_the_partitions() -> None:
    def record(count: int) -> dict[str, object]:
        names = tuple(f"day={number}" for number in range(count))
        tables = (TableReport(table="a.b", files=4, partitions=names), TableReport(table="a.c"))
        return RunReport(job="merge", target="a.b", partitions=names, tables=tables).short_record()

    short = record(10_000)
    assert "day=" not in str(short)
    assert (short["job"], short["partition_count"]) == ("merge", 10_000)
    assert [table["partition_count"] for table in short["tables"]] == [10_000, 0]  # type: ignore[attr-defined]
    assert len(json.dumps(short)) < len(json.dumps(record(1))) + 10
