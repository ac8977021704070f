"""INSERT as a job, and several INSERTs from one FROM as a transaction."""

from collections.abc import Mapping
from dataclasses import replace

from sqlglot import exp

from airflow_hiveacid.jobs.multi_table_job import MultiTableJob
from airflow_hiveacid.jobs.sources import QuerySource
from airflow_hiveacid.jobs.write_jobs import InsertJob
from airflow_hiveacid.sql.inputs import COMMON, Inputs
from airflow_hiveacid.sql.statement import SqlStatement

_PARTS = ("this", "expression", "overwrite", "with_", "by_name", "source")


def insert_job(statement: SqlStatement, tree: exp.Insert) -> InsertJob:
    """INSERT INTO or OVERWRITE ... SELECT, VALUES or TABLE."""
    query = tree.expression or tree.args.get("source")
    if isinstance(query, exp.Table):
        query = exp.select("*").from_(query)
    if not isinstance(query, exp.Query | exp.Values):
        statement.refuse(tree, "An INSERT needs a SELECT or VALUES.")
    defaults = _defaults(query) if isinstance(query, exp.Values) else ()
    query = _with(statement, tree, query)
    job = _insert(statement, tree, Inputs(statement, query).query(query))
    return replace(job, defaults=defaults)


def _defaults(values: exp.Values) -> tuple[int, ...]:
    """Let more columns say where VALUES has the keyword DEFAULT, in place of which it gets NULL.

    Returns:
        The places of the columns that have it anywhere.
    """
    rows = [row.expressions for row in values.expressions if isinstance(row, exp.Tuple)]
    places = sorted({at for row in rows for at, value in enumerate(row) if _is_default(value)})
    for tree, row in zip(values.expressions, rows, strict=False):
        marks = [exp.Boolean(this=at < len(row) and _is_default(row[at])) for at in places]
        plain = [exp.Null() if _is_default(value) else value for value in row]
        if places:
            tree.set("expressions", [*plain, *marks])
    return tuple(places)


def _is_default(value: exp.Expr) -> bool:
    return isinstance(value, exp.Var) and value.name.upper() == "DEFAULT"


def multi_insert_job(
    statement: SqlStatement, tree: exp.MultitableInserts
) -> InsertJob | MultiTableJob:
    """FROM ... INSERT ... INSERT ...: all of it in one transaction."""
    statement.only(tree, ("expressions", "source", "with_"), "FROM ... INSERT")
    inserts = []
    for insert in tree.expressions:
        if not isinstance(insert, exp.Insert) or not isinstance(insert.expression, exp.Select):
            statement.refuse(insert, "After FROM, an INSERT needs a SELECT.")
        query = insert.expression
        if query.args.get("from_") is not None:
            statement.refuse(query.args["from_"], "The FROM of this INSERT stands before it.")
        inserts.append(_insert(statement, insert, _branch(statement, tree, query)))
    if len(inserts) == 1:
        return inserts[0]
    return MultiTableJob(target=inserts[0].target, statements=tuple(inserts))


def _branch(statement: SqlStatement, tree: exp.MultitableInserts, query: exp.Select) -> QuerySource:
    """What one of several inserts selects from the rows before it.

    Each subquery there is evaluated once for all of them: it might give other rows the next time.
    """
    inputs = Inputs(statement, tree)
    common: dict[str, str] = {}
    clause = exp.From(this=tree.args["source"].copy())
    joined = [join.this for join in clause.this.args.get("joins") or ()]
    for place in (clause.this, *joined) if len(tree.expressions) > 1 else ():
        if isinstance(place, exp.Subquery) and isinstance(place.this, exp.Query):
            name = f"_common_{len(common) + 1}"
            body = inputs.take(_with(statement, tree, place.this.copy()))
            common[name] = statement.spark(body)
            view = exp.Table(**{**place.args, "this": exp.to_identifier(name)})
            view.meta[COMMON] = True
            place.replace(view)
    query.set("from_", clause)
    return replace(inputs.query(_with(statement, tree, query)), common=common)


def _insert(statement: SqlStatement, tree: exp.Insert, source: QuerySource) -> InsertJob:
    statement.only(tree, _PARTS, "INSERT")
    given, columns = tree.this, None
    if isinstance(given, exp.Schema):
        columns = tuple(_column(statement, column) for column in given.expressions)
        given = given.this
    if isinstance(given, exp.Directory):
        statement.refuse(given, "INSERT OVERWRITE DIRECTORY is not supported.")
    clause = given.args.get("partition") if isinstance(given, exp.Table) else None
    by_name = bool(tree.args.get("by_name"))
    target = statement.table(given, "Inserting into")
    partitions, static = _partitions(statement, clause)
    return InsertJob(
        target=target,
        source=source,
        overwrite=bool(tree.args.get("overwrite")),
        by_position=not by_name,
        columns=columns,
        partitions=partitions,
        static=static,
    )


def _partitions(
    statement: SqlStatement, clause: exp.Expr | None
) -> tuple[tuple[Mapping[str, str | None], ...] | None, Mapping[str, str | None] | None]:
    """The one partition that is written, or the values of those keys that have one."""
    values = statement.partition(clause)
    if not values:
        return None, None
    return (None, values) if statement.dynamic_keys(clause) else ((values,), None)


def _column(statement: SqlStatement, node: exp.Expr) -> str:
    if not isinstance(node, exp.Identifier):
        statement.refuse(node, "The columns of an INSERT are names.")
    return node.name.lower()


def _with(statement: SqlStatement, tree: exp.Expr, query: exp.Expr) -> exp.Expr:
    """A query with what a WITH before its INSERT defines for it."""
    outer = tree.args.get("with_")
    if outer is None:
        return query
    inner = query.args.get("with_")
    if inner is None:
        query.set("with_", outer.copy())
        return query
    names = {cte.alias.lower() for cte in outer.expressions}
    for cte in inner.expressions:
        if cte.alias.lower() in names:
            statement.refuse(cte, f"{cte.alias} is defined twice.")
    merged = outer.copy()
    merged.set("expressions", [*merged.expressions, *inner.expressions])
    merged.set("recursive", outer.args.get("recursive") or inner.args.get("recursive"))
    query.set("with_", merged)
    return query
