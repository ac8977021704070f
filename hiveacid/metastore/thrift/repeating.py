"""Rules for repeating a call of the metastore after a lost answer, and during an outage."""

import logging
from enum import StrEnum
from time import monotonic, sleep
from typing import Self

from hiveacid.errors import MetastoreUnreachable
from hiveacid.rules.texts import duration_in_words

log = logging.getLogger(__name__)

_SHORTEST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.5, 10.0


class Outage:
    """The time in which no host of a metastore takes a connection, and the patience for it."""

    def __init__(self) -> None:
        """Begin without an outage, and without patience."""
        self.patience_seconds = 0.0
        self._since: float | None = None

    @property
    def seconds_left(self) -> float:
        """How long the patience lasts from now on."""
        lasted = 0.0 if self._since is None else monotonic() - self._since
        return max(0.0, self.patience_seconds - lasted)

    def end(self) -> None:
        """Note that a host has taken a connection."""
        self._since = None

    def wait(self, error: MetastoreUnreachable, limit_seconds: float) -> bool:
        """Pause before another attempt to connect.

        Args:
            error: The error of the last one.
            limit_seconds: The limit of the caller.

        Returns:
            Whether another attempt may follow.
        """
        if self._since is None and self.patience_seconds:
            self._since = monotonic()
            patience = duration_in_words(self.patience_seconds)
            log.warning("Waiting for the metastore for up to %s. %s", patience, error.what)
        remaining_seconds = min(self.seconds_left, limit_seconds)
        if remaining_seconds <= 0:
            return False
        lasted = self.patience_seconds - self.seconds_left
        sleep(
            min(
                remaining_seconds,
                max(_SHORTEST_PAUSE_SECONDS, min(lasted / 2, _LONGEST_PAUSE_SECONDS)),
            )
        )
        return True


class Repeating(StrEnum):
    """Classes of calls by the effect of a repetition after an unknown outcome.

    Attributes:
        READS: It changes nothing.
        IDEMPOTENT: A repetition has the same result as one call.
        UNSAFE: A repetition does harm: the caller must first find out the outcome of the first
            call.
    """

    READS = "reads"
    IDEMPOTENT = "idempotent"
    UNSAFE = "unsafe"

    @classmethod
    def of(cls, call: str) -> Self:
        """Return the class of a call; declaring a call that is not in the list below is an error."""
        for meaning, calls in _CALLS.items():
            if call in calls:
                return cls(meaning)
        raise ValueError(f"Declare in repeating.py whether {call} can be repeated.")

    @staticmethod
    def after_outage(call: str) -> bool:
        """Return whether a call that an outage has prevented may be sent after it.

        Most others change definitions, files, or requests of compactions: their callers have
        confirmed before that they hold their locks, which may have expired in an outage. The ends of
        transactions and locks are not waited for, because the metastore ends them itself; a commit
        first asks for the outcome.
        """
        return call in _CALLS[Repeating.READS] or call in _WITHIN_TRANSACTIONS


_CALLS: dict[str, frozenset[str]] = {
    Repeating.READS: frozenset(
        {
            "get_all_databases",
            "get_all_table_constraints",
            "get_all_tables",
            "get_check_constraints",
            "get_config_value",
            "get_database",
            "get_default_constraints",
            "get_foreign_keys",
            "get_latest_txnid_in_conflict",
            "get_metastore_db_uuid",
            "get_not_null_constraints",
            "get_open_txns",
            "get_open_txns_info",
            "get_partition_names",
            "get_partitions_by_names",
            "get_partitions_pspec",
            "get_partitions_statistics_req",
            "get_partitions_with_specs",
            "get_primary_keys",
            "get_table_objects_by_name_req",
            "get_table_req",
            "get_table_statistics_req",
            "get_unique_constraints",
            "get_valid_write_ids",
            "getVersion",
            "show_compact",
            "show_locks",
            "translate_table_dryrun",
        }
    ),
    Repeating.IDEMPOTENT: frozenset(
        {
            "abort_txn",
            "add_dynamic_partitions",
            "add_partitions_req",  # Always with ifNotExists.
            "add_write_ids_to_min_history",  # Always without any.
            # The metastore skips a list of files that the event of a partition contains already.
            "add_write_notification_log",
            "add_write_notification_log_in_batch",
            "allocate_table_write_ids",  # A transaction has one write id per table.
            "cancel_delegation_token",
            "check_lock",
            "cm_recycle",  # It moves the remaining files.
            "drop_partitions_req",  # Always with ifExists, and under an exclusive lock.
            "compact2",  # The second request is refused in favour of the first.
            "heartbeat",
            "heartbeat_txn_range",
            "mark_cleaned",
            "mark_compacted",
            "mark_failed",
            "mark_refused",
            "renew_delegation_token",
            "set_aggr_stats_for",  # Never with needMerge.
            "set_ugi",
            "unlock",
            "update_compactor_state",  # Its part in the table is recorded twice.
        }
    ),
    Repeating.UNSAFE: frozenset(
        {
            # The second call may revert a change that others have made since the first one.
            "alter_partitions_req",
            "alter_partitions_with_environment_context",
            "alter_table_req",
            "alter_table_with_environment_context",
            # The second commit of a transaction that wrote nothing finds no such transaction.
            "commit_txn",
            # The second call finds the object already created or dropped.
            "create_database",
            "create_table",
            "create_table_req",
            "create_table_with_constraints",
            "drop_database",
            "drop_table",
            "get_delegation_token",  # Leaves a token behind that is never cancelled.
            "find_next_compact2",  # Claims a second request.
            "lock",  # Queues behind the waiters for the first one.
            "open_txns",  # Leaves an unknown transaction behind.
        }
    ),
}

# They begin a transaction or a lock, or the metastore itself verifies that it is alive.
_WITHIN_TRANSACTIONS = frozenset(
    {
        "add_dynamic_partitions",
        "allocate_table_write_ids",
        "check_lock",
        "get_delegation_token",
        "heartbeat",
        "heartbeat_txn_range",
        "lock",
        "open_txns",
        "set_ugi",
    }
)
