"""Consumers of a table's changes: their names, their run tokens, and the versions they may copy.

A consumer copies range after range of versions. Each range begins where the one before it ended, and
nothing may be committed into it later on. A copy is committed under a run token that is made of the
table, the consumer and the version where its range begins: of all runs that begin there only one is
applied, and its report says how far it has come. The cursor moves after the commit: a run that begins
at an older one finds that report, and continues behind it.
"""

import re

from airflow_hiveacid.acid.located_table import LocatedTable
from airflow_hiveacid.acid.write_ids import ValidWriteIdList
from airflow_hiveacid.errors import InvalidJob

CONSUMER_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


def require_consumer(name: object) -> None:
    """Raise InvalidJob unless it can be the name of a consumer."""
    if not isinstance(name, str) or not CONSUMER_NAME.fullmatch(name):
        raise InvalidJob(
            f"{name!r} is no name of a consumer.",
            remedy="Use up to 60 letters, digits, dashes and underscores.",
        )


def consumer_token(table: LocatedTable, consumer: str, after: int) -> str:
    """Make the run token of the copy of a consumer that begins at a version.

    Args:
        table: The table that it reads.
        consumer: The name.
        after: The version before the changes.
    """
    number = "" if table.identity.id is None else f"#{table.identity.id}"
    return f"{table.name}@{table.identity.created}{number}/{consumer}/{after}"


def last_final_version(now: ValidWriteIdList) -> int:
    """The newest version of which all that will ever be in it is committed; 0 is the empty table.

    Args:
        now: What a new reader sees.
    """
    last = min(now.open, default=now.high_watermark + 1) - 1
    return next((write_id for write_id in range(last, 0, -1) if now.is_valid(write_id)), 0)
