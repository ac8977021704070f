"""The shape of a random table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.rules.names import TableRef
from tests.differential.expressions import PARTITION_VALUES, Expressions

_COLUMNS = {
    "id": "int",
    "code": "string",
    "v": "bigint",
    "amount": "decimal(9,2)",
    "rate": "double",
    "day": "date",
    "flag": "boolean",
}
_KEYS: Sequence[Mapping[str, str]] = (
    {},
    {"p": "string"},
    {"p": "date"},
    {"q": "int"},
    {"p": "string", "q": "int"},
)
_BUCKETS = (("id",), ("code", "id"), ("amount",), ("day",), ("v",))


@dataclass(frozen=True)
class Shape:
    """The columns of a table, its partition keys and its distribution of rows.

    Attributes:
        columns: The columns of the files, by name, and their types.
        keys: The partition keys and their types.
        bucket_columns: Empty for a table without buckets.
        num_buckets: The number of buckets.
        bucketing_version: The version of Hive's hash function for the distribution of rows.
    """

    columns: Mapping[str, str]
    keys: Mapping[str, str]
    bucket_columns: tuple[str, ...] = ()
    num_buckets: int = -1
    bucketing_version: int = 2

    @classmethod
    def random(cls, random: Random) -> "Shape":
        """Any shape; all of them have an id."""
        names = [name for name in _COLUMNS if name == "id" or random.random() < 0.6]
        columns = {name: _COLUMNS[name] for name in names}
        keys = random.choice(_KEYS)
        buckets = [by for by in _BUCKETS if set(by) <= set(names)]
        if random.random() < 0.5:
            return cls(columns, keys)
        return cls(
            columns, keys, random.choice(buckets), random.randint(2, 4), random.choice((1, 2, 2))
        )

    @property
    def all_columns(self) -> Mapping[str, str]:
        """The columns of the files, then the partition keys."""
        return {**self.columns, **self.keys}

    def expressions(
        self, random: Random, aliases: Sequence[str], *, subqueries: bool = False
    ) -> Expressions:
        """Random expressions over rows of the table."""
        pools = {name: PARTITION_VALUES[type_] for name, type_ in self.keys.items()}
        return Expressions(random, self.all_columns, aliases, pools, subqueries=subqueries)

    def table(self, ref: TableRef) -> HiveTable:
        """A table of this shape."""
        parameters = {"bucketing_version": str(self.bucketing_version)}
        return HiveTable.new(
            ref,
            [HiveColumn(*column) for column in self.columns.items()],
            partition_keys=[HiveColumn(*key) for key in self.keys.items()],
            bucket_columns=self.bucket_columns,
            num_buckets=self.num_buckets,
            parameters=parameters,
        )
