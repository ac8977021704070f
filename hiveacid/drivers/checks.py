"""Checks for errors that would fail a job in Spark, from the metastore, before Spark is started.

They open no transaction, take no lock and change nothing. Uncertain cases are left to the job,
which repeats all checks.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import singledispatchmethod
from typing import TYPE_CHECKING

from hiveacid.drivers.driver_files import DriverFiles
from hiveacid.errors import (
    AuthenticationFailed,
    HiveAcidError,
    InvalidJob,
    MetastoreError,
    MetastoreUnreachable,
    TableExists,
    TableNotFound,
    UnknownColumn,
    UnsupportedMetastore,
    UserError,
    VersionUnknown,
)
from hiveacid.jobs.definition_jobs import CatalogJob, CreateTableAsJob, CreateViewJob, TruncateJob
from hiveacid.jobs.export_job import ExportChangesJob
from hiveacid.jobs.fields import awaits_rendering, columns_of_schema
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.jobs.sources import (
    PATH_FORMATS,
    ChangesSource,
    Input,
    PathSource,
    QuerySource,
    Source,
    TableSource,
)
from hiveacid.jobs.stage_jobs import StageJob
from hiveacid.jobs.stream_job import StreamJob
from hiveacid.jobs.table_properties import RUN_PROPERTY
from hiveacid.jobs.write_jobs import (
    DeleteJob,
    InsertJob,
    MergeJob,
    RestoreJob,
    RowJob,
    SourceJob,
    TransactionJob,
    UpdateJob,
    skipping_empty_sources,
)
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.kept_tokens import token_of
from hiveacid.metastore.table_rules import (
    check_kind,
    column_names,
    columns_there,
    existing_table,
    names_of_partitions,
    partitions_to_truncate,
    requested_partitions,
    require_versions,
)
from hiveacid.metastore.txn.owner import Snapshot, find_open_transactions
from hiveacid.plan.columns import columns_of_row, find_columns, require_columns
from hiveacid.plan.insert import InsertMapping
from hiveacid.plan.merge import MergeChange
from hiveacid.records.run_notes import RunNoteFolder
from hiveacid.records.table_history import version_of
from hiveacid.rules.location import Location
from hiveacid.rules.merge import columns_taken
from hiveacid.rules.names import TableRef
from hiveacid.rules.run_tokens import source_token
from hiveacid.rules.schema import TableKind
from hiveacid.rules.sql_tokens import names_in, values_per_row
from hiveacid.rules.texts import did_you_mean
from hiveacid.rules.versions import as_of_write_id, check_order
from hiveacid.rules.write_ids import AsOf
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.hidden_folder import TableOfFolder
from hiveacid.storage.listing import list_files, versions_of
from hiveacid.upkeep.survey import require_compactable, require_mode

if TYPE_CHECKING:
    from hiveacid.parser.known_columns import UnknownName


# Whether the versions and the partitions that a job names exist, before Spark is started


# Listing the folders of more partitions takes longer than the start of Spark.
_MOST_PARTITIONS = 20


def require_known_version(client: MetastoreClient, table: HiveTable, as_of: AsOf | None) -> None:
    """Refuse a version that does not exist.

    Raises:
        VersionUnknown: The write id does not exist yet, or the time is in the future.
        VersionGone: Partitions of the version were dropped later.
    """
    is_past = as_of is not None and as_of.time is not None and as_of.time <= datetime.now(UTC)
    if as_of is None or as_of.oldest or is_past:
        return  # The files are listed by the job.
    version_of(client, table.ref, as_of, _now(client, table).write_ids[table.ref.full_name])


def require_version(client: MetastoreClient, table: HiveTable, as_of: AsOf | None) -> None:
    """Refuse a version that does not exist, or was cleaned.

    Raises:
        VersionUnknown: The version does not exist.
        VersionGone: A part of it was compacted and cleaned.
    """
    require_known_version(client, table, as_of)
    if as_of is None or as_of.write_id is None:
        return
    snapshot = _now(client, table)
    now = snapshot.write_ids[table.ref.full_name]
    version = version_of(client, table.ref, as_of, now)
    flat = table.kind is TableKind.INSERT_ONLY
    for folder in _folders(client, table):
        storage = ReadOnlyStorage.of(folder)
        files = list_files(storage, TableOfFolder.of(table), missing_ok=True)
        versions_of(storage, files, now, snapshot.txns, flat=flat).files_of(version)


def require_order(client: MetastoreClient, table: HiveTable, source: ChangesSource) -> None:
    """Refuse changes up to a version that precedes the first one.

    Raises:
        VersionUnknown: Both are write ids or both are times, in the wrong order.
    """
    start_version, up_to = source.versions
    if up_to is None:
        return
    if start_version.write_id is not None and up_to.write_id is not None:
        now = _now(client, table).write_ids[table.ref.full_name]
        first, last = (
            as_of_write_id(now, write_id) for write_id in (start_version.write_id, up_to.write_id)
        )
        check_order(table.ref.full_name, first, last)
    elif (
        start_version.time is not None
        and up_to.time is not None
        and start_version.time > up_to.time
    ):
        raise VersionUnknown(
            f"{table.ref.full_name}: the changes would begin after {start_version.time} and end earlier, "
            f"at {up_to.time}.",
            remedy="Write the earlier time first.",
        )


def require_partitions(client: MetastoreClient, table: HiveTable, names: Sequence[str]) -> None:
    """Refuse names of partitions if none of them exists; the others are compacted.

    Raises:
        UserError: No partition exists.
    """
    existing_names = client.get_partition_names(table.ref)
    missing = [name for name in names if name not in existing_names]
    if len(missing) == len(names):
        hint = (
            f"Its newest ones are {', '.join(existing_names[-3:])}."
            if existing_names
            else "It has none."
        )
        raise UserError(
            f"{table.ref.full_name} has no partition {', '.join(missing)}.",
            remedy=did_you_mean(missing[0], existing_names) or hint,
        )


def _now(client: MetastoreClient, table: HiveTable) -> Snapshot:
    return Snapshot.take(client, [table.ref])


def _folders(client: MetastoreClient, table: HiveTable) -> list[Location]:
    if not table.partition_keys:
        return [table.folder]
    names = client.get_partition_names(table.ref)
    if len(names) > _MOST_PARTITIONS:
        return []
    return [partition.folder for partition in client.get_partitions(table, names)]


# Beside the columns of the table.
_OF_CHANGES = ("_change_type", "_write_id", "_row_id")


class Preflight:
    """Checks the requirements of a job.

    Args:
        client: The metastore.
        files: The files of this machine that are files of the job's driver.
        note: Receives a sentence on each check that is left to the job.
    """

    def __init__(
        self, client: MetastoreClient, files: DriverFiles, note: Callable[[str], object]
    ) -> None:
        self._client = client
        self._files = files
        self._note = note
        self._tables: dict[str, HiveTable] = {}
        # Those that an earlier statement of a script may make or change.
        self._changing: set[str] = set()
        # Those that it may give versions and partitions.
        self._written: set[str] = set()

    def check(self, job: Job) -> None:
        """Raise the error that the job would fail with, if it is certain.

        Args:
            job: The job, complete with its metastore and its run token.
        """
        token_env = job.metastore and job.metastore.token_env
        if token_env and token_of(token_env) is None:
            return  # The driver alone can ask the metastore.
        try:
            self._check(job)
        except (MetastoreUnreachable, UnsupportedMetastore, AuthenticationFailed):
            raise
        except MetastoreError as error:
            self._note(f"Left to the job, as the metastore did not answer: {error.what}")

    def check_query(self, query: QuerySource) -> None:
        """Raise the error that a query would fail with, if it is certain."""
        for source in query.inputs.values():
            self._check_source(source)
        self._check_columns_of_query(query)

    @singledispatchmethod
    def _check(self, job: Job) -> None:
        """Check nothing; types of jobs that can be checked register their checks below."""

    @_check.register
    def _(self, job: StreamJob) -> None:
        self._table(job.target)
        if job.source.format in PATH_FORMATS:
            path, format_ = job.source.options["path"], job.source.format
            # A later run does not read the headers of the files that earlier runs have read.
            first = self._files.is_missing(job.checkpoint)
            options = job.source.options if first else {}
            self._files.check(PathSource(path, format_, options, job.source.schema))
        for statement in job.statements:
            self._check_statement(statement)

    @_check.register
    def _(self, job: ExportChangesJob) -> None:
        """Check nothing: a complete export is found first, even if the table is not readable."""

    @_check.register
    def _(self, job: CreateViewJob) -> None:
        for name in job.reads:
            if name.lower() not in self._changing:
                self._table(name)

    @_check.register
    def _(self, script: ScriptJob) -> None:
        for number, job in enumerate(script.runs(), start=script.first + 1):
            if isinstance(job, CatalogJob):
                if job.defines is None:
                    return  # The following statements may depend on it.
                self._changing.update(table.lower() for table in job.defines)
                continue
            try:
                self._check(job)
            except HiveAcidError as error:
                error.what = f"Statement {number} of {len(script.statements)}: {error.what}"
                raise
            self._changing.update(table.lower() for table in job.defines or ())
            self._written.update(table.lower() for table in job.tables)

    @_check.register
    def _(self, job: CompactJob) -> None:
        require_mode(self._client, job)
        if job.mode == "serve" or job.target.lower() in self._changing:
            return
        table = self._table(job.target)
        require_compactable(table)
        if job.partitions is not None and job.target.lower() not in self._written:
            names = requested_partitions(self._client, table, job.partitions)
            require_partitions(self._client, table, names)

    @_check.register
    def _(self, job: CreateTableAsJob) -> None:
        if job.target.lower() not in self._changing:
            with suppress(TableNotFound):
                table = self._client.get_table(TableRef.parse(job.target))
                ours = job.run_token and table.parameters.get(RUN_PROPERTY) == job.run_token
                if ours or job.if_not_exists:
                    return  # There may be nothing left to read.
                raise TableExists(f"{table.ref.full_name} is there already.")
        for source in job.insert.inputs_read.values():
            self._check_source(source)
        if job.insert.query is not None:
            self._check_columns_of_query(job.insert.query)

    @_check.register(RowJob)
    @_check.register(TruncateJob)
    @_check.register(TransactionJob)
    def _(self, job: Job) -> None:
        """Check a job that writes in one transaction."""
        targets = [table for table in job.tables if table.lower() not in self._changing]
        if not targets:
            return
        try:
            for statement in job.parts:
                with skipping_empty_sources(getattr(statement, "on_empty", None)):
                    self._check_statement(statement)
        except HiveAcidError as error:
            if isinstance(error, MetastoreError) or not self._may_have_run(job, targets):
                raise
            # An earlier attempt may have committed: then nothing of this is needed any more.
            self._note(f"Left to the job, which may find the work done: {error.what}")

    @_check.register
    def _(self, job: StageJob) -> None:
        self._check(job.work)

    def _may_have_run(self, job: Job, targets: Sequence[str]) -> bool:
        """Whether an earlier attempt of the run left anything; true if that is unknown."""
        if job.token is None:
            return False
        try:
            if find_open_transactions(self._client, *job.tokens, source_token(job.token)):
                return True
            for target in targets:
                with suppress(TableNotFound):
                    table = self._table(target)
                    storage = ReadOnlyStorage.of(table.folder)
                    notes = RunNoteFolder(self._client, storage, table)
                    if notes.of_run(job.token):
                        return True
            return False
        except HiveAcidError:
            return True

    def _check_statement(self, job: Job) -> None:
        if job.target.lower() in self._changing:
            return
        for source in job.inputs_read.values():
            self._check_source(source)
        table = self._table(job.target)
        check_kind(table, job.operation)
        is_unchanged = job.target.lower() not in self._written
        if is_unchanged and isinstance(job, RestoreJob) and not awaits_rendering(job.as_of):
            require_version(self._client, table, AsOf.parse(job.as_of))
        self._check_names(job, table)
        query = job.query if isinstance(job, SourceJob) else None
        if query is not None:
            self._check_columns_of_query(query)

    @singledispatchmethod
    def _check_names(self, job: Job, table: HiveTable) -> None:
        """Check the columns and partition keys that a job names."""

    @_check_names.register
    def _(self, job: TruncateJob, table: HiveTable) -> None:
        if job.partition is not None and job.target.lower() not in self._written:
            partitions_to_truncate(self._client, table, job.partition)

    def _check_source(self, source: Source) -> None:
        if isinstance(source, PathSource):
            self._files.check(source)
        elif isinstance(source, TableSource | ChangesSource):
            if source.name.lower() in self._changing:
                return
            table = self._table(source.name)
            versions = isinstance(source, ChangesSource) or source.as_of is not None
            if versions:
                require_versions(table)
            if source.name.lower() in self._written:
                return
            if isinstance(source, TableSource):
                require_version(self._client, table, source.version)
            else:
                for version in source.versions:
                    require_known_version(self._client, table, version)
                require_order(self._client, table, source)

    @_check_names.register(UpdateJob)
    @_check_names.register(DeleteJob)
    def _(self, job: UpdateJob | DeleteJob, table: HiveTable) -> None:
        known, alias = column_names(table), job.target_alias
        # In a subquery, an apparent column of the table may be a field of an input's column.
        alias_is_unique = not any(
            self._may_name(source, alias.lower()) for source in job.inputs.values()
        )
        if job.where is not None:
            subject = f"The condition {job.where!r}"
            if alias_is_unique:
                require_columns(job.where, alias, known, subject)
            self._check_columns(job.where, job, table, subject)
        if isinstance(job, UpdateJob):
            subject = f"The update of {table.ref.full_name}"
            for name, column in zip(
                job.set, find_columns(table, list(job.set), subject), strict=True
            ):
                value = f"{subject}: the value of column {column}"
                if alias_is_unique:
                    require_columns(job.set[name], alias, known, value)
                self._check_columns(job.set[name], job, table, value)

    def _check_columns(
        self, text: str, job: UpdateJob | DeleteJob, table: HiveTable, subject: str
    ) -> None:
        """Refuse an expression with a name that certainly means no column."""
        from hiveacid.parser.known_columns import unknown_name_of_condition

        inputs = self._columns_by_name(job.inputs)
        _refuse_name(
            unknown_name_of_condition(text, job.target_alias, column_names(table), inputs), subject
        )

    def _check_columns_of_query(self, query: QuerySource) -> None:
        """Refuse a query with a name that certainly means no column, or no table function."""
        from hiveacid.parser.known_columns import misspelt_function, unknown_name

        # Common queries are views of Spark, whose columns it knows alone.
        tables = self._columns_by_name(query.inputs)
        for text in (*query.common.values(), query.sql):
            if not query.trusted and (misspelling := misspelt_function(text)):
                name, similar = misspelling
                raise InvalidJob(
                    f"The query calls {name}(), which is no table function.", remedy=similar
                )
            _refuse_name(unknown_name(text, tables), "The query")

    def _columns_by_name(self, inputs: Mapping[str, Input]) -> dict[str, Sequence[str] | None]:
        return {name.lower(): self._columns(source) for name, source in inputs.items()}

    @_check_names.register
    def _(self, job: InsertJob, table: HiveTable) -> None:
        subject = f"The insert into {table.ref.full_name}"
        mapping = InsertMapping.of(job)
        names_of_partitions(table, mapping.specified(table) or ())
        if job.by_position:
            values = None if job.query is None else values_per_row(job.query.sql)
            if values is not None:
                mapping.named(table, values - len(job.defaults), "value")
            else:
                mapping.names_by_position(table)
            return
        given = self._columns(job.source)
        if isinstance(job.source, PathSource) and job.source.schema:
            given = columns_of_schema(job.source.schema)
        if given and job.merge_schema:
            self._note_added(columns_of_row(given, job.exclude, subject), table)
        elif given:
            mapping.row(table, given)

    def _note_added(self, names: Sequence[str], table: HiveTable) -> None:
        """Note the columns that merge_schema adds."""
        existing_names = {*map(str.lower, column_names(table))}
        if new_columns := [name.lower() for name in names if name.lower() not in existing_names]:
            self._note(
                f"merge_schema adds columns to {table.ref.full_name}: {', '.join(new_columns)}."
            )

    @_check_names.register
    def _(self, job: MergeJob, table: HiveTable) -> None:
        target, source = column_names(table), self._columns(job.source)
        if job.merge_schema:
            row = [] if source is None else columns_of_row(source, job.exclude, "The merge")
            clause_columns = columns_taken(job.when)
            used_columns = [
                column
                for column in row
                if clause_columns is None or column.lower() in clause_columns
            ]
            self._note_added(used_columns, table)
            return
        change = MergeChange.of(job, table, source)
        alias_is_unique = not self._may_name(job.source, job.target_alias.lower())

        def require(text: str, subject: str) -> None:
            if alias_is_unique:
                require_columns(text, job.target_alias, target, subject)
            if source is not None and job.source_alias.lower() not in map(str.lower, target):
                require_columns(text, job.source_alias, source, subject)

        require(job.on, "The merge condition")
        for action in (*change.matched, *change.not_matched_by_source):
            if action.condition is not None:
                require(action.condition, "A condition of the merge")
            for name, value in (action.values or {}).items():
                require(value, f"{action.what}: the value of column {name}")

    def _columns(self, source: Source) -> Sequence[str] | None:
        """Return the columns of a source; None if they are unknown."""
        if isinstance(source, QuerySource):
            from hiveacid.parser.known_columns import columns_of_query

            return columns_of_query(source.sql, self._columns_by_name(source.inputs))
        if not isinstance(source, TableSource | ChangesSource):
            return None
        if source.name.lower() in self._changing:
            return None
        names = column_names(self._table(source.name))
        return names if isinstance(source, TableSource) else [*names, *_OF_CHANGES]

    def _may_name(self, source: Source, name: str) -> bool:
        """Whether a source may have a column of a name, with fields that look like columns."""
        if isinstance(source, QuerySource):
            texts = (source.sql, *source.common.values())
            if any(name in names_in(text) for text in texts):
                return True
            return any(
                self._may_name(input_source, name) for input_source in source.inputs.values()
            )
        if isinstance(source, PathSource):
            if source.schema is not None:
                return name in names_in(source.schema)
            return self._files.may_have_column(source, name)
        columns = self._columns(source)
        return columns is None or name in {column.lower() for column in columns}

    def _table(self, name: str) -> HiveTable:
        ref = TableRef.parse(name)
        table = self._tables.get(ref.full_name)
        if table is None:
            table = self._tables[ref.full_name] = existing_table(self._client, ref)
        return table


def _refuse_name(unknown_name: "UnknownName | None", subject: str) -> None:
    if unknown_name is not None:
        candidates = dict.fromkeys(unknown_name.candidates)
        raise UnknownColumn(
            f"{subject} names an unknown column: {unknown_name.name}.",
            remedy=columns_there([unknown_name.name.rpartition(".")[2]], candidates),
        )
