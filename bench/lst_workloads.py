"""The workloads of LST-Bench as lists of phases, and its degradation rate.

See "LST-Bench: Benchmarking Log-Structured Tables in the Cloud", SIGMOD 2024, arXiv 2305.01120.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

Figures = dict[str, float]
# By phase and engine.
Measured = dict[str, dict[str, Figures]]


@dataclass(frozen=True, kw_only=True)
class Phase:
    """The work of an engine until the next phase begins.

    Attributes:
        name: Its name in the results.
        load: It fills the empty tables.
        queries: It runs all queries once: the single user.
        executions: The number of executions of the data maintenance.
        optimize: It compacts the tables.
        as_of: The phase after which the version of the queries was current; None is the newest.
    """

    name: str
    load: bool = False
    queries: bool = False
    executions: int = 0
    optimize: bool = False
    as_of: str | None = None

    @property
    def kind(self) -> str:
        """The name without numbers."""
        return re.sub(r"\d+", "", self.name)

    @property
    def concurrent(self) -> bool:
        """Whether the queries run beside changes."""
        return self.queries and (self.executions > 0 or self.optimize)

    @property
    def changes(self) -> bool:
        """Whether other files may be current afterwards."""
        return self.load or self.executions > 0 or self.optimize


LOAD = Phase(name="load", load=True)


def longevity(rounds: int, executions: int) -> list[Phase]:
    """wp1: data maintenance without end, and queries after each part of it."""
    phases = [LOAD, Phase(name="SU1", queries=True)]
    for number in range(1, rounds + 1):
        phases.append(Phase(name=f"DM{number}", executions=executions))
        phases.append(Phase(name=f"SU{number + 1}", queries=True))
    return phases


def resilience(rounds: int, executions: int) -> list[Phase]:
    """wp2: more data maintenance in each round, and queries before and after optimizing."""
    phases = [LOAD, Phase(name="SU1", queries=True)]
    for number in range(1, rounds + 1):
        phases.append(Phase(name=f"DM{number}", executions=number * executions))
        phases.append(Phase(name=f"SU{number + 1}", queries=True))
        phases.append(Phase(name=f"OPT{number}", optimize=True))
        phases.append(Phase(name=f"SU{number + 1}o", queries=True))
    return phases


def concurrency(rounds: int, executions: int) -> list[Phase]:
    """wp3: the same with queries beside data maintenance and beside optimizing."""
    phases = [LOAD]
    for number in range(1, rounds + 1):
        reads = f"SU{number}" if number == 1 else f"SU{number}o"
        phases.append(
            Phase(name=f"{reads}+DM{number}", queries=True, executions=number * executions)
        )
        phases.append(Phase(name=f"SU{number + 1}+OPT{number}", queries=True, optimize=True))
    return phases


def time_travel(rounds: int, executions: int) -> list[Phase]:
    """wp4: queries of the version before the last data maintenance, and of the first one."""
    phases = [LOAD, Phase(name="SU1", queries=True)]
    before = LOAD.name
    for number in range(1, rounds + 1):
        phases.append(Phase(name=f"DM{number}", executions=executions))
        for version in dict.fromkeys((before, LOAD.name)):
            name = f"SU{number + 1}@{version}"
            phases.append(Phase(name=name, queries=True, as_of=version))
        before = f"DM{number}"
    return phases


# With the number of rounds in LST-Bench.
WORKLOADS: dict[str, tuple[Callable[[int, int], list[Phase]], int]] = {
    "wp1": (longevity, 5),
    "wp2": (resilience, 3),
    "wp3": (concurrency, 3),
    "wp4": (time_travel, 4),
}


def phases_of(pack: str, rounds: int, executions: int) -> list[Phase]:
    """The phases of a workload, with at most the rounds of LST-Bench."""
    make, most = WORKLOADS[pack]
    return make(min(rounds, most), executions)


def degradation_rate(values: Sequence[float]) -> float:
    """S_DR of LST-Bench: the mean relative increase from each value to the next; 0 is stable.

    Raises:
        ValueError: There are fewer than two values.
    """
    if len(values) < 2:
        raise ValueError("A degradation needs the values of two phases.")
    increases = [(later - earlier) / earlier for earlier, later in pairwise(values)]
    return sum(increases) / len(increases)


def series_of(phases: Sequence[Phase]) -> dict[str, list[str]]:
    """The phases that S_DR compares, by the name of the series.

    The first queries of a workload belong to each series without other work at the same time.
    """
    alone = [each for each in phases if each.queries and not each.concurrent]
    first = [each.name for each in alone[:1]]
    rest = alone[1:]
    optimized = [each.name for each in rest if each.name.endswith("o")]
    series = {
        "SU": first + [each.name for each in rest if not each.as_of and each.name not in optimized],
        "SU optimized": first + optimized,
        "SU of the first version": first + [each.name for each in rest if each.as_of == LOAD.name],
        "SU beside DM": [each.name for each in phases if each.concurrent and each.executions],
        "SU beside OPT": [each.name for each in phases if each.concurrent and each.optimize],
        "DM": [each.name for each in phases if each.executions and not each.queries],
    }
    return {name: names for name, names in series.items() if len(names) > 1}


def degradations(phases: Sequence[Phase], measured: Measured) -> dict[str, dict[str, Figures]]:
    """S_DR by series of phases, engine and figure."""
    rates: dict[str, dict[str, Figures]] = {}
    for series, names in series_of(phases).items():
        figures = ["seconds", "cpu"] + ["files", "megabytes"] * (series == "DM")
        if series.startswith("SU beside"):
            figures = ["query"]
        rates[series] = {
            engine: {
                figure: round(
                    degradation_rate([measured[each][engine][figure] for each in names]), 3
                )
                for figure in figures
            }
            for engine in measured[names[0]]
        }
    return rates
