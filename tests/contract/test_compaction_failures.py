"""Leftovers of a compaction whose process was killed, or whose answers were lost."""

import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.errors import (
    AlreadyCompacting,
    CommitUncertain,
    MetastoreError,
    TransactionAborted,
)
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionQueue, CompactionTransaction
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.metastore.txn.owner import (
    Outcome,
    abort_open_transactions,
    find_open_transactions,
    outcome,
)
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.names import TableRef
from tests.contract.compactions import (
    DAY,
    MAJOR,
    finish,
    needs_pools,
    only_hms4,
    states,
)
from tests.proxy import Harm, Proxy
from tests.versions import NEWER

# A compactor that dies at a given moment, without a chance to clean up.
DYING = """
import os, signal, sys
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.names import TableRef
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.progress import Phase, PhaseClock
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import CompactionTransaction
from hiveacid.metastore.compactions import CompactionQueue
from tests.observers import At

uri, table, partition, moment = sys.argv[1:]

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

calls = {"claim": "claim", "mark": "compacted"}
if moment in calls:
    setattr(CompactionQueue, calls[moment], die)
phases = PhaseClock([] if moment in calls else [At(Phase(moment), die)])
client = MetastoreClient(MetastoreOptions(uris=uri))
with CompactionTransaction(
    client, TableRef.parse(table), partition, CompactionType.MAJOR, run_token="dying", phases=phases
) as compaction:
    compaction.record(compaction.write_ids.high_watermark)
    compaction.commit()
"""
LEFT_BEHIND = {"claim": "initiated", "snapshot": "working", "commit": "working"}


@pytest.mark.parametrize(
    ("hms", "moment"),
    [
        *(
            pytest.param(*version.values, moment, marks=[*version.marks, *marks])
            for version in (pytest.param("4.0.1"), *NEWER)
            for moment, marks in (("claim", [needs_pools]), ("snapshot", []), ("commit", []))
        ),
        ("3.1.3", "snapshot"),
        ("3.1.3", "commit"),
    ],
    indirect=["hms"],
)
def test_after_a_killed_compactor_the_next_one_continues_once_its_transaction_has_ended(
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    queue: CompactionQueue,
    table: TableRef,
    begin: Callable[..., CompactionTransaction],
    moment: str,
) -> None:
    command = [sys.executable, "-c", DYING, hms.uri, table.full_name, DAY, moment]
    ended = subprocess.run(command, cwd=Path(__file__).parents[2], check=False)
    assert ended.returncode == -signal.SIGKILL
    if client.features.has_pools:
        assert states(queue, table) == [LEFT_BEHIND[moment]]
    with pytest.raises(AlreadyCompacting), begin():
        pass

    # The first step of the next attempt of the same task; otherwise the metastore does it after
    # five minutes.
    (dead,) = abort_open_transactions(client, "dying")
    with begin() as compaction:
        finish(compaction)
    if client.features.has_pools:
        failed, done = queue.show(table)
        assert (failed.state, done.state) == ("failed", "ready for cleaning")
        assert f"transaction {dead} " in str(failed.error)


@only_hms4
def test_a_compaction_that_was_committed_and_not_marked_is_marked_by_the_next_one(
    hms: EmbeddedMetastore, client: MetastoreClient, queue: CompactionQueue, table: TableRef
) -> None:
    command = [sys.executable, "-c", DYING, hms.uri, table.full_name, DAY, "mark"]
    ended = subprocess.run(command, cwd=Path(__file__).parents[2], check=False)
    assert ended.returncode == -signal.SIGKILL
    assert states(queue, table) == ["working"]
    assert queue.live(table) == []
    (entry,) = queue.show(table)
    assert (entry.state, entry.error) == ("ready for cleaning", None)
    assert entry.txn_id is not None
    assert outcome(client, entry.txn_id, {}) is Outcome.COMMITTED


def open_txns(client: MetastoreClient) -> set[int]:
    return {txn.txn_id for txn in client.get_open_txns_info() if txn.state is TxnState.OPEN}


@only_hms4
@pytest.mark.parametrize(
    ("call", "arrives"),
    [
        *((call, True) for call in ("open_txns", "compact2", "find_next_compact2", "lock")),
        ("compact2", False),
        *(
            (call, arrives)
            for call in ("mark_compacted", "commit_txn")
            for arrives in (True, False)
        ),
    ],
)
def test_a_lost_answer_neither_loses_nor_doubles_a_compaction(
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    queue: CompactionQueue,
    table: TableRef,
    call: str,
    arrives: bool,
) -> None:
    removed: list[str] = []
    before = open_txns(client)
    proxy = Proxy(hms, call, arrives=arrives)
    far = proxy.spare(MetastoreClient(replace(client.options, uris=proxy.uri)))
    with far, CompactionTransaction(far, table, DAY, MAJOR) as compaction:
        compaction.own(lambda: removed.append("base"), "base")
        finish(compaction)
    proxy.close()
    assert proxy.cuts == 1
    assert outcome(client, compaction.txn_id, {}) is Outcome.COMMITTED
    assert states(queue, table) == ["ready for cleaning"]
    assert client.show_locks() == []
    assert removed == []
    assert open_txns(client) == before


@only_hms4
@pytest.mark.parametrize("arrives", [True, False])
def test_a_request_at_which_the_metastore_fails_is_made_again(
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    queue: CompactionQueue,
    table: TableRef,
    arrives: bool,
) -> None:
    """On MySQL and MariaDB two that are made at the same moment deadlock."""
    proxy = Proxy(hms, "compact2", arrives=arrives, harm=Harm.FAIL)
    far = proxy.spare(MetastoreClient(replace(client.options, uris=proxy.uri)))
    with far, CompactionTransaction(far, table, DAY, MAJOR) as compaction:
        finish(compaction)
    proxy.close()
    assert proxy.cuts == 1
    assert states(queue, table) == ["ready for cleaning"]


@only_hms4
@pytest.mark.parametrize("is_there", [True, False])
def test_a_compaction_without_its_directory_does_not_report_a_commit(
    hms: EmbeddedMetastore, client: MetastoreClient, table: TableRef, is_there: bool
) -> None:
    """After a long pause, its abort is forgotten, and the directory is cleaned."""
    proxy = Proxy(hms, "commit_txn")
    far = proxy.spare(MetastoreClient(replace(client.options, uris=proxy.uri)))
    told = (
        nullcontext()
        if is_there
        else pytest.raises(CommitUncertain, match="none of its directories is left")
    )
    with far, told, CompactionTransaction(far, table, DAY, MAJOR) as compaction:
        compaction.show(lambda: is_there)
        finish(compaction)
    proxy.close()
    assert proxy.cuts == 1


@only_hms4
@pytest.mark.parametrize("call", ["open_txns", "find_next_compact2", "lock"])
def test_a_question_that_never_arrives_has_the_compaction_begin_again(
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    queue: CompactionQueue,
    table: TableRef,
    call: str,
) -> None:
    proxy = Proxy(hms, call, arrives=False)
    far = proxy.spare(MetastoreClient(replace(client.options, uris=proxy.uri)))
    with far, CompactionTransaction(far, table, DAY, MAJOR, run_token="far") as compaction:
        assert find_open_transactions(client, "far") == [compaction.txn_id]
        finish(compaction)
    proxy.close()
    assert proxy.cuts == 1
    assert outcome(client, compaction.txn_id, {}) is Outcome.COMMITTED
    began = 1 if call == "open_txns" else 2
    assert states(queue, table) == ["failed", "ready for cleaning"][-began:]
    assert client.show_locks() == []


@needs_pools
@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
@pytest.mark.parametrize(
    "call",
    [
        *("open_txns", "compact2", "find_next_compact2", "lock", "get_latest_txnid_in_conflict"),
        *("get_open_txns", "get_valid_write_ids"),
    ],
)
def test_a_failure_at_any_step_leaves_nothing_that_blocks(
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    table: TableRef,
    begin: Callable[..., CompactionTransaction],
    call: str,
) -> None:
    before = open_txns(client)
    proxy = Proxy(hms, call, arrives=False, harm=Harm.FAIL, times=1000)
    far = proxy.spare(MetastoreClient(replace(client.options, uris=proxy.uri)))
    with (
        far,
        pytest.raises(MetastoreError, match=call),
        CompactionTransaction(far, table, DAY, CompactionType.REBALANCE),
    ):
        pass
    proxy.close()
    assert open_txns(client) == before
    assert client.show_locks() == []
    with begin() as again:
        finish(again)


@only_hms4
@pytest.mark.parametrize(("call", "arrives"), [("find_next_compact2", False), ("lock", True)])
def test_a_request_of_others_is_claimed_once_only(
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    queue: CompactionQueue,
    table: TableRef,
    call: str,
    arrives: bool,
) -> None:
    queue.request(table, DAY, MAJOR)
    proxy = Proxy(hms, call, arrives=arrives)
    far = proxy.spare(MetastoreClient(replace(client.options, uris=proxy.uri)))
    served = CompactionTransaction.serve(far)
    assert served is not None
    with far, served as compaction:
        finish(compaction)
    proxy.close()
    assert proxy.cuts == 1
    assert states(queue, table) == ["ready for cleaning"]


@pytest.mark.parametrize("hms", ["3.1.3", "fake 3.1.3"], indirect=True)
def test_a_compaction_without_effect_leaves_no_aborted_transaction(
    client: MetastoreClient, table: TableRef
) -> None:
    """No part of a bare metastore of version 3 removes aborted transactions, which every reader gets."""

    def described() -> CompactionTransaction:
        return CompactionTransaction(client, table, DAY, MAJOR)

    with described() as refused:
        with pytest.raises(AlreadyCompacting), described():
            pass
        refused.refuse("There is nothing to compact.")
    with pytest.raises(KeyError), described() as failed:
        raise KeyError
    first = refused.txn_id
    assert [txn for txn in client.get_open_txns_info() if txn.txn_id >= first] == []
    assert client.show_locks(table) == []
    assert [*refused.warnings, *failed.warnings] == []


@pytest.mark.parametrize("hms", ["3.1.3", "fake 3.1.3"], indirect=True)
def test_the_abort_of_a_compaction_by_others_is_no_warning(
    client: MetastoreClient, table: TableRef
) -> None:
    compaction = CompactionTransaction(client, table, DAY, MAJOR)

    def fail_after_an_abort() -> None:
        with compaction:
            client.abort_txn(compaction.txn_id)
            raise KeyError

    with pytest.raises(TransactionAborted):
        fail_after_an_abort()
    assert compaction.warnings == []
