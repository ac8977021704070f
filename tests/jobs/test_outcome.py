import pytest

from hiveacid.jobs.outcome import outcome
from hiveacid.jobs.report import (
    CleanReport,
    CompactReport,
    KeptDirectory,
    PartitionReport,
    RemovedDirectory,
    RunReport,
    ScriptReport,
    TableReport,
)
from hiveacid.jobs.stream_job import StreamReport

ORDERS = {"rows_inserted": 7, "rows_updated": 13, "partitions": ("d=1", "d=2"), "bytes": 6144}
MERGED = RunReport(job="merge", target="shop.orders", **ORDERS)
COMPACTED = CompactReport(
    target="shop.orders",
    partitions=tuple(
        PartitionReport(
            table="shop.orders",
            outcome=end,
            reason="",
            type=kind,
            bytes_read=2048,
            bytes_written=512,
        )
        for end, kind in (
            ("compacted", "major"),
            ("compacted", "minor"),
            ("compacted", "major"),
            ("skipped", None),
            ("failed", "major"),
        )
    ),
)


@pytest.mark.parametrize(
    ("report", "told"),
    [
        (MERGED, "shop.orders: 7 inserted, 13 updated, 2 partitions, 6.0 KiB, 93 s"),
        (RunReport(job="delete", target="db.t"), "db.t: no row changed, 93 s"),
        (RunReport(job="create_table", target="db.t"), "db.t: created, 93 s"),
        (RunReport(job="export", target="db.t", bytes=10), "db.t: 0 exported, 10 B, 93 s"),
        (
            RunReport(job="delete", target="db.t", rows_deleted=1, already_done=True),
            "an earlier attempt has done it: db.t: 1 deleted, 93 s",
        ),
        (
            RunReport(
                job="transaction",
                target="db.a",
                rows_inserted=3,
                tables=(
                    TableReport(table="db.a", rows_inserted=1, partitions=("d=1",)),
                    TableReport(table="db.b", rows_inserted=2),
                ),
            ),
            "db.a: 1 inserted, 1 partition; db.b: 2 inserted, 93 s",
        ),
        (
            COMPACTED,
            "shop.orders: 2 major compactions, 1 minor compaction, 6.0 KiB made 1.5 KiB, 1 skipped, "
            "1 failed, 93 s",
        ),
        (CompactReport(target="db.t"), "db.t: nothing to compact, 93 s"),
        (
            CleanReport(
                target="db.t",
                dry_run=True,
                removed=(RemovedDirectory("base_1", 2048, ""),),
                kept=(KeptDirectory("base_2", ""),),
                bytes=2048,
            ),
            "db.t: 1 directory would be removed, 2.0 KiB, 1 kept, 93 s",
        ),
        (
            ScriptReport.of("shop.orders", [MERGED, CompactReport(target="db.t")]),
            "2 statements: shop.orders: 7 inserted, 13 updated, 2 partitions, 6.0 KiB; "
            "db.t: nothing to compact, 93 s",
        ),
        (
            StreamReport(
                target="db.t",
                name="clicks",
                batches=2,
                tables=(TableReport(table="db.t", rows_inserted=5),),
            ),
            "stream clicks, 2 batches: db.t: 5 inserted, 93 s",
        ),
    ],
)
def test_a_line_describes_the_result_of_a_run(report, told):
    assert outcome(report.to_dict(), 93.2) == told


def test_short_times_have_a_fraction():
    assert outcome(MERGED.to_dict(), 1.26).endswith(", 1.3 s")
