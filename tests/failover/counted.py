"""A table in which each row contains the merges that were applied to it, and their counts."""

from collections.abc import Sequence
from pathlib import Path
from random import Random

from hiveacid.jobs.write_jobs import MergeJob
from hiveacid.metastore.catalog import HiveColumn, HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.merge import MatchedDelete, MatchedUpdate, NotMatchedInsert
from hiveacid.rules.names import TableRef
from tests.faults.rows import DELETED, Row, write_source

_PARTITIONS = "abcd"
_IDS = 30


class CountedTable:
    """A table of the ids below some number, with a model of its content.

    Attributes:
        ref: Its name.
        expected: The rows that it must show, by id.
    """

    def __init__(self, client: MetastoreClient, database: str, folder: Path) -> None:
        self.ref = TableRef(database, "counted")
        self.expected: dict[int, Row] = {}
        self._folder = folder
        client.create_database(database)
        columns = [HiveColumn("id", "int"), HiveColumn("v", "string")]
        new = HiveTable.new(self.ref, columns, partition_keys=[HiveColumn("p", "string")])
        client.create_table(new)
        table = client.get_table(self.ref)
        # The others come with the first row in them.
        client.add_partitions(self.ref, [HivePartition.new(table, [_PARTITIONS[0]])])

    @property
    def rows(self) -> list[Row]:
        """The rows that it must show, in order."""
        return sorted(self.expected.values())

    def merge(self, number: int, random: Random) -> tuple[MergeJob, dict[int, Row]]:
        """Draw a merge.

        Args:
            number: Identifies it in every row that it writes.
            random: Draws ids, and which of them are deleted.

        Returns:
            The job without its metastore, and the rows as it must leave them.
        """
        source = [
            Row(
                each,
                DELETED if each in self.expected and random.random() < 0.2 else str(number),
                _PARTITIONS[each % len(_PARTITIONS)],
            )
            for each in random.sample(range(_IDS), 6)
        ]
        job = MergeJob(
            target=str(self.ref),
            source=write_source(self._folder / f"source-{number}.json", source),
            on="t.id = s.id AND t.p = s.p",
            when=(
                MatchedDelete(condition=f"s.v = '{DELETED}'"),
                MatchedUpdate(set={"v": "concat(t.v, ' ', s.v)"}),
                NotMatchedInsert(),
            ),
            run_token=f"counted/{number}/merge/-1",
        )
        return job, self._merged(source)

    def _merged(self, source: Sequence[Row]) -> dict[int, Row]:
        rows = dict(self.expected)
        for row in source:
            old = rows.pop(row.id, None)
            if old is None:
                rows[row.id] = row
            elif row.v != DELETED:
                rows[row.id] = old._replace(v=f"{old.v} {row.v}")
        return rows
