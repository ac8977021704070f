"""The actions and checks on a table that tests of transactions share."""

from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.locks import Operation

SELECT, INSERT, OVERWRITE = Operation.SELECT, Operation.INSERT, Operation.OVERWRITE
UPDATE, DELETE, MERGE = Operation.UPDATE, Operation.DELETE, Operation.MERGE


def own(transaction: Transaction) -> int:
    (write_id,) = transaction.write_ids.values()
    return write_id


def run(transaction: Transaction) -> int:
    with transaction:
        transaction.commit()
    return own(transaction)
