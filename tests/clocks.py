"""Wrong clocks: of the package within a test, or of a process that is made for it.

The times of files are the kernel's, which stay right as those of a storage do, and a metastore in
another process keeps its own clock, too.
"""

import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from itertools import cycle
from random import Random
from types import SimpleNamespace
from typing import Any

_true_time = time.time
_PACKAGES = ("hiveacid", "airflow_hiveacid")
# The largest error of a clock.
DAYS = 10


class _IsTrue(type):
    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, datetime)


def set_clock(set_attribute: Callable[[Any, str, Any], None], errors: Sequence[timedelta]) -> None:
    """Give all modules of the package that are imported by now a wrong clock.

    Args:
        set_attribute: ``setattr``, or that of pytest's ``monkeypatch``, which can take it back.
        errors: How far the clock is ahead; it jumps from one to the next each time it is looked at.
    """
    turns = cycle(errors)

    def wrong_time() -> float:
        return _true_time() + next(turns).total_seconds()

    class WrongDatetime(datetime, metaclass=_IsTrue):
        def __new__(cls, *arguments: Any, **named: Any) -> Any:
            return datetime(*arguments, **named)

        @classmethod
        def now(cls, tz: Any = None) -> Any:
            now = datetime.fromtimestamp(wrong_time(), UTC)
            return now.astimezone(tz) if tz else now.astimezone().replace(tzinfo=None)

    stand_ins: list[tuple[object, object]] = [
        (datetime, WrongDatetime),
        (time, SimpleNamespace(**vars(time) | {"time": wrong_time})),
        (_true_time, wrong_time),
    ]
    for name, module in [*sys.modules.items()]:
        if name.partition(".")[0] in _PACKAGES:
            for attribute, value in [*vars(module).items()]:
                for true, wrong in stand_ins:
                    if value is true:
                        set_attribute(module, attribute, wrong)


def errors_of(seed: object) -> list[timedelta]:
    """Return the errors of the clock of one process: right, ahead, behind, or jumping."""
    dice = Random(f"clock {seed}")
    count = dice.choice([0, 1, 1, 1, 2, 3])
    return [timedelta(days=dice.uniform(-DAYS, DAYS)) for _ in range(count)]


def set_clock_of_process(seed: object) -> None:
    """Give this process a wrong clock, for as long as it lives."""
    if errors := errors_of(seed):
        set_clock(setattr, errors)
