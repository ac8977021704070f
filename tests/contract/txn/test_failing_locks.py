"""A request for locks that fails inside of the metastore blocks nobody: it is used, or given back."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, suppress

import pytest

from hiveacid.errors import HiveAcidError, JobFailed, MetastoreError
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.cancellation import cancelled_if
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.metastore.txn.locks import queue_of
from hiveacid.metastore.txn.transaction import ExclusiveTable, Transaction
from hiveacid.rules.names import TableRef
from tests.contract.txn.transactions import UPDATE
from tests.fakes.metastore import REAL_AND_FAKE
from tests.proxy import Harm, Proxy

pytestmark = REAL_AND_FAKE
# The writer's ticket, and then the locks of its transaction.
_TICKET, _LOCK = 0, 1


class Behind:
    """Clients behind networks that do harm, one after the other."""

    def __init__(self, client: MetastoreClient, stack: ExitStack) -> None:
        self.uri, self._stack = client.options.uris, stack
        self._proxies: list[Proxy] = []

    def __call__(self, call: str, harm: Harm, **options: int | bool) -> MetastoreClient:
        proxy = Proxy(self, call, harm=harm, **options)  # type: ignore[arg-type]
        self._stack.enter_context(closing(proxy))
        self.uri = proxy.uri
        self._proxies.append(proxy)
        harmed = self._stack.enter_context(MetastoreClient(MetastoreOptions(uris=proxy.uri)))
        with ExitStack() as sparing:
            for each in self._proxies:
                sparing.enter_context(each.sparing())
            assert harmed.features
        return harmed


@pytest.fixture
def behind(client: MetastoreClient) -> Iterator[Behind]:
    with ExitStack() as stack:
        yield Behind(client, stack)


def _locks(client: MetastoreClient, table: TableRef) -> set[int]:
    return {lock.lock_id for ref in (table, queue_of(table)) for lock in client.show_locks(ref)}


@pytest.mark.parametrize("harm", [Harm.FAIL, Harm.LOSE, Harm.GARBLE])
@pytest.mark.parametrize("after", [_TICKET, _LOCK])
def test_a_request_that_was_stored_before_it_failed_is_continued(
    behind: Behind, client: MetastoreClient, table: TableRef,
    begin: Callable[..., Transaction], harm: Harm, after: int,
) -> None:  # fmt: skip
    harmed = behind("lock", harm, after=after)
    with begin(UPDATE, client=harmed, lock_wait_seconds=20) as txn:
        assert txn.restarts == 0
        assert len(_locks(client, table)) == 1
        txn.commit()
    assert not _locks(client, table)


@pytest.mark.parametrize(
    ("then", "after", "arrives"),
    [
        # All pairs.
        *(("show_locks", _TICKET, True), ("show_locks", _LOCK, False)),
        *(("check_lock", _TICKET, False), ("check_lock", _LOCK, True)),
        *(("unlock", _TICKET, True), ("unlock", _LOCK, False)),
        *(("abort_txn", _TICKET, False), ("abort_txn", _LOCK, True)),
    ],
)
def test_a_request_that_cannot_be_continued_is_given_back_even_if_that_fails_at_first(
    behind: Behind, client: MetastoreClient, table: TableRef,
    begin: Callable[..., Transaction], arrives: bool, after: int, then: str,
) -> None:  # fmt: skip
    behind("lock", Harm.FAIL, after=after, arrives=arrives)
    harmed = behind(then, Harm.FAIL, arrives=False, times=2)
    with (
        suppress(MetastoreError),
        begin(UPDATE, client=harmed, lock_wait_seconds=20, max_restarts=0) as txn,
    ):
        txn.commit()
    assert not _locks(client, table)
    with begin(UPDATE, lock_wait_seconds=5) as next_one:
        next_one.commit()


def test_a_cancelled_client_leaves_the_queue_and_commits_nothing(
    client: MetastoreClient, table: TableRef, begin: Callable[..., Transaction]
) -> None:
    with begin(UPDATE) as first:
        locks = _locks(client, table)
        waiting = begin(UPDATE, lock_wait_seconds=20)
        with cancelled_if(lambda: True), pytest.raises(JobFailed, match="cancelled"), waiting:
            pass
        assert _locks(client, table) == locks
        with cancelled_if(lambda: True), pytest.raises(JobFailed, match="cancelled"):
            first.commit()
    assert not _locks(client, table)


def test_a_refused_exclusive_lock_leaves_nothing(
    behind: Behind, client: MetastoreClient, table: TableRef
) -> None:
    behind("lock", Harm.FAIL, arrives=False)
    behind("commit_txn", Harm.FAIL, arrives=False, times=2)
    harmed = behind("abort_txn", Harm.FAIL, arrives=False, times=2)
    with pytest.raises(HiveAcidError), ExclusiveTable(harmed, table, None, 5):
        pytest.fail("It is held.")
    assert not _locks(client, table)
    assert all(txn.state is TxnState.ABORTED for txn in client.get_open_txns_info())
