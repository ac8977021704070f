"""SQL for the golden tables; T is the table."""

from collections.abc import Iterable

COLUMNS = "id int, name string, v decimal(12,2)"
ACID = "stored as orc tblproperties ('transactional'='true')"
INSERT_ONLY = "tblproperties ('transactional'='true', 'transactional_properties'='insert_only')"
TO_ACID = "set tblproperties ('EXTERNAL'='FALSE', 'transactional'='true')"
UNION = (
    "select id + {0}, name, v from default.numbers where id < 4 "
    "union all select id + {0}, name, v from default.numbers where id > 8"
)


def values(ids: Iterable[int], *more: str) -> str:
    """Rows in SQL; id 7 is null but for its id."""
    rows = []
    for id_ in ids:
        row = [str(id_), f"'n{id_}'", f"{id_}.5"] if id_ != 7 else ["7", "null", "null"]
        rows.append(f"({', '.join([*row, *more])})")
    return f"values {', '.join(rows)}"
