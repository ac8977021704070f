"""Real transactions with directories that hold no rows: all that a cleaner looks at."""

from dataclasses import dataclass, replace
from pathlib import Path

from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import Base, Delta, TableRef
from hiveacid.upkeep.table_cleaning import clean
from tests.places import place_of


@dataclass
class AcidFolders:
    """A table and its operations."""

    client: MetastoreClient
    ref: TableRef

    @classmethod
    def create(cls, client, name, partitions=None, **more):
        """A table, with the partition key p if there are partitions, even none."""
        ref = TableRef.parse(name)
        keys = [] if partitions is None else [HiveColumn("p", "string")]
        client.create_table(
            HiveTable.new(ref, [HiveColumn("id", "int")], partition_keys=keys, **more)
        )
        folders = cls(client, ref)
        folders.add(*partitions or ())
        return folders

    @property
    def table(self) -> HiveTable:
        return self.client.get_table(self.ref)

    @property
    def root(self) -> Path:
        return place_of(self.table.folder)

    def add(self, *partitions, location=None, parameters=None):
        new = [HivePartition.new(self.table, [name.partition("=")[2]]) for name in partitions]
        for partition in new:
            partition.raw.sd.location = location or partition.location
            partition.raw.parameters = parameters or {}
        self.client.add_partitions(self.ref, new)

    def make(self, name, partition=None, folder=None):
        """A directory with two files; its name."""
        folder = (folder or self.root / (partition or "")) / name
        folder.mkdir(parents=True)
        (folder / "_orc_acid_version").write_text("2")
        (folder / "bucket_00000").write_text("no rows")
        return name

    def insert(self, partition=None, *, commit=True):
        """Write a delta; its name."""
        if commit:
            # Without locks it is a write as well, and much faster.
            txn_id = self.client.open_txn("writer", "localhost", None)
            write_id = self.client.allocate_write_id(txn_id, self.ref)
            name = self.make(Delta(write_id, write_id, 0).name, partition)
            self.client.commit_txn(txn_id)
            return name
        partitions = [partition] if partition else None
        with Transaction(
            self.client,
            targets=[
                Target(
                    self.ref, Operation.INSERT, partitioned=bool(partition), partitions=partitions
                )
            ],
        ) as txn:
            (write_id,) = txn.write_ids.values()
            return self.make(Delta(write_id, write_id, 0).name, partition)

    def compact(self, into, partition=None, *, commit=True, folder=None):
        """Change the folder like a compaction; return the name of its output."""
        folder = folder or self.root / (partition or "")
        txn = self.client.open_txn("compactor", "localhost", None)
        if self.client.features.hides_compactions:
            into = replace(into, visibility_txn=txn)
        self.make(into.name, folder=folder)
        if isinstance(into, Base):
            marker = '{"thisFileVersion":"0","dataFormat":"compacted"}'
            (folder / into.name / "_metadata_acid").write_text(marker)
        (self.client.commit_txn if commit else self.client.abort_txn)(txn)
        return into.name

    def reading(self):
        """Read the table: a transaction with a lock."""
        return Transaction(self.client, reads=[self.ref])

    def clean(self, **options):
        return clean(self.client, self.job(**options))

    def job(self, **options):
        return CleanJob(target=self.ref.full_name, metastore=self.client.options, **options)

    def tree(self):
        """All that there is, with the content of the files."""
        return tree(self.root)

    def directories(self, partition=None):
        """The names of the directories that are not hidden."""
        folder = self.root / (partition or "")
        return sorted(path.name for path in folder.iterdir() if path.name[0] not in "_.")


def tree(root):
    return {
        str(path.relative_to(root)): path.read_bytes() if path.is_file() else None
        for path in sorted(root.rglob("*"))
    }


def removed(report):
    return sorted(entry.path for entry in report.removed)


def kept(report):
    return {entry.path: entry.reason for entry in report.kept}
