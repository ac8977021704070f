"""Append and overwrite: rows that take nothing from the rows before them."""

from collections.abc import Mapping, Sequence

from pyspark.sql import Column, DataFrame  # noqa: TID253
from pyspark.sql import functions as F  # noqa: TID253, N812

from airflow_hiveacid.acid.errors import DataError, UnknownColumn, UserError
from airflow_hiveacid.acid.names import partition_name
from airflow_hiveacid.engine.columns import all_columns, find_columns, quoted, stored
from airflow_hiveacid.engine.write import Counts, Work
from airflow_hiveacid.jobs.phases import Phase
from airflow_hiveacid.metastore.catalog import HiveTable

PartitionSpec = Mapping[str, str | None]


def append_rows(
    work: Work, source: DataFrame, partitions: Sequence[PartitionSpec] | None
) -> Counts:
    """Add rows in a new delta."""
    with work.phases(Phase.WRITE):
        rows = rows_for(work.table, source, partitions)
        work.output.write_rows(rows, gather=False)
        _refuse_others(work, partitions)
    return Counts(inserted=work.output.rows)


def overwrite_rows(
    work: Work, source: DataFrame, partitions: Sequence[PartitionSpec] | None
) -> Counts:
    """Replace all rows of the table, or of the partitions that are named or written, by a base."""
    with work.phases(Phase.WRITE):
        rows = rows_for(work.table, source, partitions)
        work.output.write_rows(rows, gather=False, replace=True)
        _refuse_others(work, partitions)
        emptied: list[str | None] = list(static_partitions(work.table, partitions) or ())
        work.output.write_empty_bases(emptied if work.table.partition_keys else [None])
    return Counts(inserted=work.output.rows)


def static_partitions(
    table: HiveTable, partitions: Sequence[PartitionSpec] | None
) -> list[str] | None:
    """The names of partitions that are given by the values of all their keys.

    Raises:
        UserError: The table has no partitions, or a key is missing or unknown.
    """
    if partitions is None:
        return None
    keys = [key.name for key in table.partition_keys]
    names = []
    for spec in partitions:
        values = {key.lower(): value for key, value in spec.items()}
        if set(values) != {key.lower() for key in keys}:
            raise UserError(
                f"{table.ref.full_name} is partitioned by {', '.join(keys) or 'nothing'}, "
                f"not by {', '.join(spec)}.",
                remedy="Give a value for each of the table's partition keys.",
            )
        names.append(partition_name(keys, [values[key.lower()] for key in keys]))
    return names


def rows_for(
    table: HiveTable, source: DataFrame, partitions: Sequence[PartitionSpec] | None
) -> DataFrame:
    """A source's rows as the table stores them, its columns found by name.

    Columns that the source lacks are null. A partition column that it lacks takes its value from
    the partition, when just one is given.
    """
    what = f"The insert into {table.ref.full_name}"
    find_columns(table, source.columns, what)
    have = {name.lower(): name for name in source.columns}
    given = {key.lower(): value for key, value in partitions[0].items()} if partitions else {}
    keys = {key.name.lower() for key in table.partition_keys}
    values: dict[str, Column] = {}
    for column in all_columns(table):
        name = column.name.lower()
        if name in have:
            values[column.name] = F.col(quoted(have[name]))
        elif name in keys and (name not in given or len(partitions or ()) != 1):
            raise UnknownColumn(
                f"{what} has no partition column {column.name}.",
                remedy="Add it to the source, or name the one partition to write.",
            )
        else:
            values[column.name] = F.lit(given.get(name))
    found = stored(source, values, table, what)
    return source.select(*[value.alias(name) for name, value in found.items()])


def _refuse_others(work: Work, partitions: Sequence[PartitionSpec] | None) -> None:
    allowed = static_partitions(work.table, partitions)
    others = [] if allowed is None else sorted(set(work.output.partitions) - set(allowed))
    if others:
        raise DataError(
            f"The source has rows of {', '.join(others[:5])}, which the insert into "
            f"{work.table.ref.full_name} does not name.",
            remedy="Filter the source, or name those partitions too.",
        )
