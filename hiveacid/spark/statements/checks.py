"""Checks of written rows that Spark evaluates."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import NumericType, StringType

from hiveacid.dataclass import dataclass
from hiveacid.errors import HiveAcidError, InvalidJob
from hiveacid.jobs.checks import (
    MOST_SHOWN,
    Absent,
    Apart,
    Check,
    Holds,
    Keys,
    Meaning,
    QueryCheck,
    Repeated,
    Returned,
    RowCheck,
    TooOld,
)
from hiveacid.jobs.sources import Input, QuerySource
from hiveacid.metastore.catalog import HivePartition, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.rules.sql_names import quoted
from hiveacid.spark.failures import translated_spark_errors
from hiveacid.spark.read.acid_snapshot import AcidSnapshot
from hiveacid.spark.read.table_reader import TableReader
from hiveacid.spark.rows.columns import all_columns, spark_struct
from hiveacid.spark.session import scan_session
from hiveacid.spark.spark_versions import from_rows, to_arrow
from hiveacid.spark.statements.conditions import Expressions, bound_expression
from hiveacid.spark.statements.source import SourceFrame
from hiveacid.writes.engine import CheckEvaluator, Violations, Written
from hiveacid.writes.sums import parts_of_sums, sum_of

_SPLITS_PER_CORE = 4


@dataclass(eq=False)
class SparkChecks(CheckEvaluator):
    """Evaluates the checks of one write.

    Attributes:
        spark: The user's session, which is not changed.
        client: The metastore.
    """

    spark: SparkSession
    client: MetastoreClient
    _batches: dict[str, DataFrame] = field(default_factory=dict)
    _queries: dict[int, Callable[[], Violations]] = field(default_factory=dict)
    _conditions: dict[int, str] = field(default_factory=dict)

    @cached_property
    def _session(self) -> SparkSession:
        session = scan_session(self.spark)
        # The files of one write are few: in Spark's splits of a small file, one core gets most stripes.
        splits = _SPLITS_PER_CORE * self.spark.sparkContext.defaultParallelism
        session.conf.set("spark.sql.files.minPartitionNum", splits)
        # One pass counts in one row: a plan that adapts to its sizes has nothing to choose.
        session.conf.set("spark.sql.adaptive.enabled", "false")
        return session

    def prepare(self, tables: Mapping[str, HiveTable], checks: Sequence[Check]) -> list[TableRef]:
        """See the base class."""
        # The conditions of other checks are not those of a user.
        compiled_checks = [check for check in checks if isinstance(check, Holds | QueryCheck)]
        if compiled_checks:
            for name, table in tables.items():
                empty = from_rows(self._session, [], spark_struct(all_columns(table)))
                self._batches[name] = empty
        reads: list[TableRef] = []
        holding: dict[str, list[Holds]] = {}
        for check in compiled_checks:
            assert check.table is not None, "Jobs give each check its table."
            name = TableRef.parse(check.table).full_name
            with translated_spark_errors(f"The check {check.label}"):
                if isinstance(check, Holds):
                    self._condition(check)
                    holding.setdefault(name, []).append(check)
                else:
                    self._queries[id(check)] = self._compiled(check.meaning(name), reads)
        for name, checks_of_table in holding.items():
            self._analyze(self._batches[name], checks_of_table)
        return [*dict.fromkeys(reads)]

    def _analyze(self, rows: DataFrame, checks: Sequence[Holds]) -> None:
        """Let Spark resolve conditions: all at once, and one by one only to name an invalid one."""
        labels = ", ".join(check.label for check in checks)
        try:
            with translated_spark_errors(f"The checks {labels}"):
                _ = rows.select(*[F.expr(self._condition(check)) for check in checks]).schema
        except HiveAcidError:
            if len(checks) == 1:
                raise
            for check in checks:
                self._analyze(rows, [check])
            raise

    def begin(self, txn: Transaction, tables: Mapping[str, Written]) -> None:
        """See the base class."""
        self._reader, self._written = TableReader(self.client, txn), tables
        self._batches.clear()

    def count(self, table: Written) -> int:
        """See the base class."""
        return self._whole_table(table).count()

    def violating_rows(self, table: Written, checks: Sequence[RowCheck]) -> list[Violations]:
        """See the base class."""
        whole = checks[0].whole_table
        rows = self._whole_table(table) if whole else self.frame(table)
        conditions = [self._condition(check) for check in checks]
        counts = [F.expr(f"count_if({text})").alias(f"c{n}") for n, text in enumerate(conditions)]
        with translated_spark_errors("The checks"):
            (counts_of_checks,) = rows.select(*counts).collect()
            return [
                Violations(number, _shown(rows.where(text)) if number and check.shown else ())
                for check, text, number in zip(checks, conditions, counts_of_checks, strict=True)
            ]

    def returned_rows(self, check: QueryCheck) -> Violations:
        """See the base class."""
        with translated_spark_errors(f"The check {check.label}"):
            for table in self._written.values():
                self.frame(table)
            return self._queries[id(check)]()

    def _compiled(self, meaning: Meaning, reads: list[TableRef]) -> Callable[[], Violations]:
        """Let Spark resolve the query of a check, and return its evaluation.

        Args:
            meaning: The meaning of the check.
            reads: Receives the transactional tables that it reads.
        """

        def source(sql: str, **inputs: Input) -> SourceFrame:
            return self._source(QuerySource(sql, inputs), reads)

        match meaning:
            case Repeated(keys):
                names = ", ".join(map(quoted, keys.columns))
                sql = (
                    f"SELECT {names}, count(*) AS copies FROM ({_keys(keys, 'n')}) GROUP BY {names}"
                )
                return partial(self._returned, source(f"{sql} HAVING count(*) > 1", n=keys.rows))
            case Absent(keys, references):
                pairs = zip(keys.columns, references.columns, strict=True)
                equal = " AND ".join(
                    f"x.{quoted(own_column_name)} = y.{quoted(other_column)}"
                    for own_column_name, other_column in pairs
                )
                own_keys, other_keys = _keys(keys, "n"), _keys(references, "o")
                sql = f"SELECT * FROM ({own_keys}) x LEFT ANTI JOIN ({other_keys}) y ON {equal}"
                return partial(self._returned, source(sql, n=keys.rows, o=references.rows))
            case TooOld(rows, column):
                newest = f"max({quoted(column)})"
                micros = f"unix_micros(CAST({newest} AS TIMESTAMP))"
                newest = f"SELECT {newest} AS newest, {micros} AS at FROM n"
                return partial(self._too_old, meaning, source(newest, n=rows))
            case Apart(totals):
                sums = [
                    source(f"SELECT {text} AS total FROM n", n=rows)
                    for rows, text in totals.values()
                ]
                return partial(self._apart, meaning, sums, [*map(_as_number, sums)])
            case Returned(query):
                return partial(self._returned, self._source(query, reads))

    def _source(self, query: QuerySource, reads: list[TableRef]) -> SourceFrame:
        source = SourceFrame(self.spark, self.client, query, self._batches)
        _ = source.empty().schema
        reads += source.acid_tables
        return source

    def _returned(self, source: SourceFrame) -> Violations:
        rows = source.frame(self._reader)
        # A query that returns no row, the usual case, is evaluated once.
        rows_to_show = _shown(rows)
        if len(rows_to_show) < MOST_SHOWN:
            return Violations(len(rows_to_show), rows_to_show)
        return Violations(rows.count(), rows_to_show)

    def _too_old(self, meaning: TooOld, source: SourceFrame) -> Violations:
        ((newest, micros),) = source.frame(self._reader).collect()
        moment = None if micros is None else datetime(1970, 1, 1) + timedelta(microseconds=micros)
        return Violations(1, [{"newest": newest}]) if meaning.is_violated(moment) else Violations(0)

    def _apart(
        self, meaning: Apart, sources: Sequence[SourceFrame], numbers: Sequence[str]
    ) -> Violations:
        sums = []
        for source, number in zip(sources, numbers, strict=True):
            values = source.frame(self._reader).select(F.expr(number).alias("total"))
            parts = values.mapInArrow(parts_of_sums, "part string").collect()
            kind = to_arrow_type(values.schema[0].dataType)
            sums.append(sum_of([row.part for row in parts], kind))
        totals = dict(zip(meaning.totals, map(str, sums), strict=True))
        return Violations(1, [totals]) if meaning.is_violated(sums) else Violations(0)

    def arrow(self, table: Written) -> pa.Table:
        """See the base class."""
        rows = to_arrow(self.frame(table))
        return rows.rename_columns([name.lower() for name in rows.column_names])

    def frame(self, table: Written) -> DataFrame:
        """See the base class."""
        name = table.table.ref.full_name
        if name not in self._batches:
            self._batches[name] = self._written_rows(table)
        return self._batches[name]

    def _condition(self, check: RowCheck) -> str:
        """Return the condition of the rows that violate a check."""
        if (condition := self._conditions.get(id(check))) is not None:
            return condition
        text = check.condition
        if isinstance(check, Holds):
            text = Expressions(self._session, check.values, check.trusted).sql(text)
        else:
            text = bound_expression(self._session, text, check.values)
        self._conditions[id(check)] = f"NOT ({text})"
        return self._conditions[id(check)]

    def _whole_table(self, table: Written) -> DataFrame:
        return self._reader.rows(self._session, table.table)

    def _written_rows(self, written_table: Written) -> DataFrame:
        """Return the rows of published directories."""
        table = self._reader.confirmed(written_table.table)
        partitions: Sequence[HivePartition] = ()
        if table.partition_keys:
            names = written_table.partitions
            partitions = self.client.get_partitions(table, names) if names else ()
        names = [quoted(column.name) for column in all_columns(table)]
        if table.kind is TableKind.INSERT_ONLY:
            flat = self._reader.flat_files(table, partitions)
            files_by_partition = [
                (part, [f for f in files if written_table.has(f.path)])
                for part, files in flat.files
            ]
            return replace(flat, files=files_by_partition).rows(self._session).select(*names)
        found = self._reader.files(table, partitions)
        parts = [
            replace(
                part,
                inserts=tuple(file for file in part.inserts if written_table.has(file.path)),
                deletes=(),
            )
            for part in found.partitions
        ]
        snapshot = AcidSnapshot.of(replace(found, partitions=parts))
        return snapshot.rows(self._session, with_key=False).select(*names)


def _keys(keys: Keys, view: str) -> str:
    """Return the query of keys."""
    names = ", ".join(map(quoted, keys.columns))
    is_complete = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in keys.columns)
    return f"SELECT {names} FROM {view} WHERE {is_complete}"


def _as_number(source: SourceFrame) -> str:
    """Return an expression of the values to add, which are numbers.

    Raises:
        InvalidJob: They are not.
    """
    (total,) = source.empty().schema
    if isinstance(total.dataType, NumericType):
        return total.name
    # As sums of Spark do, which fail if a text is no number.
    if isinstance(total.dataType, StringType):
        return f"CAST({total.name} AS DOUBLE)"
    raise InvalidJob(f"Values of the type {total.dataType.simpleString()} have no sum.")


def _shown(rows: DataFrame) -> list[dict[str, Any]]:
    return [row.asDict() for row in rows.limit(MOST_SHOWN).collect()]
