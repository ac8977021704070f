"""Writes of frames: the jobs of the plans of Spark's writers, and the statements of others."""

from dataclasses import replace
from typing import Any

from hiveacid.errors import InvalidJob
from hiveacid.jobs.sources import BatchSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, TransactionJob
from hiveacid.rules.sql_names import quoted
from hiveacid.spark.java_objects import class_of, elements

# The name of the rows in the job of a write.
ROWS = "rows"


def job_of(plan: Any, name: str, exists: bool) -> InsertJob | TransactionJob | None:
    """Return the job of a write; None if it is a statement, or this package has no such write.

    Args:
        plan: The plan, an object of Java.
        name: The table, "database.table".
        exists: Whether the table exists.
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
        case "SaveAsV1TableCommand" | "CreateTable" if exists and _mode(plan) in (
            "Append",
            "Overwrite",
        ):
            overwrites = _mode(plan) == "Overwrite"
            return replace(append, overwrite=overwrites, whole_table=overwrites)
        case "ReplaceTableAsSelect" if exists or not plan.orCreate():
            # The definition of a table outlives its rows, also for saveAsTable.
            return replace(append, overwrite=True, whole_table=True)
    return None


def rows_of(plan: Any) -> Any:
    """Return the plan of the rows of a write."""
    if _kind(plan) == "CreateTable":
        return plan.query().get()
    return plan.sourceTable() if _kind(plan) == "MergeIntoTable" else plan.query()


def text_of(plan: Any, name: str, view: str) -> str | None:
    """Return the statement that a write stands for; None if this package has no such write.

    Args:
        plan: The plan.
        name: The table, "database.table".
        view: A temporary view with the rows.

    Raises:
        InvalidJob: The table would be partitioned by an expression, or a merge would add columns.
    """
    match _kind(plan):
        case "MergeIntoTable":
            return _merge(plan, name, view)
        case "CreateTableAsSelect" | "ReplaceTableAsSelect":
            keys = [_key(transform) for transform in elements(plan.partitioning())]
            definition = plan.tableSpec()
            form, properties = definition.provider(), _pairs(definition.properties())
            accepts = _kind(plan) == "CreateTableAsSelect" and plan.ignoreIfExists()
            buckets, location = None, definition.location()
        case "SaveAsV1TableCommand" | "CreateTable":
            definition = plan.tableDesc()
            keys = [str(key) for key in elements(definition.partitionColumnNames())]
            options = _pairs(definition.storage().properties())
            # Spark gives each table a format, also without one in the program.
            form, properties = None, {**options, **_pairs(definition.properties())}
            accepts = _mode(plan) == "Ignore"
            buckets, location = definition.bucketSpec(), definition.storage().locationUri()
        case _:
            return None
    clauses = ["IF NOT EXISTS"] * accepts
    clauses.append(quoted(*name.split(".")))
    if keys:
        clauses.append(f"PARTITIONED BY ({', '.join(map(quoted, keys))})")
    if buckets is not None and buckets.isDefined():
        columns = ", ".join(
            quoted(str(name)) for name in elements(buckets.get().bucketColumnNames())
        )
        clauses.append(f"CLUSTERED BY ({columns}) INTO {buckets.get().numBuckets()} BUCKETS")
    if form is not None and form.isDefined() and form.get().lower() != "hive":
        clauses.append(f"STORED AS {form.get().upper()}")
    if location.isDefined():
        clauses.append(f"LOCATION {_literal(location.get())}")
    pairs = ", ".join(f"{_literal(key)} = {_literal(value)}" for key, value in properties.items())
    return f"CREATE TABLE {' '.join(clauses)} TBLPROPERTIES ({pairs}) AS SELECT * FROM {view}"


def _mode(plan: Any) -> str:
    return str(plan.mode().name())


def _key(transform: Any) -> str:
    if transform.name() != "identity":
        raise InvalidJob(
            f"A table of Hive is partitioned by columns, not by {transform.toString()}.",
            remedy="Add a column with these values, or create the table by CREATE TABLE.",
        )
    return str(transform.references()[0].fieldNames()[0])


def _pairs(properties: Any) -> dict[str, str]:
    return {str(pair._1()): str(pair._2()) for pair in elements(properties)}


def _literal(value: object) -> str:
    return "'" + str(value).replace("\\", "\\\\").replace("'", "\\'") + "'"


def _merge(plan: Any, name: str, view: str) -> str:
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
