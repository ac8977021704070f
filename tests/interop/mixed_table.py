"""A table that Hive, Trino and this package write in turn, and the rows that all must see."""

import io
import json
import logging
from collections import Counter
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace

from airflow_hiveacid import AcidTable
from hiveacid.cli.main import main
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.parser.script import to_script
from hiveacid.rules.compaction_policy import CompactionPolicy
from hiveacid.rules.names import TableRef
from hiveacid.spark.compaction import compact_table
from hiveacid.spark.run import run
from hiveacid.upkeep.survey import Survey
from hiveacid.upkeep.table_cleaning import clean
from tests.interop.checked import as_null, as_text
from tests.places import place_of

FOR_TRINO = CompactionPolicy(
    max_deltas=None,
    max_delta_ratio=None,
    max_aborted=None,
    max_aborted_age_hours=None,
    right_for="trino",
)
DEFAULT = "dflt"
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Shape:
    """A kind of table.

    Attributes:
        key: The type of the partition key; None without partitions.
        days: The values of the partition key.
        buckets: The first number of buckets by id; None without buckets.
        constrained: Whether the columns have constraints and a default value.
    """

    key: str | None = None
    days: tuple[str | int | None, ...] = (None,)
    buckets: int | None = None
    constrained: bool = False


# Hive 4.0.1 cannot create a partitioned table with a CHECK.
SHAPES = {
    "unpartitioned": Shape(constrained=True),
    "partitioned": Shape(key="string", days=("a", "b c/d=%", None)),
    "bucketed": Shape(buckets=2),
    "partitioned_bucketed": Shape(key="int", days=(1, 2, 3), buckets=2),
}


class MixedTable:
    """A table and the rows it must have, by id; a row is a value for each slot.

    A slot is the first name of a column, under any later name.

    Attributes:
        names: The name of each slot now, in the order of the columns, without the partition key.
        types: The type of each slot.
        rows: The rows.
        versions: The rows of each version that can be restored, by write id.
        superseded: Whether there are directories that let a cleaning remove versions.
        stirred: Whether files are distributed over another number of buckets than the table's.
        log: The operations so far.
    """

    def __init__(self, name, shape, spark, hive, trino):
        self.ref, self.shape = TableRef("default", name), shape
        self.name, self.trino_name = self.ref.full_name, f"hive.{self.ref.full_name}"
        self.spark, self.hive, self.trino = spark, hive, trino
        self.names = {"id": "id", "n": "n", "s": "s", "d": "d"}
        self.types = {"id": "int", "n": "int", "s": "string", "d": "string", "p": shape.key}
        self.rows, self.versions, self.log = {}, {}, []
        self.stirred = self.superseded = False

    # Statements.

    def note(self, what):
        """Record an operation; `--log-cli-level=INFO` of pytest shows it at once."""
        self.log.append(what)
        LOG.info("%d. %s", len(self.log), what)

    def here(self, statement):
        """Run a statement by this package."""
        self.note(f"we: {statement}")
        options = MetastoreOptions(uris=self.hive.metastore_uri)
        return run(self.spark, replace(to_script(statement), metastore=options))

    def in_hive(self, statement):
        self.note(f"Hive: {statement}")
        return self.hive.sql(statement)

    def in_trino(self, statement):
        self.note(f"Trino: {statement}")
        return self.trino.sql(statement)

    def client(self):
        return MetastoreClient(MetastoreOptions(uris=self.hive.metastore_uri))

    @contextmanager
    def open(self, what=None):
        """Open it by this package, to do something or only to read."""
        if what is not None:
            self.note(f"we: {what}")
        with AcidTable(
            self.name, self.hive.metastore_uri, spark=self.spark, run_in="spark"
        ) as table:
            yield table

    def create(self, *, by_hive):
        n, d = ("n int CHECK (n >= 0) ENABLE", f"d string DEFAULT '{DEFAULT}'")
        columns = f"id int NOT NULL ENABLE, {n}, s string, {d}"
        if not self.shape.constrained:
            columns = "id int, n int, s string, d string"
        text = f"CREATE TABLE {self.name} ({columns})"
        if self.shape.key:
            text += f" PARTITIONED BY (p {self.shape.key})"
        if self.shape.buckets:
            text += f" CLUSTERED BY (id) INTO {self.shape.buckets} BUCKETS"
        text += " STORED AS ORC"
        if by_hive:
            self.in_hive(f"{text} TBLPROPERTIES ('transactional' = 'true')")
        else:
            self.here(text)

    # The rows of the model.

    def values(self, id_):
        """The values of a row, in the order of the columns, the partition key last."""
        row = {"id": id_, **self.rows[id_]}
        return tuple(row.get(slot) for slot in self.slots())

    def slots(self):
        return [*self.names, *(["p"] if self.shape.key else [])]

    def columns(self):
        return [*self.names.values(), *(["p"] if self.shape.key else [])]

    def expected(self):
        return sorted(as_text(self.values(id_)) for id_ in self.rows)

    def remember(self):
        """Note that the newest version has the rows of now."""
        with self.client() as client:
            seen = Snapshot.take(client, [self.ref]).write_ids[self.name]
        self.versions[seen.high_watermark] = {id_: dict(row) for id_, row in self.rows.items()}

    # The metastore's and the files' content.

    def partitions(self):
        with self.client() as client:
            return client.get_partition_names(self.ref) if self.shape.key else []

    def older_columns(self):
        """Return whether a partition has other names of columns than the table."""
        with self.client() as client:
            columns = {each.columns for each in client.get_partitions(client.get_table(self.ref))}
            return columns - {client.get_table(self.ref).columns} != set()

    def highest_bucket(self):
        """The highest number that a file has."""
        with self.client() as client:
            folder = place_of(client.get_table(self.ref).folder)
        return max((int(path.name.split("_")[1]) for path in folder.rglob("bucket_*")), default=0)

    # Maintenance.

    def clean(self):
        self.note("we: clean")
        with self.client() as client:
            clean(client, CleanJob(target=self.name, retention="0"))
        self.forget_versions()

    def forget_versions(self):
        """Expect nothing of versions that a cleaning may have removed."""
        if self.superseded:
            self.versions.clear()
            self.superseded = False

    def compact(self, kind):
        with self.open(f"compact {kind}") as table:
            report = table.compact(kind)
        outcomes = [each.outcome for each in report.partitions]
        assert "failed" not in outcomes, report
        self.log[-1] += f" -> {', '.join(outcomes)}"
        # A minor one becomes a major one beside some directories.
        self.superseded |= "major" in {each.type for each in report.partitions}

    def mend_for_trino(self):
        """Compact and clean the directories that Trino misreads, and no others."""
        with self.client() as client:
            for _ in range(3):
                found = Survey(client, FOR_TRINO).survey([self.ref])
                called_for = {each.size.partition: each.type.value for each in found if each.type}
                if not called_for:
                    return
                # The metastore takes no request while an older one waits to be cleaned.
                self.clean()
                self.note(f"we: compact for Trino {called_for}")
                job = CompactJob(target=self.name, policy=FOR_TRINO)
                report = compact_table(lambda: self.spark, client, job)
                assert "failed" not in {each.outcome for each in report.partitions}, report
                self.superseded |= "major" in {each.type for each in report.partitions}
        raise AssertionError(f"Trino still reads {called_for} otherwise than Hive.")

    # Check the rows of all engines.

    def check(self):
        """All engines see the rows of the model."""
        self._check_ours()
        self._check_engine(self.hive, self.name)
        if not self.stirred:
            known = len(self.log)
            self.mend_for_trino()
            self._check_engine(self.trino, self.trino_name)
            if len(self.log) > known:
                self._check_ours()
                self._check_engine(self.hive, self.name)
        # We never take the number of buckets for a proof, so a search needs no such care here.
        for id_ in sorted(self.rows)[:1]:
            with self.open() as table:
                found = table.to_df(f"id = {id_}", self.columns()).collect()
            assert [as_text(row) for row in found] == [as_text(self.values(id_))]
            if not self.stirred:
                for engine, name in ((self.hive, self.name), (self.trino, self.trino_name)):
                    assert engine.sql(f"select id from {name} where id = {id_}") == [(str(id_),)]

    def _check_ours(self):
        names, expected = self.columns(), self.expected()
        with self.open() as table:
            require_equal("Spark", map(as_text, table.to_df(columns=names).collect()), expected)
            assert table.to_df().count() == len(expected)
            rows = table.scan(columns=names).to_arrow().to_pylist()
        require_equal("Arrow", (as_text(row[name] for name in names) for row in rows), expected)

    def _check_engine(self, engine, name):
        answer = engine.sql(f"select {', '.join(self.columns())} from {name}")
        rows = (tuple(map(as_null, row)) for row in answer)
        require_equal(type(engine).__name__, rows, self.expected())
        assert engine.sql(f"select count(*) from {name}") == [(str(len(self.rows)),)]

    def check_row_ids(self):
        """Hive and we give each row the same row id."""
        parts = "row__id.writeid, row__id.bucketid, row__id.rowid"
        in_hive = sorted(self.hive.sql(f"select {parts}, id from {self.name}"))
        ours = [(*row["row_id"].values(), row["id"]) for row in self._rows_with_ids()]
        assert sorted(tuple(map(str, row)) for row in ours) == in_hive

    def has_one_bucket_per_write(self):
        """Check that the rows of each write id have a single bucket property."""
        ids = {tuple(row["row_id"].values())[:2] for row in self._rows_with_ids()}
        return len(ids) == len({write_id for write_id, _ in ids})

    def _rows_with_ids(self):
        out = io.StringIO()
        with redirect_stdout(out):
            arguments = [self.name, "--metastore", self.hive.metastore_uri]
            assert main(["cat", *arguments, "--json", "--row-ids"]) == 0
        return [json.loads(line) for line in out.getvalue().splitlines()]


def require_equal(reader, rows, expected):
    """Require the rows of the model, and name those that a reader has too many or too few of."""
    found, wanted = Counter(rows), Counter(expected)
    assert found == wanted, (
        f"{reader} misses {list((wanted - found).elements())}"
        f" and has {list((found - wanted).elements())} instead."
    )
