"""Tables as Airflow assets: ``hiveacid://host:port/database/table``."""

import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import SplitResult, urlsplit

from airflow.sdk import Asset, AssetAlias
from airflow.sdk.definitions.asset import AssetRef

from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import by_table
from hiveacid.metastore.endpoint import DEFAULT_PORTS, Endpoint
from hiveacid.rules.names import TableRef
from hiveacid.rules.texts import plural

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import Dataset
    from airflow.sdk import Context

log = logging.getLogger(__name__)

SCHEME = "hiveacid"
# The size limit of Airflow.
_LONGEST_PARTITION_KEY = 250
# All events are made while the task waits for the answer that it has ended.
_MOST_PARTITION_KEYS = 1000
# The last part of the uri of an asset that represents each partition separately.
_BY_PARTITION = "partitions"


def table_asset(table: str, metastore: str, *, by_partition: bool = False, **options: Any) -> Asset:
    """Describe a table as an asset, for ``outlets``, ``inlets`` and ``schedule``.

    Example::

        ORDERS = table_asset("sales.orders", "hms-1:9083")

        merge = HiveAcidMergeOperator(task_id="merge", job=job, outlets=[ORDERS])

    :param table: ``database.table``.
    :param metastore: Its metastore: a host, ``host:port`` or the uri of a client. Of several,
        separated by commas, the first one is used.
    :param by_partition: Whether it represents each partition separately: as an outlet it has an
        event for each written partition, whose key is its name, ``day=2026-11-20`` (since Airflow
        3.3).
    :param options: Further arguments of an Asset, such as ``group``, ``extra``, ``watchers`` or
        ``name``, which is the table's by default. Names are unique in an Airflow: a table with the
        same name in a second metastore needs another one.
    """
    ref = TableRef.parse(table)
    uri = f"{SCHEME}://{Endpoint.parse(metastore)[0]}/{ref.database}/{ref.name}"
    suffix = f"/{_BY_PARTITION}" if by_partition else ""
    return Asset(**{"name": f"{ref.full_name}{suffix}", **options}, uri=f"{uri}{suffix}")


def sanitize_uri(uri: SplitResult) -> SplitResult:
    """Give every table one uri; Airflow calls this for each that starts with ``hiveacid://``.

    :param uri: The uri in the DAG.
    :raises ValueError: It does not name a table.
    """
    names = uri.path.strip("/").split("/")
    of_table = len(names) == 2 or (len(names) == 3 and names[2].lower() == _BY_PARTITION)
    if not uri.hostname or not of_table or not all(names) or uri.query:
        raise ValueError(f"{uri.geturl()!r} is not of the form {SCHEME}://host:port/database/table")
    return uri._replace(netloc=_address(uri), path="/" + "/".join(names).lower())


def to_openlineage(asset: Asset, lineage_context: object) -> "Dataset":
    """Translate an asset for OpenLineage.

    :param asset: One with a sanitized ``hiveacid://`` uri.
    :param lineage_context: Who asks.
    """
    from airflow.providers.common.compat.openlineage.facet import Dataset

    return Dataset(namespace=f"hive://{urlsplit(asset.uri).netloc}", name=_table_of(asset))


def emit_assets(
    context: "Context", reports: Sequence[Mapping[str, Any]], metastore: MetastoreOptions
) -> None:
    """Add the results of jobs to the events of a task's outlets.

    Of outlets with ``hiveacid://`` uris, only those of written tables receive results, each of its
    own table; the log lists the others, for which Airflow creates events as well. An AssetAlias
    gets an event of every table's asset. Since Airflow 3.3, an asset by partition has an event for
    each touched partition, and in a DAG with ``schedule=PartitionedAtRuntime()`` so has each asset;
    elsewhere such events would prevent runs of DAGs that wait for the whole table.

    :param context: The context of the running task.
    :param reports: The reports of the jobs.
    :param metastore: The metastore of the tables.
    """
    tables = [table for report in reports for table in by_table(report)]
    for outlet in context["task"].outlets:
        if isinstance(outlet, AssetAlias):
            for table in tables:
                asset = table_asset(table["target"], metastore.uris)
                context["outlet_events"][outlet].add(asset, extra=_extra(table))
        elif isinstance(outlet, Asset | AssetRef):
            # Any asset that is no table of a metastore represents all of the work.
            has_table = urlsplit(getattr(outlet, "uri", "")).scheme == SCHEME
            written_tables = [table for table in tables if _is(outlet, table["target"], metastore)]
            if has_table and not written_tables:
                log.warning(
                    "The task has not written the table of its outlet %s at %s. Airflow creates an "
                    "event for it all the same.",
                    getattr(outlet, "uri", ""),
                    metastore.uris,
                )
            for part in written_tables if has_table else reports:
                _publish(context, outlet, part)


def _publish(context: "Context", outlet: Asset | AssetRef, report: Mapping[str, Any]) -> None:
    event = context["outlet_events"][outlet]
    extra, partitions = _extra(report), _partitions(report)
    event.extra.update(extra)
    by_partition = _names(outlet)[2:] == [_BY_PARTITION] or _keys_are_set_at_runtime(context)
    if by_partition and partitions and hasattr(event, "add_partitions"):
        # Each of these events has the same.
        del event.extra["partitions"]
        _add_partitions(event, partitions)


def _is(outlet: object, table: str, metastore: MetastoreOptions) -> bool:
    """Whether an outlet is a table of a metastore, by any address of it."""
    parts = urlsplit(getattr(outlet, "uri", ""))
    addresses = map(str, Endpoint.parse(metastore.uris))
    return _table_of(outlet) == table.lower() and _address(parts) in addresses


def _table_of(asset: object) -> str:
    return ".".join(_names(asset)[:2])


def _names(asset: object) -> list[str]:
    return urlsplit(getattr(asset, "uri", "")).path.strip("/").split("/")


def _keys_are_set_at_runtime(context: "Context") -> bool:
    return bool(getattr(context["dag"].timetable, "partitioned_at_runtime", False))


def _add_partitions(event: Any, partitions: list[str]) -> None:
    fitting = sorted(name for name in partitions if len(name) <= _LONGEST_PARTITION_KEY)
    if len(fitting) < len(partitions):
        log.warning(
            "No separate event for %s with a name of more than %d characters.",
            plural(len(partitions) - len(fitting), "partition"),
            _LONGEST_PARTITION_KEY,
        )
    if len(fitting) > _MOST_PARTITION_KEYS:
        log.warning(
            "No separate event for %d partitions, from %s to %s: a task has at most %d.",
            len(fitting) - _MOST_PARTITION_KEYS,
            fitting[_MOST_PARTITION_KEYS],
            fitting[-1],
            _MOST_PARTITION_KEYS,
        )
    event.add_partitions(fitting[:_MOST_PARTITION_KEYS])


def _partitions(report: Mapping[str, Any]) -> list[str]:
    """The names of the partitions that were touched."""
    names = (
        (partition["partition"] if partition["outcome"] == "compacted" else None)
        if isinstance(partition, Mapping)
        else partition
        for partition in report.get("partitions", ())
    )
    return [name for name in names if name is not None]


def _extra(report: Mapping[str, Any]) -> dict[str, Any]:
    extra = {
        key: report[key]
        for key in (
            "job",
            "txn_id",
            "write_ids",
            "rows_inserted",
            "rows_updated",
            "rows_deleted",
            "bytes",
            "already_done",
        )
        if key in report
    }
    extra |= {"table": report["target"], "partitions": _partitions(report)}
    if checks := [
        check for check in report.get("checks") or () if check["table"] == report["target"]
    ]:
        extra["checks"] = {check["check"]: check["passed"] for check in checks}
    if report["job"] == "compact":
        compacted = [entry for entry in report["partitions"] if entry["outcome"] == "compacted"]
        extra["txn_ids"] = [entry["txn_id"] for entry in compacted]
        for key in ("rows", "deletes", "bytes_read", "bytes_written"):
            extra[key] = sum(entry[key] for entry in compacted)
    return extra


def _address(uri: SplitResult) -> str:
    port = uri.port or DEFAULT_PORTS["thrift"]
    return str(Endpoint("thrift", uri.hostname or "", port, path=""))
