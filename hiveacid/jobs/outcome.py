"""One-line summary of a run, the last line of a task's log."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hiveacid.jobs.job import Job
from hiveacid.jobs.job_json import job_types
from hiveacid.rules.texts import bytes_in_words, plural

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
            return f"{plural(len(reports), 'statement')}: {done}" if len(reports) > 1 else done
        case "compact":
            return _sentence(report["target"], _compacted(report["partitions"]))
        case "analyze" if "write_id" in report:
            return _sentence(report["target"], _analyzed(report["partitions"]))
        case "clean":
            return _sentence(report["target"], _cleaned(report))
        case "erase":
            return _sentence(f"erasure {report['request']}", _erased(report))
        case "to_iceberg":
            return _sentence(report["target"], _exported(report))
        case "compare_iceberg":
            rows = f"{plural(report['hive_rows'], 'row equals that', 'rows equal those')} of {report['table']}"
            return _sentence(report["target"], iter([rows]))
        case "stream":
            batches = plural(report["batches"], "batch", "batches")
            return f"stream {report['name']}, {batches}: {_written(report)}"
    return _written(report)


def _written(report: Mapping[str, Any]) -> str:
    """Return the changes to each table as text."""
    tables = report["tables"] or [{**report, "table": report["target"]}]
    sentences = [_sentence(table["table"], _changed(table, report["job"])) for table in tables]
    if checks := report.get("checks"):
        passed = sum(check["passed"] for check in checks)
        sentences.append(f"{passed} of {plural(len(checks), 'check')} passed")
    return "; ".join(sentences)


def _changed(table: Mapping[str, Any], job: str) -> Iterator[str]:
    counts = [f"{table[key]} {verb}" for key, verb in _CHANGES if table[key]]
    if job == "export":
        yield f"{table['rows_inserted']} exported"
    elif counts:
        yield from counts
    else:
        # The report may come from a version that has more jobs.
        yield job_types().get(job, Job).done
    if partitions := table.get("partitions"):
        yield plural(len(partitions), "partition")
    if size := table.get("bytes"):
        yield bytes_in_words(size)


def _compacted(partitions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    compacted_partitions = [
        partition for partition in partitions if partition["outcome"] == "compacted"
    ]
    for kind in dict.fromkeys(partition["type"] for partition in compacted_partitions):
        number = sum(partition["type"] == kind for partition in compacted_partitions)
        yield f"{plural(number, f'{kind} compaction')}"
    if compacted_partitions:
        read, bytes_after = (
            bytes_in_words(sum(partition[key] for partition in compacted_partitions))
            for key in ("bytes_read", "bytes_written")
        )
        yield f"{read} made {bytes_after}"
    for end in ("skipped", "failed"):
        if number := sum(partition["outcome"] == end for partition in partitions):
            yield f"{number} {end}"
    if not partitions:
        yield "nothing to compact"


def _analyzed(partitions: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    rows = sum(partition["rows"] for partition in partitions)
    yield f"{plural(rows, 'row')} analyzed"
    if any(partition["partition"] is not None for partition in partitions):
        yield plural(len(partitions), "partition")
    if inexact := sum(not partition["accurate"] for partition in partitions):
        yield f"{inexact} not exact"


def _cleaned(report: Mapping[str, Any]) -> Iterator[str]:
    removed = plural(len(report["removed"]), "directory", "directories")
    yield f"{removed} {'would be ' if report['dry_run'] else ''}removed"
    if report["bytes"]:
        yield bytes_in_words(report["bytes"])
    if report["kept"]:
        yield f"{len(report['kept'])} kept"


def _erased(report: Mapping[str, Any]) -> Iterator[str]:
    rows = plural(report["rows_deleted"], "row")
    yield f"{rows} would be deleted" if report["dry_run"] else f"{rows} deleted"
    if report["files"]:
        yield plural(report["files"], "file holds keys", "files hold keys")
    if report["certificate"]:
        yield "certificate issued"


def _exported(report: Mapping[str, Any]) -> Iterator[str]:
    if report["dry_run"]:
        yield f"{plural(report['files'], 'file')} would be exported to {report['table']}"
        return
    yield f"{plural(report['rows'], 'row')} exported to {report['table']}"
    yield plural(report["files"], "file")
    yield bytes_in_words(report["bytes"] or 0)


def _sentence(table: str, parts: Iterator[str]) -> str:
    return f"{table}: {', '.join(parts)}"
