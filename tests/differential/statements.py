"""Statements in one text for Spark and DuckDB, as our jobs, and their results in DuckDB."""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import duckdb

from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, UpdateJob
from hiveacid.rules.merge import (
    Clause,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)

TARGET, OTHER = "target", "other"


class Duplicates(Exception):
    """Two source rows act on one target row."""


@dataclass(frozen=True)
class Counts:
    """The numbers of rows that a statement inserted, updated and deleted; None is unknown."""

    inserted: int = 0
    updated: int = 0
    deleted: int | None = 0


class Statement(ABC):
    """Something that is done to the table `target`."""

    @abstractmethod
    def sql(self) -> str:
        """The statement as users write it."""

    @abstractmethod
    def job(self, database: str) -> Job:
        """The statement as a job on the tables of a database."""

    @abstractmethod
    def judge(self, referee: duckdb.DuckDBPyConnection) -> Counts:
        """Carry the statement out in DuckDB."""


@dataclass(frozen=True)
class Insert(Statement):
    """INSERT INTO or INSERT OVERWRITE.

    Attributes:
        source: A query with the columns.
        columns: The columns it has, by name, as the table orders them.
        keys: The partition keys of the table.
        replaces: Whether it is an overwrite.
        static: Partition keys that all rows get one value of, as literals.
    """

    source: str
    columns: Sequence[str]
    keys: Sequence[str] = ()
    replaces: bool = False
    static: Mapping[str, str] = field(default_factory=dict)

    def sql(self) -> str:
        if not self.replaces:
            return f"INSERT INTO {TARGET} ({', '.join(self.columns)}) {self.source}"
        spec = [f"{key} = {self.static[key]}" if key in self.static else key for key in self.keys]
        partition = f" PARTITION ({', '.join(spec)})" if self.static else ""
        return f"INSERT OVERWRITE TABLE {TARGET}{partition} {self.source}"

    def job(self, database: str) -> Job:
        static = {key: _text(literal) for key, literal in self.static.items()}
        return InsertJob(
            target=f"{database}.{TARGET}",
            source=_query(self.source, database),
            overwrite=self.replaces,
            static=static or None,
        )

    def judge(self, referee: duckdb.DuckDBPyConnection) -> Counts:
        columns = [*self.columns, *self.static]
        values = ", ".join([f"rows.{name}" for name in self.columns] + [*self.static.values()])
        # It may read the rows that it replaces.
        referee.execute(f"CREATE OR REPLACE TEMP TABLE rows AS {self.source}")
        if self.replaces:
            same = [
                f"{TARGET}.{key} IS NOT DISTINCT FROM {self.static.get(key, f'rows.{key}')}"
                for key in self.keys
            ]
            where = f"EXISTS (SELECT 1 FROM rows WHERE {' AND '.join(same)})" if same else "TRUE"
            if len(self.static) == len(self.keys):
                where = " AND ".join(f"{key} = {text}" for key, text in self.static.items())
            referee.execute(f"DELETE FROM {TARGET} WHERE {where or 'TRUE'}")
        rows = f"INSERT INTO {TARGET} ({', '.join(columns)}) SELECT {values} FROM rows"
        return Counts(inserted=_count(referee, rows), deleted=None if self.replaces else 0)


@dataclass(frozen=True)
class Update(Statement):
    values: Mapping[str, str]
    where: str | None

    def sql(self) -> str:
        values = ", ".join(f"{name} = {value}" for name, value in self.values.items())
        return f"UPDATE {TARGET} AS t SET {values}{_where(self.where)}"

    def job(self, database: str) -> Job:
        inputs = _inputs(self.where or "", database)
        target = f"{database}.{TARGET}"
        return UpdateJob(
            target=target,
            set=self.values,
            where=self.where,
            inputs=inputs,
            all_rows=self.where is None,
        )

    def judge(self, referee: duckdb.DuckDBPyConnection) -> Counts:
        return Counts(updated=_count(referee, self.sql()))


@dataclass(frozen=True)
class Delete(Statement):
    where: str | None

    def sql(self) -> str:
        return f"DELETE FROM {TARGET} AS t{_where(self.where)}"

    def job(self, database: str) -> Job:
        inputs = _inputs(self.where or "", database)
        target = f"{database}.{TARGET}"
        return DeleteJob(
            target=target, where=self.where, inputs=inputs, all_rows=self.where is None
        )

    def judge(self, referee: duckdb.DuckDBPyConnection) -> Counts:
        return Counts(deleted=_count(referee, self.sql()))


@dataclass(frozen=True)
class When:
    """A clause of a merge; no values means all columns of the source."""

    kind: str
    action: str
    values: Mapping[str, str] | None = None
    condition: str | None = None

    def clause(self) -> Clause:
        match self.kind, self.action:
            case "MATCHED", "UPDATE":
                return MatchedUpdate(self.values, self.condition)
            case "MATCHED", "DELETE":
                return MatchedDelete(self.condition)
            case "NOT MATCHED", "INSERT":
                return NotMatchedInsert(self.values, self.condition)
            case "NOT MATCHED BY SOURCE", "DELETE":
                return NotMatchedBySourceDelete(self.condition)
        return NotMatchedBySourceUpdate(self.values or {}, self.condition)

    def sql(self, columns: Sequence[str] | None) -> str:
        """The clause's text, with the columns behind a star spelled out if they are given."""
        values = self.values
        if values is None and columns is not None:
            values = {name: f"s.{name}" for name in columns}
        condition = "" if self.condition is None else f" AND {self.condition}"
        return f"WHEN {self.kind}{condition} THEN {self._action(values)}"

    def _action(self, values: Mapping[str, str] | None) -> str:
        if self.action == "DELETE":
            return "DELETE"
        if values is None:
            return "UPDATE SET *" if self.action == "UPDATE" else "INSERT *"
        if self.action == "UPDATE":
            return "UPDATE SET " + ", ".join(f"{name} = {text}" for name, text in values.items())
        return f"INSERT ({', '.join(values)}) VALUES ({', '.join(values.values())})"


@dataclass(frozen=True)
class Merge(Statement):
    source: str
    on: str
    when: Sequence[When]
    columns: Sequence[str]

    def sql(self) -> str:
        return self._sql(None)

    def job(self, database: str) -> Job:
        return MergeJob(
            target=f"{database}.{TARGET}",
            source=_query(self.source, database),
            on=self.on,
            when=tuple(clause.clause() for clause in self.when),
        )

    def judge(self, referee: duckdb.DuckDBPyConnection) -> Counts:
        others = tuple(each for each in self.when if each.kind != "MATCHED")
        if [each for each in self.when if each not in others] == [When("MATCHED", "DELETE")]:
            # DuckDB refuses several source rows for a row, which is deleted here.
            found = f"SELECT t.rowid FROM {TARGET} AS t JOIN ({self.source}) AS s ON {self.on}"
            gone = ", ".join({str(number) for (number,) in referee.execute(found).fetchall()})
            counts = replace(self, when=others).judge(referee) if others else Counts()
            deleted = _count(referee, f"DELETE FROM {TARGET} WHERE rowid IN ({gone or 'NULL'})")
            return replace(counts, deleted=(counts.deleted or 0) + deleted)
        try:
            done = referee.execute(f"{self._sql(self.columns)} RETURNING merge_action").fetchall()
        except duckdb.InvalidInputException as error:
            if "same target row more than once" not in str(error):
                raise
            raise Duplicates from error
        actions = [action for (action,) in done]
        return Counts(*map(actions.count, ("INSERT", "UPDATE", "DELETE")))

    def _sql(self, columns: Sequence[str] | None) -> str:
        clauses = "\n  ".join(clause.sql(columns) for clause in self.when)
        return f"MERGE INTO {TARGET} AS t USING ({self.source}) AS s ON {self.on}\n  {clauses}"


@dataclass(frozen=True)
class Compact(Statement):
    """No statement that changes rows; it must not change any."""

    type: str

    def sql(self) -> str:
        return f"compaction: {self.type}"

    def job(self, database: str) -> Job:
        return CompactJob(target=f"{database}.{TARGET}", type=self.type)

    def judge(self, referee: duckdb.DuckDBPyConnection) -> Counts:
        return Counts()


def values(rows: Sequence[Sequence[str]], columns: Mapping[str, str]) -> str:
    """A query of literal rows."""
    if not rows:
        nulls = ", ".join(f"CAST(NULL AS {type_}) AS {name}" for name, type_ in columns.items())
        return f"SELECT {nulls} WHERE FALSE"
    texts = ", ".join(f"({', '.join(row)})" for row in rows)
    return f"SELECT * FROM (VALUES {texts}) AS v({', '.join(columns)})"


def _where(condition: str | None) -> str:
    return "" if condition is None else f" WHERE {condition}"


def _query(sql: str, database: str) -> QuerySource:
    return QuerySource(sql=sql, inputs=_inputs(sql, database))


def _inputs(sql: str, database: str) -> dict[str, TableSource]:
    names = [name for name in (TARGET, OTHER) if re.search(rf"\bFROM {name}\b", sql)]
    return {name: TableSource(f"{database}.{name}") for name in names}


def _text(literal: str) -> str:
    return literal.removeprefix("DATE ").strip("'")


def _count(referee: duckdb.DuckDBPyConnection, sql: str) -> int:
    row = referee.execute(sql).fetchone()
    assert row is not None
    return int(row[0])
