"""One-line summary of a run, the last line of a task's log."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hiveacid.jobs.job import Job
from hiveacid.jobs.job_json import job_types
from hiveacid.rules.quantities import bytes_in_words

_CHANGES = (
    ("rows_inserted", "inserted"),
    ("rows_updated", "updated"),
    ("rows_deleted", "deleted"),
)


def outcome(report: Mapping[str, Any], seconds: float) -> str:
    """Summarize a run: "shop.orders: 7 inserted, 3 partitions, 6.0 KiB, 93 s".

    Args:
        report: The result of ``to_dict`` of any report.
        seconds: The run's duration.
    """
    earlier = "an earlier attempt has done it: " if report.get("already_done") else ""
    took = f"{seconds:.1f} s" if seconds < 10 else f"{seconds:.0f} s"
    return f"{earlier}{_done(report)}, {took}"


def _done(report: Mapping[str, Any]) -> str:
    match report["job"]:
        case "script":
            reports = [part["run"] or part["compaction"] for part in report["statements"]]
            done = "; ".join(map(_done, reports))
            return f"{_count(len(reports), 'statement')}: {done}" if len(reports) > 1 else done
        case "compact":
            return _sentence(report["target"], _compacted(report["partitions"]))
        case "analyze" if "write_id" in report:
            return _sentence(report["target"], _analyzed(report["partitions"]))
        case "clean":
            return _sentence(report["target"], _cleaned(report))
        case "to_iceberg":
            return _sentence(report["target"], _exported(report))
        case "compare_iceberg":
            rows = f"{report['hive_rows']} rows equal those of {report['table']}"
            return _sentence(report["target"], iter([rows]))
        case "stream":
            batches = _count(report["batches"], "batch", "batches")
            return f"stream {report['name']}, {batches}: {_written(report)}"
    return _written(report)


def _written(report: Mapping[str, Any]) -> str:
    """Return the changes to each table as text."""
    tables = report["tables"] or [{**report, "table": report["target"]}]
    return "; ".join(_sentence(table["table"], _changed(table, report["job"])) for table in tables)


def _changed(table: Mapping[str, Any], job: str) -> Iterator[str]:
    counts = [f"{table[key]} {done}" for key, done in _CHANGES if table[key]]
    if job == "export":
        yield f"{table['rows_inserted']} exported"
    elif counts:
        yield from counts
    else:
        # The report may come from a version that has more jobs.
        yield job_types().get(job, Job).done
    if partitions := table.get("partitions"):
        yield _count(len(partitions), "partition")
    if size := table.get("bytes"):
        yield bytes_in_words(size)


def _compacted(partitions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    done = [partition for partition in partitions if partition["outcome"] == "compacted"]
    for kind in dict.fromkeys(partition["type"] for partition in done):
        number = sum(partition["type"] == kind for partition in done)
        yield f"{_count(number, f'{kind} compaction')}"
    if done:
        read, written = (
            bytes_in_words(sum(partition[key] for partition in done))
            for key in ("bytes_read", "bytes_written")
        )
        yield f"{read} made {written}"
    for end in ("skipped", "failed"):
        if number := sum(partition["outcome"] == end for partition in partitions):
            yield f"{number} {end}"
    if not partitions:
        yield "nothing to compact"


def _analyzed(partitions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    yield f"{sum(partition['rows'] for partition in partitions)} rows analyzed"
    if any(partition["partition"] is not None for partition in partitions):
        yield _count(len(partitions), "partition")
    if inexact := sum(not partition["accurate"] for partition in partitions):
        yield f"{inexact} not exact"


def _cleaned(report: Mapping[str, Any]) -> Iterator[str]:
    removed = _count(len(report["removed"]), "directory", "directories")
    yield f"{removed} {'would be ' if report['dry_run'] else ''}removed"
    if report["bytes"]:
        yield bytes_in_words(report["bytes"])
    if report["kept"]:
        yield f"{len(report['kept'])} kept"


def _exported(report: Mapping[str, Any]) -> Iterator[str]:
    if report["dry_run"]:
        yield f"{_count(report['files'], 'file')} would be exported to {report['table']}"
        return
    yield f"{report['rows']} rows exported to {report['table']}"
    yield _count(report["files"], "file")
    yield bytes_in_words(report["bytes"] or 0)


def _sentence(table: str, parts: Iterator[str]) -> str:
    return f"{table}: {', '.join(parts)}"


def _count(number: int, one: str, many: str | None = None) -> str:
    return f"{number} {one if number == 1 else many or f'{one}s'}"
