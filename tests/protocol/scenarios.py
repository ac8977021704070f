"""The models that are searched: all states of small ones by `make test`, of large ones by `make protocol`."""

from dataclasses import replace

from tests.protocol.cleaner import Cleaner
from tests.protocol.compactor import Compactor
from tests.protocol.metastore import Version
from tests.protocol.reader import Reader
from tests.protocol.roles import Model, Role
from tests.protocol.writer import Writer


def _append(run: int, policy: str = "hive") -> Writer:
    return Writer(run, 10 + run, changes=False, policy=policy)


_ROLES: dict[str, tuple[Role, ...]] = {
    "two changes": (Writer(1, 1), Writer(2, 1)),
    "two changes, strict": (Writer(1, 1, policy="strict"), Writer(2, 1, policy="strict")),
    "two changes, rows": (Writer(1, 1, policy="rows"), Writer(2, 1, policy="rows")),
    "changes of two rows, rows": (Writer(1, 1, policy="rows"), Writer(2, 2, policy="rows")),
    "a change with rows, one with hive": (Writer(1, 1, policy="rows"), Writer(2, 1)),
    "two appends, strict": (_append(1, "strict"), _append(2, "strict")),
    "an append and a change, strict": (_append(1, "strict"), Writer(2, 1, policy="strict")),
    "two tries of an append": (_append(1), _append(1)),
    "two tries of a change": (Writer(1, 1), Writer(1, 1)),
    "a major compaction, a cleaning, a reader": (Compactor(), Cleaner(), Reader()),
    "a change, a major compaction, a cleaning": (Writer(1, 1), Compactor(), Cleaner()),
    "an append, a minor compaction, a cleaning": (_append(1), Compactor(major=False), Cleaner()),
    "two tries, a cleaning": (_append(1), _append(1), Cleaner()),
    "two compactions, a cleaning": (Compactor(), Compactor(major=False), Cleaner()),
    "all": (Writer(1, 1), _append(2), Compactor(), Cleaner(), Reader()),
}
# With so many faults, these take some seconds together.
_SMALL = {
    "two changes": 0,
    "two changes, strict": 0,
    "two changes, rows": 0,
    "a change with rows, one with hive": 0,
    "two appends, strict": 0,
    "an append and a change, strict": 0,
    "two tries of an append": 1,
    "a major compaction, a cleaning, a reader": 0,
    "two compactions, a cleaning": 0,
}


def models(names: dict[str, int]) -> dict[str, Model]:
    """Models with so many faults each, for both versions."""
    return {
        f"{name}, {faults} faults, {version.name}": Model(_ROLES[name], version, faults)
        for name, faults in names.items()
        for version in Version
    }


SMALL = models(_SMALL)
LARGE = models(dict.fromkeys(_ROLES, 1))
# The replayed scenarios: all actors at once with two faults, and the actions within some of them.
REPLAYED = [
    replace(Model(_ROLES[name]), version=version, faults=2)
    for name in ("all", "two tries of an append", "an append and a change, strict")
    for version in Version
]
