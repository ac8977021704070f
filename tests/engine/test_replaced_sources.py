"""Tables that are replaced between the lookup of their definition and the last read of their rows."""

from collections.abc import Callable

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.errors import TableReplaced
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.progress import Phase
from hiveacid.rules.merge import NotMatchedInsert
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.spark.python.registered_tables import read_together, register_views
from hiveacid.spark.run import query_rows, run
from tests.engine.acid_tables import create, folder, left_behind
from tests.engine.definitions import replace_definition
from tests.metastore_calls import acting_before
from tests.observers import At
from tests.rows import rows_of

COLUMNS, EXCHANGED = {"a": "int", "b": "int"}, {"b": "int", "a": "int"}
FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


def rebuild(client: MetastoreClient, ref: TableRef) -> None:
    """Drop the table, and create it with its columns in another order."""
    table = client.get_table(ref)
    client.drop_table(ref, delete_data=False)
    create(client, ref.full_name, EXCHANGED, location=f"{table.location}_again")


def exchange(client: MetastoreClient, ref: TableRef) -> None:
    """Let another table with the same columns, and its own location, take over the name."""
    for old, new in ((ref.name, f"{ref.name}_old"), (f"{ref.name}_new", ref.name)):
        replace_definition(
            client, TableRef(ref.database, old), lambda raw, new=new: setattr(raw, "tableName", new)
        )


@pytest.fixture
def source(spark, hms, client, database) -> TableRef:
    """A table of one row, and a table of another row that can take over its name."""
    place = folder(create(client, f"{database}.t", COLUMNS)).parent
    for name, value in (("s", 1), ("s_new", 10)):
        location = f"file:{place}/at_{name}"
        table = create(client, f"{database}.{name}", COLUMNS, location=location)
        with AcidTable(table.ref.full_name, hms.uri, spark=spark, run_in="spark") as acid:
            acid.append(spark.createDataFrame([(value, value * 100)], "a int, b int"))
    return TableRef(database, "s")


def insert(ref: TableRef, **options):
    source = TableSource(ref.full_name)
    return InsertJob(target=f"{ref.database}.t", source=source, overwrite=True, **options)


def insert_query(ref: TableRef, **options):
    query = QuerySource("SELECT a, b FROM s", {"s": TableSource(ref.full_name)})
    return InsertJob(target=f"{ref.database}.t", source=query, **options)


def merge(ref: TableRef, **options):
    given = {"source": TableSource(ref.full_name), "on": "t.a = s.a", "when": [NotMatchedInsert()]}
    return MergeJob(target=f"{ref.database}.t", **given, **options)


def delete(ref: TableRef, **options):
    inputs = {"s": TableSource(ref.full_name)}
    where = "a IN (SELECT a FROM s)"
    return DeleteJob(target=f"{ref.database}.t", where=where, inputs=inputs, **options)


@FAKE
@pytest.mark.sampled(6)
@pytest.mark.parametrize("replace", [rebuild, exchange])
@pytest.mark.parametrize(
    ("job", "policy"),
    [
        (insert, "hive"),
        (insert_query, "hive"),
        (merge, "hive"),
        (merge, "rows"),
        (delete, "hive"),
        (delete, "rows"),
    ],
)
def test_nothing_is_written_from_a_source_that_was_replaced_before_the_lock(
    spark, client, source, job: Callable, policy: str, replace: Callable
):
    options = {"metastore": client.options, "conflict_policy": policy}
    with pytest.raises(TableReplaced, match=f"{source} was .* meanwhile"):
        run(spark, job(source, **options), [At(Phase.OPEN, lambda: replace(client, source))])
    assert rows_of(client.options.uris, f"{source.database}.t") == []
    assert left_behind(client) == []


@FAKE
@pytest.mark.parametrize("replace", [rebuild, exchange])
def test_nothing_is_written_from_a_source_that_was_replaced_during_the_read(
    spark, client, source, replace: Callable
):
    """The clients that replace it request no locks."""
    at_write = At(Phase.WRITE, lambda: replace(client, source))
    with pytest.raises(TableReplaced, match=f"{source} was .* meanwhile"):
        run(spark, insert(source, metastore=client.options), [at_write])
    assert rows_of(client.options.uris, f"{source.database}.t") == []


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_a_source_may_get_a_column_that_the_work_does_not_know(spark, client, source):
    def grow() -> None:
        replace_definition(client, source, lambda raw: raw.sd.cols.append(_copy(raw.sd.cols[0])))

    run(spark, insert(source, metastore=client.options), [At(Phase.OPEN, grow)])
    assert rows_of(client.options.uris, f"{source.database}.t") == [{"a": 1, "b": 100}]


def _copy(column):
    return type(column)("c", column.type, None)


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_a_plain_table_or_a_view_that_was_changed_is_no_source(spark, client, source, tmp_path):
    database = source.database
    spark.createDataFrame([(1, 100)], "a int, b int").write.orc(f"{tmp_path}/plain")
    plain = HiveTable.new(
        TableRef(database, "plain"),
        [HiveColumn(*each) for each in COLUMNS.items()],
        kind=TableKind.NOT_ACID,
        location=f"file:{tmp_path}/plain",
    )
    view = HiveTable.new(TableRef(database, "v"), plain.columns, kind=TableKind.NOT_ACID)
    view.raw.tableType = "VIRTUAL_VIEW"
    view.raw.viewOriginalText = view.raw.viewExpandedText = f"SELECT a, b FROM {source}"
    for table in (plain, view):
        client.create_table(table)

    def reorder(raw) -> None:
        raw.sd.cols.reverse()

    def ask_otherwise(raw) -> None:
        raw.viewOriginalText = raw.viewExpandedText = f"SELECT b, a FROM {source}"

    for table, change in ((plain, reorder), (view, ask_otherwise)):
        at_open = At(
            Phase.OPEN,
            lambda table=table, change=change: replace_definition(client, table.ref, change),
        )
        with pytest.raises(
            TableReplaced, match=f"The columns of {table.ref}, .* were changed meanwhile"
        ):
            run(spark, insert(table.ref, metastore=client.options), [at_open])
    assert rows_of(client.options.uris, f"{database}.t") == []


def read_frame(spark, client, name):
    with AcidTable(name, client.options, spark=spark, run_in="spark") as table:
        return table.to_df().collect()


def read_changes(spark, client, name):
    with AcidTable(name, client.options, spark=spark, run_in="spark") as table:
        return table.changes(0).collect()


def read_together_with_others(spark, client, name):
    with read_together([name], client.options, spark=spark) as frames:
        return frames[name].collect()


def read_view(spark, client, name):
    with register_views(client.options, {"s_view": name}, spark=spark):
        return spark.table("s_view").collect()


def read_query(spark, client, name):
    query = QuerySource("SELECT * FROM s", {"s": TableSource(name)})
    return query_rows(spark, client.options, query, 10)


def read_arrow(spark, client, name):
    return AcidTable(name, client.options, spark=spark, run_in="spark").to_arrow()


def count(spark, client, name):
    return AcidTable(name, client.options, spark=spark, run_in="spark").diff(0)


def analyze(spark, client, name):
    return AcidTable(name, client.options, spark=spark, run_in="spark").analyze()


@FAKE
@pytest.mark.sampled(9)
@pytest.mark.parametrize("replace", [rebuild, exchange])
@pytest.mark.parametrize(
    "read",
    [
        read_frame,
        read_changes,
        read_together_with_others,
        read_view,
        read_query,
        read_arrow,
        count,
        analyze,
    ],
)
def test_no_row_is_read_by_a_definition_from_before_the_lock(
    spark, client, source, read: Callable, replace: Callable
):
    with (
        acting_before("lock", lambda: replace(client, source)),
        pytest.raises(TableReplaced, match=f"{source} was .* meanwhile"),
    ):
        read(spark, client, source.full_name)
    assert left_behind(client) == []
