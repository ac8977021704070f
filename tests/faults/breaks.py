"""Rules of the package that a driver can be made to break: for each, a scenario shows that it is necessary.

A rule is removed in the driver alone, so that others and the later attempts keep it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Rule:
    """A rule, the removal of which a scenario notices.

    Attributes:
        remove: Removes it from this process.
        scenario: A scenario that fails without the rule, and succeeds with it.
    """

    remove: Callable[[], None]
    scenario: str


def _nothing(*_: Any, **__: Any) -> None:
    """Confirm nothing."""


def _confirm_nothing() -> None:
    from airflow_hiveacid.metastore.txn.live_transaction import LiveTransaction

    LiveTransaction.confirm_alive = _nothing  # type: ignore[method-assign]


def _clean_any_table() -> None:
    from airflow_hiveacid.maintenance import table_cleaning

    _confirm_nothing()
    table_cleaning.require_same_table = lambda client, table, *_: table  # type: ignore[assignment]


_RECREATED = "its transactions expire and a table is created again"
RULES: dict[str, Rule] = {
    "a transaction is confirmed after its last read": Rule(
        _confirm_nothing,
        "4.0.1/restore of deltas/pause reading/4/its transactions expire and all is compacted and cleaned",
    ),
    "a cleaner confirms its lock and its table": Rule(
        _clean_any_table, f"4.0.1/cleaning/pause/3/{_RECREATED}"
    ),
}
