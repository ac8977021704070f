"""Moments that the ORC library of Arrow writes wrongly.

It takes a second apart towards zero, so that a moment before 1970 with a fraction gets a negative
number of nanoseconds. It reads that back itself, but ORC's Java reader, which is Spark's, fails.
"""

from typing import Any

from airflow_hiveacid.acid.errors import BeyondArrow

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


def check_moments(batch: Any) -> None:
    """Refuse rows that the library would spoil.

    Args:
        batch: A record batch.

    Raises:
        BeyondArrow: One of its timestamps, be it inside of another value, is of that kind.
    """
    for column, field in zip(batch.columns, batch.schema, strict=True):
        if _holds_moments(field.type) and _is_spoilt(column):
            raise BeyondArrow("Arrow cannot write fractions of seconds before 1970.")


def _holds_moments(type_: Any) -> bool:
    from pyarrow import types

    if types.is_timestamp(type_):
        return True
    return any(_holds_moments(type_.field(number).type) for number in range(type_.num_fields))


def _is_spoilt(array: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_timestamp(array.type):
        known = array.drop_null().view(pa.int64()).to_numpy()
        fractions = known % _PER_SECOND[array.type.unit]
        return bool(((known < 0) & (fractions != 0)).any())
    if pa.types.is_struct(array.type):
        parts = array.flatten()
    elif pa.types.is_map(array.type):
        parts = [array.keys, array.items]
    else:
        parts = [array.flatten()]
    return any(_is_spoilt(part) for part in parts if _holds_moments(part.type))
