"""Creation of tables, views, and databases: once for each run, or only where they are missing."""

from collections.abc import Callable
from typing import TypeVar

from hiveacid.errors import MetastoreCallFailed, TableExists, UnsupportedTable
from hiveacid.jobs.definitions.table_properties import RUN_PROPERTY
from hiveacid.metastore.catalog import HiveDatabase, HiveTable

Created = TypeVar("Created", HiveDatabase, HiveTable)


def create_once(
    name: str,
    find: Callable[[], Created | None],
    create: Callable[[], None],
    *,
    run_token: str | None,
    if_not_exists: bool,
) -> tuple[str, ...]:
    """Create an object, unless an earlier attempt of the run has created it.

    Args:
        name: The object, as messages name it.
        find: Returns the object, or None if it does not exist.
        create: Creates it, with the run in its properties.
        run_token: The run.
        if_not_exists: Whether an object of the name may exist.

    Returns:
        Notes for the author of the statement.

    Raises:
        TableExists: Another object of the name exists.
    """
    existing = find()
    if existing is None:
        try:
            create()
            return ()
        except (MetastoreCallFailed, UnsupportedTable):
            existing = find()
            if existing is None:
                raise  # Otherwise another process has created it meanwhile.
    if run_token is not None and existing.parameters.get(RUN_PROPERTY) == run_token:
        return (f"{name} was created by an earlier attempt.",)
    if not if_not_exists:
        raise TableExists(f"{name} is there already.")
    return (f"{name} was there already, and is left as it was.",)
