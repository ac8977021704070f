"""Erasure of the keys of one table, for the Python interfaces of tables."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from hiveacid.errors import EmptySource, InvalidJob
from hiveacid.jobs.erase_job import EraseJob, EraseReport
from hiveacid.jobs.sources import BatchSource, Source
from hiveacid.metastore.authorizer import program_user
from hiveacid.metastore.client import MetastoreClient
from hiveacid.progress import PhaseObserver
from hiveacid.rules.names import TableRef
from hiveacid.tables.locations import require_job_access
from hiveacid.upkeep.erasure.key_set import key_texts
from hiveacid.worker.erasure import Eraser


def erase_keys(
    client: MetastoreClient,
    table: TableRef,
    column: str,
    keys: Any,
    observers: Sequence[PhaseObserver],
    **options: Any,
) -> EraseReport:
    """Erase the rows of a table with some keys.

    Args:
        client: The metastore.
        table: The table.
        column: The column with the keys.
        keys: The keys, or their source; see ``AcidTable.erase``.
        observers: Receive the phases.
        options: Other fields of ``EraseJob``.
    """
    is_source = isinstance(keys, Source)
    job = EraseJob(
        keys=keys if is_source else BatchSource("keys"),
        columns={table.full_name: column},
        metastore=client.options,
        **options,
    )
    job.validate()
    require_job_access(client, program_user(), job)
    texts = None if is_source else _texts(keys)
    return Eraser(client, job.folder, observers).run(job, texts)


def _texts(keys: Any) -> list[str]:
    """Return given keys as texts.

    Raises:
        InvalidJob: They are no keys of one type.
        EmptySource: No key is given.
    """
    try:
        values = pa.array(_values(keys))
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise InvalidJob(
            f"These are no keys of one type: {type(keys).__name__}.",
            remedy="Give a list of values, or a frame with one column.",
        ) from error
    texts = {*key_texts(values).to_pylist()} - {None}
    if not texts:
        raise EmptySource("There are no keys.")
    return sorted(texts)


def _values(keys: Any) -> list[Any]:
    if isinstance(keys, str):
        raise TypeError("Its letters are not meant.")
    if not hasattr(keys, "columns"):
        return list(keys)
    if type(keys).__module__.partition(".")[0] == "pandas":
        keys = pa.Table.from_pandas(keys, preserve_index=False)
    with pa.RecordBatchReader.from_stream(keys) as reader:
        rows = reader.read_all()
    if rows.num_columns != 1:
        raise TypeError("Only one column can have the keys.")
    values: list[Any] = rows.column(0).to_pylist()
    return values
