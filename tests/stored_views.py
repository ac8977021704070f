"""Views in a metastore as other engines store them."""

from collections.abc import Mapping, Sequence

from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_tables
from hiveacid.rules.names import TableRef


def store_view(
    client: MetastoreClient,
    ref: TableRef,
    text: str,
    columns: Sequence[HiveColumn],
    parameters: Mapping[str, str] | None = None,
) -> None:
    """Create a view with any text.

    Args:
        client: The metastore.
        ref: The view.
        text: The query.
        columns: The columns.
        parameters: The parameters.
    """
    created = HiveTable.new(ref, columns, owner="olga")
    created.raw.tableType = "VIRTUAL_VIEW"
    created.raw.parameters = dict(parameters or {})
    created.raw.viewOriginalText = created.raw.viewExpandedText = text
    client.call(idl_tables.create_table, created.raw)
