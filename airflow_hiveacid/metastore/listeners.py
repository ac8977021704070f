"""Whether a metastore has listeners that want to know which files a transaction adds."""

from collections.abc import Callable

from airflow_hiveacid.errors import MetastoreCallFailed, MetastoreTroubled

_LISTENERS = "hive.metastore.transactional.event.listeners"
# A setting of Hive's clients, which often stands in the metastore's configuration, too.
_DML_EVENTS = "hive.metastore.dml.events"


def has_listeners(config_value: Callable[[str, str], str]) -> bool:
    """Whether the metastore's own configuration asks for write events.

    Args:
        config_value: Asks for a setting of the metastore, given its name and a default.
    """
    try:
        if config_value(_LISTENERS, "").strip():
            return True
        return config_value(_DML_EVENTS, "").strip().lower() == "true"
    except MetastoreTroubled:
        raise
    except MetastoreCallFailed:
        return False  # Some services keep their settings to themselves.
