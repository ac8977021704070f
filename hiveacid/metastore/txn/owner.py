"""Open transactions: the snapshot of them that a reader sees, and their owners."""

import os
import re
import socket
import sys
import uuid
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import AnswerLost, TransactionAborted
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import TxnInfo, TxnState, TxnType
from hiveacid.rules.names import TableRef
from hiveacid.rules.run_tokens import agent_info, transaction_host
from hiveacid.rules.write_ids import NO_OPEN, ValidTxnList, ValidWriteIdList

# Snapshot of a transaction: one list of transactions, and one list of write ids for each table


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A consistent view of several tables.

    Attributes:
        txns: The visible transactions.
        write_ids: The visible write ids, by the full name of the table.
        min_open: The smallest transaction of any kind that was open; version 4 omits read-only
            transactions from its list.
    """

    txns: ValidTxnList
    write_ids: Mapping[str, ValidWriteIdList]
    min_open: int = NO_OPEN

    @classmethod
    def take(cls, client: MetastoreClient, tables: Sequence[TableRef], txn_id: int = 0) -> Self:
        """Take a snapshot.

        Args:
            client: The metastore.
            tables: The tables that will be read or written.
            txn_id: The reading transaction. It sees its own writes and no writes of younger
                transactions; 0 sees all committed writes.
        """
        answer = client.get_open_txns()
        txns = ValidTxnList.from_open_txns(
            answer.high_watermark, answer.open_txns, answer.aborted_bits, txn_id
        )
        table_refs = sorted(set(tables))
        write_ids = client.get_valid_write_ids(table_refs, txns) if table_refs else {}
        return cls(txns, write_ids, NO_OPEN if answer.min_open is None else answer.min_open)


def committed_above(write_ids: ValidWriteIdList, own_write_id: int) -> int | None:
    """Return the first committed write id above one's own, if any."""
    later_ids = range(own_write_id + 1, write_ids.high_watermark + 1)
    return next((write_id for write_id in later_ids if write_ids.is_valid(write_id)), None)


# Owners of transactions: find and abort the transactions of a run, and query their outcome


# The metastore stores 128 characters of a host name; a nonce and a run token need the rest of them.
_LONGEST_HOST = 33
_NONCE_LENGTH = 6
_LONGEST_PROGRAM = 30
_RANDOM_LENGTH = 12


@dataclass(frozen=True, slots=True)
class Owner:
    """The identity of a transaction's owner in the metastore.

    Attributes:
        user: The user.
        host: The machine.
        agent_info: The run token, shortened if it is too long to store.
    """

    user: str
    host: str
    agent_info: str

    @classmethod
    def of(cls, run_token: str | None, user: str) -> Self:
        """Name the owner of the transactions of a run.

        Args:
            run_token: Identifies the run; by default the program, its process id, and a random
                number.
            user: The user.
        """
        return cls(
            user=user,
            host=socket.gethostname()[:_LONGEST_HOST],
            agent_info=agent_info(run_token or _program_token()),
        )


def _program_token() -> str:
    """Name a transaction of a program that has no run token: "load.py:4711:9f86d081884c"."""
    program = Path(sys.argv[0] if sys.argv else "").name
    name = re.sub(r"[^\w.+-]", "_", program)[:_LONGEST_PROGRAM].strip("-") or "python"
    return f"{name}:{os.getpid()}:{uuid.uuid4().hex[:_RANDOM_LENGTH]}"


def open_transaction(client: MetastoreClient, owner: Owner, kind: TxnType = TxnType.DEFAULT) -> int:
    """Open a transaction; abort it if the answer got lost.

    Its nonce identifies it then: other transactions of the same name may be those of a later
    attempt, or of this process.

    Args:
        client: The metastore.
        owner: The owner that the metastore displays.
        kind: The type of the transaction.

    Returns:
        Its id.

    Raises:
        AnswerLost: The transaction is unknown. A request that arrives later opens one that nobody
            keeps alive.
    """
    nonce = uuid.uuid4().hex[:_NONCE_LENGTH]
    host = transaction_host(owner.host, owner.agent_info, nonce)
    try:
        return client.open_txn(owner.user, host, owner.agent_info, kind)
    except AnswerLost:
        for txn in client.get_open_txns_info():
            if txn.host == host and txn.state is TxnState.OPEN:
                client.abort_txn(txn.txn_id)
        raise


def metastore_now(client: MetastoreClient) -> datetime:
    """Return the present time by the clock of the metastore: the begin of a new transaction."""
    txn_id = open_transaction(client, Owner.of(None, client.user))
    try:
        infos = client.get_open_txns_info()
    finally:
        client.commit_txn(txn_id)
    started = [txn.started_at for txn in infos if txn.txn_id == txn_id]
    if not started or started[0] is None:
        raise TransactionAborted(f"Transaction {txn_id} was aborted by another program.")
    return started[0]


def find_open_transactions(client: MetastoreClient, *tokens: str) -> list[int]:
    """Find the transactions of a run that are still open.

    Args:
        client: The metastore.
        tokens: The names of the run's transactions, in full; see ``Job.tokens``.

    Returns:
        Their ids, oldest first.
    """
    return sorted(
        txn.txn_id for txn in find_transactions(client, *tokens) if txn.state is TxnState.OPEN
    )


def find_transactions(client: MetastoreClient, *tokens: str) -> list[TxnInfo]:
    """Find the transactions of a run that are open, or aborted and not forgotten.

    Args:
        client: The metastore.
        tokens: The names of the run's transactions, in full.
    """
    agent_infos = {agent_info(token) for token in tokens}
    return [txn for txn in client.get_open_txns_info() if txn.token in agent_infos]


def abort_open_transactions(
    client: MetastoreClient, *tokens: str, limit_txn_id: int | None = None
) -> list[int]:
    """Abort the open transactions of a run, so that they can no longer be committed.

    Args:
        client: The metastore.
        tokens: The names of the run's transactions, in full.
        limit_txn_id: Leave this transaction and younger ones as they are.

    Returns:
        The ids of the transactions that were aborted; one that was committed at the last moment
        is not among them.
    """
    aborted_ids = []
    for txn_id in find_open_transactions(client, *tokens):
        if limit_txn_id is not None and txn_id >= limit_txn_id:
            continue
        try:
            client.abort_txn(txn_id)
        except TransactionAborted:
            continue
        aborted_ids.append(txn_id)
    return aborted_ids


class Outcome(StrEnum):
    """The outcome of a transaction."""

    OPEN = "open"
    ABORTED = "aborted"
    COMMITTED = "committed"


def outcome(client: MetastoreClient, txn_id: int, write_ids: Mapping[TableRef, int]) -> Outcome:
    """Determine the outcome of a transaction.

    Args:
        client: The metastore.
        txn_id: The transaction.
        write_ids: Its write id for each table that it writes.
    """
    txns = Snapshot.take(client, []).txns
    if txn_id in txns.open:
        return Outcome.OPEN
    if txn_id in txns.aborted:
        return Outcome.ABORTED
    # An aborted transaction may be forgotten, but the abort of its write id only together with its
    # last directory; nothing but a transaction that never registered a write is taken wrongly here.
    valid = client.get_valid_write_ids(sorted(write_ids), txns) if write_ids else {}
    # One table is sufficient: another one may be dropped by now.
    valid_flags = [valid[ref.full_name].is_valid(write_id) for ref, write_id in write_ids.items()]
    return Outcome.COMMITTED if any(valid_flags) or not valid_flags else Outcome.ABORTED
