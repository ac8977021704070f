"""Known problems of Hive, and whether a metastore has them.

The problems are in `known_problems.toml`; this module evaluates their conditions. Each result states its
evidence. The protocol of the metastore shows the queue, the transactions and some settings of the
instance that answers, but neither the rows of its database nor the settings of other instances: where
these decide, the result is that it cannot be determined.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import cache
from importlib.resources import files
from typing import Any, Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import MetastoreCallFailed, UserError
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.compactions import (
    READY_FOR_CLEANING,
    CompactionQueue,
    QueuedCompaction,
)
from hiveacid.rules.metastore_version import BUNDLED, MetastoreVersion
from hiveacid.rules.names import TableRef
from hiveacid.rules.texts import plural, printable

_DATA = "known_problems.toml"
_UNKNOWN = "unknown"
NOT_KNOWN = "not known"
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
        title: The problem in a few words.
        verdict: The result.
        evidence: The reason for the result.
        remedy: The suggested action; empty if none is needed.
    """

    problem: str
    title: str
    verdict: Verdict
    evidence: str
    remedy: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Observable state of a metastore.

    Attributes:
        version: The generation of the metastore.
        release: The release that the metastore states.
        settings: The settings of the instance that answered; unknown ones are missing.
        queue: All compaction requests.
        min_open: The oldest open transaction, if any.
        properties: The names of the properties that any database has.
        refusal: The text with which the metastore refuses the definition of a transactional table.
        now: The time, with its zone.
    """

    now: datetime
    version: MetastoreVersion
    release: str = _UNKNOWN
    settings: Mapping[str, str]
    queue: Sequence[QueuedCompaction] = ()
    min_open: int | None = None
    properties: frozenset[str] = frozenset()
    refusal: str = ""

    @classmethod
    def of(cls, client: MetastoreClient) -> Self:
        """Collect the evidence.

        Args:
            client: The metastore, which is called once for each database and for each setting.

        Raises:
            MetastoreError: The metastore does not answer.
        """
        # The queue is read first: a transaction that is older than a compaction is open by then.
        queue = CompactionQueue(client).show()
        return cls(
            now=datetime.now(UTC),
            version=client.version,
            release=_release(client),
            settings={name: value for name in _settings() if (value := _setting(client, name))},
            queue=queue,
            min_open=client.get_open_txns().min_open,
            properties=frozenset(_properties(client)),
            refusal=_refusal(client),
        )

    @property
    def numbers(self) -> tuple[int, ...] | None:
        """The numbers of the release; of version 3, which states another one, only the first."""
        if self.version is MetastoreVersion.HMS3:
            return (self.version,)
        match = re.match(r"\d{1,4}(\.\d{1,4}){1,2}", self.release)
        numbers = _numbers(match[0]) if match else None
        # A vendor's release may state a number of version 3, and have the calls of version 4.
        return numbers if numbers and numbers[0] >= self.version else None

    def is_on(self, setting: str) -> bool | None:
        """Whether a setting is true; None if it is unknown."""
        return {"true": True, "false": False}.get(self.settings.get(setting, "").lower())

    def has(self, setting: str, value: str) -> bool:
        """Whether a setting is known to have a value."""
        return self.settings.get(setting, "").lower() == value

    def shown(self, setting: str) -> str:
        """Return a setting in words."""
        return f"{setting}={self.settings.get(setting, _UNKNOWN)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """A problem of Hive in some releases; `known_problems.toml` describes the attributes."""

    ticket: str
    title: str
    fixed: str
    source: str
    effect: str
    remedy: str
    first: str = ""
    last: str = ""
    conditions: Sequence[Mapping[str, Any]] = ()

    def in_release(self, evidence: Evidence) -> tuple[Verdict, str]:
        """Return whether the release has the problem, and the reason."""
        numbers, release = evidence.numbers, evidence.release
        if not self.first:
            return Verdict.PRESENT, ""
        first, last = _numbers(self.first), _numbers(self.last)
        if numbers is None:
            # Only the generation is known.
            if last and last[0] < evidence.version:
                return Verdict.ABSENT, f"No later version than {self.last} has the problem."
        elif numbers < first:
            return Verdict.ABSENT, f"The problem begins with version {self.first}."
        elif self.fixed != NOT_KNOWN and numbers >= _numbers(self.fixed):
            return (
                Verdict.ABSENT,
                f"Release {release} has the fix, which version {self.fixed} began with.",
            )
        elif numbers[: len(last)] <= last or not last:
            return Verdict.PRESENT, f"Release {release} has the problem."
        return Verdict.UNDETERMINED, f"Whether release {release} has the problem is unknown."

    def find(self, evidence: Evidence) -> Finding:
        """Check a metastore for the problem."""
        states = [self.in_release(evidence)]
        if states[0][0] is not Verdict.ABSENT:
            states += [_state(condition, evidence) for condition in self.conditions]
        against = [state for state in states if state[0] is Verdict.ABSENT]
        if against:
            return Finding(self.ticket, self.title, *against[0])
        certain = all(verdict is Verdict.PRESENT for verdict, _ in states)
        reasons = [reason for _, reason in states if reason]
        return Finding(
            self.ticket,
            self.title,
            Verdict.PRESENT if certain else Verdict.UNDETERMINED,
            " ".join([*reasons, self.effect]),
            self.remedy.replace("{min_open}", str(evidence.min_open)),
        )


@cache
def problems() -> tuple[Problem, ...]:
    """Return all known problems."""
    text = files("hiveacid.upkeep").joinpath(_DATA).read_text(encoding="utf-8")
    return tuple(Problem(**entry) for entry in tomllib.loads(text)["problems"])


def known_problems(evidence: Evidence) -> list[Finding]:
    """Check a metastore for all known problems.

    Args:
        evidence: The observable state of the metastore.
    """
    by_ticket: dict[str, Problem] = {}
    for problem in problems():
        if problem.ticket not in by_ticket or problem.in_release(evidence)[0] is not Verdict.ABSENT:
            by_ticket[problem.ticket] = problem
    return [problem.find(evidence) for problem in by_ticket.values()]


def _state(condition: Mapping[str, Any], evidence: Evidence) -> tuple[Verdict, str]:
    """Return whether a condition holds, and the reason."""
    match condition:
        case {"setting": str(name), "value": str(value)}:
            return _setting_state(evidence, name, value, elsewhere="elsewhere" in condition)
        case {"avoided_by": [*sets]}:
            return _avoided_state(evidence, sets)
        case {"queue": "waits for a transaction"}:
            return _queue_state(evidence)
        case {"property": str(name)}:
            if name in evidence.properties:
                return Verdict.PRESENT, f"A database has the property {name}."
            return Verdict.ABSENT, f"No database has the property {name}."
        case {"refused": str(text)}:
            if text in evidence.refusal:
                return Verdict.PRESENT, f"The metastore answers: {printable(evidence.refusal)}."
            return Verdict.ABSENT, "The metastore accepts definitions of transactional tables."
        case {"unobservable": str(sentence)}:
            return Verdict.UNDETERMINED, sentence
    raise ValueError(f"{_DATA} has an unknown condition: {condition}")


def _setting_state(
    evidence: Evidence, name: str, value: str, *, elsewhere: bool
) -> tuple[Verdict, str]:
    setting = evidence.shown(name)
    if evidence.has(name, value):
        return Verdict.PRESENT, f"On this instance {setting}."
    if elsewhere and evidence.is_on(BUNDLED):
        return Verdict.ABSENT, f"The bundled metastore has no other instance, and {setting}."
    if elsewhere:
        return Verdict.UNDETERMINED, f"On this instance {setting}; others may have {name}={value}."
    is_set = name in evidence.settings
    return Verdict.ABSENT if is_set else Verdict.UNDETERMINED, f"On this instance {setting}."


def _avoided_state(evidence: Evidence, sets: Sequence[Mapping[str, str]]) -> tuple[Verdict, str]:
    for settings in sets:
        if all(evidence.has(*setting) for setting in settings.items()):
            return Verdict.ABSENT, f"On this instance {', '.join(map(evidence.shown, settings))}."
    if evidence.is_on(BUNDLED):
        return (
            Verdict.ABSENT,
            "Experiments with the bundled metastore are too small to be affected.",
        )
    names = dict.fromkeys(name for settings in sets for name in settings)
    shown = ", ".join(map(evidence.shown, names))
    return Verdict.UNDETERMINED, f"On this instance {shown}; another one may avoid the problem."


def _queue_state(evidence: Evidence) -> tuple[Verdict, str]:
    blocked = [
        entry
        for entry in evidence.queue
        if entry.state == READY_FOR_CLEANING
        and entry.next_txn_id is not None
        and evidence.min_open is not None
        and evidence.min_open < entry.next_txn_id
        and (entry.committed_at is None or evidence.now - entry.committed_at > _LONG)
    ]
    if not blocked:
        return Verdict.ABSENT, "No request has waited long for an open transaction."
    tables = len({entry.table for entry in blocked})
    return Verdict.PRESENT, (
        f"{plural(len(blocked), 'request')} of {plural(tables, 'table')} wait for cleaning, and their "
        f"compactions are younger than the open transaction {evidence.min_open}."
    )


def _settings() -> Iterator[str]:
    """Yield the names of the settings that conditions contain."""
    yield BUNDLED
    conditions = [condition for problem in problems() for condition in problem.conditions]
    names = [condition["setting"] for condition in conditions if "setting" in condition]
    for condition in conditions:
        for settings in condition.get("avoided_by", ()):
            names += settings
    yield from dict.fromkeys(names)


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split("."))) if release else ()


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


def _properties(client: MetastoreClient) -> Iterator[str]:
    for name in client.get_databases():
        # Another process may drop it meanwhile, and this user may lack the right to read it.
        with suppress(MetastoreCallFailed, UserError):
            yield from client.get_database(name).parameters


def _refusal(client: MetastoreClient) -> str:
    """Return the metastore's objection to a transactional table, which is not created."""
    if not client.features.checks_definitions:
        return ""
    ref = TableRef("default", "hiveacid_doctor")
    try:
        client.check_definition(HiveTable.new(ref, [HiveColumn("id", "int")]))
    except MetastoreCallFailed as error:
        return error.what
    return ""
