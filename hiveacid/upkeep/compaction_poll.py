"""One poll for partitions that are worth compacting, as sensors and triggers repeat it."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from hiveacid.dataclass import dataclass
from hiveacid.jobs.maintenance_jobs import CompactionNeed
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import tables_of
from hiveacid.rules.compaction import PartitionSize
from hiveacid.rules.compaction_decision import Decision
from hiveacid.rules.compaction_policy import Budget, CompactionPolicy
from hiveacid.rules.compaction_rank import rank
from hiveacid.rules.texts import plural
from hiveacid.upkeep.metric_collection import survey_samples
from hiveacid.upkeep.metrics import Sample
from hiveacid.upkeep.survey import Survey

# Maximum number of partitions without a need that are listed individually.
_NAMED = 5
# Of those that cannot be measured.
_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class PollResult:
    """The result of one poll.

    Attributes:
        needs: The useful compactions, the most useful first.
        log: The reason for each of these, and a summary of all others.
        problems: The tables and partitions that could not be measured, with the reasons.
        samples: The metrics of the surveyed tables.
    """

    needs: tuple[CompactionNeed, ...]
    log: tuple[str, ...]
    problems: tuple[str, ...] = ()
    samples: tuple[Sample, ...] = ()


class CompactionPoll:
    """Polls for useful compactions; tables without writes cost next to nothing.

    A poll holds one connection to the metastore while it runs, and no connection between runs. Any
    thread may use it, one at a time.
    """

    def __init__(
        self,
        metastore: MetastoreOptions,
        policy: CompactionPolicy,
        budget: Budget | None = None,
        quiet: Mapping[str, Sequence[str]] | None = None,
    ) -> None:
        """Prepare a poll.

        Args:
            metastore: How the metastore is reached.
            policy: When a partition is worth compacting.
            budget: How much may be found at once.
            quiet: The ``quiet`` of an equal poll in another process.
        """
        self._client = MetastoreClient(metastore)
        self._survey = Survey(self._client, policy, quiet)
        self._budget = budget or Budget()

    @property
    def quiet(self) -> dict[str, list[str]]:
        """The tables that need nothing until their next write; see ``Survey``."""
        return self._survey.quiet

    def survey(
        self,
        tables: Iterable[str],
        partitions: Sequence[str] | None = None,
        require_access: Callable[[Iterable[str]], None] | None = None,
    ) -> PollResult:
        """Survey tables once.

        Args:
            tables: Names or patterns: "sales.orders", "sales.*".
            partitions: The names of the partitions to survey; all partitions if None.
            require_access: Receives the names of the tables, and raises an error to refuse access.
        """
        with self._client:
            refs = {table for pattern in tables for table in tables_of(self._client, pattern)}
            if require_access is not None:
                require_access(sorted(ref.full_name for ref in refs))
            decisions = self._survey.survey(sorted(refs), partitions)
        # Some partitions are not the whole table.
        whole = decisions if partitions is None else ()
        samples = tuple(survey_samples(whole, datetime.now(UTC)))
        decisions = rank(decisions, self._budget)
        needs = tuple(filter(None, map(CompactionNeed.of, decisions)))
        idle_decisions = [decision for decision in decisions if decision.type is None]
        log = (
            *(f"{need.name} needs a {need.type} compaction: {need.reason}" for need in needs),
            *_summary(idle_decisions, len(refs)),
        )
        if unwritten := len(refs) - len({decision.size.table for decision in decisions}):
            log = (
                *log,
                f"Not written since the last survey, or empty: {plural(unwritten, 'table')}.",
            )
        return PollResult(needs, log, tuple(_problems(idle_decisions)), samples)


def _summary(decisions: Sequence[Decision], tables: int) -> Iterator[str]:
    """Return a line for each of a few, or the most important of many."""
    ordered = list(decisions)
    if len(decisions) > _NAMED:
        # Unreadable partitions come first, then those that will soon be due.
        ordered.sort(
            key=lambda decision: (decision.size.problem is None, -len(decision.size.deltas))
        )
    for decision in ordered[:_NAMED]:
        size = decision.size
        yield f"{_name(size)} needs none: {decision.reason}"
    if len(decisions) > _NAMED:
        remaining = len(decisions) - _NAMED
        yield f"{remaining} more of {plural(tables, 'table')} need none."
    if not decisions and not tables:
        yield "No transactional table matches."


def _problems(decisions: Sequence[Decision]) -> Iterator[str]:
    """Return a line for each failed measurement, up to a limit."""
    unmeasured = [decision.size for decision in decisions if decision.size.problem is not None]
    for size in unmeasured[:_PROBLEMS]:
        yield f"{_name(size)} cannot be measured: {size.problem}"
    if len(unmeasured) > _PROBLEMS:
        yield f"{len(unmeasured) - _PROBLEMS} more cannot be measured."


def _name(size: PartitionSize) -> str:
    return size.table if size.partition is None else f"{size.table}/{size.partition}"
