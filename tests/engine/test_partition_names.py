"""Partitions whose values another engine, or an older version, has written in another text."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from decimal import Decimal

import pytest
from pyspark.sql import DataFrame, SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import DataError
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.parser.script import to_script
from hiveacid.progress import Phase
from hiveacid.rules.names import DEFAULT_PARTITION, partition_name
from hiveacid.spark.run import run
from tests.engine.acid_tables import create, folder, left_behind
from tests.metastore_calls import counted_calls
from tests.observers import At

FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
ALL = pytest.mark.parametrize("hms", ["4.0.1", "3.1.3", "fake 4.0.1", "fake 3.1.3"], indirect=True)

# The type of the key, the text of an existing partition, another text of the same value, and the
# value of the other partition.
SPELLINGS = [
    ("decimal(10,2)", "1.5", "1.50", "7"),
    ("decimal(10,2)", "1.50", "1.5", "7"),
    ("int", "007", "7", "8"),
    ("boolean", "TRUE", "true", "false"),
    ("double", "1.50", "1.5", "7.0"),
    ("float", "1e10", "1.0E10", "7.0"),
    ("timestamp", "2026-01-01 00:00:00.500", "2026-01-01 00:00:00.5", "2026-01-02 00:00:00"),
    ("char(4)", "ab", "ab  ", "cd"),
    ("char(4)", "ab  ", "ab", "cd"),
]


class Written:
    """A table with one partition of another engine, which has the row 1, and another partition.

    Attributes:
        table: The table.
        acid: The table, to change it.
        name: The name of the partition.
    """

    def __init__(
        self, spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, name: str
    ) -> None:
        self._spark, self._hms, self._client, self._name = spark, hms, client, name

    def create(self, type_: str, text: str, other: str) -> HiveTable:
        """Create the table."""
        self.type = "string" if type_.startswith("char") else type_
        columns = {"id": "int", "v": "int"}
        self.table = create(self._client, self._name, columns, {"k": type_})
        self.acid = AcidTable(self._name, self._hms.uri, spark=self._spark, run_in="spark")
        self.acid.append(self.rows((9, other)))
        self.add(text, 1)
        return self.table

    def add(self, text: str, id_: int) -> None:
        """Add a partition with a row, by the file of another table with the same write id."""
        self.name = partition_name(["k"], [text])
        source = create(self._client, f"{self._name}_{id_}", {"id": "int", "v": "int"})
        with AcidTable(
            source.ref.full_name, self._hms.uri, spark=self._spark, run_in="spark"
        ) as acid:
            acid.append(self._spark.sql(f"SELECT {id_} AS id, 0 AS v"))
        new = HivePartition.new(self._client.get_table(self.table.ref), [text])
        self._client.add_partitions(self.table.ref, [new])
        place = folder(self.table) / self.name
        place.mkdir(exist_ok=True)
        for delta in folder(source).glob("delta_*"):
            shutil.copytree(delta, place / delta.name)

    def rows(self, *values: tuple[int, str]) -> DataFrame:
        """Rows of ids and texts of the key."""
        # Rows have a char without trailing blanks.
        texts = ", ".join(f"({id_}, 0, '{text.rstrip()}')" for id_, text in values)
        frame = self._spark.sql(f"SELECT id, v, k FROM VALUES {texts} AS r (id, v, k)")
        return frame.withColumn("k", frame.k.cast(self.type))

    @property
    def ids(self) -> list[int]:
        """The ids of all rows."""
        return sorted(row["id"] for row in self.acid.to_df().collect())

    @property
    def partitions(self) -> list[str]:
        """The names of all partitions."""
        return sorted(self._client.get_partition_names(self.table.ref))


@pytest.fixture
def written(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> Iterator[Written]:
    written = Written(spark, hms, client, f"{database}.t")
    yield written
    written.acid.close()
    assert left_behind(client) == []


@pytest.mark.sampled(3)
@ALL
@pytest.mark.parametrize(("type_", "text", "again", "other"), SPELLINGS)
def test_a_value_keeps_its_partition(written: Written, type_, text, again, other) -> None:
    written.create(type_, text, other)
    before = written.partitions
    acid = written.acid

    assert acid.append(written.rows((2, again))).partitions == (written.name,)
    assert (written.ids, written.partitions) == ([1, 2, 9], before)

    merge = acid.merge(written.rows((2, again), (3, again)), "t.k = s.k AND t.id = s.id")
    report = merge.when_matched_update({"v": "1"}).when_not_matched_insert_all().execute()
    assert (report.rows_updated, report.rows_inserted) == (1, 1)
    assert (written.ids, written.partitions) == ([1, 2, 3, 9], before)

    assert acid.update({"id": "id + 10"}, "id = 1").rows_updated == 1
    assert acid.delete("id = 2").rows_deleted == 1
    assert (written.ids, written.partitions) == ([3, 9, 11], before)

    acid.overwrite(written.rows((4, again)))
    assert (written.ids, written.partitions) == ([4, 9], before)
    for value in (again, text):
        report = acid.overwrite(written.rows((5, again)), [{"k": value}])
        assert report.partitions == (written.name,)
        assert (written.ids, written.partitions) == ([5, 9], before)
    acid.overwrite(written.rows((5, again)).where("false"), [{"k": again}])
    assert (written.ids, written.partitions) == ([9], before)


@pytest.mark.sampled(1)
@ALL
def test_statements_of_sql_keep_the_partition_of_a_value(
    spark: SparkSession, hms: EmbeddedMetastore, written: Written
) -> None:
    table = written.create("decimal(10,2)", "1.5", "7").ref
    before = written.partitions

    def execute(text: str) -> None:
        options = MetastoreOptions(uris=hms.uri)
        run(spark, replace(to_script(text), metastore=options))

    execute(f"INSERT INTO {table} PARTITION (k = 1.50) SELECT 2, 0")
    assert (written.ids, written.partitions) == ([1, 2, 9], before)
    execute(f"INSERT OVERWRITE TABLE {table} PARTITION (k = 1.50) SELECT 3, 0")
    assert (written.ids, written.partitions) == ([3, 9], before)
    execute(f"INSERT OVERWRITE TABLE {table} PARTITION (k) SELECT 4, 0, 1.50BD")
    assert (written.ids, written.partitions) == ([4, 9], before)
    execute(f"TRUNCATE TABLE {table} PARTITION (k = '1.50')")
    assert (written.ids, written.partitions) == ([9], before)


@pytest.mark.sampled(1)
@ALL
def test_an_overwrite_replaces_all_partitions_with_equal_values(written: Written) -> None:
    written.create("decimal(10,2)", "1.5", "7")
    written.add("1.50", 2)
    before = written.partitions
    assert written.ids == [1, 2, 9]

    # New rows are added to the partition with the canonical name.
    assert written.acid.append(written.rows((3, "1.50"))).partitions == ("k=1.5",)
    assert written.acid.update({"v": "v + 1"}, "k = 1.5").rows_updated == 3
    assert written.ids == [1, 2, 3, 9]
    written.acid.overwrite(written.rows((4, "1.50")))
    assert (written.ids, written.partitions) == ([4, 9], before)
    written.acid.update({"id": "5"}, "id = 4")
    written.acid.overwrite(written.rows((6, "1.50")), [{"k": "1.500"}])
    assert (written.ids, written.partitions) == ([6, 9], before)
    written.acid.truncate({"k": "1.50"})
    assert (written.ids, written.partitions) == ([9], before)


@FAKE
@pytest.mark.parametrize("text", ["1.5", "1.50"])
def test_a_write_locks_the_existing_partition(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, written: Written, text
) -> None:
    table = written.create("decimal(10,2)", text, "7").ref
    locked: list[set[str | None]] = []

    def note() -> None:
        locked.append({lock.partition for lock in client.show_locks(table)})

    rows = written.rows((2, "1.50"))
    writes: list[Callable[[AcidTable], object]] = [
        lambda acid: acid.append(rows, [{"k": "1.50"}]),
        lambda acid: acid.overwrite(rows, [{"k": "1.500"}]),
        lambda acid: acid.merge(rows, "t.k = s.k").when_matched_update({"v": "1"}).execute(),
    ]
    for write in writes:
        observer = At(Phase.WRITE, note)
        with AcidTable(
            table.full_name, hms.uri, spark=spark, run_in="spark", observers=[observer]
        ) as acid:
            write(acid)
    assert locked == [{f"k={text}"}] * len(writes)


@FAKE
def test_a_partition_that_is_added_before_the_locks_is_used(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, written: Written
) -> None:
    """The static names are looked up before the locks: the write starts again under others."""
    table = written.create("decimal(10,2)", "7", "8")

    def add() -> None:
        client.add_partitions(table.ref, [HivePartition.new(table, ["1.50"])])

    other = At(Phase.OPEN, add)
    with AcidTable(
        table.ref.full_name, hms.uri, spark=spark, run_in="spark", observers=[other]
    ) as acid:
        acid.overwrite(written.rows((2, "1.5")), [{"k": "1.5"}])
    assert written.partitions == ["k=1.50", "k=7", "k=8"]
    assert written.ids == [1, 2, 9]


@FAKE
def test_minus_zero_is_found_as_zero_and_stays_in_its_partition(written: Written) -> None:
    written.create("double", "0.0", "-0.0")
    merge = written.acid.merge(written.rows((1, "-0.0")), "t.k = s.k AND t.id = s.id")
    assert merge.when_matched_update({"v": "1"}).execute().rows_updated == 1
    assert written.partitions == ["k=-0.0", "k=0.0"]
    written.acid.overwrite(written.rows((2, "0.0")))
    assert written.ids == [2, 9]


@FAKE
@pytest.mark.parametrize("type_", ["string", "varchar(30)"])
def test_null_and_its_text_in_one_key_are_refused(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database, type_
) -> None:
    table = create(client, f"{database}.t", {"id": "int"}, {"k": type_})
    rows = spark.createDataFrame([(1, None), (2, DEFAULT_PARTITION), (3, "")], "id int, k string")
    with AcidTable(table.ref.full_name, hms.uri, spark=spark, run_in="spark") as acid:
        for both in (rows, rows.where("id > 1"), rows.where("id < 3").repartition(1)):
            for write in (acid.append, acid.overwrite):
                with pytest.raises(DataError, match=f"both null and the text {DEFAULT_PARTITION}"):
                    write(both)
        assert (client.get_partition_names(table.ref), left_behind(client)) == ([], [])
        acid.append(rows.where("id = 2"))
        acid.append(rows.where("id <> 2"))
        assert [tuple(row) for row in acid.to_df().orderBy("id").collect()] == [
            (1, None),
            (2, None),
            (3, None),
        ]
    assert client.get_partition_names(table.ref) == [f"k={DEFAULT_PARTITION}"]


@FAKE
def test_an_empty_char_is_not_null(spark, hms, client, database) -> None:
    """Hive pads it to the name of a partition."""
    table = create(client, f"{database}.t", {"id": "int"}, {"k": "char(3)"})
    rows = spark.createDataFrame([(1, None), (2, ""), (3, "ab")], "id int, k string")
    with AcidTable(table.ref.full_name, hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(rows)
        assert sorted(client.get_partition_names(table.ref)) == [
            "k=   ",
            f"k={DEFAULT_PARTITION}",
            "k=ab ",
        ]
        assert [tuple(row) for row in acid.to_df().orderBy("id").collect()] == [
            (1, None),
            (2, ""),
            (3, "ab"),
        ]
        assert acid.delete("k = ''").rows_deleted == 1
        assert acid.delete("k = 'ab'").rows_deleted == 1


@FAKE
def test_values_with_one_text_cost_no_list_of_partitions(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    listed = {}
    for type_, value in (
        ("date", "2026-01-01"),
        ("string", "x"),
        ("decimal(10,2)", Decimal("1.5")),
    ):
        name = f"{database}.t_{type_[:3]}"
        create(client, name, {"id": "int"}, {"k": type_})
        rows = spark.createDataFrame([(1, str(value))], "id int, k string")
        rows = rows.withColumn("k", rows.k.cast(type_))
        with AcidTable(name, hms.uri, spark=spark, run_in="spark") as acid:
            acid.append(rows)
            with counted_calls() as calls:
                acid.append(rows)
                appended = calls["get_partition_names"]
                acid.overwrite(rows)
                listed[type_] = (appended, calls["get_partition_names"] - appended)
    # An append finds the existing partition by its name, an overwrite needs all equal ones.
    assert listed == {"date": (0, 0), "string": (0, 0), "decimal(10,2)": (0, 1)}
