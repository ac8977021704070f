"""Rules of the package that a driver can be made to break: for each, a scenario shows that it is necessary.

A rule is removed in the driver alone, so that others and the later attempts keep it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tests.faults.effects import LATER_ANSWERS


@dataclass(frozen=True)
class Rule:
    """A rule, the removal of which a scenario notices.

    Attributes:
        remove: Removes it from this process.
        scenario: A scenario, with "{}" for the place of its fault, which moves with the code.
        places: One of these places fails without the rule, and succeeds with it.
    """

    remove: Callable[[], None]
    scenario: str
    places: Sequence[int]

    @property
    def scenarios(self) -> list[str]:
        """The scenarios of all places."""
        return [self.scenario.format(place) for place in self.places]


def _nothing(*_: Any, **__: Any) -> None:
    """Confirm nothing."""


def _confirm_nothing() -> None:
    from hiveacid.metastore.txn.live_transaction import LiveTransaction

    LiveTransaction.confirm_alive = _nothing  # type: ignore[method-assign]


def _delete_whatever_is_hidden() -> None:
    from hiveacid.upkeep.table_cleaning import Confirmation

    Confirmation.__call__ = _nothing  # type: ignore[method-assign]


def _withdraw_whatever_is_hidden() -> None:
    from hiveacid.rules.names import REMOVAL_PREFIX
    from hiveacid.storage.staging import StagedDirectories

    is_own = StagedDirectories._is_own

    def believes(directories: StagedDirectories, path: str) -> bool:
        return REMOVAL_PREFIX in path or is_own(directories, path)

    StagedDirectories._is_own = believes  # type: ignore[method-assign]


def _list_without_hidden_files() -> None:
    from hiveacid.storage.hidden_folder import TableOfFolder

    def believes(*_: Any) -> bool:
        return False

    TableOfFolder.put_back_hidden = believes  # type: ignore[method-assign]


def _commit_mirrors_unconfirmed() -> None:
    from hiveacid.metastore.txn.transaction import Transaction

    Transaction.verify = _nothing  # type: ignore[method-assign]


def _take_an_unreadable_note_for_none() -> None:
    from hiveacid.records.proofs import RunOutcome
    from hiveacid.records.run_notes import RunNoteFolder

    RunNoteFolder._judge_by_name = lambda *_: RunOutcome.NO_EVIDENCE  # type: ignore[method-assign]


def _compare_no_definitions() -> None:
    from hiveacid.metastore import alteration as partition_alteration

    def believes(client: Any, table: Any, *_: Any) -> Any:
        return table

    partition_alteration.complete_columns = believes  # type: ignore[assignment]


_RECREATED = "its transactions expire and a table is created again"
RULES: dict[str, Rule] = {
    "a transaction is confirmed after its last read": Rule(
        _confirm_nothing,
        "4.0.1/restore of deltas/pause reading/{}/its transactions expire and all is compacted and cleaned",
        range(4, 9),
    ),
    "a cleaner confirms its table": Rule(
        _delete_whatever_is_hidden,
        f"4.0.1/cleaning/pause after an answer/{{}}/{_RECREATED}",
        range(18, 24),
    ),
    "a writer verifies what it withdraws": Rule(
        _withdraw_whatever_is_hidden,
        f"4.0.1/insert/pause twice/{{}}/{_RECREATED}",
        range(1642, 1740, LATER_ANSWERS),
    ),
    "hidden files are put back before a folder is listed": Rule(
        _list_without_hidden_files,
        "4.0.1/major compaction in the worker/pause/{}/"
        "a killed cleaning of an earlier table has hidden rows",
        range(4),
    ),
    "a mirror confirms its table before its commit": Rule(
        _commit_mirrors_unconfirmed,
        f"4.0.1/mirror/pause after an answer/{{}}/{_RECREATED}",
        range(15, 20),
    ),
    "an unreadable note is not absent": Rule(
        _take_an_unreadable_note_for_none,
        "4.0.1/insert/kill/{}/the notes of its run are damaged/kill/200",
        range(84, 90),
    ),
    "partitions are compared with their table after they were added": Rule(
        _compare_no_definitions,
        "4.0.1/add partitions/pause after an answer/{}/its transactions expire and others add a column",
        range(11, 15),
    ),
}
