"""The constraints of a table as conditions and values for Spark."""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime

from hiveacid.errors import InvalidJob, UnsupportedTable
from hiveacid.jobs.definition_jobs import CreateTableJob
from hiveacid.parser.hive_expression import check_as_spark, default_as_spark
from hiveacid.rules.constraints import (
    Check,
    Default,
    Moment,
    Rule,
    TableConstraints,
    WriteRules,
    typed_default,
)
from hiveacid.rules.sql_names import quoted

# An arbitrary moment: the forms of default values do not depend on it.
_ANY_MOMENT = Moment(datetime(2026, 1, 1, tzinfo=UTC), "")


def write_rules(
    table: str, columns: Mapping[str, str], constraints: TableConstraints, moment: Moment
) -> WriteRules:
    """Return the effects of a table's enabled constraints on the rows that a statement writes.

    Args:
        table: The full name of the table.
        columns: The types of all columns by their names, partition keys included.
        constraints: The constraints in the metastore.
        moment: The values of functions in default values.

    Raises:
        UnsupportedTable: Hive and Spark may evaluate a condition differently.
    """

    def default(column: str) -> str | None:
        for default in constraints.defaults:
            if default.enabled and default.column.lower() == column.lower():
                try:
                    return default_as_spark(default.value, moment)
                except UnsupportedTable as error:
                    raise UnsupportedTable(
                        f"The default value {default.value} of column {column} of {table} "
                        f"cannot be evaluated: {error.what}",
                        remedy="Give the column a value in the statement.",
                    ) from error
        return None

    lower = {name.lower(): type_ for name, type_ in columns.items()}
    return WriteRules(table, columns, tuple(_rules(table, lower, constraints)), default)


def _rules(table: str, columns: Mapping[str, str], constraints: TableConstraints) -> Iterator[Rule]:
    for not_null in constraints.not_null:
        if not_null.enabled:
            yield Rule(str(not_null), f"{quoted(not_null.column.lower())} IS NOT NULL")
    for check in constraints.checks:
        if check.enabled:
            try:
                yield Rule(str(check), check_as_spark(check.expression, columns))
            except UnsupportedTable as error:
                raise UnsupportedTable(
                    f"The constraint {check} of {table} cannot be enforced: {error.what}",
                    remedy="Drop or disable the constraint, or write into the table with Hive.",
                ) from error


def require_supported(job: CreateTableJob) -> None:
    """Refuse conditions and default values of a new table that could not be applied to writes.

    Raises:
        InvalidJob: Hive and Spark may evaluate one of them differently.
    """
    columns = {column.name.lower(): column.type for column in job.columns}
    for constraint in job.constraints:
        text = ""
        try:
            if isinstance(constraint, Check):
                text = constraint.expression
                check_as_spark(text, columns)
            elif isinstance(constraint, Default):
                text = constraint.value
                typed = typed_default(constraint, columns)
                assert isinstance(typed, Default)
                default_as_spark(typed.value, _ANY_MOMENT)
        except UnsupportedTable as error:
            raise InvalidJob(f"The constraint {text!r} is not supported: {error.what}") from error
