"""Values of statistics as texts for people."""

from decimal import Context
from decimal import Decimal as Number
from typing import Any

import numpy as np

from airflow_hiveacid.acid.schema import Decimal, HiveType, Primitive

_EXACT = Context(prec=80)


def shown(value: Any, hive_type: HiveType) -> str | None:
    """Format a bound of a column's values as SQL writes it; null remains null."""
    if value is None:
        return None
    match hive_type:
        case Decimal(_, scale):
            return format(Number(value).scaleb(-scale, _EXACT), "f")
        case Primitive("date"):
            return str(np.datetime64(value, "D"))
        case Primitive("timestamp"):
            return str(np.datetime64(value, "s")).replace("T", " ")
    return str(value)
