"""Writes of frames: the jobs of the plans of Spark's writers, and the statement of its merge."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob
from hiveacid.jobs.sources import BatchSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, TransactionJob
from hiveacid.rules.sql_names import quoted
from hiveacid.spark.java_objects import class_of, elements

# The name of the rows in the job of a write.
ROWS = "rows"


def job_of(plan: Any, name: str) -> InsertJob | TransactionJob | None:
    """Return the job of a write; None if this package does not have such a write.

    Args:
        plan: The plan, an object of Java.
        name: The table, "database.table".
    """
    append = InsertJob(target=name, source=BatchSource(ROWS))
    match _kind(plan):
        # Statements in a script of Spark also have names of columns and partitions.
        case "InsertIntoStatement" if not (_has_names(plan) or plan.byName()):
            return replace(append, overwrite=plan.overwrite(), by_position=True)
        case "AppendData":
            return replace(append, by_position=not plan.isByName())
        case "OverwritePartitionsDynamic":
            return replace(append, overwrite=True, by_position=not plan.isByName())
        case "OverwriteByExpression":
            delete = DeleteJob(target=name, where=str(plan.deleteExpr().sql()))
            append = replace(append, by_position=not plan.isByName())
            return TransactionJob(target=name, statements=[delete, append])
        case "SaveAsV1TableCommand":
            overwrites = str(plan.mode().name()) == "Overwrite"
            return replace(append, overwrite=overwrites, whole_table=overwrites)
    return None


@dataclass(frozen=True, slots=True)
class NewTable:
    """A transactional table that a writer of frames shall make.

    Attributes:
        parts: The parts of its name.
        keys: The partition keys.
        properties: The properties, without those of the kind of table.
        mode: The writer's mode: "create", "ignore", "replace", or "create or replace".
    """

    parts: tuple[str, ...]
    keys: tuple[str, ...]
    properties: Mapping[str, str]
    mode: str

    def text(self, name: str, view: str) -> str:
        """Return the statement that makes it.

        Args:
            name: Its full name.
            view: A temporary view with the rows.
        """
        exists = "IF NOT EXISTS " if self.mode == "ignore" else ""
        keys = f" PARTITIONED BY ({', '.join(map(quoted, self.keys))})" if self.keys else ""
        pairs = ", ".join(
            f"{_literal(key)} = {_literal(value)}" for key, value in self.properties.items()
        )
        properties = f" TBLPROPERTIES ({pairs})" if pairs else ""
        return (
            f"CREATE TABLE {exists}{quoted(*name.split('.'))}{keys}{properties}"
            f" AS SELECT * FROM {view}"
        )


def new_table_of(plan: Any) -> NewTable | None:
    """Return the transactional table that a plan would make; None if it makes no such table.

    Args:
        plan: The plan, an object of Java.

    Raises:
        InvalidJob: It would be partitioned by something else than columns.
    """
    kind = _kind(plan)
    if kind == "SaveAsV1TableCommand":
        definition = plan.productElement(0)
        parts = str(definition.identifier().unquotedString()).split(".")
        properties = _pairs(definition.storage().properties())
        keys = [str(key) for key in elements(definition.partitionColumnNames())]
        mode = {"Ignore": "ignore"}.get(str(plan.productElement(1).name()), "create")
    else:
        parts = [str(part) for part in elements(plan.name().nameParts())]
        properties = _pairs(plan.tableSpec().properties())
        keys = [*map(_key, elements(plan.partitioning()))]
        if kind == "CreateTableAsSelect":
            mode = "ignore" if plan.ignoreIfExists() else "create"
        else:
            mode = "create or replace" if plan.orCreate() else "replace"
    is_ours = any(
        name.lower() == "transactional" and value.lower() == "true"
        for name, value in properties.items()
    )
    own = {name: value for name, value in properties.items() if name.lower() != "transactional"}
    return NewTable(tuple(parts), tuple(keys), own, mode) if is_ours else None


def _key(transform: Any) -> str:
    names = [str(name) for name in transform.references()[0].fieldNames()]
    if str(transform.name()) != "identity" or len(names) > 1:
        raise InvalidJob(
            f"A transactional table is not partitioned by {transform.describe()}.",
            remedy="Partition it by a column that contains the value.",
        )
    return names[0]


def _pairs(properties: Any) -> dict[str, str]:
    pairs, iterator = {}, properties.iterator()
    while iterator.hasNext():
        pair = iterator.next()
        pairs[str(pair._1())] = str(pair._2())
    return pairs


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def rows_of(plan: Any) -> Any:
    """Return the plan of the rows of a write."""
    return plan.sourceTable() if is_merge(plan) else plan.query()


def is_merge(plan: Any) -> bool:
    """Whether a write merges its rows."""
    return _kind(plan) == "MergeIntoTable"


def merge_text(plan: Any, name: str, view: str) -> str:
    """Return the statement that a merge stands for.

    Args:
        plan: The plan.
        name: The table, "database.table".
        view: A temporary view with the rows.

    Raises:
        InvalidJob: The merge would add columns to the table.
    """
    if plan.withSchemaEvolution():
        raise InvalidJob(
            f"A merge of a frame into {name} adds no columns.",
            remedy="Add them by ALTER TABLE, and omit withSchemaEvolution().",
        )
    source = plan.sourceTable()
    is_named = _kind(source) == "SubqueryAlias"
    alias = quoted(str(source.alias()) if is_named else "source")
    clauses = [
        _clause(action, kind)
        for kind, actions in (
            ("MATCHED", plan.matchedActions()),
            ("NOT MATCHED", plan.notMatchedActions()),
            ("NOT MATCHED BY SOURCE", plan.notMatchedBySourceActions()),
        )
        for action in elements(actions)
    ]
    parts = name.split(".")
    return (
        f"MERGE INTO {quoted(*parts)} AS {quoted(parts[-1])} USING {view} AS {alias}"
        f" ON {plan.mergeCondition().sql()} {' '.join(clauses)}"
    )


def _clause(action: Any, kind: str) -> str:
    """Return the clause of a merge that an action of Spark stands for."""
    condition = action.condition()
    when = f" AND {condition.get().sql()}" if condition.isDefined() else ""
    name = _kind(action)
    has_pairs = name in ("UpdateAction", "InsertAction")
    assignments = elements(action.assignments()) if has_pairs else []
    pairs = [(pair.key().sql(), pair.value().sql()) for pair in assignments]
    change = {
        "DeleteAction": "DELETE",
        "UpdateStarAction": "UPDATE SET *",
        "InsertStarAction": "INSERT *",
        "UpdateAction": "UPDATE SET " + ", ".join(f"{key} = {value}" for key, value in pairs),
        "InsertAction": "INSERT ({}) VALUES ({})".format(
            ", ".join(key for key, _ in pairs), ", ".join(value for _, value in pairs)
        ),
    }[name]
    return f"WHEN {kind}{when} THEN {change}"


def _has_names(insert: Any) -> bool:
    return not (insert.partitionSpec().isEmpty() and insert.userSpecifiedCols().isEmpty())


def _kind(node: Any) -> str:
    return class_of(node).rpartition(".")[2]
