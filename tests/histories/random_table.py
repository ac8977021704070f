"""The table that a history happens to."""

from collections.abc import Mapping
from pathlib import Path
from random import Random

from hiveacid.errors import MetastoreCallFailed
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_tables
from hiveacid.rules.names import TableRef, partition_name
from tests.histories.data_files import COLUMNS
from tests.histories.table_model import TableModel


class RandomTable:
    """A table of a random make, partitioned or not, bucketed or not.

    Attributes:
        client: Its metastore.
        ref: Its name.
        columns: Its columns with their types.
        folders: Its folder, or those of its partitions by their names.
        num_buckets: The number of buckets; -1 without buckets.
        has_large_rows: Whether some rows are so large that a few of them fill a stripe.
        model: The expected rows.
        log: The events so far, to be shown with a failure.
    """

    def __init__(self, client: MetastoreClient, database: str, name: str, random: Random) -> None:
        self.client = client
        self.ref = TableRef(database, name)
        self._random = random
        values = random.choice([(), (), ("1", "2"), ("1", "2", "3")])
        self.num_buckets = random.choice([-1, 1, 2])
        self.has_large_rows = random.random() < 0.25
        self.model = TableModel()
        self._stage = random.choice([0, 0, 1, 2, 3])
        self.log = [
            f"The history of {name}: {len(values)} partitions, {self.num_buckets} buckets, {client.version}"
        ]
        self.folders = self._create(values)

    @property
    def is_hive4(self) -> bool:
        return self.client.features.hides_compactions

    def some_partitions(self) -> list[str | None]:
        """The names of some; None where the table is not partitioned."""
        everything = list(self.folders)
        return sorted(self._random.sample(everything, self._random.randint(1, len(everything))))

    @property
    def columns(self) -> Mapping[str, str]:
        return COLUMNS[self._stage]

    def evolve(self) -> None:
        """ALTER TABLE: a column is added, widened, or gets another field."""
        if self._stage + 1 == len(COLUMNS):
            return
        columns = COLUMNS[self._stage + 1]
        raw = self.client.get_table(self.ref).raw
        raw.sd.cols = [idl_tables.FieldSchema(*column, None) for column in columns.items()]
        try:
            self.client.call(
                idl_tables.alter_table_with_environment_context,
                self.ref.database,
                self.ref.name,
                raw,
                idl_tables.EnvironmentContext({"DO_NOT_UPDATE_STATS": "true"}),
                about=self.ref.full_name,
            )
        except MetastoreCallFailed as refused:
            # A real metastore refuses some changes of types.
            if "incompatible" not in refused.what:
                raise
            return self.note("its columns cannot change any more")
        self._stage += 1
        self.note(f"its columns are {self.columns}")

    def note(self, text: str) -> None:
        self.log.append(text)

    def _create(self, values: tuple[str, ...]) -> Mapping[str | None, Path]:
        bucketed = {"bucket_columns": ["k"], "num_buckets": self.num_buckets}
        table = HiveTable.new(
            self.ref,
            [HiveColumn(*column) for column in self.columns.items()],
            partition_keys=[HiveColumn("p", "string")] if values else [],
            **(bucketed if self.num_buckets > 0 else {}),
        )
        self.client.create_table(table)
        table = self.client.get_table(self.ref)
        root = Path(table.folder.removeprefix("file:"))
        if not values:
            return {None: root}
        partitions = [HivePartition.new(table, [value]) for value in values]
        self.client.add_partitions(self.ref, partitions)
        names = [partition_name(["p"], [value]) for value in values]
        return {name: root / name for name in names}
