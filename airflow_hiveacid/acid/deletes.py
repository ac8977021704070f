"""Which delete events can hit which rows."""

from airflow_hiveacid.acid.names import Base, Delta


def delete_applies(data: Base | Delta | None, delete: Delta) -> bool:
    """Whether a delete delta can delete rows of a base, of a delta or, if None, of an original file.

    Hive 4 looks at the names only: a delete hits what was written before it, by write id, and
    within one write id by statement id. Every reader that looks further finds the same, because
    delete events name rows that existed when they were written.
    """
    if not isinstance(data, Delta) or data.min_write_id < delete.max_write_id:
        return True
    return data.min_write_id == delete.max_write_id and (data.statement_id or 0) < (
        delete.statement_id or 0
    )
