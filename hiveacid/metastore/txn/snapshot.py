"""Snapshot of a transaction: one list of transactions, and one list of write ids for each table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.rules.write_ids import NO_OPEN, ValidTxnList, ValidWriteIdList


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
        wanted = sorted(set(tables))
        write_ids = client.get_valid_write_ids(wanted, txns) if wanted else {}
        return cls(txns, write_ids, NO_OPEN if answer.min_open is None else answer.min_open)


def committed_above(write_ids: ValidWriteIdList, own: int) -> int | None:
    """Return the first committed write id above one's own, if any."""
    above = range(own + 1, write_ids.high_watermark + 1)
    return next((write_id for write_id in above if write_ids.is_valid(write_id)), None)
