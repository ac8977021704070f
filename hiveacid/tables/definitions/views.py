"""CREATE and ALTER VIEW, once the columns of the query are known."""

from collections.abc import Sequence
from typing import Any

from hiveacid.errors import TableNotFound, UnsupportedTable
from hiveacid.jobs.definition_jobs import CreateViewJob
from hiveacid.metastore import table_rules as views_of_spark
from hiveacid.metastore.alteration import alter_table, mark_changed
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_tables
from hiveacid.metastore.txn.transaction import ExclusiveTable
from hiveacid.rules.names import TableRef
from hiveacid.tables.definitions.tables import create, find_table

# As Hive describes views.
_INPUT = "org.apache.hadoop.mapred.SequenceFileInputFormat"
_OUTPUT = "org.apache.hadoop.hive.ql.io.HiveSequenceFileOutputFormat"


def existing_view(client: MetastoreClient, ref: TableRef, mode: str) -> HiveTable | None:
    """Describe the view of a name; None if it does not exist yet.

    Raises:
        UnsupportedTable: The name belongs to a table.
        TableNotFound: The view is to be altered, and does not exist.
    """
    view = find_table(client, ref)
    if view is None and mode == "alter":
        raise TableNotFound(f"The view {ref} does not exist.", remedy="CREATE VIEW creates it.")
    if view is not None:
        _require_view(view)
    return view


def _require_view(view: HiveTable) -> None:
    if not view.is_view:
        raise UnsupportedTable(
            f"{view.ref} is a table, and no view.", remedy="Choose another name."
        )


def create_view(
    client: MetastoreClient,
    ref: TableRef,
    job: CreateViewJob,
    columns: Sequence[HiveColumn],
    expanded: str,
) -> tuple[str, ...]:
    """Create a view, or replace its query.

    Args:
        client: The metastore.
        ref: The view.
        job: The statement.
        columns: The columns of the view.
        expanded: The query that readers get.

    Returns:
        The facts that its author should know.

    Raises:
        TableExists: The view exists, and is not to be replaced.
    """
    view = existing_view(client, ref, job.mode)
    if view is None or job.mode not in ("replace", "alter"):
        return create(
            client,
            _new(ref, job, columns, expanded),
            run_token=job.run_token,
            if_not_exists=job.mode == "create_if_missing",
        )

    def change(raw: Any) -> bool:
        _require_view(HiveTable.from_thrift(raw))
        new = _new(ref, job, columns, expanded).raw
        texts = (raw.viewOriginalText, raw.viewExpandedText, raw.sd.cols)
        raw.viewOriginalText, raw.viewExpandedText = new.viewOriginalText, new.viewExpandedText
        raw.sd.cols = new.sd.cols
        parameters = dict(raw.parameters)
        # Spark's parameters describe the query that is replaced.
        kept_parameters = {
            key: value
            for key, value in parameters.items()
            if not key.startswith(views_of_spark.PREFIXES)
        }
        raw.parameters = kept_parameters | new.parameters
        if texts == (raw.viewOriginalText, raw.viewExpandedText, raw.sd.cols) and (
            raw.parameters == parameters
        ):
            return False
        mark_changed(raw)
        return True

    with ExclusiveTable(client, ref, job.token, job.lock_wait_seconds) as lock:
        view = existing_view(client, ref, "alter") or view
        alter_table(client, view, change, lock.confirm_alive)
    return tuple(lock.warnings)


def _new(
    ref: TableRef, job: CreateViewJob, columns: Sequence[HiveColumn], expanded: str
) -> HiveTable:
    fields = [
        idl_tables.FieldSchema(column.name, column.type, column.comment) for column in columns
    ]
    storage = idl_tables.StorageDescriptor(
        cols=fields,
        inputFormat=_INPUT,
        outputFormat=_OUTPUT,
        compressed=False,
        numBuckets=-1,
        serdeInfo=idl_tables.SerDeInfo(parameters={}),
        bucketCols=[],
        sortCols=[],
        parameters={},
    )
    return HiveTable.from_thrift(
        idl_tables.Table(
            tableName=ref.name,
            dbName=ref.database,
            sd=storage,
            partitionKeys=[],
            parameters={} if job.comment is None else {"comment": job.comment},
            viewOriginalText=job.text,
            viewExpandedText=expanded,
            tableType="VIRTUAL_VIEW",
            rewriteEnabled=False,
        )
    )
