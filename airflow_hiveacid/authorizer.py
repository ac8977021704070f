"""The authorizer of `[hive_acid]`, which decides on the accesses of all processes alike."""

import configparser
import importlib
import logging
import os
import pwd
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path

from airflow_hiveacid.errors import AccessRefused, InvalidJob
from airflow_hiveacid.jobs.job import Access

log = logging.getLogger(__name__)

_SETTING = "[hive_acid] authorizer"
_VARIABLE = "AIRFLOW__HIVE_ACID__AUTHORIZER"


def require_access(user: str, accesses: Iterable[Access]) -> None:
    """Ask the authorizer for every access; without an authorizer all are allowed.

    :param user: ``dag:ID`` for a task, ``user:NAME`` for a user of the page, or ``os:NAME`` for a
        user of the operating system.
    :param accesses: The accesses.
    :raises AccessRefused: The authorizer refuses one, cannot be imported, or fails.
    """
    path = _configured_path()
    if not path:
        return
    for access in accesses:
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


def user_of(dag_id: str) -> str:
    """Name the user that a task acts for: its DAG, as every task of it has the same rights.

    :param dag_id: The DAG.
    """
    return f"dag:{dag_id}"


def program_user() -> str:
    """Name the user that a program acts for: the DAG of its task, or else its user of the system."""
    # Airflow sets the variable in every task.
    dag_id = os.environ.get("AIRFLOW_CTX_DAG_ID")
    return user_of(dag_id) if dag_id else system_user()


def system_user() -> str:
    """Return the user of the operating system, independent of environment variables."""
    try:
        return f"os:{pwd.getpwuid(os.getuid()).pw_name}"
    except KeyError:
        return f"os:{os.getuid()}"


def _configured_path() -> str:
    """Read the path where Airflow reads it: notebooks and the command line do not load Airflow."""
    given = os.environ.get(_VARIABLE)
    if given is None:
        home = os.environ.get("AIRFLOW_HOME") or "~/airflow"
        file = os.environ.get("AIRFLOW_CONFIG") or f"{home}/airflow.cfg"
        given = _path_in(Path(os.path.expandvars(file)).expanduser())
    return given.strip()


@cache
def _path_in(file: Path) -> str:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, configparser.Error) as error:
        raise AccessRefused(
            f"{file} cannot be read, so whether there is an authorizer is not known: {error}.",
            remedy=f"Make the file readable, or set {_VARIABLE}; empty means no authorizer.",
        ) from error
    return parser.get("hive_acid", "authorizer", fallback="")


@cache
def _authorizer(path: str) -> Callable[..., object]:
    module, _, name = path.rpartition(".")
    if not module:
        raise InvalidJob(f"{_SETTING} {path!r} is not the dotted path of a callable.")
    found: Callable[..., object] = getattr(importlib.import_module(module), name)
    if not callable(found):
        raise InvalidJob(f"{_SETTING} {path!r} is not callable.")
    return found
