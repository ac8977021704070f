"""The authorizer of `[hive_acid]`, which decides on the accesses of all processes alike."""

import importlib
import logging
import os
import pwd
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from hiveacid.errors import AccessRefused, InvalidJob
from hiveacid.jobs.job import Access
from hiveacid.settings import setting

log = logging.getLogger(__name__)

_SETTING = "[hive_acid] authorizer"
_SESSION_USER: ContextVar[str | None] = ContextVar("session_user", default=None)


def require_access(user: str, accesses: Iterable[Access]) -> None:
    """Ask the authorizer for every access; without an authorizer all are allowed.

    Args:
        user: ``dag:ID`` for a task, ``user:NAME`` for a user of the page, ``spark:NAME`` for the user
            of a session on a server of Spark, or ``os:NAME`` for a user of the operating system.
        accesses: The accesses, at least one.

    Raises:
        AccessRefused: The authorizer refuses one, cannot be imported, or fails; or there is no
            access that it could decide on.
    """
    access_list = tuple(accesses)
    if not access_list:
        raise AccessRefused(
            f"{user} would work on nothing that has a name, so nobody can permit it.",
            remedy="Name the table.",
        )
    path = authorizer_path()
    if not path:
        return
    for access in access_list:
        try:
            allowed = _authorizer(path)(
                user=user, table=access.table, columns=access.columns, action=access.action
            )
        except Exception as error:
            log.exception("The authorizer %s fails.", path)
            raise AccessRefused(
                f"{_SETTING} {path!r} fails: {type(error).__name__}: {error}. Until it works, "
                "everything is refused.",
                remedy="See the log for the error, and correct the callable or its path.",
            ) from error
        if allowed is not True:
            raise AccessRefused(
                f"{user} may not {access.action} {access.table}: {path} refuses it.",
                remedy=f"Ask those who run {_SETTING} for the permission.",
            )


def may_access(user: str, access: Access) -> bool:
    """Ask the authorizer for one access; see ``require_access``."""
    try:
        require_access(user, [access])
    except AccessRefused:
        return False
    return True


def authorizer_path() -> str:
    """Return the configured path of the authorizer; "" without an authorizer."""
    return setting("authorizer")


def user_of(dag_id: str) -> str:
    """Name the user that a task acts for: its DAG, as every task of it has the same rights.

    Args:
        dag_id: The DAG.
    """
    return f"dag:{dag_id}"


@contextmanager
def acting_for(session_user: str | None) -> Iterator[None]:
    """Let the program act for the user of a session on a server of Spark, in this thread.

    Args:
        session_user: The user; None for the program's own.
    """
    token = _SESSION_USER.set(session_user)
    try:
        yield
    finally:
        _SESSION_USER.reset(token)


def program_user() -> str:
    """Name the user that a program acts for.

    It is the user of a session on a server of Spark, the DAG of a task, or the user of the system.
    """
    session_user = _SESSION_USER.get()
    if session_user is not None:
        return f"spark:{session_user}"
    # Airflow sets the variable in every task.
    dag_id = os.environ.get("AIRFLOW_CTX_DAG_ID")
    return user_of(dag_id) if dag_id else system_user()


def system_user() -> str:
    """Return the user of the operating system, independent of environment variables."""
    try:
        return f"os:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"os:{os.getuid()}"


@cache
def _authorizer(path: str) -> Callable[..., object]:
    module, _, name = path.rpartition(".")
    if not module:
        raise InvalidJob(f"{_SETTING} {path!r} is not the dotted path of a callable.")
    authorizer: Callable[..., object] = getattr(importlib.import_module(module), name)
    if not callable(authorizer):
        raise InvalidJob(f"{_SETTING} {path!r} is not callable.")
    return authorizer
