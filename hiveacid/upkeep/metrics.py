"""Metrics of this package: the only place with their names.

`hiveacid metrics` exports gauges to Prometheus; Airflow's Stats exports the other kinds, and the
gauges of surveyed tables, to StatsD or OpenTelemetry. Figures that Hive also exports have Hive's names
and definitions.
"""

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import StrEnum

from hiveacid.dataclass import dataclass


class Kind(StrEnum):
    """Kind of a metric.

    Attributes:
        GAUGE: A current value.
        COUNTER: A number that increases.
        TIMER: Durations, in milliseconds as in Airflow's own timers.
    """

    GAUGE = "gauge"
    COUNTER = "counter"
    TIMER = "timer"


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric.

    Attributes:
        name: Its name, the same in Prometheus and in Airflow's Stats.
        help: A sentence.
        labels: The names of its labels.
        kind: Its kind.
    """

    name: str
    help: str
    labels: tuple[str, ...] = ()
    kind: Kind = Kind.GAUGE


@dataclass(frozen=True, slots=True)
class Sample:
    """A value of a metric.

    Attributes:
        metric: The metric.
        value: The value.
        labels: The value of each of its labels.
    """

    metric: Metric
    value: float
    labels: Mapping[str, str] = field(default_factory=dict)


UP = Metric("hiveacid_metastore_up", "1 if the metastore answered, else 0.")

# The states of a request, and Hive's metrics that count the partitions in them.
STATES = {
    state: Metric(
        f"compaction_num_{state.replace(' ', '_')}",
        f'Partitions whose newest compaction request is in the state "{state}".',
    )
    for state in (
        "initiated",
        "working",
        "ready for cleaning",
        "succeeded",
        "failed",
        "refused",
        "did not initiate",
        "aborted",
    )
}
OLDEST_ENQUEUE = Metric(
    "compaction_oldest_enqueue_age_in_sec",
    "Age of the oldest request that waits for a worker; 0 if none waits.",
)
OLDEST_WORKING = Metric(
    "compaction_oldest_working_age_in_sec",
    "Time since the start of the longest running compaction; 0 if none runs.",
)
OLDEST_CLEANING = Metric(
    "compaction_oldest_cleaning_age_in_sec",
    "Time since Hive's cleaner started with the oldest request that it has not finished; 0 if none.",
)
OLDEST_READY = Metric(
    "oldest_ready_for_cleaning_age_in_sec",
    "Time since the commit of the oldest compaction whose old files remain; 0 if none. The "
    "metastore of version 3 does not return this time.",
)

OPEN_TXNS = Metric(
    "hiveacid_open_txns",
    "Open transactions; version 4 of the metastore does not list transactions that only read.",
)
OLDEST_TXN = Metric(
    "hiveacid_oldest_open_txn_id",
    "The oldest open transaction, also if it only reads; 0 if none is open.",
)
OLDEST_TXN_AGE = Metric(
    "hiveacid_oldest_open_txn_age_in_sec",
    "Age of the oldest of the transactions that hiveacid_open_txns counts; 0 if none is open.",
)
ABORTED_TXNS = Metric(
    "num_aborted_transactions", "Aborted transactions that the metastore remembers."
)
OLDEST_ABORT = Metric(
    "oldest_aborted_txn_age_in_sec",
    "Age of the oldest aborted transaction that the metastore remembers; 0 if none.",
)

LOCKS = Metric("num_locks", "Locks that are held or waited for; one for each locked object.")
OLDEST_LOCK = Metric(
    "oldest_lock_age_in_sec", "Time since the acquisition of the oldest held lock; 0 if none."
)
WAITING_LOCKS = Metric("hiveacid_waiting_locks", "Locks that wait for another lock.")

_TABLE = ("table",)
DELTAS = Metric(
    "compaction_num_active_deltas", "Deltas and delete deltas that readers open.", _TABLE
)
OBSOLETE = Metric(
    "compaction_num_obsolete_deltas",
    "Directories that newer ones replace, until a cleaning.",
    _TABLE,
)
MOST_DELTAS = Metric(
    "hiveacid_table_max_deltas",
    "Deltas and delete deltas in the partition with the most of them.",
    _TABLE,
)
DELETE_RATIO = Metric(
    "hiveacid_table_delete_ratio",
    "Size of deletes as a share of all data that is read, 0 to 1.",
    _TABLE,
)
BASE_BYTES = Metric("hiveacid_table_base_bytes", "Size of bases and original files.", _TABLE)
DELTA_BYTES = Metric("hiveacid_table_delta_bytes", "Size of deltas and delete deltas.", _TABLE)
OBSOLETE_BYTES = Metric(
    "hiveacid_table_obsolete_bytes",
    "Size of obsolete and aborted files that wait for a cleaning.",
    _TABLE,
)
ABORTED = Metric(
    "hiveacid_table_aborted_directories", "Directories of aborted transactions.", _TABLE
)
NEEDS = Metric(
    "hiveacid_table_needed_compactions", "Partitions that the policy would compact now.", _TABLE
)
PROBLEMS = Metric(
    "hiveacid_table_unreadable_partitions",
    "Partitions that cannot be measured or compacted; 1 for an unmeasurable table.",
    _TABLE,
)
RETAINED_BYTES = Metric(
    "hiveacid_table_retained_bytes",
    "Size of files that a cleaning retains for earlier versions.",
    _TABLE,
)
TABLE_TXN_AGE = Metric(
    "hiveacid_table_oldest_txn_age_in_sec",
    "Age of the oldest transaction or lock on the table; 0 if none.",
    _TABLE,
)
SCORE = Metric("hiveacid_table_score", "Health of the table, 0 to 100.", _TABLE)
MEASURED_AT = Metric(
    "hiveacid_table_measured_timestamp_seconds", "Time of the measurement of the table.", _TABLE
)

_OPERATION = ("operation", "table")
LAST_RUN_SECONDS = Metric(
    "hiveacid_last_run_seconds", "Duration of the last run of an operation.", _OPERATION
)
LAST_RUN_BYTES = Metric(
    "hiveacid_last_run_bytes",
    "Size of the files that the last run of an operation wrote.",
    _OPERATION,
)
LAST_RUN_ROWS = Metric(
    "hiveacid_last_run_rows", "Rows that the last run of an operation changed.", _OPERATION
)
LAST_RUN_AT = Metric(
    "hiveacid_last_run_timestamp_seconds", "Time of the last run of an operation.", _OPERATION
)

_MIRROR, _CONSUMER = ("table", "catalog", "mirror"), ("table", "consumer")
MIRROR_VERSIONS = Metric(
    "hiveacid_mirror_versions_behind",
    "Committed versions of the table that the mirror in Iceberg does not have.",
    _MIRROR,
)
MIRROR_LAG = Metric(
    "hiveacid_mirror_lag_in_sec",
    "Maximum age of the oldest version that the mirror does not have; 0 if none.",
    _MIRROR,
)
CONSUMER_VERSIONS = Metric(
    "hiveacid_consumer_versions_behind",
    "Versions of the table that the consumer could copy now.",
    _CONSUMER,
)
CONSUMER_LAG = Metric(
    "hiveacid_consumer_lag_in_sec",
    "Age of the oldest of the last 50 versions that the consumer has not copied; 0 if none.",
    _CONSUMER,
)

OPEN_ERASURES = Metric("hiveacid_open_erasures", "Requests to erase keys without a certificate.")
ERASURE_TIME_LEFT = Metric(
    "hiveacid_erasure_time_left_in_sec",
    "Time until the earliest deadline of a request to erase keys without a certificate; negative "
    "after it.",
)

RUN_DURATION = Metric(
    "hiveacid_run_duration",
    "Duration of a task, including a deferral, until its success or failure.",
    _OPERATION,
    Kind.TIMER,
)
RUNS = Metric("hiveacid_runs", "Tasks that ended, including failed ones.", _OPERATION, Kind.COUNTER)
RUN_FAILURES = Metric(
    "hiveacid_run_failures",
    "Attempts of tasks that failed, with the kind of error.",
    ("operation", "table", "error"),
    Kind.COUNTER,
)
VIOLATED_CHECKS = Metric(
    "hiveacid_violated_checks",
    "Checks that committed rows of a task violate, with the severity warn.",
    _OPERATION,
    Kind.COUNTER,
)
RUN_ROWS = Metric(
    "hiveacid_run_rows", "Rows that a task wrote, changed, or deleted.", _OPERATION, Kind.COUNTER
)
RUN_BYTES = Metric(
    "hiveacid_run_bytes",
    "Size of the files that a task wrote; for a cleaning, of those that it removed.",
    _OPERATION,
    Kind.COUNTER,
)

# Of the metastore, by three calls and one for the queue.
METASTORE = (
    UP,
    *STATES.values(),
    *(OLDEST_ENQUEUE, OLDEST_WORKING, OLDEST_CLEANING, OLDEST_READY),
    *(OPEN_TXNS, OLDEST_TXN, OLDEST_TXN_AGE, ABORTED_TXNS, OLDEST_ABORT),
    *(LOCKS, OLDEST_LOCK, WAITING_LOCKS),
)
# Of tables, as a survey measures them.
SURVEYED = (
    *(DELTAS, OBSOLETE, MOST_DELTAS, DELETE_RATIO, BASE_BYTES, DELTA_BYTES),
    *(OBSOLETE_BYTES, ABORTED, NEEDS, PROBLEMS),
)
# Of tables, in addition to a survey.
OTHERS_OF_TABLES = (RETAINED_BYTES, TABLE_TXN_AGE, SCORE, MEASURED_AT)
LAST_RUNS = (LAST_RUN_SECONDS, LAST_RUN_BYTES, LAST_RUN_ROWS, LAST_RUN_AT)
# Of mirrors and consumers; of these, sensors emit what they compute.
POLLED = (MIRROR_VERSIONS, MIRROR_LAG, CONSUMER_VERSIONS)
# Of requests to erase keys.
ERASURES = (OPEN_ERASURES, ERASURE_TIME_LEFT)
OF_TASKS = (RUN_DURATION, RUNS, RUN_FAILURES, VIOLATED_CHECKS, RUN_ROWS, RUN_BYTES)
EXPORTED = (*METASTORE, *SURVEYED, *OTHERS_OF_TABLES, *LAST_RUNS, *POLLED, CONSUMER_LAG, *ERASURES)
EMITTED = (*SURVEYED, *POLLED, *OF_TASKS)
ALL = (*EXPORTED, *OF_TASKS)


# Samples in the text format of Prometheus


CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_ESCAPES = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def prometheus_text(samples: Iterable[Sample]) -> str:
    """Return samples as text; all samples of a metric follow its description.

    Args:
        samples: The samples in any order; of several with the same labels, the last one counts.
    """
    by_metric: dict[Metric, dict[str, float]] = {}
    for sample in samples:
        by_metric.setdefault(sample.metric, {})[_labels(sample)] = sample.value
    lines = []
    for metric, values in by_metric.items():
        lines.append(f"# HELP {metric.name} {metric.help}")
        lines.append(f"# TYPE {metric.name} {metric.kind}")
        lines += [f"{metric.name}{labels} {value!r}" for labels, value in values.items()]
    return "".join(f"{line}\n" for line in lines)


def _labels(sample: Sample) -> str:
    # A name in a metastore may contain any character.
    pairs = [f'{name}="{sample.labels[name].translate(_ESCAPES)}"' for name in sample.metric.labels]
    return f"{{{','.join(pairs)}}}" if pairs else ""
