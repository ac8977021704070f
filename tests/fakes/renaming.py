"""The objects of a table that follow it to its new name in the fake metastore."""

from hiveacid.rules.names import TableRef
from tests.fakes.compactions import Compactions
from tests.fakes.transactions import Component, Transactions


def rename_table(
    transactions: Transactions, compactions: Compactions, old: TableRef, new: TableRef
) -> None:
    """Move write ids, written tables of transactions, locks and compactions."""

    def moved(component: Component) -> Component:
        if component.place[:2] != (old.database, old.name):
            return component
        return component._replace(database=new.database, table=new.name)

    before, after = old.full_name, new.full_name
    for known in (transactions._last_write_id, transactions._writers):
        if before in known:
            known[after] = known.pop(before)
    for txn in transactions._txns.values():
        if before in txn.write_ids:
            txn.write_ids[after] = txn.write_ids.pop(before)
        txn.components = {moved(component): seen for component, seen in txn.components.items()}
    transactions._committed = [(moved(first), *rest) for first, *rest in transactions._committed]
    for lock in transactions._locks.values():
        for asked in lock.components:
            if (asked.dbname, asked.tablename) == (old.database, old.name):
                asked.dbname, asked.tablename = new.database, new.name
    for entry in compactions._entries.values():
        if entry.place[:2] == (old.database, old.name):
            entry.database, entry.table = new.database, new.name
