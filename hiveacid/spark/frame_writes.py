"""Writes of frames: the jobs of the plans of Spark's writers, and the statement of its merge."""

from dataclasses import replace
from typing import Any

from hiveacid.errors import InvalidJob
from hiveacid.jobs.sources import BatchSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, TransactionJob
from hiveacid.rules.sql_names import quoted
from hiveacid.spark.java_objects import class_of

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
        for action in _elements(actions)
    ]
    parts = name.split(".")
    return (
        f"MERGE INTO {quoted(*parts)} AS {quoted(parts[-1])} USING {view} AS {alias}"
        f" ON {plan.mergeCondition().sql()} {' '.join(clauses)}"
    )


def _elements(sequence: Any) -> list[Any]:
    return [sequence.apply(index) for index in range(sequence.size())]


def _clause(action: Any, kind: str) -> str:
    """Return the clause of a merge that an action of Spark stands for."""
    condition = action.condition()
    when = f" AND {condition.get().sql()}" if condition.isDefined() else ""
    name = _kind(action)
    has_pairs = name in ("UpdateAction", "InsertAction")
    assignments = _elements(action.assignments()) if has_pairs else []
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
