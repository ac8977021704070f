"""Hive and Trino read the files of second commits, and continue with them."""

import pytest

from airflow_hiveacid import AcidTable
from hiveacid.metastore.txn.heartbeat import Heartbeat
from hiveacid.progress import Phase, PhaseObserver
from hiveacid.writes.statement import WriteOptions
from tests.interop.checked import DAYS, customer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]


class Losing(PhaseObserver):
    """Has the metastore abort the first transaction when it is about to commit."""

    def __init__(self, client):
        self.client, self.txn_id = client, None

    def opened(self, txn_id, write_ids):
        self.txn_id = self.txn_id or txn_id

    def enter(self, phase):
        if phase is Phase.COMMIT and self.txn_id:
            self.client.abort_txn(self.txn_id)


@pytest.fixture
def table(create_table, monkeypatch):
    # A silent writer was aborted.
    monkeypatch.setattr(Heartbeat, "silence", 1e6)
    return create_table("unpartitioned")


def test_hive_and_trino_read_second_commits_and_continue(table):
    write(table, "append", lambda ours: ours.append(table.frame(rows(range(40)))))
    table.put(rows(range(40)))
    table.check()

    source = table.frame(rows(range(30, 50), amount=3))
    write(
        table,
        "merge",
        lambda ours: (
            ours.merge(source, "t.id = s.id AND t.day <=> s.day")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        ),
    )
    table.put(rows(range(30, 50), amount=3))
    table.check()

    write(table, "delete", lambda ours: ours.delete("id % 5 = 1"))
    table.take(*(id_ for id_ in list(table.rows) if id_ % 5 == 1))
    table.check()

    # Rows of all three, by their row ids.
    table.hive.sql(f"update {table.name} set amount = 4 where id % 7 = 0")
    table.put(rows((id_ for id_ in table.rows if id_ % 7 == 0), amount=4))
    table.hive.sql(f"delete from {table.name} where id % 7 = 2")
    table.take(*(id_ for id_ in list(table.rows) if id_ % 7 == 2))
    table.check_with_hive()

    assert {each.outcome for each in table.compact("minor").partitions} == {"compacted"}
    table.check()
    table.trino.sql(f"delete from hive.{table.name} where id % 7 = 3")
    table.take(*(id_ for id_ in list(table.rows) if id_ % 7 == 3))
    table.check()
    table.compact_with_hive("major")
    table.check()

    write(table, "overwrite", lambda ours: ours.overwrite(table.frame(rows(range(6)))))
    days = {customer(id_)[-1] for id_ in range(6)} if table.partitioned else DAYS
    table.take(*(id_ for id_, row in list(table.rows.items()) if row[-1] in days))
    table.put(rows(range(6)))
    table.check()
    assert table.clean().kept == ()
    table.check()


def rows(ids, amount=None):
    return [customer(id_, amount) for id_ in ids]


def write(table, what, change):
    options = WriteOptions(run_token=f"{table.name}/{what}/t/-1")
    with (
        table.client() as client,
        AcidTable(
            table.name,
            table.uri,
            spark=table.spark,
            run_in="spark",
            options=options,
            observers=[Losing(client)],
        ) as ours,
    ):
        assert change(ours).commit_retry is not None
