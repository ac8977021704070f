"""DESCRIBE and EXPLAIN on the fake metastores and on real ones."""

import pytest

from hiveacid.api.explained import explain
from hiveacid.errors import InvalidJob
from hiveacid.metastore.catalog import HivePartition
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.parser.questions import Explain
from hiveacid.parser.script import to_jobs, to_steps
from hiveacid.rules.names import TableRef
from hiveacid.tables.definitions.answers import answer
from hiveacid.tables.definitions.run import run_ddl
from tests.fakes.metastore import REAL_AND_FAKE

CREATE = "CREATE TABLE t (id int COMMENT 'k', a string) PARTITIONED BY (day string, n int)"


@pytest.fixture
def table(client: MetastoreClient, database: str) -> TableRef:
    """A table with one partition."""
    for job in to_jobs(CREATE, database):
        run_ddl(client, job)  # type: ignore[arg-type]
    ref = TableRef(database, "t")
    partition = HivePartition.new(client.get_table(ref), ["a/b", "7"])
    client.add_partitions(ref, [partition])
    return ref


@REAL_AND_FAKE
def test_columns_and_partitions_are_described(client: MetastoreClient, table: TableRef) -> None:
    def told(sql: str):
        (question,) = to_steps(sql, table.database)
        return answer(client, question)

    assert told("DESCRIBE t ID").rows == [("id", "int", "k")]
    found = told("DESCRIBE EXTENDED t PARTITION (n = 7, day = 'a/b')")
    assert [name for name, *_ in found.rows] == ["id", "a", "day", "n"]
    assert found.details["partition"] == {"day": "a/b", "n": "7"}
    assert str(found.details["storage"]["location"]).endswith("/day=a%2Fb/n=7")
    with pytest.raises(InvalidJob, match="has no partition day=x/n=7"):
        told("DESCRIBE t PARTITION (day = 'x', n = 7)")
    assert told("SHOW PARTITIONS t PARTITION (n = '07')").rows == [("day=a%2Fb/n=7",)]
    assert told("SHOW PARTITIONS t PARTITION (day = '07')").rows == []


@REAL_AND_FAKE
def test_an_explanation_opens_no_transaction(client: MetastoreClient, table: TableRef) -> None:
    def told(sql: str):
        (question,) = to_steps(f"EXPLAIN {sql}", table.database)
        assert isinstance(question, Explain)
        return explain(client, question.job)

    before = client.get_table(table).raw
    found = told("UPDATE t SET a = 'x' WHERE day = 'a/b'")
    assert [row[0] for row in found.rows] == ["day=a%2Fb/n=7"]
    assert found.details["clauses"] == {"SET": "a = 'x'", "WHERE": "day = 'a/b'"}
    for statement, lock in {
        "DROP TABLE t": "EXCLUSIVE on the table",
        "ANALYZE TABLE t COMPUTE STATISTICS": "SHARED_READ on the table",
        "SELECT * FROM t": "SHARED_READ on the table",
    }.items():
        assert told(statement).details["locks"][table.full_name] == lock
    assert client.get_table(table).raw == before
    assert client.show_locks(table) == []
    assert Snapshot.take(client, [table]).write_ids[table.full_name].high_watermark == 0
