"""Record of the drops of partitions by the last runs of a table, for later attempts of these runs.

A drop is not part of a transaction: an attempt that was killed has dropped some partitions, all, or
none. Others may have written into them since, and a later attempt must not drop those rows.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from airflow_hiveacid.acid.dropped_partitions import DROPS_OF_RUNS
from airflow_hiveacid.errors import InvalidJob, UnsupportedTable
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.records.proofs import digest_of

# Some databases of metastores limit a property to 4,000 characters.
_MOST = 30
_DIGEST_LENGTH = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDrop:
    """Drop of partitions by one run.

    Attributes:
        run: A digest of the run token.
        settled: When the first attempt began, no transaction was open that could still commit this
            write id or a smaller one. Greater ones may be those of later writes.
        done: Whether all of its partitions were dropped.
    """

    run: str
    settled: int
    done: bool = False

    @classmethod
    def begun(cls, run_token: str, settled: int) -> Self:
        """Describe a drop that is about to begin."""
        return cls(run=digest_of(run_token)[:_DIGEST_LENGTH], settled=settled)


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDrops:
    """Drops by the last runs, the oldest first.

    Attributes:
        drops: One for each run.
    """

    drops: tuple[RunDrop, ...] = ()

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Self:
        """Read the property of a table.

        Raises:
            UnsupportedTable: The value of the property is invalid.
        """
        text = parameters.get(DROPS_OF_RUNS)
        if text is None:
            return cls()
        try:
            return codec.from_record(cls, json.loads(text), "drops")
        except (ValueError, RecursionError, InvalidJob) as error:
            raise UnsupportedTable(
                f"The table has the property {DROPS_OF_RUNS}={text[:100]!r}, which cannot be read.",
                remedy="Remove the property if no attempt of a run that drops partitions was killed.",
            ) from error

    def of_run(self, run_token: str | None) -> RunDrop | None:
        """Return the drop of a run; None if no attempt of it has begun."""
        if run_token is None:
            return None
        own = digest_of(run_token)[:_DIGEST_LENGTH]
        return next((drop for drop in self.drops if drop.run == own), None)

    def with_drop(self, drop: RunDrop) -> Self:
        """Return the record with one more drop, or with a new state of a known one."""
        others = (each for each in self.drops if each.run != drop.run)
        return replace(self, drops=(*others, drop)[-_MOST:])

    def __str__(self) -> str:
        return json.dumps(codec.to_record(self), separators=(",", ":"))
