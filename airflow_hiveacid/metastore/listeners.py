"""Detection of metastore listeners that want events for the files that a transaction adds."""

from collections.abc import Callable
from functools import cached_property

from airflow_hiveacid.errors import MetastoreCallFailed, MetastoreTroubled
from airflow_hiveacid.jobs.metastore_options import ALWAYS, AUTO, MetastoreOptions

_LISTENERS = "hive.metastore.transactional.event.listeners"
# A setting of Hive's clients, which the metastore's configuration often contains, too.
_DML_EVENTS = "hive.metastore.dml.events"


class Listeners:
    """The listeners of a metastore, which are determined once.

    Attributes:
        unknown_calls: The names of the calls for events that the metastore has rejected as unknown.
    """

    def __init__(self, options: MetastoreOptions, config_value: Callable[[str, str], str]) -> None:
        """Describe the listeners; this makes no call.

        Args:
            options: The connection options of the metastore.
            config_value: Returns a setting of the metastore, given its name and a default.
        """
        self.unknown_calls: set[str] = set()
        self._choice = options.write_events
        self._config_value = config_value

    @cached_property
    def want_events(self) -> bool:
        """Return whether writes report the files that they add; takes at most two calls."""
        if self._choice != AUTO:
            return self._choice == ALWAYS
        try:
            if self._config_value(_LISTENERS, "").strip():
                return True
            return self._config_value(_DML_EVENTS, "").strip().lower() == "true"
        except MetastoreTroubled:
            raise
        except MetastoreCallFailed:
            return False  # Some services keep their settings to themselves.
