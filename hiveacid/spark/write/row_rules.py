"""Validation of written rows against the constraints of a table."""

from datetime import UTC, datetime

from pyspark.sql import DataFrame

from hiveacid.errors import TableReplaced
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.constraints import constraints_on_writes
from hiveacid.rules.constraints import Moment, TableConstraints, WriteRules
from hiveacid.spark.failures import VIOLATED
from hiveacid.spark.rows.columns import all_columns, quoted
from hiveacid.spark.rows.conversion import text_as_sql
from hiveacid.spark.rows.frames import select_texts

# Limits for the part of a row that a message shows.
_SHOWN_COLUMNS, _SHOWN_CHARACTERS = 20, 400


class DeclaredRules:
    """The constraints of a statement's target, as declared in the metastore.

    The constraints are looked up when the statement first needs them, and again under the locks:
    Hive waits for the locks before it declares or drops a constraint.
    """

    def __init__(self) -> None:
        self._known: tuple[TableConstraints, Moment] | None = None

    def look_up(self, client: MetastoreClient, table: HiveTable) -> None:
        """Look up the constraints, or make sure that they have not changed since the last lookup.

        Raises:
            TableReplaced: They have changed.
            UnsupportedTable: An enabled constraint cannot be enforced.
        """
        now = constraints_on_writes(client, table.ref)
        if self._known is None:
            self._known = now, Moment(datetime.now(UTC), client.user)
        elif not now.same_rules(self._known[0]):
            raise TableReplaced(
                f"The constraints of {table.ref} were changed meanwhile.",
                remedy="Nothing was published; run the job again.",
            )
        self.of(table)

    def of(self, table: HiveTable) -> WriteRules:
        """The rules for the rows of a table with these columns."""
        # Executors import the modules that write rows, and have no sqlglot.
        from hiveacid.sql.constraint_rules import write_rules

        assert self._known is not None, "The constraints have not been looked up."
        constraints, moment = self._known
        columns = {column.name: column.type for column in all_columns(table)}
        return write_rules(table.ref.full_name, columns, constraints, moment)


def checked(frame: DataFrame, rules: WriteRules, written: str | None = None) -> DataFrame:
    """Add a check to a frame: a row that violates a constraint fails its task.

    The check is part of the pass that writes the rows, so that no row is evaluated twice.

    Args:
        frame: Rows with all columns of the table in their types, and possibly others.
        rules: The constraints.
        written: An SQL condition for the rows that are written; all rows by default.
    """
    if not rules.rules:
        return frame
    table_columns = {name.lower() for name in rules.columns}
    named = [name for name in frame.columns if name.lower() in table_columns]
    shown = ", ".join(quoted(name) for name in named[:_SHOWN_COLUMNS])
    row = f"to_json(struct({shown}), map('ignoreNullFields', 'false'))"
    violated = " ".join(
        f"WHEN NOT ({rule.holds}) THEN {text_as_sql(rule.constraint)}" for rule in rules.rules
    )
    condition = f"(CASE {violated} END) IS NOT NULL"
    if written is not None:
        condition = f"({written}) AND {condition}"
    message = ", ".join(
        (
            text_as_sql(f"{VIOLATED} The constraint "),
            f"(CASE {violated} END)",
            text_as_sql(f" of {rules.table} refuses the row "),
            f"substring({row}, 1, {_SHOWN_CHARACTERS})",
            text_as_sql("."),
        )
    )
    # Only one column contains the check, since every column of a row is written.
    carrier = named[0]
    check = (
        f"CASE WHEN {condition} THEN raise_error(concat({message})) ELSE {quoted(carrier)} END"
        f" AS {quoted(carrier)}"
    )
    return select_texts(
        frame, [check if name == carrier else quoted(name) for name in frame.columns]
    )
