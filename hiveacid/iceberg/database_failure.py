"""Failures of the database of a catalog: which of them surely had no effect, and which may pass."""

import sys
from types import ModuleType


def is_without_effect(error: Exception) -> bool:
    """Check that a statement failed, so that the transaction with it was not committed.

    SQLAlchemy stores the statement only in errors of statements, not in those of a COMMIT or of
    opening a connection. The effect of a statement whose connection broke depends on the database: some
    commit each statement.
    """
    library = _library()
    return (
        library is not None
        and isinstance(error, library.DBAPIError)
        and error.statement is not None
        and not error.connection_invalidated
    )


def is_outage(error: Exception) -> bool:
    """Check for a failure after which a later call may succeed."""
    library = _library()
    if library is None or not isinstance(error, library.OperationalError):
        return False
    # Drivers do not distinguish a file that may not be written from one that another program writes.
    code = getattr(error.orig, "sqlite_errorname", "")
    return not code.startswith("SQLITE_READONLY")


def _library() -> ModuleType | None:
    # Only catalogs in databases load it.
    return sys.modules.get("sqlalchemy.exc")
