"""The constraints of a table: rows that Hive refuses are refused, and defaults are filled in.

The refused and filled values were determined with Hive 4.0.1, as
`tests/interop/test_constraints_interop.py` shows.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, date, datetime

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.api.transaction import AcidTransaction
from hiveacid.errors import CheckFailed, TableReplaced, UnsupportedTable
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.constraints import as_structs
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.parser.script import to_script
from hiveacid.rules.constraints import Check, Constraint, Default, NotNull
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.spark.run import run
from hiveacid.writes.atomic_write import AtomicWrite
from hiveacid.writes.statement import WriteOptions
from tests.engine.acid_tables import ONLY_HIVE4, files, left_behind, rows_of
from tests.engine.compaction_case import report_of_compaction
from tests.late_constraints import declare_late
from tests.metastore_calls import counted_calls

RULES = (
    NotNull(column="id", name="nn_id"),
    Default(column="v", value="'dflt'"),
    Check(expression="`k` > 0", column="k", name="ck_k"),
)
COLUMNS = {"id": "int", "v": "string", "k": "int"}
SCHEMA = "id int, v string, k int"
ROWS = [(1, "a", 1), (2, "b", None)]

Declare = Callable[..., AcidTable]


@pytest.fixture
def declare(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> Iterator[Declare]:
    tables: list[AcidTable] = []

    def declared(
        *constraints: Constraint,
        columns: dict[str, str] = COLUMNS,
        keys: dict[str, str] | None = None,
        name: str = "t",
        options: WriteOptions | None = None,
        **more: object,
    ) -> AcidTable:
        ref = TableRef(database, name)
        table = HiveTable.new(
            ref,
            [HiveColumn(*column) for column in columns.items()],
            partition_keys=[HiveColumn(*key) for key in (keys or {}).items()],
            **more,  # type: ignore[arg-type]
        )
        client.create_table(table, as_structs(ref, constraints))
        tables.append(
            AcidTable(ref.full_name, hms.uri, spark=spark, run_in="spark", options=options)
        )
        return tables[-1]

    yield declared
    for table in tables:
        table.close()
    assert left_behind(client) == []


def test_rows_that_violate_a_constraint_are_refused_before_anything_shows(
    spark: SparkSession, declare: Declare, client: MetastoreClient
) -> None:
    acid = declare(*RULES)
    acid.append(spark.createDataFrame(ROWS, SCHEMA))
    before = files(client.get_table(acid.ref))
    for rows, name in (
        ([(None, "x", 1)], "nn_id, NOT NULL of column id,"),
        ([(3, "x", 1), (4, "x", -7)], "ck_k, CHECK (`k` > 0) of column k,"),
    ):
        frame = spark.createDataFrame(rows, SCHEMA)
        for write in (acid.append, acid.overwrite):
            with pytest.raises(CheckFailed) as refused:
                write(frame)
            row = rows[-1]
            shown = f'{{"id":{row[0] or "null"},"v":"x","k":{row[2]}}}'
            assert refused.value.what == (
                f"The constraint {name} of {acid.ref.full_name} refuses the row {shown}."
            )
            assert not refused.value.retryable
    assert rows_of(acid.to_df()) == ROWS
    assert files(client.get_table(acid.ref)) == before


def test_a_column_that_is_left_out_gets_its_default_and_an_explicit_null_stays(
    spark: SparkSession, declare: Declare
) -> None:
    acid = declare(*RULES)
    acid.append(spark.createDataFrame([(1,)], "id int"))
    acid.append(spark.createDataFrame([(2, None)], "id int, v string"))
    with pytest.raises(CheckFailed, match="nn_id"):
        acid.append(spark.createDataFrame([("a",)], "v string"))
    assert rows_of(acid.to_df()) == [(1, "dflt", None), (2, None, None)]


def test_an_update_is_checked_whichever_columns_it_sets(
    spark: SparkSession, declare: Declare
) -> None:
    acid = declare(*RULES)
    acid.append(spark.createDataFrame(ROWS, SCHEMA))
    with pytest.raises(CheckFailed, match="ck_k"):
        acid.update({"k": "-1"}, "id = 1")
    with pytest.raises(CheckFailed, match="nn_id"):
        acid.update({"id": "NULL"}, all_rows=True)
    acid.update({"v": "DEFAULT", "k": " default "}, "id = 1")
    assert rows_of(acid.to_df()) == [(1, "dflt", None), ROWS[1]]


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_rows_that_violate_a_later_constraint_can_only_be_deleted(
    spark: SparkSession, declare: Declare, client: MetastoreClient
) -> None:
    acid = declare()
    acid.append(spark.createDataFrame([(None, "a", -1), (2, "b", 2)], SCHEMA))
    declare_late(client, acid.ref, NotNull(column="id", name="late"))
    with pytest.raises(CheckFailed, match="late"):
        acid.update({"v": "'z'"}, all_rows=True)
    acid.delete("id IS NULL")
    with pytest.raises(CheckFailed, match="late"):
        acid.restore(1)
    assert rows_of(acid.to_df()) == [(2, "b", 2)]
    assert report_of_compaction(acid, "major").partitions


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_an_insert_only_table_is_restored_by_its_constraints(
    spark: SparkSession, declare: Declare, client: MetastoreClient
) -> None:
    acid = declare(kind=TableKind.INSERT_ONLY)
    acid.append(spark.createDataFrame([(None, "a", -1)], SCHEMA))
    acid.overwrite(spark.createDataFrame(ROWS, SCHEMA))
    declare_late(client, acid.ref, NotNull(column="id", name="late"))
    with pytest.raises(CheckFailed, match="late"):
        acid.append(spark.createDataFrame([(None, "a", 1)], SCHEMA))
    with pytest.raises(CheckFailed, match="late"):
        acid.restore(1)
    assert rows_of(acid.to_df()) == ROWS


MERGES = {
    "update": (lambda merge: merge.when_matched_update({"k": "s.k"}), [(1, -5)], "ck_k"),
    "update all": (
        lambda merge: merge.when_matched_update_all().when_not_matched_insert_all(),
        [(1, "x", -5)],
        "ck_k",
    ),
    "insert": (lambda merge: merge.when_not_matched_insert_all(), [(9, "x", -5)], "ck_k"),
    "insert some": (lambda merge: merge.when_not_matched_insert({"k": "s.k"}), [(9, 5)], "nn_id"),
    "by source": (
        lambda merge: merge.when_not_matched_by_source_update({"k": "-1"}),
        [(1, 1)],
        "ck_k",
    ),
}


@pytest.mark.parametrize("case", MERGES)
def test_every_branch_of_a_merge_is_checked(
    spark: SparkSession, declare: Declare, case: str
) -> None:
    clause, rows, name = MERGES[case]
    acid = declare(*RULES)
    acid.append(spark.createDataFrame(ROWS, SCHEMA))
    schema = SCHEMA if len(rows[0]) == 3 else "id int, k int"
    with pytest.raises(CheckFailed, match=name):
        clause(acid.merge(spark.createDataFrame(rows, schema), "t.id = s.id")).execute()
    assert rows_of(acid.to_df()) == ROWS


def test_rows_of_a_source_that_a_merge_does_not_write_may_violate_constraints(
    spark: SparkSession, declare: Declare
) -> None:
    acid = declare(*RULES)
    acid.append(spark.createDataFrame(ROWS, SCHEMA))
    bad = spark.createDataFrame([(1, "bad", -7), (3, "c", 3), (None, "bad", -7)], SCHEMA)
    # They meet rows, or a condition leaves them out.
    acid.merge(bad.where("id IS NOT NULL"), "t.id = s.id").when_not_matched_insert_all().execute()
    merge = acid.merge(bad, "t.id = s.id").when_matched_delete("s.k < 0")
    merge.when_not_matched_insert_all("s.id IS NOT NULL AND s.k > 0").execute()
    update = acid.merge(bad, "t.id = s.id").when_matched_update_all("s.k > 0")
    update.when_not_matched_insert_all("s.k > 0").execute()
    assert rows_of(acid.to_df()) == [(2, "b", None), (3, "c", 3)]


def test_an_insert_of_a_merge_fills_defaults(spark: SparkSession, declare: Declare) -> None:
    acid = declare(*RULES)
    acid.append(spark.createDataFrame(ROWS, SCHEMA))
    source = spark.createDataFrame([(1, 5), (3, 5)], "id int, k int")
    some = acid.merge(source, "t.id = s.id").when_matched_update({"v": "DEFAULT"})
    some.when_not_matched_insert({"id": "s.id", "k": "s.k"}).execute()
    more = acid.merge(source.selectExpr("id + 3 AS id", "k"), "t.id = s.id")
    more.when_not_matched_insert({"id": "s.id", "v": "default", "k": "DEFAULT"}).execute()
    assert rows_of(acid.to_df()) == [
        (1, "dflt", 1),
        (2, "b", None),
        (3, "dflt", 5),
        (4, "dflt", None),
        (6, "dflt", None),
    ]


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_partitions_buckets_and_several_tables(
    spark: SparkSession, declare: Declare, hms: EmbeddedMetastore
) -> None:
    acid = declare(*RULES, keys={"day": "string"}, bucket_columns=["id"], num_buckets=3)
    other = declare(*RULES, name="other")
    schema = f"{SCHEMA}, day string"
    acid.append(spark.createDataFrame([(1, "a", 1, "mon"), (2, "b", 2, None)], schema))
    with pytest.raises(CheckFailed, match="nn_id"):
        acid.append(spark.createDataFrame([(None, "a", 1, "tue")], schema))

    def write_both() -> None:
        with AcidTransaction(hms.uri, spark=spark, run_in="spark") as txn:
            txn.table(acid.ref.full_name).append(
                spark.createDataFrame([(3, "c", 3, "mon")], schema)
            )
            txn.table(other.ref.full_name).append(spark.createDataFrame([(3, "c", -3)], SCHEMA))

    with pytest.raises(CheckFailed, match=f"ck_k.* of {other.ref.full_name} "):
        write_both()
    assert acid.to_df().count() == 2
    assert other.to_df().count() == 0


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_defaults_are_evaluated_as_in_hive(
    spark: SparkSession, declare: Declare, client: MetastoreClient
) -> None:
    values = {
        "s": ("string", '"it\'s\\n"', "it's\n"),
        "b": ("bigint", "5L", 5),
        "c": ("decimal(5,2)", "cast(1.255 as decimal(5,2))", "1.26"),
        "f": ("float", "cast(1.5 as float)", 1.5),
        "h": ("char(4)", "cast('ab' as char(4))", "ab"),
        "r": ("varchar(3)", "cast('abcdef' as varchar(3))", "abc"),
        "d": ("date", "date '2020-01-02'", date(2020, 1, 2)),
        "t": ("timestamp", "timestamp '2020-01-02 03:04:05.123'", None),
        "x": ("string", "upper('abc')", "ABC"),
        "n": ("int", "cast(null as int)", None),
        "u": ("string", "current_user()", client.user),
        "today": ("date", "current_date()", None),
        "now": ("timestamp", "current_timestamp", None),
    }
    acid = declare(
        *(Default(column=name, value=value) for name, (_, value, _) in values.items()),
        columns={"id": "int"} | {name: type_ for name, (type_, _, _) in values.items()},
    )
    started = datetime.now(UTC).replace(tzinfo=None)
    acid.append(spark.createDataFrame([(1,)], "id int"))
    ended = datetime.now(UTC).replace(tzinfo=None)
    row = acid.to_df().collect()[0].asDict()
    for name, (_, _, value) in values.items():
        if value is not None:
            assert str(row[name]) == str(value), name
    assert row["n"] is None
    assert row["t"] == datetime(2020, 1, 2, 3, 4, 5, 123000)
    assert started <= row["now"] <= ended
    assert row["today"] in (started.date(), ended.date())


def test_disabled_constraints_do_nothing(spark: SparkSession, declare: Declare) -> None:
    acid = declare(
        NotNull(column="id", enabled=False, rely=False),
        Default(column="v", value="'dflt'", enabled=False),
        Check(expression="k > 0", enabled=False),
    )
    acid.append(spark.createDataFrame([(None, -1)], "id int, k int"))
    assert rows_of(acid.to_df()) == [(None, None, -1)]


def test_a_constraint_that_cannot_be_enforced_is_refused_before_any_work(
    spark: SparkSession, declare: Declare
) -> None:
    acid = declare(
        Check(expression="my_udf(k)", name="udf"),
        Default(column="v", value="my_udf(3)"),
    )
    source = spark.sparkContext.accumulator(0)
    frame = spark.createDataFrame(
        spark.sparkContext.parallelize([(1, "a", 1)]).map(lambda row: (source.add(1), row)[1]),
        SCHEMA,
    )
    with pytest.raises(UnsupportedTable, match=r"udf, CHECK \(my_udf\(k\)\), of .* my_udf"):
        acid.append(frame)
    with pytest.raises(UnsupportedTable, match="udf"):
        acid.merge(frame, "t.id = s.id").when_not_matched_insert_all().execute()
    assert source.value == 0
    acid.delete("id = 1")
    other = declare(Default(column="v", value="my_udf(3)"), name="other")
    other.append(spark.createDataFrame(ROWS, SCHEMA))
    with pytest.raises(UnsupportedTable, match=r"The default value my_udf\(3\) of column v"):
        other.append(spark.createDataFrame([(3,)], "id int"))
    assert rows_of(other.to_df()) == ROWS


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
def test_nan_and_unknown_conditions(spark: SparkSession, declare: Declare) -> None:
    acid = declare(Check(expression="f > 0", name="ck"), columns={"f": "double"})
    acid.append(spark.createDataFrame([(None,), (1.0,)], "f double"))
    # Hive: NaN is not greater than 0; Spark: it is.
    with pytest.raises(CheckFailed, match="ck"):
        acid.append(spark.createDataFrame([(float("nan"),)], "f double"))


@pytest.mark.parametrize(*ONLY_HIVE4, indirect=True)
@pytest.mark.parametrize("policy", ["hive", "rows"])
def test_a_constraint_that_comes_before_the_locks_is_noticed(
    spark: SparkSession,
    declare: Declare,
    client: MetastoreClient,
    monkeypatch: pytest.MonkeyPatch,
    policy: str,
) -> None:
    acid = declare(options=WriteOptions(conflict_policy=policy))  # type: ignore[arg-type]
    acid.append(spark.createDataFrame(ROWS, SCHEMA))
    transaction, opened = AtomicWrite._transaction, []

    def changed(write: AtomicWrite, *arguments: object, **options: object) -> object:
        if not opened:
            declare_late(client, acid.ref, Check(expression="k > 5", name="late"))
            opened.append(True)
        return transaction(write, *arguments, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(AtomicWrite, "_transaction", changed)
    source = spark.createDataFrame([(3, "c", 3)], SCHEMA)
    with pytest.raises(TableReplaced, match="The constraints of test_"):
        acid.merge(source, "t.id = s.id").when_not_matched_insert_all().execute()
    assert rows_of(acid.to_df()) == ROWS


def test_calls_of_the_metastore_for_constraints(
    spark: SparkSession, declare: Declare, client: MetastoreClient
) -> None:
    acid = declare()
    kinds = ("all_table", "not_null", "check", "default")
    asked = {f"get_{kind}_constraints" for kind in kinds}
    per_look = 1 if client.features.returns_all_constraints else 3
    frame = spark.createDataFrame(ROWS, SCHEMA)
    for looks, work in (
        (1, lambda: acid.append(frame)),
        (1, lambda: acid.update({"v": "'x'"}, all_rows=True)),
        (0, lambda: acid.delete("id = 1")),
        # Before its source is evaluated, and under the locks.
        (2, lambda: acid.merge(frame, "t.id = s.id").when_not_matched_insert_all().execute()),
    ):
        with counted_calls() as calls:
            work()
        assert sum(calls[name] for name in asked) == looks * per_look


def test_default_is_a_keyword_of_sql(
    spark: SparkSession, hms: EmbeddedMetastore, database: str, client: MetastoreClient
) -> None:
    script = """
        CREATE TABLE t (id int NOT NULL, v string DEFAULT 'dflt', k int CHECK (k > 0));
        INSERT INTO t VALUES (1, DEFAULT, DEFAULT), (2, 'own', 2);
        INSERT INTO t (k, v, id) VALUES (3, DEFAULT, 3);
        INSERT INTO t (id) SELECT 4;
        UPDATE t SET v = DEFAULT WHERE id = 2
    """
    run(spark, replace(to_script(script, database), metastore=hms.options))
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        rows = [(1, "dflt", None), (2, "dflt", 2), (3, "dflt", 3), (4, "dflt", None)]
        assert rows_of(acid.to_df()) == rows
        bad = to_script("INSERT INTO t VALUES (DEFAULT, 'x', 1)", database)
        with pytest.raises(CheckFailed):
            run(spark, replace(bad, metastore=hms.options))
        assert rows_of(acid.to_df()) == rows
    assert left_behind(client) == []
