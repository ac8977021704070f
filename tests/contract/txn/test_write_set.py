"""The metastore's own decision on two concurrent changes of one partition.

This is why changes of different rows of a partition are committed one after the other, each in a
transaction that was opened after the one before it: nothing else lets both succeed, unless one of
them is hidden from the engines that trust the metastore to compare.
"""

from collections.abc import Callable

import pytest

from hiveacid.errors import WriteConflict
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import LockState
from hiveacid.rules.locks import DataOperation, LockComponent, LockLevel, LockType
from hiveacid.rules.metastore_version import MetastoreVersion
from hiveacid.rules.names import TableRef
from tests.fakes.metastore import REAL_AND_FAKE

UPDATE, DELETE, INSERT = DataOperation.UPDATE, DataOperation.DELETE, DataOperation.INSERT
HMS3 = MetastoreVersion.HMS3


class Change:
    """A transaction on some partitions, with locks that let others change them meanwhile."""

    def __init__(
        self, client: MetastoreClient, ref: TableRef, declared: DataOperation = UPDATE
    ) -> None:
        self.client, self.ref, self.declared = client, ref, declared
        self.txn_id = client.open_txn("ann", "host", None)
        self.write_id = client.allocate_write_id(self.txn_id, ref)
        component = LockComponent(
            # The strongest that another one of its kind is granted beside.
            type=LockType.SHARED_READ
            if not client.features.has_excl_write
            else LockType.SHARED_WRITE,
            level=LockLevel.TABLE,
            database=ref.database,
            table=ref.name,
            partition=None,
            operation=declared,
            is_transactional=True,
            is_dynamic_partition_write=True,
        )
        assert (
            client.lock([component], self.txn_id, "ann", "host", None).state is LockState.ACQUIRED
        )

    def commit(self, *partitions: str) -> None:
        if partitions:
            self.client.add_dynamic_partitions(
                self.txn_id, self.write_id, self.ref, partitions, self.declared
            )
        self.client.commit_txn(self.txn_id)


@pytest.fixture
def change(client: MetastoreClient, table: TableRef) -> Callable[..., Change]:
    return lambda *declared: Change(client, table, *declared)


@REAL_AND_FAKE
def test_of_two_updates_of_one_partition_the_later_is_refused(change):
    one, two = change(), change()
    one.commit("day=1")
    with pytest.raises(WriteConflict, match="day=1"):
        two.commit("day=1")


@REAL_AND_FAKE
def test_the_older_of_two_is_refused_as_well_if_it_commits_later(change):
    older, younger = change(), change()
    younger.commit("day=1")
    with pytest.raises(WriteConflict):
        older.commit("day=1")


@REAL_AND_FAKE
def test_an_update_that_is_opened_after_the_other_has_committed_succeeds(change):
    waiting = change()
    one = change()
    one.commit("day=1")
    change().commit("day=1")
    with pytest.raises(WriteConflict):
        waiting.commit("day=1")


@REAL_AND_FAKE
def test_one_partition_in_common_is_enough_and_none_is_none(change):
    one, two, three = change(), change(), change()
    one.commit("day=1", "day=2")
    three.commit("day=3")
    with pytest.raises(WriteConflict):
        two.commit("day=2", "day=4")


@REAL_AND_FAKE
def test_two_deletes_are_distinguished_by_version_4_only(client, change):
    one, two = change(DELETE), change(DELETE)
    one.commit("day=1")
    if not client.features.has_excl_write:
        # So a merge declared as a delete would restore rows that Hive deletes concurrently.
        two.commit("day=1")
    else:
        with pytest.raises(WriteConflict):
            two.commit("day=1")


@REAL_AND_FAKE
@pytest.mark.parametrize("hidden_first", [True, False])
def test_an_update_that_is_called_an_insert_is_hidden_from_those_who_call_theirs_by_name(
    change, hidden_first
):
    """Both commit, and one of them may have changed rows that the other had changed already."""
    hidden, honest = change(INSERT), change(UPDATE)
    first, second = (hidden, honest) if hidden_first else (honest, hidden)
    first.commit("day=1")
    second.commit("day=1")
