"""The same transactions by jobs of Spark, as an operator runs them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import SparkSession

from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.jobs.write_jobs import InsertJob, MergeJob, RowJob, TransactionJob, UpdateJob
from hiveacid.progress import PhaseObserver
from hiveacid.rules.merge import MatchedUpdate
from hiveacid.spark.python.registered_tables import read_together
from hiveacid.spark.run import run
from tests.isolation.work import (
    JOURNAL,
    Work,
    id_of,
    partition_of,
    partition_of_client,
    table_of,
)


@dataclass(frozen=True)
class SparkClient:
    """Runs transactions, and reads.

    Attributes:
        spark: The session.
        metastore: The metastore.
        database: The location of the tables.
        lock_wait_seconds: The longest wait for locks.
        observers: Receive the phases of writes.
    """

    spark: SparkSession
    metastore: MetastoreOptions
    database: str
    lock_wait_seconds: float = 20
    observers: Sequence[PhaseObserver] = ()

    def run(self, work: Work) -> None:
        """Run a transaction that writes."""
        job = TransactionJob(
            statements=self.statements(work),
            metastore=self.metastore,
            run_token=f"isolation/{work.name}",
            lock_wait_seconds=self.lock_wait_seconds,
            conflict_policy=work.policy,
        )
        run(self.spark, job, self.observers)

    def read(self, keys: Sequence[str]) -> list[tuple[str, str]]:
        """The key and the v of each row of some keys, all as one transaction sees them."""
        names = {table: self._name(table) for table in sorted({*map(table_of, keys)})}
        found = []
        with read_together([*names.values()], self.metastore, spark=self.spark) as frames:
            for table, name in names.items():
                ids = [id_of(key) for key in keys if table_of(key) == table]
                rows = frames[name].where(frames[name].id.isin(ids)).select("id", "v").collect()
                found += [(f"{table}/{row.id}", row.v) for row in rows]
        return sorted(found)

    def statements(self, work: Work) -> list[RowJob]:
        """A statement for each table whose rows change, each row that is inserted, and the note."""
        made: list[RowJob] = []
        for number, (table, lists) in enumerate(work.updates().items()):
            # Some read the rows that they change, some read them as a separate source.
            by_merge = (len(work.name) + number) % 2
            made.append(self._merge(table, lists) if by_merge else self._update(table, lists))
        for table, amounts in work.transfers().items():
            made.append(self._transfer(work, table, amounts))
        for append in work.inserts():
            row = f"{id_of(append.key)} AS id, '{append.element}' AS v"
            sql = f"SELECT {row}, '{partition_of(append.key)}' AS p"
            made.append(InsertJob(target=self._name(table_of(append.key)), source=QuerySource(sql)))
        return [*made, self._note(work)]

    def _update(self, table: str, lists: Mapping[str, Sequence[str]]) -> UpdateJob:
        return UpdateJob(
            target=self._name(table), set={"v": _appended(lists)}, where=_condition([*lists])
        )

    def _merge(self, table: str, lists: Mapping[str, Sequence[str]]) -> MergeJob:
        name = self._name(table)
        query = f"SELECT id, {_appended(lists)} AS v, p FROM l WHERE {_condition([*lists])}"
        return MergeJob(
            target=name,
            source=QuerySource(query, {"l": TableSource(name)}),
            on="t.id = s.id AND t.p = s.p",
            when=(MatchedUpdate({"v": "s.v"}),),
        )

    def _transfer(self, work: Work, table: str, amounts: Mapping[str, int]) -> UpdateJob:
        transfer = work.transfer
        assert transfer is not None
        source = f"SELECT int(v) FROM b WHERE id = {id_of(transfer.source)}"
        cases = " ".join(f"WHEN {id_of(key)} THEN int(v) + ({n})" for key, n in amounts.items())
        return UpdateJob(
            target=self._name(table),
            set={"v": f"string(CASE id {cases} END)"},
            where=f"{_condition([*amounts])} AND ({source}) >= {transfer.amount}",
            inputs={"b": TableSource(self._name(table_of(transfer.source)))},
        )

    def _note(self, work: Work) -> UpdateJob:
        read = [
            f"SELECT concat('{table}/', id) AS k, v FROM {table} WHERE id IN ({ids})"
            for table in work.reads
            if (ids := ", ".join(str(id_of(key)) for key in work.keys if table_of(key) == table))
        ]
        rows = f"(SELECT collect_list(struct(k, v)) FROM ({' UNION ALL '.join(read)}))"
        if not read:
            rows = "array()"
        line = f"to_json(named_struct('txn', '{work.name}', 'rows', {rows}))"
        return UpdateJob(
            target=self._name(JOURNAL),
            set={"v": f"concat_ws('\\n', nullif(v, ''), {line})"},
            where=f"id = {work.client} AND p = '{partition_of_client(work.client)}'",
            inputs={table: TableSource(self._name(table)) for table in work.reads},
        )

    def _name(self, table: str) -> str:
        return f"{self.database}.{table}"


def _appended(lists: Mapping[str, Sequence[str]]) -> str:
    """Return the new value of v."""
    cases = " ".join(f"WHEN {id_of(key)} THEN '{' '.join(more)}'" for key, more in lists.items())
    return f"concat_ws(' ', nullif(v, ''), CASE id {cases} END)"


def _condition(keys: Sequence[str]) -> str:
    ids = ", ".join(str(id_of(key)) for key in keys)
    values = ", ".join(f"'{p}'" for p in sorted({partition_of(key) for key in keys}))
    return f"id IN ({ids}) AND p IN ({values})"
