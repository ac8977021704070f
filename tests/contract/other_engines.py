"""A writer that knows nothing of our queue, as those of Hive do."""

from collections.abc import Sequence

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift.answers import LockState
from hiveacid.rules.locks import Operation, lock_components
from hiveacid.rules.names import TableRef


class OtherEngine:
    """One transaction, from its lock to its commit.

    Attributes:
        txn_id: The transaction.
        write_id: Its write id for the table.
    """

    def __init__(
        self,
        client: MetastoreClient,
        ref: TableRef,
        operation: Operation,
        partitions: Sequence[str] | None = None,
    ) -> None:
        self._client = client
        self.txn_id = client.open_txn("hive", "host", None)
        self.write_id = client.allocate_write_id(self.txn_id, ref)
        wanted = lock_components(
            client.features.has_excl_write, operation, ref, bool(partitions), partitions
        )
        answer = client.lock(wanted, self.txn_id, "hive", "host", None)
        assert answer.state is LockState.ACQUIRED

    def commit(self) -> int:
        """Commit it; return its write id."""
        self._client.commit_txn(self.txn_id)
        return self.write_id
