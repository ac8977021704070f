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


def _delete_whatever_is_hidden() -> None:
    from airflow_hiveacid.maintenance.table_cleaning import _Cleaner

    _Cleaner._verify = _nothing  # type: ignore[method-assign]


def _withdraw_whatever_is_hidden() -> None:
    from airflow_hiveacid.acid.names import REMOVAL_PREFIX
    from airflow_hiveacid.staging.staged_directories import StagedDirectories

    is_own = StagedDirectories._is_own

    def believes(directories: StagedDirectories, path: str) -> bool:
        return REMOVAL_PREFIX in path or is_own(directories, path)

    StagedDirectories._is_own = believes  # type: ignore[method-assign]


_RECREATED = "its transactions expire and a table is created again"
RULES: dict[str, Rule] = {
    "a transaction is confirmed after its last read": Rule(
        _confirm_nothing,
        "4.0.1/restore of deltas/pause reading/4/its transactions expire and all is compacted and cleaned",
    ),
    "a cleaner verifies what it has hidden": Rule(
        _delete_whatever_is_hidden, f"4.0.1/cleaning/pause after an answer/46/{_RECREATED}"
    ),
    "a writer verifies what it withdraws": Rule(
        _withdraw_whatever_is_hidden, f"4.0.1/insert/pause twice/2009/{_RECREATED}"
    ),
}
