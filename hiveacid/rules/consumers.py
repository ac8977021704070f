"""Consumers of a table's changes: their names, their run tokens, and the versions they may copy.

A consumer copies range after range of versions. Each range begins at the end of the previous one,
and no later commit may fall into it. A copy is committed under a run token made of the table, the
consumer and the version before its range: of all runs with the same beginning, only one is applied,
and its report contains its last version. The cursor moves after the commit: a run that begins at an
older cursor finds that report, and continues after it.
"""

import re

from hiveacid.errors import InvalidJob
from hiveacid.rules.located_table import LocatedTable
from hiveacid.rules.write_ids import ValidWriteIdList

CONSUMER_NAME = re.compile(r"[A-Za-z0-9_-]{1,60}")


def require_consumer(name: object) -> None:
    """Raise InvalidJob unless the value is valid as the name of a consumer."""
    if not isinstance(name, str) or not CONSUMER_NAME.fullmatch(name):
        raise InvalidJob(
            f"{name!r} is no name of a consumer.",
            remedy="Use up to 60 letters, digits, dashes and underscores.",
        )


def consumer_token(table: LocatedTable, consumer: str, after: int) -> str:
    """Return the run token of a consumer's copy that begins at a version.

    Args:
        table: The table that it reads.
        consumer: The name.
        after: The version before the changes.
    """
    number = "" if table.identity.id is None else f"#{table.identity.id}"
    return f"{table.name}@{table.identity.created}{number}/{consumer}/{after}"


def last_final_version(now: ValidWriteIdList) -> int:
    """Return the newest version that no further commit can change; 0 for the empty table.

    Args:
        now: The write ids that a new reader sees.
    """
    last = min(now.open, default=now.high_watermark + 1) - 1
    return next((write_id for write_id in range(last, 0, -1) if now.is_valid(write_id)), 0)
