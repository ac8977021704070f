"""The constraints of tables, as the metastore stores them."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import uuid4

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_tables
from hiveacid.rules.constraints import (
    Check,
    Constraint,
    Default,
    Key,
    KeyType,
    NotNull,
    TableConstraints,
)
from hiveacid.rules.names import TableRef

# The only catalog that tables of this package are in.
_CATALOG = "hive"
# The beginnings of the names that a metastore chooses.
_SHORT = {NotNull.kind: "nn", Check.kind: "dc", Default.kind: "dc"}


def constraints_on_writes(client: MetastoreClient, ref: TableRef) -> TableConstraints:
    """Return the constraints that apply to writes into a table.

    Version 4 answers one call, version 3 one for each kind.
    """
    if client.features.returns_all_constraints:
        return all_constraints(client, ref)
    of_table = _OfTable(client, ref)
    return _parsed(
        notNullConstraints=of_table.not_null(),
        defaultConstraints=of_table.defaults(),
        checkConstraints=of_table.checks(),
    )


def all_constraints(client: MetastoreClient, ref: TableRef) -> TableConstraints:
    """Return all constraints of a table, including keys."""
    of_table = _OfTable(client, ref)
    if not client.features.returns_all_constraints:
        return _parsed(
            primaryKeys=of_table.primary_keys(),
            foreignKeys=of_table.foreign_keys(),
            uniqueConstraints=of_table.unique(),
            notNullConstraints=of_table.not_null(),
            defaultConstraints=of_table.defaults(),
            checkConstraints=of_table.checks(),
        )
    request = idl_tables.AllTableConstraintsRequest(
        dbName=ref.database, tblName=ref.name, catName=_CATALOG
    )
    constraints: TableConstraints = client.call(
        idl_tables.get_all_table_constraints,
        request,
        about=ref.full_name,
        read=lambda answer: _parsed(
            **{
                field: getattr(answer.allTableConstraints, field) or ()
                for field in answer.allTableConstraints.__slots__
            }
        ),
    )
    return constraints


def as_structs(ref: TableRef, constraints: Sequence[Constraint]) -> dict[str, list[Any]]:
    """Convert the constraints of a new table into the fields of the request.

    Those without a name get one: a metastore of version 4 may choose the same one for two checks.

    Args:
        ref: The table.
        constraints: Its validated constraints.
    """
    structs: dict[str, list[Any]] = defaultdict(list)
    for given in constraints:
        constraint = replace(given, name=given.name or _new_name(given))
        flags = {
            "enable_cstr": constraint.enabled,
            "validate_cstr": constraint.validated,
            "rely_cstr": constraint.rely,
        }
        of_table = {
            "catName": _CATALOG,
            "table_db": ref.database,
            "table_name": ref.name,
            **flags,
        }
        match constraint:
            case NotNull():
                structs["notNullConstraints"].append(
                    idl_tables.SQLNotNullConstraint(
                        column_name=constraint.column.lower(), nn_name=constraint.name, **of_table
                    )
                )
            case Default():
                structs["defaultConstraints"].append(
                    idl_tables.SQLDefaultConstraint(
                        column_name=constraint.column.lower(),
                        default_value=constraint.value,
                        dc_name=constraint.name,
                        **of_table,
                    )
                )
            case Check():
                structs["checkConstraints"].append(
                    idl_tables.SQLCheckConstraint(
                        column_name=constraint.column and constraint.column.lower(),
                        check_expression=constraint.expression,
                        dc_name=constraint.name,
                        **of_table,
                    )
                )
            case Key(type="foreign"):
                structs["foreignKeys"] += _foreign_key(ref, constraint, flags)
            case Key():
                field, struct, name = (
                    ("primaryKeys", idl_tables.SQLPrimaryKey, "pk_name")
                    if constraint.type == "primary"
                    else ("uniqueConstraints", idl_tables.SQLUniqueConstraint, "uk_name")
                )
                structs[field] += [
                    struct(
                        column_name=column.lower(),
                        key_seq=number,
                        **{name: constraint.name},
                        **of_table,
                    )
                    for number, column in enumerate(constraint.columns, start=1)
                ]
    return dict(structs)


def _new_name(constraint: Constraint) -> str:
    """Return a name as a metastore chooses it, which `SHOW CREATE TABLE` leaves out."""
    short = f"{constraint.type[0]}k" if isinstance(constraint, Key) else _SHORT[constraint.kind]
    return f"{short}_{uuid4().int}_0"


def _foreign_key(ref: TableRef, key: Key, flags: Mapping[str, bool]) -> list[Any]:
    parent_table = TableRef.parse(key.references or "")
    return [
        idl_tables.SQLForeignKey(
            pktable_db=parent_table.database,
            pktable_name=parent_table.name,
            pkcolumn_name=referenced.lower(),
            fktable_db=ref.database,
            fktable_name=ref.name,
            fkcolumn_name=column.lower(),
            key_seq=number,
            update_rule=0,
            delete_rule=0,
            fk_name=key.name,
            catName=_CATALOG,
            **flags,
        )
        for number, (column, referenced) in enumerate(
            zip(key.columns, key.referenced_columns, strict=True), start=1
        )
    ]


class _OfTable:
    """The calls of version 3, which have an answer of their own for each kind."""

    def __init__(self, client: MetastoreClient, ref: TableRef) -> None:
        self._call = partial(client.call, about=ref.full_name)
        self._of_table = {"catName": _CATALOG, "db_name": ref.database, "tbl_name": ref.name}
        self._foreign = {
            "foreign_db_name": ref.database,
            "foreign_tbl_name": ref.name,
            "catName": _CATALOG,
        }

    def primary_keys(self) -> list[Any]:
        request = idl_tables.PrimaryKeysRequest(**self._of_table)
        return self._listed(idl_tables.get_primary_keys, request, "primaryKeys")

    def foreign_keys(self) -> list[Any]:
        request = idl_tables.ForeignKeysRequest(**self._foreign)
        return self._listed(idl_tables.get_foreign_keys, request, "foreignKeys")

    def unique(self) -> list[Any]:
        request = idl_tables.UniqueConstraintsRequest(**self._of_table)
        return self._listed(idl_tables.get_unique_constraints, request, "uniqueConstraints")

    def not_null(self) -> list[Any]:
        request = idl_tables.NotNullConstraintsRequest(**self._of_table)
        return self._listed(idl_tables.get_not_null_constraints, request, "notNullConstraints")

    def defaults(self) -> list[Any]:
        request = idl_tables.DefaultConstraintsRequest(**self._of_table)
        return self._listed(idl_tables.get_default_constraints, request, "defaultConstraints")

    def checks(self) -> list[Any]:
        request = idl_tables.CheckConstraintsRequest(**self._of_table)
        return self._listed(idl_tables.get_check_constraints, request, "checkConstraints")

    def _listed(self, call: Any, request: Any, field: str) -> list[Any]:
        structs: list[Any] = self._call(
            call, request, read=lambda answer: list(getattr(answer, field) or ())
        )
        return structs


def _parsed(**structs: Iterable[Any]) -> TableConstraints:
    of = {field: list(values) for field, values in structs.items()}
    return TableConstraints(
        not_null=tuple(
            NotNull(column=raw.column_name, name=raw.nn_name, **_flags(raw))
            for raw in of.get("notNullConstraints", ())
        ),
        checks=tuple(
            Check(
                expression=raw.check_expression,
                column=raw.column_name,
                name=raw.dc_name,
                **_flags(raw),
            )
            for raw in of.get("checkConstraints", ())
        ),
        defaults=tuple(
            Default(
                column=raw.column_name, value=raw.default_value, name=raw.dc_name, **_flags(raw)
            )
            for raw in of.get("defaultConstraints", ())
        ),
        keys=(
            *_keys("primary", "pk_name", of.get("primaryKeys", ())),
            *_keys("unique", "uk_name", of.get("uniqueConstraints", ())),
            *_foreign_keys(of.get("foreignKeys", ())),
        ),
    )


def _keys(kind: KeyType, name: str, structs: Iterable[Any]) -> list[Key]:
    return [
        Key(type=kind, columns=[raw.column_name for raw in key], name=key_name, **_flags(key[0]))
        for key_name, key in _grouped(name, structs).items()
    ]


def _foreign_keys(structs: Iterable[Any]) -> list[Key]:
    return [
        Key(
            type="foreign",
            columns=[raw.fkcolumn_name for raw in key],
            name=key_name,
            references=TableRef(key[0].pktable_db, key[0].pktable_name).full_name,
            referenced_columns=[raw.pkcolumn_name for raw in key],
            **_flags(key[0]),
        )
        for key_name, key in _grouped("fk_name", structs).items()
    ]


def _grouped(name: str, structs: Iterable[Any]) -> dict[str, list[Any]]:
    """Group the structs by key, which has one struct for each column, in order."""
    keys: dict[str, list[Any]] = defaultdict(list)
    for raw in sorted(structs, key=lambda raw: int(raw.key_seq)):
        keys[getattr(raw, name)].append(raw)
    return keys


def _flags(raw: Any) -> dict[str, Any]:
    return {
        "enabled": bool(raw.enable_cstr),
        "validated": bool(raw.validate_cstr),
        "rely": bool(raw.rely_cstr),
    }
