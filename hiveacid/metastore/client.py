"""A client of the Hive Metastore: one method per call, plain values in and out."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from copy import copy
from functools import cached_property, partial
from typing import Any, Self, TypeVar

from hiveacid.errors import AnswerLost, MetastoreCallFailed, MetastoreTroubled, UserError
from hiveacid.jobs.options import ALWAYS, AUTO, MetastoreOptions
from hiveacid.metastore.catalog import HiveDatabase, HivePartition, HiveTable
from hiveacid.metastore.permitted import ask_again, require_permitted
from hiveacid.metastore.thrift import idl_tables, idl_txns
from hiveacid.metastore.thrift.answers import (
    HeldLock,
    LockAnswer,
    OpenTxns,
    TxnInfo,
    TxnLiveness,
    TxnType,
)
from hiveacid.metastore.thrift.session import Session
from hiveacid.rules.features import Features
from hiveacid.rules.location import AllowedLocations, Location
from hiveacid.rules.locks import DataOperation, LockComponent
from hiveacid.rules.metastore_version import MetastoreVersion
from hiveacid.rules.names import TableRef
from hiveacid.rules.partitions import require_different_values
from hiveacid.rules.schema import ColumnMapping
from hiveacid.rules.write_ids import ValidTxnList, ValidWriteIdList

_Item = TypeVar("_Item")

# Metastores from 4.1 on use locks here to elect the leader for housekeeping.
_ELECTIONS = "__metastore_leader_election__"
_PARTITIONS_PER_CALL = 500
_LISTENERS = "hive.metastore.transactional.event.listeners"
# A setting of Hive's clients, which the metastore's configuration often contains, too.
_DML_EVENTS = "hive.metastore.dml.events"


class MetastoreClient:
    """A client of the Hive Metastore, version 3 or 4.

    It connects with the first call. Several threads and forked processes may share it: each has its
    own connection. A call with a lost answer is repeated once if that is harmless; otherwise it raises `AnswerLost`,
    and the caller must find out whether the call was executed.

    Attributes:
        call: Makes any declared call; for features with a class of their own, like the compaction
            queue.
        within: Limits the total time of all calls of this thread: `with client.within(60): ...`.
        hand_back: Leaves the connection of this thread to another one.
        listeners: Whether the metastore wants events for added files.
        allowed_locations: The locations that tables and partitions may have.
    """

    def __init__(self, options: MetastoreOptions) -> None:
        self.options = options
        self._session = Session(options)
        self.call = self._session.call
        self.within = self._session.within
        self.hand_back = self._session.hand_back
        self.listeners = Listeners(options, self.config_value)
        self.allowed_locations = AllowedLocations.parse(options.allowed_locations or "")

    def patient(self) -> Self:
        """Let calls before and within transactions wait for a metastore that was reached before.

        They wait up to ``patience_seconds`` of the options after the beginning of an outage. Without
        this, only the outcome of what was begun is waited for, as long as a transaction lives.
        """
        self._session.outage.patience_seconds = self.options.patience_seconds
        return self

    @property
    def patience_left(self) -> float:
        """How many seconds this client waits from now on for a metastore that is away."""
        return self._session.outage.seconds_left

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close all connections; the next call opens a new one."""
        self._session.close()

    @property
    def features(self) -> Features:
        """The features of the metastore and of the Hive beside it."""
        return self._session.features

    @property
    def version(self) -> MetastoreVersion:
        """The generation of the metastore, for messages; behaviour depends on `features`."""
        return self._session.version

    @property
    def column_mapping(self) -> ColumnMapping | None:
        """The mapping of columns in ORC files: configured, or the default of this Hive if known."""
        mapping_name = self.options.column_mapping
        return self.features.column_mapping if mapping_name is None else ColumnMapping(mapping_name)

    @property
    def user(self) -> str:
        """The user name that the metastore assigns to this client."""
        return self._session.user

    def config_value(self, name: str, default: str) -> str:
        """Return a setting of the server, or the default if it is not set."""
        return str(self.call(idl_tables.get_config_value, name, default))

    def release(self) -> str:
        """Return the release that the server states; version 3.1 states 3.0."""
        return str(self.call(idl_tables.get_version))

    # Databases

    def get_databases(self) -> list[str]:
        """The names of all databases."""
        return list(self.call(idl_tables.get_all_databases))

    def get_database(self, name: str) -> HiveDatabase:
        """Describe a database."""
        read, call = HiveDatabase.from_thrift, idl_tables.get_database
        database: HiveDatabase = self.call(call, name, about=name, read=read)
        return database

    def create_database(
        self,
        name: str,
        *,
        location: str | None = None,
        managed_location: str | None = None,
        comment: str | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        """Create a database; only version 4 has a location of its own for managed tables."""
        database = idl_tables.Database(
            name=name,
            description=comment,
            locationUri=location,
            managedLocationUri=managed_location,
            parameters=dict(parameters or {}),
        )
        self.call(idl_tables.create_database, database, about=name)

    def drop_database(self, name: str, *, cascade: bool = False) -> None:
        """Drop a database with its files; a database with tables requires `cascade`."""
        self.call(idl_tables.drop_database, name, True, cascade, about=name)

    # Tables

    def get_tables(self, database: str) -> list[str]:
        """The names of the tables of a database."""
        return list(self.call(idl_tables.get_all_tables, database, about=database))

    def get_table(self, ref: TableRef) -> HiveTable:
        """Describe a table.

        Raises:
            AccessRefused: Its location is not allowed.
        """
        request = idl_tables.GetTableRequest(
            dbName=ref.database,
            tblName=ref.name,
            capabilities=idl_tables.ClientCapabilities([idl_tables.INSERT_ONLY_TABLES]),
            processorCapabilities=list(idl_tables.CAPABILITIES),
            processorIdentifier=idl_tables.PROCESSOR,
        )
        has_table_fields, mapping = self.features.has_table_fields, self.column_mapping
        table: HiveTable = self.call(
            idl_tables.get_table_req,
            request,
            about=ref.full_name,
            read=lambda answer: HiveTable.from_thrift(answer.table, mapping),
        )
        if not has_table_fields:
            # Values that other numbers have filled in must not be sent back.
            for field in idl_tables.TABLE_FIELDS_OF_APACHE:
                setattr(table.raw, field, None)
        if table.location:
            self.require_location(ref, table.location)
        return table

    def require_location(self, ref: TableRef, location: str) -> Location:
        """Return the location of a table or a partition, unless this process may not open it.

        Raises:
            AccessRefused: It is not allowed, or was not asked for; see ``permitted.py``.
        """
        allowed = self.allowed_locations.require(location)
        require_permitted(self.options.uris, ref, location)
        return allowed

    def create_table(
        self, table: HiveTable, constraints: Mapping[str, Sequence[Any]] | None = None
    ) -> None:
        """Create a table and its folder; it belongs to the acting user unless it names another owner.

        Its constraints are structs by the fields of the request.
        """
        name, raw = table.ref.full_name, copy(table.raw)
        raw.owner = table.owner or self.user
        if constraints and not self.features.takes_requests:
            call_struct = idl_tables.create_table_with_constraints.arguments(tbl=raw, **constraints)
            values = [getattr(call_struct, field) or [] for field in call_struct.__slots__]
            self.call(idl_tables.create_table_with_constraints, *values, about=name)
        elif not self.features.takes_requests:
            self.call(idl_tables.create_table, raw, about=name)
        else:
            request = _creation(raw, constraints or {})
            self.call(idl_tables.create_table_req, request, about=name)
        # Its location was checked as one that nobody else has.
        ask_again(self.options.uris, table.ref)

    def check_definition(self, table: HiveTable) -> None:
        """Verify that the metastore, of version 4, accepts a definition, without creating the table.

        Raises:
            MetastoreCallFailed: It refuses such tables.
        """
        request = _creation(table.raw, {})
        self.call(idl_tables.translate_table_dryrun, request, about=table.ref.full_name)

    def drop_table(self, ref: TableRef, *, delete_data: bool = True) -> None:
        """Drop a table, and its files unless they are to be kept."""
        self.call(idl_tables.drop_table, ref.database, ref.name, delete_data, about=ref.full_name)

    # Partitions

    def get_partition_names(self, ref: TableRef) -> list[str]:
        """The escaped names of all partitions."""
        call = idl_tables.get_partition_names
        return list(self.call(call, ref.database, ref.name, -1, about=ref.full_name))

    def get_partitions(
        self, table: HiveTable, names: Sequence[str] | None = None
    ) -> list[HivePartition]:
        """Describe partitions of a table: all, or those of the given names that exist.

        The definition of the table is read again only without any names, and after a failure.

        Raises:
            TableNotFound: The table was dropped meanwhile.
        """
        ref = table.ref
        requested_names = self.get_partition_names(ref) if names is None else names
        if not requested_names:
            # Version 4 also lists no names for a table that was dropped.
            self.get_table(ref)
        try:
            partitions = [
                partition
                for batch in batches(requested_names)
                for partition in self.call(
                    idl_tables.get_partitions_by_names,
                    ref.database,
                    ref.name,
                    list(batch),
                    about=ref.full_name,
                    read=lambda raw: [
                        HivePartition.from_thrift(table, raw_partition) for raw_partition in raw
                    ],
                )
            ]
        except MetastoreCallFailed:
            # Version 4 fails without a code if the table was dropped.
            self.get_table(ref)
            raise
        for partition in partitions:
            self.require_location(ref, partition.location)
        return partitions

    def add_partitions(self, ref: TableRef, partitions: Sequence[HivePartition]) -> None:
        """Add partitions that are missing, and their folders; outside of any transaction.

        Raises:
            DataError: Values differ only by blanks at their ends.
        """
        new = [partition.name for partition in partitions]
        require_different_values(ref.full_name, new, ())
        for batch in batches(partitions):
            request = idl_tables.AddPartitionsRequest(
                dbName=ref.database,
                tblName=ref.name,
                parts=[partition.raw for partition in batch],
                ifNotExists=True,
                needResult=False,
            )
            try:
                self.call(idl_tables.add_partitions_req, request, about=ref.full_name)
            except MetastoreCallFailed:
                with suppress(UserError):  # The table was dropped.
                    require_different_values(ref.full_name, new, self.get_partition_names(ref))
                raise

    def drop_partitions(
        self, ref: TableRef, names: Sequence[str], confirm: Callable[[], None]
    ) -> None:
        """Drop the partitions of some names that exist, with their files; outside of any transaction.

        Args:
            ref: The table.
            names: The names of its partitions.
            confirm: Called before each group of partitions; raises an error if the lock is lost.
        """
        for batch in batches(names):
            confirm()
            request = idl_tables.DropPartitionsRequest(
                dbName=ref.database,
                tblName=ref.name,
                parts=idl_tables.RequestPartsSpec(list(batch)),
                deleteData=True,
                ifExists=True,
                needResult=False,
            )
            self.call(idl_tables.drop_partitions_req, request, about=ref.full_name)

    # Transactions

    def open_txn(
        self, user: str, host: str, agent_info: str | None, kind: TxnType = TxnType.DEFAULT
    ) -> int:
        """Open a transaction.

        Version 4 reports the agent info back only with the transaction's locks.
        """
        request = idl_txns.OpenTxnRequest(
            num_txns=1, user=user, hostname=host, agentInfo=agent_info, txn_type=int(kind)
        )
        return int(
            self.call(idl_txns.open_txns, request, read=lambda answer: int(answer.txn_ids[0]))
        )

    def commit_txn(self, txn: int) -> None:
        """Commit a transaction.

        Raises:
            WriteConflict: Another transaction changed the same table or partition and was first.
            TransactionAborted: The transaction is not open (any more).
        """
        # Version 4 treats an unset exclWriteEnabled as true and then checks for no conflict.
        request = idl_txns.CommitTxnRequest(txnid=txn, exclWriteEnabled=False)
        self.call(idl_txns.commit_txn, request)

    def abort_txn(self, txn: int) -> None:
        """Abort a transaction; aborting it again is allowed."""
        self.call(idl_txns.abort_txn, idl_txns.AbortTxnRequest(txnid=txn))

    def heartbeat(self, txn: int) -> TxnLiveness:
        """Keep a transaction and its locks alive."""
        request = idl_txns.HeartbeatTxnRangeRequest(min=txn, max=txn)

        def read(answer: Any) -> TxnLiveness:
            if txn in answer.aborted:
                return TxnLiveness.ABORTED
            return TxnLiveness.UNKNOWN if txn in answer.nosuch else TxnLiveness.OPEN

        return TxnLiveness(self.call(idl_txns.heartbeat_txn_range, request, read=read))

    def get_open_txns(self) -> OpenTxns:
        """Return all transactions that are open or aborted."""
        txns: OpenTxns = self.call(idl_txns.get_open_txns, read=OpenTxns.from_thrift)
        return txns

    def get_open_txns_info(self) -> list[TxnInfo]:
        """Return all transactions that are open or aborted, with their owners."""
        read = TxnInfo.all_from_thrift
        try:
            return list(self.call(idl_txns.get_open_txns_info, read=read))
        except AnswerLost:
            # Version 4 fails at a gap in the ids, as a restart leaves it, that is under a second old.
            time.sleep(1.5)
            return list(self.call(idl_txns.get_open_txns_info, read=read))

    # Write ids

    def allocate_write_id(self, txn: int, ref: TableRef) -> int:
        """Return the transaction's write id for a table; repeated calls return the same one."""
        request = idl_txns.AllocateTableWriteIdsRequest(ref.database, ref.name, [txn])
        allocate = partial(
            self.call,
            idl_txns.allocate_table_write_ids,
            request,
            about=ref.full_name,
            read=lambda answer: int(answer.txnToWriteIds[0].writeId),
        )
        try:
            return int(allocate())
        except MetastoreCallFailed as refused:
            # A metastore that was lost with the question was about to carry it out all the same.
            if "duplicate" not in refused.what.lower():
                raise
            return int(allocate())

    def get_valid_write_ids(
        self, refs: Sequence[TableRef], txns: ValidTxnList
    ) -> dict[str, ValidWriteIdList]:
        """Return the valid write ids of each table, by full name, for a list of transactions."""
        request = idl_txns.GetValidWriteIdsRequest(
            fullTableNames=[ref.full_name for ref in refs], validTxnList=txns.format()
        )

        def read(answer: Any) -> dict[str, ValidWriteIdList]:
            return {
                table_write_ids.fullTableName: ValidWriteIdList.from_table(
                    table_write_ids.fullTableName,
                    table_write_ids.writeIdHighWaterMark,
                    table_write_ids.invalidWriteIds,
                    table_write_ids.minOpenWriteId,
                    table_write_ids.abortedBits,
                )
                for table_write_ids in answer.tblValidWriteIds
            }

        return dict(self.call(idl_txns.get_valid_write_ids, request, read=read))

    def latest_conflicting_txn(self, txn: int) -> int:
        """Return the youngest committed transaction that conflicts with this one, or 0 (version 4)."""
        return int(self.call(idl_txns.get_latest_txnid_in_conflict, txn))

    def add_dynamic_partitions(
        self, txn: int, write_id: int, ref: TableRef, names: Sequence[str], operation: DataOperation
    ) -> None:
        """Register the partitions that a transaction with a lock on the whole table has written."""
        request = idl_txns.AddDynamicPartitions(
            txnid=txn,
            writeid=write_id,
            dbname=ref.database,
            tablename=ref.name,
            partitionnames=list(names),
            operationType=int(operation),
        )
        self.call(idl_txns.add_dynamic_partitions, request, about=ref.full_name)

    # Locks

    def lock(
        self,
        components: Sequence[LockComponent],
        txn: int | None,
        user: str,
        host: str,
        agent_info: str | None,
    ) -> LockAnswer:
        """Request locks atomically; never for a transaction that may be committed already.

        Locks without a transaction must be kept alive by `heartbeat_lock` and released by `unlock`.
        """
        request = idl_txns.LockRequest(
            component=[_component(component) for component in components],
            txnid=txn,
            user=user,
            hostname=host,
            agentInfo=agent_info,
        )
        answer: LockAnswer = self.call(idl_txns.lock, request, read=LockAnswer.from_thrift)
        return answer

    def heartbeat_lock(self, lock_id: int) -> None:
        """Keep a lock alive that belongs to no transaction.

        Raises:
            TransactionAborted: It has expired.
        """
        self.call(idl_txns.heartbeat, idl_txns.HeartbeatRequest(lockid=lock_id))

    def unlock(self, lock_id: int) -> None:
        """Release a lock that belongs to no transaction; releasing a missing lock is allowed."""
        self.call(idl_txns.unlock, idl_txns.UnlockRequest(lockid=lock_id))

    def check_lock(self, lock_id: int, txn: int | None) -> LockAnswer:
        """Check whether a waiting lock is granted; this is a heartbeat, too."""
        request = idl_txns.CheckLockRequest(lockid=lock_id, txnid=txn)
        answer: LockAnswer = self.call(idl_txns.check_lock, request, read=LockAnswer.from_thrift)
        return answer

    def show_locks(self, ref: TableRef | None = None) -> list[HeldLock]:
        """Return all locks, or those on a table and its partitions."""
        request = idl_txns.ShowLocksRequest(
            dbname=ref and ref.database, tablename=ref and ref.name, isExtended=True
        )
        locks = self.call(idl_txns.show_locks, request, read=HeldLock.all_from_thrift)
        return [lock for lock in locks if lock.database != _ELECTIONS]


def batches(items: Sequence[_Item]) -> Iterator[Sequence[_Item]]:
    """Divide names or partitions into groups, each of which one call can concern."""
    for start in range(0, len(items), _PARTITIONS_PER_CALL):
        yield items[start : start + _PARTITIONS_PER_CALL]


def _creation(raw: Any, constraints: Mapping[str, Sequence[Any]]) -> Any:
    return idl_tables.CreateTableRequest(
        table=raw,
        **constraints,
        processorCapabilities=list(idl_tables.CAPABILITIES),
        processorIdentifier=idl_tables.PROCESSOR,
    )


def _component(component: LockComponent) -> Any:
    return idl_txns.LockComponent(
        type=int(component.type),
        level=int(component.level),
        dbname=component.database,
        tablename=component.table,
        partitionname=component.partition,
        operationType=int(component.operation),
        isTransactional=component.is_transactional,
        isDynamicPartitionWrite=component.is_dynamic_partition_write,
    )


class Listeners:
    """The listeners of a metastore, which are determined once.

    Attributes:
        unknown_calls: The names of the calls for events that the metastore has rejected as unknown.
    """

    def __init__(self, options: MetastoreOptions, config_value: Callable[[str, str], str]) -> None:
        """Describe the listeners; this makes no call.

        Args:
            options: The connection options of the metastore.
            config_value: Returns a setting of the metastore, given its name and a default.
        """
        self.unknown_calls: set[str] = set()
        self._choice = options.write_events
        self._config_value = config_value

    @cached_property
    def want_events(self) -> bool:
        """Return whether writes report the files that they add; takes at most two calls."""
        if self._choice != AUTO:
            return self._choice == ALWAYS
        try:
            if self._config_value(_LISTENERS, "").strip():
                return True
            return self._config_value(_DML_EVENTS, "").strip().lower() == "true"
        except MetastoreTroubled:
            raise
        except MetastoreCallFailed:
            return False  # Some services keep their settings to themselves.
