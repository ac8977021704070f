"""UPDATE, DELETE and MERGE as jobs."""

from sqlglot import exp

from airflow_hiveacid.acid.merge import (
    Clause,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)
from airflow_hiveacid.jobs.sources import Source
from airflow_hiveacid.jobs.write_jobs import DeleteJob, MergeJob, UpdateJob
from airflow_hiveacid.sql.inputs import Inputs
from airflow_hiveacid.sql.statement import SqlStatement

_REMEDY = "MERGE does what takes more than a condition."


def update_job(statement: SqlStatement, tree: exp.Update) -> UpdateJob | MergeJob:
    """UPDATE ... SET ... [FROM ...] WHERE ..."""
    if tree.args.get("from_") is not None:
        return _update_from(statement, tree)
    statement.only(tree, ("this", "expressions", "where"), "UPDATE", _REMEDY)
    target, inputs = _Target(statement, tree.this, "Updating"), Inputs(statement, tree)
    return UpdateJob(
        target=target.name,
        target_alias=target.alias,
        set=target.assignments(tree.expressions, inputs),
        where=target.condition(tree.args.get("where"), inputs),
        inputs=inputs.sources,
    )


def _update_from(statement: SqlStatement, tree: exp.Update) -> MergeJob:
    """The merge that says the same; a row that has two partners is an error in both."""
    statement.only(tree, ("this", "expressions", "from_", "where", "with_"), "UPDATE", _REMEDY)
    where = tree.args.get("where")
    if where is None:
        statement.refuse(
            tree.args["from_"],
            "UPDATE with FROM needs WHERE, which says which rows belong together.",
        )
    for part in (where, *tree.expressions):
        if (query := part.find(exp.Query)) is not None:
            statement.refuse(
                query,
                "A subquery in a condition or a value of UPDATE with FROM is not supported.",
                "Put it into a query after FROM.",
            )
    using = tree.args["from_"].this
    if using.args.get("joins"):
        statement.refuse(
            using.args["joins"][0],
            "UPDATE from several tables is not supported.",
            "Write FROM (SELECT ... FROM ... JOIN ...) AS s.",
        )
    target = _Target(statement, tree.this, "Updating")
    source, alias = _merge_source(statement, tree, using)
    if alias.lower() == target.alias.lower():
        statement.refuse(
            using, f"The table and its source are both called {alias}.", "Name one AS s."
        )
    return MergeJob(
        target=target.name,
        source=source,
        on=target.expression(where.this),
        when=(MatchedUpdate(target.assignments(tree.expressions)),),
        target_alias=target.alias,
        source_alias=alias,
    )


def delete_job(statement: SqlStatement, tree: exp.Delete) -> DeleteJob:
    """DELETE FROM ... WHERE ..."""
    statement.only(tree, ("this", "where"), "DELETE", _REMEDY)
    target, inputs = _Target(statement, tree.this, "Deleting from"), Inputs(statement, tree)
    return DeleteJob(
        target=target.name,
        target_alias=target.alias,
        where=target.condition(tree.args.get("where"), inputs),
        inputs=inputs.sources,
    )


def merge_job(statement: SqlStatement, tree: exp.Merge) -> MergeJob:
    """MERGE INTO ... USING ... ON ... WHEN ..."""
    statement.only(tree, ("this", "using", "on", "whens", "with_"), "MERGE")
    target = _Target(statement, tree.this, "Merging into")
    source, alias = _merge_source(statement, tree, tree.args["using"])
    for part in (tree.args["on"], tree.args["whens"]):
        if (query := part.find(exp.Query)) is not None:
            statement.refuse(
                query,
                "A subquery in a condition or a value of MERGE is not supported.",
                "Put it into the query after USING.",
            )
    return MergeJob(
        target=target.name,
        source=source,
        on=target.expression(tree.args["on"]),
        when=tuple(_clause(statement, target, clause) for clause in tree.args["whens"].expressions),
        target_alias=target.alias,
        source_alias=alias,
    )


class _Target:
    """The table that a statement changes, and how its expressions call it."""

    def __init__(self, statement: SqlStatement, node: exp.Expr, what: str) -> None:
        self._statement = statement
        self.name = statement.table(node, what)
        if node.args.get("partition") is not None:
            statement.refuse(node, f"{what} a PARTITION is not supported.", "Name it in WHERE.")
        self.alias = node.alias or node.name

    def expression(self, node: exp.Expr, inputs: Inputs | None = None) -> str:
        """An expression over the target as text for Spark."""
        for column in node.find_all(exp.Column):
            # Known as `table` alone, although the statement may say `database.table`.
            if f"{column.db}.{column.table}".lower() == self.name:
                column.set("db", None)
        return self._statement.spark(node if inputs is None else inputs.take(node))

    def condition(self, where: exp.Expr | None, inputs: Inputs) -> str | None:
        """The condition of a WHERE."""
        return None if where is None else self.expression(where.this, inputs)

    def assignments(self, nodes: list[exp.Expr], inputs: Inputs | None = None) -> dict[str, str]:
        """Column to expression, out of a SET."""
        values: dict[str, str] = {}
        for node in nodes:
            if not isinstance(node, exp.EQ) or not isinstance(node.this, exp.Column):
                self._statement.refuse(node, "SET takes column = value.")
            name = self._column(node.this)
            if name in values:
                self._statement.refuse(node.this, f"The column {name} is set twice.")
            values[name] = self.expression(node.expression, inputs)
        return values

    def columns(self, nodes: list[exp.Expr]) -> list[str]:
        """The names in the list of columns of an INSERT."""
        names: list[str] = []
        for node in nodes:
            if not isinstance(node, exp.Column):
                self._statement.refuse(node, "The columns of an INSERT are names.")
            name = self._column(node)
            if name in names:
                self._statement.refuse(node, f"The column {name} is there twice.")
            names.append(name)
        return names

    def _column(self, node: exp.Column) -> str:
        qualifier = f"{node.db}.{node.table}" if node.db else node.table
        if qualifier and qualifier.lower() not in (self.alias.lower(), self.name):
            self._statement.refuse(
                node,
                f"{qualifier} is not the table that is changed.",
                "To change a field of a struct, set all of it: s = named_struct(...).",
            )
        return node.name.lower()


def _merge_source(
    statement: SqlStatement, tree: exp.Merge | exp.Update, using: exp.Expr
) -> tuple[Source, str]:
    alias = using.alias or (using.name if isinstance(using, exp.Table) else "")
    if not alias:
        statement.refuse(using, "The source needs a name.", "Write (...) AS s.")
    inputs = Inputs(statement, tree)
    query = exp.select("*").from_(using.copy())
    if (clause := tree.args.get("with_")) is not None:
        query.set("with_", clause.copy())
    source = inputs.query(query)
    plain = exp.Table(this=using.this, db=using.args.get("db"), alias=using.args.get("alias"))
    if using == plain and clause is None and len(inputs.sources) == 1:
        (table,) = inputs.sources.values()
        return table, alias
    return source, alias


def _clause(statement: SqlStatement, target: _Target, when: exp.When) -> Clause:
    then, given = when.args["then"], when.args.get("condition")
    condition = None if given is None else target.expression(given)
    matched, by_source = bool(when.args["matched"]), bool(when.args.get("source"))
    if isinstance(then, exp.Insert) and not matched and not by_source:
        return _insert_clause(statement, target, then, condition)
    if isinstance(then, exp.Update) and (matched or by_source):
        if not isinstance(then.args.get("expressions"), list):
            statement.refuse(when, "An update says what it sets: UPDATE SET.")
        everything = any(isinstance(value, exp.Star) for value in then.expressions)
        if everything and by_source:
            statement.refuse(when, "UPDATE SET * needs a row of the source.")
        values = None if everything else target.assignments(then.expressions)
        if matched:
            return MatchedUpdate(values, condition)
        return NotMatchedBySourceUpdate(values or {}, condition)
    if isinstance(then, exp.Var) and then.name.upper() == "DELETE" and (matched or by_source):
        return MatchedDelete(condition) if matched else NotMatchedBySourceDelete(condition)
    statement.refuse(when, f"A clause of MERGE cannot do this: {statement.spark(when)}.")


def _insert_clause(
    statement: SqlStatement, target: _Target, then: exp.Insert, condition: str | None
) -> NotMatchedInsert:
    statement.only(then, ("this", "expression"), "INSERT in MERGE")
    if isinstance(then.this, exp.Star):
        return NotMatchedInsert(None, condition)
    if not isinstance(then.args.get("expression"), exp.Tuple):
        statement.refuse(then, "An INSERT in MERGE needs VALUES (...).")
    values = [target.expression(value) for value in then.expression.expressions]
    if then.this is None:
        return NotMatchedInsert(None, condition, row=tuple(values))
    columns = target.columns(then.this.expressions)
    if len(columns) != len(values):
        statement.refuse(
            then, f"The INSERT names {len(columns)} columns and has {len(values)} values."
        )
    return NotMatchedInsert(dict(zip(columns, values, strict=True)), condition)
