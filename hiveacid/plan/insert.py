"""The rows of an insert: the source's columns by name or by position, partition keys, and defaults."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob, UnknownColumn, UserError
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.table_rules import column_names, specified_partitions
from hiveacid.plan.columns import columns_of_row, find_columns
from hiveacid.plan.values import completed
from hiveacid.rules.constraints import WriteRules, with_defaults
from hiveacid.rules.sql_names import quoted
from hiveacid.rules.texts import plural

PartitionSpec = Mapping[str, str | None]


@dataclass(frozen=True, slots=True)
class InsertedRow:
    """How the rows of a source become rows of a table.

    Attributes:
        names: The names that expressions use for the source's columns, in their order; those behind
            them only say whether a row gets a default value.
        values: The expression of each column of the table, except of keys with one value.
        keys: The text of each partition key that has one value for all rows; None is null.
        defaults: The default values of the columns of which a row may get it.
        wants_default: The position of the column of the source that says so, by column of the table.
    """

    names: Sequence[str]
    values: Mapping[str, str]
    keys: Mapping[str, str | None]
    defaults: Mapping[str, str]
    wants_default: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class InsertMapping:
    """Mapping of a source's columns to the table; the fields are those of ``InsertJob``."""

    partitions: Sequence[PartitionSpec] | None = None
    by_position: bool = False
    columns: Sequence[str] | None = None
    static: PartitionSpec | None = None
    dynamic: Sequence[str] = ()
    defaults: Sequence[int] = ()
    exclude: Sequence[str] = ()

    @classmethod
    def of(cls, job: InsertJob) -> Self:
        """Return the mapping of a job."""
        return cls(**{field.name: getattr(job, field.name) for field in fields(cls)})

    @property
    def fixed(self) -> dict[str, str | None]:
        """The values of the partition keys that the source may omit, by keys in lower case."""
        only = self.partitions is not None and len(self.partitions) == 1
        spec = self.partitions[0] if self.partitions and only else self.static or {}
        return {key.lower(): value for key, value in spec.items()}

    def specified(self, table: HiveTable) -> Sequence[PartitionSpec] | None:
        """Return the partitions that the insert names; see ``specified_partitions``."""
        return specified_partitions(table, self.partitions, self.static, self.dynamic)

    def row(
        self, table: HiveTable, source: Sequence[str], rules: WriteRules | None = None
    ) -> InsertedRow:
        """Resolve the names.

        Args:
            table: The table.
            source: The columns of the source.
            rules: The constraints of the table; without them, default values are null.

        Raises:
            UnknownColumn: The table lacks a column of the source, or the source a partition key, or
                has another number of columns.
            UserError: A partition key has two values.
            InvalidJob: A default value is for no column.
        """
        subject = _what(table)
        count = len(source) - len(self.defaults)
        if self.by_position:
            if max(self.defaults, default=-1) >= count:
                raise InvalidJob(
                    f"{subject}: defaults names column {max(self.defaults)} of {count}."
                )
            names = self.named(table, count)
        else:
            names = [*source]
        row = columns_of_row(names, self.exclude, subject)
        have = dict(zip(find_columns(table, row, subject), row, strict=True))
        in_row = {name.lower() for name in have}
        if double_keys := [key for key in self.static or {} if key.lower() in in_row]:
            raise UserError(
                f"{subject} has two values for the partition key {double_keys[0].lower()}."
            )
        fixed, keys = self.fixed, {}
        for key in (key.name for key in table.partition_keys):
            if key not in have:
                if key.lower() not in fixed:
                    raise UnknownColumn(
                        f"{subject} has no partition column {key}.",
                        remedy="Add it to the source, or name the one partition to write.",
                    )
                keys[key] = fixed[key.lower()]
        values = completed(table, {name: quoted(column) for name, column in have.items()}, rules)
        with_default = {names[default]: count + n for n, default in enumerate(self.defaults)}
        return InsertedRow(
            names,
            {name: value for name, value in values.items() if name not in keys},
            keys,
            with_defaults(dict.fromkeys(with_default, "DEFAULT"), rules),
            with_default,
        )

    def names_by_position(self, table: HiveTable) -> list[str]:
        """Return the names of the table's columns in the order of the source's.

        Raises:
            UnknownColumn: The table lacks one.
        """
        if self.columns is not None:
            return find_columns(table, self.columns, _what(table))
        return [name for name in column_names(table) if name.lower() not in self.fixed]

    def named(self, table: HiveTable, count: int, noun: str = "column") -> list[str]:
        """Return the names of the columns of a source that are found by their positions.

        Args:
            table: The table.
            count: The number of the source's columns.
            noun: The noun for them in messages.

        Raises:
            UnknownColumn: There is another number of them.
        """
        names = self.names_by_position(table)
        if len(names) != count:
            expectation = len(names) if noun == "column" else plural(len(names), "column")
            raise UnknownColumn(
                f"{_what(table)} has {plural(count, noun)} for {expectation}: {', '.join(names)}.",
                remedy="Give a value for each of them, in this order, or name the columns.",
            )
        return names


def _what(table: HiveTable) -> str:
    return f"The insert into {table.ref.full_name}"
