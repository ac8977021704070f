"""Run tokens: the names of a run in the metastore and in notes of this package.

A token is "dag/run/task/map index", prefixed by the id of the Airflow instance if one is configured.
The engine adds a digest of the statement in a script, and a mark of the job's tables: two Airflow
instances on one metastore may have equal DAGs, and ending the earlier attempts of a run must not
affect a run on other tables.
"""

import hashlib
import re
from collections.abc import Iterable

# The metastore stores 128 characters of an agent info and 128 of a host name, which must hold both,
# the key of a statement and the mark of the tables.
_LONGEST_RUN = 60
_DIGEST_LENGTH = 16
_MARK_LENGTH = 8
STATEMENT_LENGTH = 12
_STATEMENT = rf"#(?:[0-9]+|[0-9a-f]{{{STATEMENT_LENGTH}}}(?:\.[0-9]+)?)"
_TOKEN = re.compile(rf"(.*?)({_STATEMENT})?(@[0-9a-f]{{{_MARK_LENGTH}}})?", re.DOTALL)


def statement_token(run_token: str, key: str | int) -> str:
    """Return the run token of one statement of a script, or of one batch of a stream.

    Args:
        run_token: The token of the script or the stream.
        key: A digest of the statement, with ".2" and so on for equal statements; or the batch.
    """
    return f"{run_token}#{key}"


def marked_token(run_token: str, tables: Iterable[str]) -> str:
    """Return a run token with a mark of the tables that the job writes.

    Args:
        run_token: The token.
        tables: Their full names; case and order are ignored.
    """
    names = ",".join(sorted({name.lower() for name in tables}))
    return f"{run_token}@{hashlib.sha256(names.encode()).hexdigest()[:_MARK_LENGTH]}"


def source_token(token: str) -> str:
    """Return the name of the transactions that keep the sources of a run while another one writes.

    These transactions change nothing. An attempt ends those that exist at its start, but not those
    that other attempts, or it itself, have opened since.

    Args:
        token: The run token, marked or not.
    """
    return f"source of {token}"


def unmarked_token(token: str) -> str:
    """Return a token for display, without the mark of its tables.

    Args:
        token: A run token, or the stored part of it in the metastore.
    """
    run, statement, _ = _parts(token)
    return run + statement


def task_and_run(token: str) -> tuple[str, str]:
    """Split a token for display into "dag.task", with the index of a mapped task, and its run.

    Args:
        token: A run token, or the stored part of it in the metastore. One that no task of Airflow
            has is the run of no task.
    """
    run = run_of(token).removeprefix("source of ")
    dag, *between = run.split("/")
    if len(between) >= 3:
        *run_id, task, index = between
        return f"{dag}.{task}{'' if index == '-1' else f'[{index}]'}", "/".join(run_id)
    return "", unmarked_token(token)


def dag_of(token: str, instance: str) -> str | None:
    """Return the DAG of a token's run; None if the DAG is not of this Airflow.

    Args:
        token: A run token, or the stored part of it in the metastore.
        instance: The id of this Airflow; "" if it is not configured.
    """
    dag, slash, _ = token.removeprefix("source of ").partition("/")
    prefix, colon, name = dag.rpartition(":")
    # A truncated token keeps its DAG if a slash follows.
    return name if slash and prefix == instance and bool(colon) == bool(instance) else None


def is_same_run(token: str, other_token: str) -> bool:
    """Whether two tokens are of one run, possibly of different statements of its script.

    Args:
        token: A token, marked or not.
        other_token: Another one.
    """
    return _parts(token)[0] == _parts(other_token)[0]


def run_of(token: str) -> str:
    """Return a token without the digest of the statement and the mark of the tables.

    Args:
        token: A token of a run, or the stored part of it in the metastore.
    """
    return _parts(token)[0]


def agent_info(token: str) -> str:
    """Return a token in the form and length that the metastore can store.

    Args:
        token: A run token of any length, marked or not.
    """
    run, statement, mark = _parts(token)
    return _shortened(run) + statement + mark


def transaction_host(machine: str, token: str, nonce: str) -> str:
    """Return the host name that a transaction stores in the metastore: "machine~nonce/token".

    HMS 4 returns the agent info of a transaction only with its locks, which do not exist between
    opening and locking.

    Args:
        machine: The machine, in at most 33 characters.
        token: The run token, as ``agent_info`` returns it.
        nonce: Six characters that distinguish this transaction from others with the same token.
    """
    return f"{machine}~{nonce}/{token}"


def split_transaction_host(host: str) -> tuple[str, str]:
    """Split the stored host name of a transaction into its machine and its run token.

    Args:
        host: The host name; that of another engine has no token.
    """
    machine, slash, token = host.partition("/")
    name, nonce, _ = machine.rpartition("~")
    return (name, token) if slash and nonce else (host, "")


def _shortened(run: str) -> str:
    """Replace the end of a long token, or only the run id of a task's, by a digest of the token."""
    if len(run) <= _LONGEST_RUN:
        return run
    digest = hashlib.sha256(run.encode()).hexdigest()[:_DIGEST_LENGTH]
    dag, _, remainder = run.partition("/")
    _, *task = remainder.rsplit("/", 2)
    short_run = "/".join([dag, f"~{digest}", *task])
    if len(task) == 2 and len(short_run) <= _LONGEST_RUN:
        return short_run
    return f"{run[: _LONGEST_RUN - _DIGEST_LENGTH - 1]}~{digest}"


def _parts(token: str) -> tuple[str, str, str]:
    match = _TOKEN.fullmatch(token)
    assert match is not None
    return match[1], match[2] or "", match[3] or ""
