"""The constraints of the tables of the fake metastore."""

from collections.abc import Mapping, Sequence
from itertools import chain, count
from typing import Any

from hiveacid.metastore.thrift import idl_tables

# The fields of constraints, with the prefixes of their names and the types of their values.
_KINDS = {
    "primaryKeys": ("pk", "pk_name"),
    "foreignKeys": ("fk", "fk_name"),
    "uniqueConstraints": ("uk", "uk_name"),
    "notNullConstraints": ("nn", "nn_name"),
    "defaultConstraints": ("dc", "dc_name"),
    "checkConstraints": ("dc", "dc_name"),
}


class Constraints:
    """Answers the calls for constraints; methods are named as those are."""

    def __init__(self) -> None:
        self._declared: dict[tuple[str, str], dict[str, list[Any]]] = {}
        self._numbers = count(1)

    def declare(self, database: str, table: str, given: Mapping[str, Sequence[Any] | None]) -> None:
        """Keep the constraints of a table that is created; those without a name get one."""
        kept: dict[str, list[Any]] = {}
        for field, (start, name) in _KINDS.items():
            number = next(self._numbers)
            kept[field] = list(given.get(field) or ())
            for index, struct in enumerate(kept[field]):
                keyed = field in ("primaryKeys", "foreignKeys", "uniqueConstraints")
                chosen = f"{start}_{number}_{0 if keyed else index}"
                setattr(struct, name, getattr(struct, name) or chosen)
        self._declared[database, table] = kept

    def forget(self, database: str, table: str) -> None:
        """Forget those of a table that is dropped."""
        self._declared.pop((database, table), None)

    def rename(self, old: tuple[str, str], new: tuple[str, str]) -> None:
        """Keep those of a table that gets another name, and those that refer to it."""
        if old in self._declared:
            self._declared[new] = self._declared.pop(old)
        for struct in (each for kept in self._declared.values() for each in chain(*kept.values())):
            for which in ("table", "fktable", "pktable"):
                database, table = f"{which}_db", f"{which}_name"
                if (getattr(struct, database, None), getattr(struct, table, None)) == old:
                    setattr(struct, database, new[0])
                    setattr(struct, table, new[1])

    def get_all_table_constraints(self, request: Any) -> Any:
        found = self._declared.get((request.dbName, request.tblName), {})
        return idl_tables.AllTableConstraintsResponse(
            idl_tables.SQLAllTableConstraints(**{f: found.get(f, []) for f in _KINDS})
        )

    def get_primary_keys(self, request: Any) -> Any:
        return idl_tables.PrimaryKeysResponse(self._of(request, "primaryKeys"))

    def get_foreign_keys(self, request: Any) -> Any:
        of_table = self._declared.get((request.foreign_db_name, request.foreign_tbl_name), {})
        return idl_tables.ForeignKeysResponse(of_table.get("foreignKeys", []))

    def get_unique_constraints(self, request: Any) -> Any:
        return idl_tables.UniqueConstraintsResponse(self._of(request, "uniqueConstraints"))

    def get_not_null_constraints(self, request: Any) -> Any:
        return idl_tables.NotNullConstraintsResponse(self._of(request, "notNullConstraints"))

    def get_default_constraints(self, request: Any) -> Any:
        return idl_tables.DefaultConstraintsResponse(self._of(request, "defaultConstraints"))

    def get_check_constraints(self, request: Any) -> Any:
        return idl_tables.CheckConstraintsResponse(self._of(request, "checkConstraints"))

    def _of(self, request: Any, field: str) -> list[Any]:
        return self._declared.get((request.db_name, request.tbl_name), {}).get(field, [])
