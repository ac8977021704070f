"""Questions to a metastore about its features, which change nothing.

An empty struct as the argument of a call shows whether the metastore knows the call: its code never
runs, because a required field is unset. The server then closes the connection, so that probes have
connections of their own.
"""

import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from thrift.Thrift import TApplicationException

from hiveacid.errors import AnswerLost
from hiveacid.metastore.thrift import idl_tables, idl_txns
from hiveacid.metastore.thrift.idl import Call, ServerException
from hiveacid.metastore.thrift.transport import Connection, Deadline
from hiveacid.rules.locks import DataOperation, LockLevel, LockType

# The calls of a worker of the queue; the one that claims is asked in another way.
_CALLS = {
    "takes_requests": idl_tables.create_table_req,
    "checks_definitions": idl_tables.translate_table_dryrun,
    "returns_all_constraints": idl_tables.get_all_table_constraints,
    "versions_definitions": idl_tables.alter_table_req,
    "batches_write_events": idl_txns.add_write_notification_log_in_batch,
    "refuses_requests": idl_txns.mark_refused,
}
_TRIES = 4
_DATABASE, _PARTITION = "hiveacid_probe", "ds=Ab"


class Probes:
    """The questions to one metastore, each of which is asked once.

    Args:
        connect: Opens a connection.
        deadline: The time limit for all questions.
        user: The owner of the lock that is taken for a moment.
    """

    def __init__(
        self, connect: Callable[[Deadline], Connection], deadline: Deadline, user: str
    ) -> None:
        self._connect = connect
        self._deadline = deadline
        self._user = user
        self._connection: Connection | None = None

    def features(self) -> dict[str, bool]:
        """Return the probed features; 12 calls.

        Raises:
            AnswerLost: The metastore does not answer.
        """
        try:
            newest = self._knows(idl_txns.add_write_ids_to_min_history, 0, {})
            # Without an argument it claims nothing.
            claims = self._knows(idl_txns.find_next_compact2)
            probed_features = dict(self._locks())
            probed_features |= {
                name: self._knows(call, _empty(call)) for name, call in _CALLS.items()
            }
            reports = idl_txns.update_compactor_state
            probed_features["has_queue"] = claims and self._knows(reports, _empty(reports))
            # Each vendor got them before this call.
            probed_features |= dict.fromkeys(
                ("has_pools", "rebalances"), newest and probed_features["has_queue"]
            )
            return probed_features
        finally:
            self._close()

    def _locks(self) -> Iterator[tuple[str, bool]]:
        """Take a lock on a name that does not exist, by a type and with a name that Hive 3.1 changes."""
        table = f"t{uuid.uuid4().hex}"
        component = idl_txns.LockComponent(
            type=int(LockType.EXCL_WRITE),
            level=int(LockLevel.PARTITION),
            dbname=_DATABASE,
            tablename=table,
            partitionname=_PARTITION,
            operationType=int(DataOperation.NO_TXN),
            isTransactional=False,
        )
        request = idl_txns.LockRequest(component=[component], user=self._user, hostname=_DATABASE)
        self._knows(idl_txns.lock, request)
        # The answer may have been lost: the lock is held or not.
        mine = idl_txns.ShowLocksRequest(dbname=_DATABASE, tablename=table)
        locks = self._surely(idl_txns.show_locks, mine).locks or ()
        for lock in locks:
            with suppress(ServerException):  # It has ended.
                self._surely(idl_txns.unlock, idl_txns.UnlockRequest(lockid=lock.lockid))
        yield "has_excl_write", any(lock.type == LockType.EXCL_WRITE for lock in locks)
        yield "keeps_case_of_partitions", any(lock.partname == _PARTITION for lock in locks)

    def _knows(self, call: Call, *arguments: Any) -> bool:
        """Return whether the metastore knows a call, with any answer; without an answer, not."""
        for _ in range(2):
            with suppress(AnswerLost):
                try:
                    self._call(call, *arguments)
                except TApplicationException as failure:
                    if failure.type == TApplicationException.UNKNOWN_METHOD:
                        return False
                    # After any other failure the metastore closes the connection.
                    self._close()
                except ServerException:
                    pass
                except AnswerLost as lost:
                    if not lost.garbled:
                        raise
                return True
        return False

    def _surely(self, call: Call, *arguments: Any) -> Any:
        """Repeat a call that may be repeated, so that no lock is left because an answer was lost."""
        for _ in range(_TRIES - 1):
            with suppress(AnswerLost, TApplicationException):
                return self._call(call, *arguments)
            self._close()
        return self._call(call, *arguments)

    def _call(self, call: Call, *arguments: Any) -> Any:
        if self._connection is None or not self._connection.is_open():
            self._connection = self._connect(self._deadline)
        try:
            return self._connection.invoke(call, *arguments, deadline=self._deadline)
        except AnswerLost:
            self._close()
            raise

    def _close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


def _empty(call: Call) -> Any:
    """Return the struct of a call's first argument without any field."""
    _, _, _, (struct, _), _ = call.arguments.thrift_spec[1]
    return struct()
