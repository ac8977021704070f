"""Databases, tables and partitions of the fake metastore."""

import threading
import time
import uuid
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from hiveacid.metastore.thrift import idl_tables
from hiveacid.rules.metastore_version import MetastoreVersion
from hiveacid.rules.names import DEFAULT_PARTITION, TableRef, partition_name
from hiveacid.rules.schema import TableKind
from tests.fakes.constraints import Constraints
from tests.places import place_of, remove_all


@dataclass
class _Table:
    raw: Any
    partitions: dict[str, Any] = field(default_factory=dict)


class Catalog:
    """Answers the calls of `idl_tables`; methods are named as those are."""

    def __init__(
        self,
        version: MetastoreVersion,
        warehouse: str,
        dropped: Callable[[str, str], None],
        renamed: Callable[[TableRef, TableRef], None],
        constraints: Constraints,
    ) -> None:
        """An empty catalog.

        Args:
            version: The version whose answers it gives.
            warehouse: The location of the default database.
            dropped: Receives every dropped table: its database and its name.
            renamed: Receives every renamed table: its old name and its new one.
            constraints: Keeps the constraints of the tables.
        """
        self._version = version
        self._dropped = dropped
        self._renamed = renamed
        self._constraints = constraints
        self._databases: dict[str, Any] = {}
        self._tables: dict[tuple[str, str], _Table] = {}
        self._created: dict[tuple[str, str], int] = {}
        self._seeded: set[tuple[str, str]] = set()
        self._ids = count(1)
        self._caller = threading.local()
        self._root = warehouse
        self._uuid = str(uuid.uuid4())
        default = idl_tables.Database(name="default", locationUri=warehouse)
        self._databases["default"] = default

    def set_ugi(self, user: str, _: list[str]) -> list[str]:
        self._caller.user = user
        return [user]

    def get_metastore_db_uuid(self) -> str:
        return self._uuid

    # Databases

    def get_all_databases(self) -> list[str]:
        return list(self._databases)

    def get_database(self, name: str) -> Any:
        return self._found(self._databases.get(name), name)

    def create_database(self, database: Any) -> None:
        if database.name in self._databases:
            raise idl_tables.AlreadyExistsException(f"Database {database.name} already exists")
        database.locationUri = database.locationUri or f"{self._root}/{database.name}.db"
        if self._version is MetastoreVersion.HMS4:
            database.ownerName = database.ownerName or getattr(self._caller, "user", None)
        place_of(database.locationUri).mkdir(parents=True, exist_ok=True)
        self._databases[database.name] = database

    def drop_database(self, name: str, delete_data: bool, cascade: bool) -> None:
        database = self.get_database(name)
        if (tables := self.get_all_tables(name)) and not cascade:
            raise idl_tables.InvalidOperationException(
                f"Database {name} is not empty. One or more tables exist."
            )
        for table in tables:
            self.drop_table(name, table, delete_data)
        del self._databases[name]
        if delete_data:
            remove_all(place_of(database.locationUri))

    # Tables

    def get_all_tables(self, database: str) -> list[str]:
        return [name for owner, name in self._tables if owner == database]

    def get_table_req(self, request: Any) -> Any:
        return idl_tables.GetTableResult(self._table(request.dbName, request.tblName).raw)

    def get_table_objects_by_name_req(self, request: Any) -> Any:
        names = [(request.dbName, name) for name in request.tblNames]
        return idl_tables.GetTablesResult(
            [self._tables[key].raw for key in names if key in self._tables]
        )

    def create_table_req(self, request: Any) -> None:
        self.create_table(request.table)
        fields = {name: getattr(request, name) for name in request.__slots__}
        self._constraints.declare(request.table.dbName, request.table.tableName, fields)

    def create_table_with_constraints(self, table: Any, *given: Any) -> None:
        fields = idl_tables.create_table_with_constraints.arguments.__slots__[1:]
        self.create_table(table)
        named = dict(zip(fields, given, strict=True))
        self._constraints.declare(table.dbName, table.tableName, named)

    def create_table(self, table: Any) -> None:
        key = (table.dbName, table.tableName)
        if key in self._tables:
            raise idl_tables.AlreadyExistsException(f"Table hive.{'.'.join(key)} already exists")
        database = self.get_database(table.dbName)
        if table.tableType != "VIRTUAL_VIEW":
            location = table.sd.location or f"{database.locationUri}/{table.tableName}"
            table.sd.location = location.replace("file:///", "file:/")
            place_of(table.sd.location).mkdir(parents=True, exist_ok=True)
        # Version 3.1 distinguishes two creations only by whole seconds; tests do not wait for one.
        created = max(int(time.time()), self._created.get(key, 0) + 1)
        self._created[key] = created
        table.createTime, table.catName = created, "hive"
        table.parameters = {
            **(table.parameters or {}),
            "transient_lastDdlTime": str(table.createTime),
        }
        if self._version is MetastoreVersion.HMS4:
            table.id = next(self._ids)
        self._tables[key] = _Table(table)

    def let_tables_age(self) -> None:
        for table in self._tables.values():
            table.raw.createTime -= 10

    def drop_table(self, database: str, name: str, delete_data: bool) -> None:
        table = self._table(database, name)
        del self._tables[database, name]
        self._seeded.discard((database, name))
        self._dropped(database, name)
        self._constraints.forget(database, name)
        if delete_data and table.raw.sd.location:
            remove_all(place_of(table.raw.sd.location))

    def alter_table_req(self, request: Any) -> Any:
        self.alter_table_with_environment_context(
            request.dbName, request.tableName, request.table, request.environmentContext
        )
        return idl_tables.AlterTableResponse()

    def alter_table_with_environment_context(
        self, database: str, name: str, new: Any, context: Any
    ) -> None:
        table = self._tables.get((database, name))
        if table is None:
            raise idl_tables.InvalidOperationException(
                f"table hive.{database}.{name} doesn't exist"
            )
        told = context.properties
        self._seed(table.raw, new)
        if self._version is MetastoreVersion.HMS4 and "expected_parameter_key" in told:
            key, expected = told["expected_parameter_key"], told["expected_parameter_value"]
            current = table.raw.parameters.get(key)
            if current != expected:
                # With a database that can compare them; Derby fails when they are equal.
                raise idl_tables.MetaException(
                    f"The table has been modified. The parameter value for key '{key}' is "
                    f"'{current}'. The expected was value was '{expected}'"
                )
        if (new.dbName, new.tableName) != (database, name):
            self._rename(table, TableRef(database, name), new)
        if told.get("CASCADE") == "true":
            for partition in table.partitions.values():
                partition.sd.cols = list(new.sd.cols)
        new.createTime, new.id = table.raw.createTime, table.raw.id
        table.raw = new

    def _seed(self, old: Any, new: Any) -> None:
        """Allocate the first write id of a converted table, also for a call that is refused then."""
        before, after = (TableKind.of(each.parameters) for each in (old, new))
        if before is after or after is not TableKind.FULL_ACID:
            return
        key = (new.dbName, new.tableName)
        if key in self._seeded:
            raise idl_tables.MetaException("Duplicate key value: NEXT_WRITE_ID_IDX")
        self._seeded.add(key)

    def _rename(self, table: _Table, old: TableRef, new: Any) -> None:
        ref = TableRef(new.dbName, new.tableName)
        if (ref.database, ref.name) in self._tables:
            raise idl_tables.InvalidOperationException(f"new table {ref} already exists")
        usual = f"{self._databases[old.database].locationUri}/{old.name}"
        if table.raw.sd.location == usual:
            location = f"{self._databases[ref.database].locationUri}/{ref.name}"
            if place_of(location).exists():
                raise idl_tables.InvalidOperationException(
                    f"New location for this table hive.{ref} already exists : {location}"
                )
            place_of(usual).rename(place_of(location))
            new.sd.location = location
            for partition in table.partitions.values():
                if partition.sd.location.startswith(f"{usual}/"):
                    partition.sd.location = location + partition.sd.location.removeprefix(usual)
        self._tables[ref.database, ref.name] = self._tables.pop((old.database, old.name))
        self._renamed(old, ref)
        self._constraints.rename((old.database, old.name), (ref.database, ref.name))

    # Partitions

    def get_partition_names(self, database: str, name: str, _: int) -> list[str]:
        return sorted(self._table(database, name).partitions)

    def get_partitions_by_names(self, database: str, name: str, names: list[str]) -> list[Any]:
        partitions = self._table(database, name).partitions
        return [partitions[value] for value in names if value in partitions]

    def get_partitions_with_specs(self, request: Any) -> Any:
        table = self._table(request.dbName, request.tblName)
        names = request.filterSpec.filters
        chosen = table.partitions if names is None else dict.fromkeys(names)
        partitions = [each for name, each in table.partitions.items() if name in chosen]
        return idl_tables.GetPartitionsResponse(_specs(table.raw.sd, partitions))

    def get_partitions_pspec(self, database: str, name: str, _: int) -> list[Any]:
        table = self._table(database, name)
        return _specs(table.raw.sd, list(table.partitions.values()))

    def add_partitions_req(self, request: Any) -> Any:
        table = self._tables.get((request.dbName, request.tblName))
        if table is None:
            name = f"hive.{request.dbName}.{request.tblName}"
            raise idl_tables.InvalidObjectException(
                f"Unable to add partitions because database or table {name} does not exist"
            )
        for partition in request.parts:
            name = _partition_name(table, partition)
            if name not in table.partitions:
                partition.createTime, partition.catName = int(time.time()), "hive"
                place_of(partition.sd.location).mkdir(parents=True, exist_ok=True)
                table.partitions[name] = partition
            elif not request.ifNotExists:
                raise idl_tables.AlreadyExistsException(f"Partition already exists: {name}")
        return idl_tables.AddPartitionsResult()

    def drop_partitions_req(self, request: Any) -> Any:
        table = self._table(request.dbName, request.tblName)
        for name in request.parts.names:
            if (partition := table.partitions.pop(name, None)) is not None:
                if request.deleteData:
                    remove_all(place_of(partition.sd.location))
            elif not request.ifExists:
                raise idl_tables.NoSuchObjectException("Some partitions to drop are missing")
        return idl_tables.DropPartitionsResult()

    def alter_partitions_req(self, request: Any) -> Any:
        self.alter_partitions_with_environment_context(
            request.dbName, request.tableName, request.partitions, request.environmentContext
        )
        return idl_tables.AlterPartitionsResponse()

    def alter_partitions_with_environment_context(
        self, database: str, name: str, partitions: list[Any], _: Any
    ) -> None:
        table = self._table(database, name)
        altered = {_partition_name(table, partition): partition for partition in partitions}
        if missing := altered.keys() - table.partitions.keys():
            raise idl_tables.InvalidOperationException(
                f"Alter partition operation failed: {', '.join(missing)} not found"
            )
        table.partitions |= altered

    def get_table_statistics_req(self, request: Any) -> Any:
        """It stores no statistics of columns."""
        self._table(request.dbName, request.tblName)
        return idl_tables.TableStatsResult(tableStats=[])

    def get_partitions_statistics_req(self, request: Any) -> Any:
        self._table(request.dbName, request.tblName)
        return idl_tables.PartitionsStatsResult(partStats={})

    def _table(self, database: str, name: str) -> _Table:
        return self._found(self._tables.get((database, name)), f"hive.{database}.{name} table")

    def _found(self, value: Any, what: str) -> Any:
        if value is None:
            raise idl_tables.NoSuchObjectException(f"{what} not found")
        return value


def _partition_name(table: _Table, partition: Any) -> str:
    values = [None if value == DEFAULT_PARTITION else value for value in partition.values]
    return partition_name([key.name for key in table.raw.partitionKeys], values)


def _specs(table: Any, partitions: list[Any]) -> list[Any]:
    """Group the partitions below a table that have all of its storage but the location."""
    shared, alone = [], []
    for partition in partitions:
        own, path = deepcopy(partition.sd), partition.sd.location.removeprefix(table.location)
        own.location, own.cols = table.location, table.cols
        if own == table and path != partition.sd.location:
            shared.append(
                idl_tables.PartitionWithoutSD(
                    values=partition.values, createTime=partition.createTime, relativePath=path
                )
            )
        else:
            alone.append(partition)
    together = idl_tables.PartitionSpecWithSharedSD(shared, table)
    return [
        idl_tables.PartitionSpec(sharedSDPartitionSpec=together),
        idl_tables.PartitionSpec(partitionList=idl_tables.PartitionListComposingSpec(alone)),
    ]
