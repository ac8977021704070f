"""The meaning of a statement according to Spark's parser and according to the parser of this package."""

import re
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hiveacid.errors import HiveAcidError
from hiveacid.jobs.sources import QuerySource, Source, TableSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, UpdateJob
from hiveacid.parser.script import to_jobs
from hiveacid.rules.merge import (
    Clause,
    Matched,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySource,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)
from hiveacid.spark.spark_versions import SPARK_4_0, VERSION

Meaning = tuple[object, ...]
_NUMBERS = re.compile(r"#\d+L?|__auto_generated_subquery_name")
# Inputs have other names than the tables, and are called by those of the tables.
_OWN_NAME = re.compile(r"'?subqueryalias (\S+)\n[ :]*\+- ('unresolvedrelation \[(?:\w+, )?\1\])")
_INPUT = re.compile(r"\b([a-z0-9]+)__(\w+)\b")


class Parser:
    """Reads statements as Spark does.

    Args:
        spark: Its session.
    """

    def __init__(self, spark: SparkSession) -> None:
        session: Any = spark._jsparkSession  # type: ignore[attr-defined]
        self._parser: Any = session.sessionState().sqlParser()

    def difference(self, text: str) -> str | None:
        """Describe the difference between the two meanings; None if the statement is refused."""
        try:
            jobs = to_jobs(text, "db", all_rows=True)
        except HiveAcidError as error:
            return f"the refusal is not one line: {error}" if "\n" in error.what else None
        if len(jobs) != 1 or not isinstance(jobs[0], InsertJob | UpdateJob | DeleteJob | MergeJob):
            return f"it is read as {[type(job).__name__ for job in jobs]}"
        if any(getattr(each, "as_of", None) for each in _inputs(jobs[0])):
            return None  # Versions are read by us, and not by Spark.
        try:
            ours = self._of_job(jobs[0])
        except (PySparkException, Py4JError):
            # Spark refuses it before any work starts.
            return None
        try:
            plan = self._parser.parsePlan(text)
        except PySparkException as error:
            lines = str(error).strip().splitlines()
            return f"Spark does not read it: {lines[0]}"
        theirs = self._of_plan(plan)
        return None if ours == theirs else f"ours:  {ours}\n    Spark: {theirs}"

    def _of_job(self, job: InsertJob | UpdateJob | DeleteJob | MergeJob) -> Meaning:
        match job:
            case DeleteJob():
                return ("delete", job.target_alias.lower(), self._text(job.where or "true"))
            case UpdateJob():
                where = self._text(job.where or "true")
                return ("update", job.target_alias.lower(), self._texts(job.set), where)
            case MergeJob():
                aliases = (job.target_alias.lower(), job.source_alias.lower())
                on = self._text(job.on)
                kinds = (Matched, NotMatchedInsert, NotMatchedBySource)
                clauses = [
                    [self._of_clause(each) for each in job.when if isinstance(each, kind)]
                    for kind in kinds
                ]
                return ("merge", *aliases, self._of_source(job.source), on, clauses)
        assert isinstance(job, InsertJob)
        static = {**(job.static or {}), **((job.partitions or ({},))[0])}
        columns = None if job.columns is None else [*job.columns]
        assert isinstance(job.source, QuerySource)
        query = _tree(self._parser.parsePlan(job.source.sql))
        return ("insert", job.overwrite, not job.by_position, columns, static, query)

    def _of_clause(self, clause: Clause) -> Meaning:
        condition = None if clause.condition is None else self._text(clause.condition)
        match clause:
            case MatchedUpdate(set=None):
                return ("update *", condition)
            case MatchedUpdate() | NotMatchedBySourceUpdate():
                return ("update", condition, self._texts(clause.set or {}))
            case NotMatchedInsert(row=None, values=None):
                return ("insert *", condition)
            case NotMatchedInsert(row=None):
                return ("insert", condition, self._texts(clause.values or {}))
            case NotMatchedInsert():
                assert clause.row is not None
                return ("insert", condition, [self._text(value) for value in clause.row])
            case MatchedDelete():
                return ("delete", condition)
        return ("delete", condition)

    def _of_source(self, source: Source) -> Meaning:
        if isinstance(source, TableSource):
            return ("table", source.name.partition(".")[2])
        assert isinstance(source, QuerySource)
        # The author's text follows SELECT * FROM.
        return ("query", _tree(self._parser.parsePlan(source.sql).child()))

    def _texts(self, values: Mapping[str, str]) -> dict[str, str]:
        return {name.strip("`").lower(): self._text(value) for name, value in values.items()}

    def _text(self, expression: str) -> str:
        return _normal(self._parser.parseExpression(f"({expression}\n)").toString())

    def _of_plan(self, plan: Any) -> Meaning:
        kind = _kind(plan)
        if kind == "DeleteFromTable":
            return ("delete", _alias(plan.table()), _normal(plan.condition().toString()))
        if kind == "UpdateTable":
            where = plan.condition()
            text = _normal(where.get().toString()) if where.isDefined() else "true"
            return ("update", _alias(plan.table()), _assigned(plan.assignments()), text)
        if kind == "MergeIntoTable" and not _evolves(plan):
            source = plan.sourceTable()
            below = source.child() if _kind(source) == "SubqueryAlias" else source
            given: Meaning = ("query", _tree(source))
            if _kind(below) == "UnresolvedRelation":
                given = ("table", str(below.multipartIdentifier().last()).lower())
            groups = (
                plan.matchedActions(),
                plan.notMatchedActions(),
                plan.notMatchedBySourceActions(),
            )
            clauses = [[_action(each) for each in _items(group)] for group in groups]
            on = _normal(plan.mergeCondition().toString())
            return ("merge", _alias(plan.targetTable()), _alias(source), given, on, clauses)
        if kind == "InsertIntoStatement" and not plan.ifPartitionNotExists():
            spec = {
                str(pair._1()).lower(): pair._2().get()
                for pair in _items(plan.partitionSpec().toSeq())
                if pair._2().isDefined()
            }
            columns = [str(each).lower() for each in _items(plan.userSpecifiedCols())] or None
            query = _tree(plan.query())
            return ("insert", plan.overwrite(), plan.byName(), columns, spec, query)
        return (kind, plan.toString()[:200])


def _items(sequence: Any) -> list[Any]:
    iterator = sequence.iterator()
    found = []
    while iterator.hasNext():
        found.append(iterator.next())
    return found


def _inputs(job: InsertJob | UpdateJob | DeleteJob | MergeJob) -> list[object]:
    if isinstance(job, UpdateJob | DeleteJob):
        return [*(job.inputs or {}).values()]
    return [*job.source.inputs.values()] if isinstance(job.source, QuerySource) else [job.source]


def _kind(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _evolves(merge: Any) -> bool:
    # Spark 3.5 has no merge that changes the table's columns.
    return VERSION >= SPARK_4_0 and bool(merge.withSchemaEvolution())


def _tree(plan: Any) -> str:
    return _OWN_NAME.sub(r"\2", _normal(plan.toString()))


def _alias(table: Any) -> str:
    """The name of a table in its columns, or the kind of another relation."""
    if _kind(table) == "SubqueryAlias":
        return f"{table.alias()}".lower()
    if _kind(table) == "UnresolvedRelation" and table.options().size() <= 1:
        return f"{table.multipartIdentifier().last()}".lower()
    return _kind(table)


def _assigned(assignments: Any) -> dict[str, str]:
    return {
        str(each.key().nameParts().last()).lower(): _normal(each.value().toString())
        for each in _items(assignments)
    }


def _action(action: Any) -> Meaning:
    given = action.condition()
    condition = _normal(given.get().toString()) if given.isDefined() else None
    kind = _kind(action)
    if kind in ("UpdateStarAction", "InsertStarAction"):
        return (f"{kind[:6].lower()} *", condition)
    if kind == "DeleteAction":
        return ("delete", condition)
    return (kind[:6].lower(), condition, _assigned(action.assignments()))


def _normal(text: str) -> str:
    return _INPUT.sub(_table, _NUMBERS.sub("", text).lower())


def _table(name: re.Match[str]) -> str:
    return name[2] if name[1] == "db" else f"{name[1]}, {name[2]}"
