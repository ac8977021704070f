"""Known problems of Hive Metastore releases, and whether a metastore has them.

Each check states its evidence. The protocol of the metastore shows the queue, the transactions and
some settings of the instance that answers, but neither the rows of its database nor the settings of
other instances: where these decide, the result is that it cannot be determined.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Self

from hiveacid.errors import MetastoreCallFailed
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import (
    READY_FOR_CLEANING,
    CompactionQueue,
    QueuedCompaction,
)
from hiveacid.rules.metastore_version import BUNDLED, MetastoreVersion

INITIATOR_ON = "metastore.compactor.initiator.on"
CLEANER_ON = "metastore.compactor.cleaner.on"
HOUSEKEEPING_ON = "metastore.housekeeping.threads.on"
FETCH_SIZE = "metastore.compactor.fetch.size"
MIN_HISTORY_LEVEL = "metastore.txn.use.minhistorylevel"
MIN_HISTORY_WRITE_ID = "metastore.txn.use.minhistorywriteid"
_SETTINGS = (
    *(INITIATOR_ON, CLEANER_ON, HOUSEKEEPING_ON),
    *(FETCH_SIZE, MIN_HISTORY_LEVEL, MIN_HISTORY_WRITE_ID),
    BUNDLED,
)
_TITLES = {
    "HIVE-26704": "an open transaction blocks Hive's cleaner for all tables",
    "HIVE-25503": "duplicates in the metastore's database slow down commits",
    "HIVE-27075": "duplicates are removed only with Hive's compactor",
    "HIVE-24291": "Hive's cleaner removes files that are still read",
    "HIVE-30026": "Hive's initiator never examines some tables",
}
# The fix of HIVE-30026 is younger than these releases. Of later ones nothing is known.
_NEWEST_KNOWN = (4, 2)
_UNKNOWN = "unknown"
_NOT_RUNNING = "The bundled metastore runs neither Hive's initiator nor its cleaner."
# Hive's cleaner runs every few seconds; a shorter wait is no sign of a problem.
_LONG = timedelta(minutes=10)


class Verdict(StrEnum):
    """Result of a check.

    Attributes:
        ABSENT: The metastore does not have the problem, or it has no effect now.
        PRESENT: The metastore has the problem.
        UNDETERMINED: The evidence does not decide.
    """

    ABSENT = "absent"
    PRESENT = "present"
    UNDETERMINED = "undetermined"


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of the check for a problem.

    Attributes:
        problem: The number of the problem in Hive's tracker.
        verdict: The result.
        evidence: The reason for the result.
        remedy: The suggested action; empty if none is needed.
    """

    problem: str
    verdict: Verdict
    evidence: str
    remedy: str = ""

    @property
    def title(self) -> str:
        """The problem in a few words."""
        return _TITLES[self.problem]


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Observable state of a metastore.

    Attributes:
        version: The generation of the metastore.
        release: The release that the metastore states.
        settings: The settings of the instance that answered; unknown ones are missing.
        queue: All compaction requests.
        min_open: The oldest open transaction, if any.
        now: The time, with its zone.
    """

    now: datetime
    version: MetastoreVersion
    release: str = _UNKNOWN
    settings: Mapping[str, str]
    queue: Sequence[QueuedCompaction] = ()
    min_open: int | None = None

    @classmethod
    def of(cls, client: MetastoreClient) -> Self:
        """Collect the evidence.

        Args:
            client: The metastore, which is called ten times.

        Raises:
            MetastoreError: The metastore does not answer.
        """
        # The queue is read first: a transaction that is older than a compaction is open by then.
        queue = CompactionQueue(client).show()
        return cls(
            now=datetime.now(UTC),
            version=client.version,
            release=_release(client),
            settings={name: value for name in _SETTINGS if (value := _setting(client, name))},
            queue=queue,
            min_open=client.get_open_txns().min_open,
        )

    @property
    def numbers(self) -> tuple[int, int] | None:
        """The first two numbers of the release of version 4, if it states them."""
        found = re.match(r"(\d{1,4})\.(\d{1,4})", self.release)
        if found is None or self.version is MetastoreVersion.HMS3:
            return None
        return int(found[1]), int(found[2])

    def is_on(self, setting: str) -> bool | None:
        """Whether a setting is true; None if it is unknown."""
        return {"true": True, "false": False}.get(self.settings.get(setting, "").lower())

    def shown(self, *names: str) -> str:
        """Return settings in words."""
        return ", ".join(f"{name}={self.settings.get(name, _UNKNOWN)}" for name in names)


def known_problems(evidence: Evidence) -> list[Finding]:
    """Check a metastore for all known problems.

    Args:
        evidence: The observable state of the metastore.
    """
    return [check(evidence) for check in _CHECKS]


def _blocked_cleaner(evidence: Evidence) -> Finding:
    """One open transaction keeps Hive's cleaner from cleaning any table."""
    problem = "HIVE-26704"
    if evidence.version is MetastoreVersion.HMS3:
        return Finding(
            problem,
            Verdict.ABSENT,
            "Hive's cleaner of version 3 waits for locks on the table to be cleaned only.",
        )
    blocked = [
        entry
        for entry in evidence.queue
        if entry.state == READY_FOR_CLEANING
        and entry.next_txn_id is not None
        and evidence.min_open is not None
        and evidence.min_open < entry.next_txn_id
        and (entry.committed_at is None or evidence.now - entry.committed_at > _LONG)
    ]
    setting, per_table = evidence.shown(MIN_HISTORY_WRITE_ID), evidence.is_on(MIN_HISTORY_WRITE_ID)
    if not blocked:
        return Finding(
            problem,
            Verdict.ABSENT,
            f"No request has waited long for an open transaction; {setting}.",
        )
    tables = len({entry.table for entry in blocked})
    state = (
        f"{len(blocked)} requests of {tables} tables are ready for cleaning, and their compactions are "
        f"younger than the open transaction {evidence.min_open}; {setting}."
    )
    remedy = (
        f"End transaction {evidence.min_open} (hiveacid txns list shows its owner, unless it only "
        f"reads), or set {MIN_HISTORY_WRITE_ID}=true on all instances."
    )
    if per_table is False:
        return Finding(problem, Verdict.PRESENT, state, remedy)
    why = "The setting is unknown." if per_table is None else "It may use these tables."
    return Finding(problem, Verdict.UNDETERMINED, f"{state} {why}", remedy)


def _duplicate_components(evidence: Evidence) -> Finding:
    """Duplicates in COMPLETED_TXN_COMPONENTS are never removed."""
    problem = "HIVE-25503"
    if evidence.version is MetastoreVersion.HMS3:
        return Finding(
            problem,
            Verdict.PRESENT,
            "Version 3 never removes duplicates from COMPLETED_TXN_COMPONENTS; the number of its rows "
            "cannot be determined by calls.",
            "Count them in the metastore's database: SELECT COUNT(*) FROM COMPLETED_TXN_COMPONENTS. "
            "Version 4 removes them.",
        )
    return Finding(
        problem,
        Verdict.ABSENT,
        f"Release {evidence.release} contains the removal of duplicates; HIVE-27075 decides whether "
        "it runs.",
    )


def _cleanup_without_compactor(evidence: Evidence) -> Finding:
    """Duplicates are removed only by an instance with Hive's compactor."""
    problem = "HIVE-27075"
    if evidence.version is MetastoreVersion.HMS3:
        return Finding(
            problem, Verdict.ABSENT, "Version 3 has no removal of duplicates, see HIVE-25503."
        )
    settings = evidence.shown(HOUSEKEEPING_ON, INITIATOR_ON, CLEANER_ON)
    compactor = [evidence.is_on(INITIATOR_ON), evidence.is_on(CLEANER_ON)]
    if evidence.is_on(HOUSEKEEPING_ON) and True in compactor:
        return Finding(
            problem,
            Verdict.ABSENT,
            f"This instance removes duplicates, as its settings are {settings}.",
        )
    if evidence.is_on(BUNDLED):
        return Finding(
            problem,
            Verdict.ABSENT,
            "The bundled metastore does not remove duplicates from COMPLETED_TXN_COMPONENTS, of which "
            "experiments write few.",
        )
    return Finding(
        problem,
        Verdict.UNDETERMINED,
        f"This instance does not remove duplicates from COMPLETED_TXN_COMPONENTS ({settings}); another "
        "one may.",
        f"On one instance set {HOUSEKEEPING_ON}=true and {CLEANER_ON}=true.",
    )


def _early_cleaning(evidence: Evidence) -> Finding:
    """Hive's cleaner removes files that open transactions still read."""
    problem = "HIVE-24291"
    if evidence.version is MetastoreVersion.HMS3:
        on = evidence.is_on(INITIATOR_ON)
        settings = evidence.shown(INITIATOR_ON)
        if on is False and evidence.is_on(BUNDLED):
            return Finding(problem, Verdict.ABSENT, _NOT_RUNNING)
        return Finding(
            problem,
            Verdict.PRESENT if on else Verdict.UNDETERMINED,
            "Hive's cleaner of version 3 respects locks but no open transactions; "
            + (
                f"it runs on this instance ({settings})."
                if on
                else f"whether another instance runs it cannot be determined ({settings} on this one)."
            ),
            f"Set {INITIATOR_ON}=false on all instances, and compact and clean by this package.",
        )
    settings = evidence.shown(MIN_HISTORY_LEVEL)
    on = evidence.is_on(MIN_HISTORY_LEVEL)
    if on:
        return Finding(
            problem,
            Verdict.ABSENT,
            f"Release {evidence.release} waits for older transactions; {settings}.",
        )
    is_4_0 = evidence.numbers == (4, 0)
    return Finding(
        problem,
        Verdict.PRESENT if on is False and is_4_0 else Verdict.UNDETERMINED,
        f"Release {evidence.release} waits for older transactions, but with {MIN_HISTORY_LEVEL}=false "
        f"release 4.0 overlooks one that began right before a compaction committed; {settings}.",
        f"Set {MIN_HISTORY_LEVEL}=true on all instances.",
    )


def _starving_tables(evidence: Evidence) -> Finding:
    """Hive's initiator examines a limited number of candidates in no order."""
    problem = "HIVE-30026"
    if evidence.version is MetastoreVersion.HMS3:
        return Finding(
            problem, Verdict.ABSENT, "Version 3 does not limit the number of candidates."
        )
    if evidence.is_on(INITIATOR_ON) is False and evidence.is_on(BUNDLED):
        return Finding(problem, Verdict.ABSENT, _NOT_RUNNING)
    settings = evidence.shown(INITIATOR_ON, FETCH_SIZE)
    numbers = evidence.numbers
    if numbers is None or numbers > _NEWEST_KNOWN:
        what = f"Whether release {evidence.release} has the fix is unknown; {settings}."
    elif evidence.is_on(INITIATOR_ON):
        what = (
            f"Release {evidence.release} is older than the fix, and Hive's initiator runs on this "
            f"instance ({settings}). It has an effect if more partitions than that are written between "
            "compactions, whose number cannot be determined by calls."
        )
    else:
        what = (
            f"Release {evidence.release} is older than the fix, which matters if another instance runs "
            f"Hive's initiator; on this instance {settings}."
        )
    return Finding(
        problem,
        Verdict.UNDETERMINED,
        what,
        f"Compact by this package, which surveys all tables, or increase {FETCH_SIZE} (5000 at most).",
    )


_CHECKS: Sequence[Callable[[Evidence], Finding]] = (
    _blocked_cleaner,
    _duplicate_components,
    _cleanup_without_compactor,
    _early_cleaning,
    _starving_tables,
)


def _release(client: MetastoreClient) -> str:
    try:
        return client.release()
    except MetastoreCallFailed:
        return _UNKNOWN


def _setting(client: MetastoreClient, name: str) -> str:
    try:
        return client.config_value(name, "")
    except MetastoreCallFailed:
        return ""
