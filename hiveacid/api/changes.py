"""The verbs that change a table: each makes a job, which its owner runs, collects, or explains."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, Self, TypeVar, Unpack

from hiveacid.api.engines import Batches, Engines
from hiveacid.api.rows import Rows, batch_of, column_names
from hiveacid.dataclass import dataclass
from hiveacid.errors import UnknownColumn
from hiveacid.jobs.definition_jobs import TruncateJob
from hiveacid.jobs.fields import Parameters, require_list
from hiveacid.jobs.job import ScriptedJob
from hiveacid.jobs.sources import BatchSource, Source
from hiveacid.jobs.write_jobs import (
    DeleteJob,
    InsertJob,
    InsertOptions,
    MergeJob,
    MergeOptions,
    PartitionSpec,
    RowOptions,
    UpdateJob,
)
from hiveacid.rules.merge import (
    Clause,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)
from hiveacid.rules.names import TableRef
from hiveacid.rules.sql_names import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column

    Expression = str | Column

# A write id, or a time.
Version = int | datetime | str
_BATCH = "the given rows"

R = TypeVar("R")


class TableChanges(Generic[R]):
    """The changes of a table.

    Rows are a frame of Spark, pandas, or Polars, a table, a batch, or a reader of Arrow, a list of
    dictionaries, or a source. The index of pandas is left out, and its NaN is null. Conditions and
    values are SQL, or columns of PySpark. Rows and columns of Spark are evaluated on Spark.

    Args:
        name: The table, ``"database.table"``.
        engines: Evaluates columns of PySpark.
        run: Receives the job of a change, and its rows.
        orc_codec: The compression of new files, if it differs from the options'.
    """

    def __init__(
        self,
        name: str,
        engines: Engines,
        run: Callable[[ScriptedJob, Batches], R],
        orc_codec: str | None = None,
    ) -> None:
        self.ref = TableRef.parse(name)
        self._engines = engines
        self._run = run
        self._target: dict[str, Any] = {"target": self.ref.full_name, "orc_codec": orc_codec}

    def append(
        self,
        rows: Rows,
        partitions: Sequence[PartitionSpec] | None = None,
        **options: Unpack[InsertOptions],
    ) -> R:
        """Add rows, by default with columns found by name.

        Example::

            >>> report = orders.append([{"id": 7, "status": "new"}])
            >>> report.rows_inserted
            1

        Args:
            rows: The rows; their values must fit. Missing columns get their default value, or null.
            partitions: The partitions that can be written, if known: writers of other partitions
                need not wait. A single partition also gives its values to the rows.
            options: Other fields of ``InsertJob``, such as ``by_position`` and ``merge_schema``.
        """
        return self._insert(rows, partitions=partitions, **options)

    def overwrite(
        self,
        rows: Rows,
        partitions: Sequence[PartitionSpec] | None = None,
        **options: Unpack[InsertOptions],
    ) -> R:
        """Replace all rows, or in a partitioned table those of the partitions that get rows.

        Args:
            rows: The new rows.
            partitions: The partitions to replace, even without new rows.
            options: See ``append``.
        """
        return self._insert(rows, partitions=partitions, overwrite=True, **options)

    def truncate(self, partition: PartitionSpec | None = None) -> R:
        """Remove all rows.

        Args:
            partition: Some or all partition keys with their values: only rows of these partitions
                are removed.
        """
        return self._run(TruncateJob(**self._target, partition=partition), {})

    def upsert(self, rows: Rows, on: Sequence[str]) -> R:
        """Update the rows of the table with the same keys, and insert all others.

        Columns that the rows lack keep their values, and in new rows get their default value, or
        null; a source must have all columns. A null equals no key.

        Example::

            orders.upsert(pandas.DataFrame({"id": [7], "status": ["new"]}), on=["id"])

        Args:
            rows: The rows, with different keys.
            on: The names of the key columns.

        Raises:
            CheckFailed: Several rows have the keys of one row of the table.
        """
        require_list(on, "on", 'on=["id"]')
        keys = sorted({name.lower() for name in on})
        source, batches = _given(rows)
        clauses: list[Clause] = [MatchedUpdate(), NotMatchedInsert()]
        if (names := column_names(batches.get(_BATCH, source))) is not None:
            values = {name.lower(): quoted("s", name.lower()) for name in names}
            if missing := [name for name in keys if name not in values]:
                raise UnknownColumn(f"The rows have no column {', '.join(missing)}.")
            others = {name: value for name, value in values.items() if name not in keys}
            clauses = [*([MatchedUpdate(others)] if others else []), NotMatchedInsert(values)]
        equal = " AND ".join(f"{quoted('t', name)} = {quoted('s', name)}" for name in keys)
        place = self._engines.place(*batches.values())
        job = MergeJob(**self._target, source=source, on=equal, when=clauses, run_in=place)
        return self._run(job, batches)

    def update(
        self,
        set: Mapping[str, "Expression"],
        where: "Expression | None" = None,
        params: Parameters | None = None,
        **options: Unpack[RowOptions],
    ) -> R:
        """Change rows.

        Example::

            table.update({"status": "'late'"}, "t.due < current_date()")
            table.update({"status": F.lit("late")}, F.col("t.due") < F.current_date())
            table.update({"status": ":new"}, "t.id = :id", {"new": "late", "id": 7})

        Args:
            set: Column to expression, each in SQL or as a column of PySpark.
            where: A condition, likewise, which only ``all_rows=True`` replaces.
            params: The values of parameters: ``{"id": 7}`` for ``:id``.
            options: Other fields of ``UpdateJob``, such as ``all_rows`` and ``inputs``.
        """
        return self._change(UpdateJob, where, params, options, set=set)

    def delete(
        self,
        where: "Expression | None" = None,
        params: Parameters | None = None,
        **options: Unpack[RowOptions],
    ) -> R:
        """Delete rows; see ``update``."""
        return self._change(DeleteJob, where, params, options)

    def merge(
        self, source: Rows, on: "Expression", **options: Unpack[MergeOptions]
    ) -> "MergeBuilder[R]":
        """Begin to describe a merge.

        Args:
            source: The rows to compare with; evaluated once.
            on: The condition for matching a source row with a target row, in SQL or as a PySpark
                column.
            options: Other fields of ``MergeJob``, such as ``source_alias`` and ``params``.
        """
        source, batches = _given(source)
        job = MergeJob(
            **self._target,
            source=source,
            on=self._engines.text(on) or "",
            when=(),
            run_in=self._engines.place(on, *batches.values()),
            **options,
        )
        return MergeBuilder(self, job, batches)

    def _change(
        self,
        kind: type[UpdateJob | DeleteJob],
        where: "Expression | None",
        params: Parameters | None,
        options: RowOptions,
        **fields: Any,
    ) -> R:
        parts = [where, *(part for values in fields.values() for part in _values(values))]
        job = kind(
            **self._target,
            where=self._engines.text(where),
            params=params or {},
            run_in=self._engines.place(*parts),
            **{name: self._texts(values) for name, values in fields.items()},
            **options,
        )
        return self._run(job, {})

    def _insert(self, rows: Rows, **fields: Any) -> R:
        source, batches = _given(rows)
        place = self._engines.place(*batches.values())
        return self._run(InsertJob(**self._target, source=source, run_in=place, **fields), batches)

    def _texts(self, values: Any) -> Any:
        """Return the SQL of values; a job refuses whatever is no mapping of texts."""
        if not isinstance(values, Mapping):
            return values
        return {name: self._engines.text(value) for name, value in values.items()}


def _given(rows: Rows) -> tuple[Source, Batches]:
    """Return rows as the source of a job, and its batches."""
    if isinstance(rows, Source):
        return rows, {}
    return BatchSource(_BATCH), {_BATCH: batch_of(rows)}


def _values(values: object) -> list[Any]:
    return [*values.values()] if isinstance(values, Mapping) else []


@dataclass(frozen=True)
class MergeBuilder(Generic[R]):
    """Collects the clauses of a merge; ``execute`` runs it.

    Of each kind of clause, the first one with a true condition applies. Conditions and expressions
    are SQL, or PySpark columns, over the aliases of target and source, by default ``t`` and ``s``.

    Example::

        merge = table.merge(changes, "t.id = s.id")
        merge = merge.when_matched_delete("s.op = 'D'").when_matched_update_all()
        merge.when_not_matched_insert_all("s.op <> 'D'").execute()
    """

    _table: TableChanges[R]
    _job: MergeJob
    _batches: Batches

    def when_matched_update(
        self, set: Mapping[str, "Expression"], condition: "Expression | None" = None
    ) -> Self:
        """Update the target row of a pair: column to expression."""
        return self._with(MatchedUpdate, condition, set)

    def when_matched_update_all(self, condition: "Expression | None" = None) -> Self:
        """Update every column of the target row from the source's column of the same name."""
        return self._with(MatchedUpdate, condition, None)

    def when_matched_delete(self, condition: "Expression | None" = None) -> Self:
        """Delete the target row of a pair."""
        return self._with(MatchedDelete, condition)

    def when_not_matched_insert(
        self, values: Mapping[str, "Expression"], condition: "Expression | None" = None
    ) -> Self:
        """Insert a source row without a match: column to expression, null for the others."""
        return self._with(NotMatchedInsert, condition, values)

    def when_not_matched_insert_all(self, condition: "Expression | None" = None) -> Self:
        """Insert a source row without a match, every column by its name."""
        return self._with(NotMatchedInsert, condition, None)

    def when_not_matched_by_source_update(
        self, set: Mapping[str, "Expression"], condition: "Expression | None" = None
    ) -> Self:
        """Update a target row without a match; expressions can name the target only."""
        return self._with(NotMatchedBySourceUpdate, condition, set)

    def when_not_matched_by_source_delete(self, condition: "Expression | None" = None) -> Self:
        """Delete a target row without a match."""
        return self._with(NotMatchedBySourceDelete, condition)

    def execute(self) -> R:
        """Run the merge: at once, or with the other changes of its transaction."""
        return self._table._run(self._job, self._batches)

    def _with(
        self,
        kind: Callable[..., Clause],
        condition: "Expression | None",
        *values: "Mapping[str, Expression] | None",
    ) -> Self:
        """Add a clause of a kind."""
        table, engines = self._table, self._table._engines
        clause = kind(*map(table._texts, values), engines.text(condition))
        parts = [part for given in values for part in _values(given)]
        place = (
            self._job.run_in if self._job.run_in == "spark" else engines.place(condition, *parts)
        )
        job = replace(self._job, when=(*self._job.when, clause), run_in=place)
        return replace(self, _job=job)


def version_text(version: Version) -> str:
    """Return a version as jobs have it."""
    return version.isoformat() if isinstance(version, datetime) else str(version)
