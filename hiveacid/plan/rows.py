"""The partitions that an UPDATE or a DELETE can change, which are those that it locks."""

from collections.abc import Callable, Iterable, Sequence

from hiveacid.jobs.fields import Parameters
from hiveacid.metastore.catalog import HiveTable
from hiveacid.parser.partition_conditions import KeyScope, SelectedPartitions, selected_partitions
from hiveacid.rules.sql_names import unquoted


def key_scope(table: HiveTable, alias: str, params: Parameters | None = None) -> KeyScope:
    """Return the names that the condition of a change can use."""
    columns = [column.name for column in table.columns]
    return KeyScope(alias, table.key_types, columns, params=params or {})


def partitions_to_change(
    where: str | None,
    assigned: Iterable[str],
    scope: KeyScope,
    known: Callable[[], Sequence[str]],
) -> SelectedPartitions | None:
    """Return the partitions that a change locks; None if it locks the table.

    A condition that selects all partitions locks the table, also against new partitions.

    Args:
        where: The condition; always true if None.
        assigned: The columns that get new values, in any spelling.
        scope: The names that the condition can use.
        known: Returns the names of the existing partitions.
    """
    # Rows with another key move into other partitions.
    moves = not scope.keys.keys().isdisjoint(unquoted(name).lower() for name in assigned)
    if where is None or not scope.keys or moves:
        return None
    selected = selected_partitions(where, scope, known())
    return None if selected.certain and len(selected.names) == selected.existing else selected
