"""UPDATE, DELETE and MERGE as jobs.

The tree of sqlglot shows which tables a statement reads; its clauses are read token by token, so that
every token of the statement is part of the job or refused.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from hiveacid.dataclass import dataclass
from hiveacid.jobs.sources import QuerySource, Source
from hiveacid.jobs.write_jobs import DeleteJob, MergeJob, UpdateJob
from hiveacid.parser.relations import (
    QUERY_WORDS,
    Inputs,
    Relations,
    free_name,
    names_in,
    query_with,
    subqueries,
)
from hiveacid.parser.statement import Edit, SqlStatement
from hiveacid.parser.words import Nesting, Words, keyword_of, separated
from hiveacid.rules.merge import (
    Clause,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedBySourceDelete,
    NotMatchedBySourceUpdate,
    NotMatchedInsert,
)
from hiveacid.rules.sql_names import quoted, unquoted
from hiveacid.rules.texts import plural

# The tables that UPDATE ... FROM and DELETE ... USING join with the table that they change.
#
# Each column has its table in front: a name alone could be of any of them, and Spark would only
# look for it in those of the innermost query.


def same_name(alias: str) -> str:
    """Return the error for a source with the name of the target."""
    return f"The table and its source are both called {alias}."


def conjuncts_of(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """Split a condition at each AND that connects all of it; one with OR stays whole."""
    parts, start, nesting, betweens = [], 0, Nesting(), 0
    for index, token in enumerate(tokens):
        word = keyword_of(token) if nesting.is_outside else ""
        if word == "OR":
            return [tokens]
        betweens += word == "BETWEEN"
        if word == "AND" and betweens:
            betweens -= 1
        elif word == "AND":
            parts.append(tokens[start:index])
            start = index + 1
        nesting.pass_by(token)
    return [*parts, tokens[start:]]


@dataclass(frozen=True)
class JoinedSources:
    """The sources of a statement by the names that its columns have in front.

    Attributes:
        statement: The statement.
        tree: Its syntax tree.
        target: The name of the table that is changed.
        names: The names of the sources in lower case, each with its name for Spark.
        joined: The name of the join as the source of a merge.
    """

    statement: SqlStatement
    tree: exp.Expr
    target: str
    names: Mapping[str, str]
    joined: str

    @classmethod
    def of(
        cls,
        statement: SqlStatement,
        tree: exp.Expr,
        target: str,
        relations: Sequence[exp.Expr],
    ) -> "JoinedSources":
        """Find the sources in the tree of a FROM or a USING."""
        relations_of_tree = Relations(statement, tree)
        names: dict[str, str] = {}
        for relation in _with_joins(relations):
            name = relation.alias_or_name
            if not name:
                statement.refuse(relation, "The source needs a name.", "Write (...) AS s.")
            if name.lower() == target.lower():
                statement.refuse(relation, same_name(name), "Name one AS s.")
            if name.lower() in names:
                statement.refuse(relation, f"Two sources are called {name}.", "Name one AS s.")
            names[name.lower()] = relations_of_tree.unique_name(relation) or name.lower()
        return cls(statement, tree, target, names, free_name("_joined", names_in(tree)))

    def require_named(self, parts: Sequence[Sequence[Token]], table: str) -> set[str]:
        """Refuse columns that have no table in front.

        Args:
            parts: Conditions, or assignments.
            table: The full name of the table that is changed.

        Returns:
            The names of the tables of all columns, in lower case.
        """
        sources = set()
        target_name = self.target.lower()
        for column in self._columns(parts):
            names = [part.name.lower() for part in column.parts]
            if names[0] not in (*self.names, target_name) and ".".join(names[:2]) == table:
                names = [target_name]
            if len(column.parts) == 1 or names[0] not in (*self.names, target_name):
                self.statement.refuse(
                    column,
                    f"The table of the column {column.name} is not clear.",
                    f"Write {' or '.join(f'{name}.{column.name}' for name in (target_name, *self.names))}.",
                )
            sources.add(names[0])
        return sources

    def renamed(self, tokens: Sequence[Token], columns: dict[str, str]) -> Iterator[Edit]:
        """Let an expression read the columns of the sources from their join.

        Args:
            tokens: The expression.
            columns: The texts of the columns with their names in the join; new ones are added.
        """
        for column in self._columns([tokens]):
            source, name = column.parts[0].name.lower(), column.parts[1].name.lower()
            if source in self.names:
                text = quoted(self.names[source], name)
                if text not in columns:
                    used_names = {*map(unquoted, columns.values())}
                    columns[text] = quoted(free_name(f"{source}__{name}", used_names))
                start, end = column.parts[0].meta["start"], column.parts[1].meta["end"] + 1
                yield Edit(start, end, f"{self.joined}.{columns[text]}")

    def _columns(self, parts: Sequence[Sequence[Token]]) -> Iterator[exp.Column]:
        """The columns of some expressions, without those of subqueries and the targets of SET."""
        ranges = [range(tokens[0].start, tokens[-1].end + 1) for tokens in parts if tokens]
        for column in self.tree.find_all(exp.Column):
            start = column.parts[0].meta.get("start")
            if start is None or not any(start in positions for positions in ranges):
                continue
            is_default = len(column.parts) == 1 and column.name.upper() == "DEFAULT"
            is_read = column.parent_select is None and not _is_set(column, self.tree)
            if is_read and not is_default:
                yield column


def _is_set(column: exp.Column, tree: exp.Expr) -> bool:
    """Whether a column gets a value of an UPDATE."""
    if not isinstance(tree, exp.Update):
        return False
    targets = [expression.this for expression in tree.expressions if isinstance(expression, exp.EQ)]
    return any(column is target or column.parent is target for target in targets)


def _with_joins(relations: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    for relation in relations:
        yield relation
        yield from (join.this for join in relation.args.get("joins") or ())


_REMEDY = "Use MERGE for changes that need more than a condition."


def update_job(statement: SqlStatement, tree: exp.Update) -> UpdateJob | MergeJob:
    """[WITH ...] UPDATE ... SET ... [FROM ...] WHERE ..."""
    statement.only(tree, ("this", "expressions", "where", "from_", "with_"), "UPDATE", _REMEDY)
    words = Words(statement)
    with_ = words.until("UPDATE")
    words.expect("UPDATE")
    target = _Target(statement, tree, tree.this, words, "Updating")
    words.expect("SET")
    assignments = words.until("FROM", "WHERE")
    using = words.until("WHERE") if words.take("FROM") else ()
    where = words.until() if words.take("WHERE") else ()
    words.end()
    if tree.args.get("from_") is not None:
        return _update_from(statement, tree, target, with_, assignments, using, where)
    expressions = _Subqueries(statement, tree, target, with_)
    job = UpdateJob(
        target=target.name,
        target_alias=target.alias,
        set=target.assignments(assignments, expressions.text),
        where=expressions.text(where) if where else None,
        inputs=expressions.inputs.sources,
        all_rows=statement.all_rows and not where,
    )
    expressions.require_with_used()
    return job


def _update_from(
    statement: SqlStatement,
    tree: exp.Update,
    target: "_Target",
    with_: Sequence[Token],
    assignments: Sequence[Token],
    using: Sequence[Token],
    where: Sequence[Token],
) -> MergeJob:
    """Return the equivalent merge; a row with two partners is an error in both."""
    if not where:
        statement.refuse(
            tree.args["from_"],
            "UPDATE with FROM needs WHERE, which matches the rows.",
        )
    _refuse_queries(
        statement,
        [assignments, where],
        "A subquery in a condition or a value of UPDATE with FROM is not supported.",
        "Put it into a query after FROM.",
    )
    relation = tree.args["from_"].this
    if relation.args.get("joins"):
        return _update_from_several(statement, tree, target, with_, assignments, using, where)
    source, alias = _merge_source(statement, tree, relation, with_, using)
    if alias.lower() == target.alias.lower():
        statement.refuse(relation, same_name(alias), "Name one AS s.")
    return MergeJob(
        target=target.name,
        source=source,
        on=target.expression(where),
        when=(MatchedUpdate(target.assignments(assignments, target.expression)),),
        target_alias=target.alias,
        source_alias=alias,
    )


def _update_from_several(
    statement: SqlStatement,
    tree: exp.Update,
    target: "_Target",
    with_: Sequence[Token],
    assignments: Sequence[Token],
    using: Sequence[Token],
    where: Sequence[Token],
) -> MergeJob:
    """Return a merge whose source is the join of the tables."""
    sources = JoinedSources.of(statement, tree, target.written, [tree.args["from_"].this])
    inputs = Inputs(statement, tree)
    target_parts: list[Sequence[Token]] = []
    of_sources: list[Sequence[Token]] = []
    for part in conjuncts_of(where):
        names = sources.require_named([part], target.name)
        (target_parts if target.written.lower() in names else of_sources).append(part)
    sources.require_named([assignments], target.name)
    columns: dict[str, str] = {}

    def of_join(tokens: Sequence[Token]) -> str:
        renamed = sources.renamed(tokens, columns)
        return statement.slice(tokens, [*renamed, *target.edits])

    values = target.assignments(assignments, of_join)
    on = " AND ".join(of_join(part) for part in target_parts) or "true"
    selected = ", ".join(f"{text} AS {name}" for text, name in columns.items()) or "1 AS `1`"
    query = f"SELECT {selected} FROM {inputs.text(using)}"
    if of_sources:
        texts = [statement.slice(part, inputs.edits(part)) for part in of_sources]
        query = f"{query} WHERE {' AND '.join(texts)}"
    if with_:
        query = f"{inputs.text(with_)} {query}"
    return MergeJob(
        target=target.name,
        source=QuerySource(sql=query, inputs=inputs.sources),
        on=on,
        when=(MatchedUpdate(values),),
        target_alias=target.alias,
        source_alias=sources.joined,
    )


def delete_job(statement: SqlStatement, tree: exp.Delete) -> DeleteJob:
    """[WITH ...] DELETE FROM ... [USING ...] WHERE ..."""
    statement.only(tree, ("this", "using", "where", "with_"), "DELETE", _REMEDY)
    words = Words(statement)
    with_ = words.until("DELETE")
    words.expect("DELETE")
    words.expect("FROM")
    # The tables behind USING become those of a subquery, where their structs precede the target.
    is_joined = bool(tree.args.get("using"))
    target = _Target(statement, tree, tree.this, words, "Deleting from", renamed=is_joined)
    using = words.until("WHERE") if words.take("USING") else ()
    where = words.until() if words.take("WHERE") else ()
    words.end()
    expressions = _Subqueries(statement, tree, target, with_)
    if is_joined:
        if not where:
            statement.refuse(
                tree.args["using"][0],
                "DELETE with USING needs a condition in WHERE for rows that belong together.",
            )
        sources = JoinedSources.of(statement, tree, target.written, tree.args["using"])
        sources.require_named([where], target.name)
        text = target.expression(where, expressions.inputs)
        condition = f"EXISTS ({expressions.query_from(using)} WHERE {text})"
    else:
        condition = expressions.text(where) if where else ""
    expressions.require_with_used()
    return DeleteJob(
        target=target.name,
        target_alias=target.alias,
        where=condition or None,
        inputs=expressions.inputs.sources,
        all_rows=statement.all_rows and not where,
    )


def merge_job(statement: SqlStatement, tree: exp.Merge) -> MergeJob:
    """MERGE INTO ... USING ... ON ... WHEN ..."""
    statement.only(tree, ("this", "using", "on", "whens", "with_"), "MERGE")
    words = Words(statement)
    with_ = words.until("MERGE")
    words.expect("MERGE")
    words.expect("INTO")
    target = _Target(statement, tree, tree.this, words, "Merging into")
    words.expect("USING")
    using = words.until("ON")
    source, alias = _merge_source(statement, tree, tree.args["using"], with_, using)
    words.expect("ON")
    on = words.until("WHEN")
    if not on:
        statement.refuse(words.next, "MERGE needs a condition after ON.")
    _refuse_queries(
        statement,
        [on, words.rest()],
        "A subquery in a condition or a value of MERGE is not supported.",
        "Put it into the query after USING.",
    )
    clauses = []
    while words.take("WHEN"):
        clauses.append(_clause(statement, target, words))
    words.end()
    return MergeJob(
        target=target.name,
        source=source,
        on=target.expression(on),
        when=tuple(clauses),
        target_alias=target.alias,
        source_alias=alias,
    )


class _Subqueries:
    """The expressions of a statement, with the inputs and the WITH of their subqueries.

    Args:
        statement: The statement.
        tree: Its syntax tree.
        target: The table that is changed.
        with_: The tokens of its WITH; may be empty.
    """

    def __init__(
        self, statement: SqlStatement, tree: exp.Expr, target: "_Target", with_: Sequence[Token]
    ) -> None:
        self.inputs = Inputs(statement, tree)
        self._statement, self._tree = statement, tree
        self._target, self._with = target, with_
        self._with_used = not with_

    def text(self, tokens: Sequence[Token]) -> str:
        """Return an expression as text for Spark."""
        if not self._with:
            return self._target.expression(tokens, self.inputs)
        edits = [*self.inputs.edits(tokens), *self.inputs.edits(self._with)]
        edits = self._target.with_edits(edits)
        whole = []
        for query in subqueries(self._statement, tokens):
            self._with_used = True
            text = query_with(self._statement, self._tree, self._with, query, edits)
            start, end = query[0].start, query[-1].end + 1
            edits = [edit for edit in edits if not start <= edit.start < end]
            whole.append(Edit(start, end, text))
        return self._statement.slice(tokens, [*edits, *whole])

    def query_from(self, tokens: Sequence[Token]) -> str:
        """Return a query of all rows of some tables that commas or joins connect."""
        query = f"SELECT 1 FROM {self.inputs.text(tokens)}"
        if not self._with:
            return query
        self._with_used = True
        return f"{self.inputs.text(self._with)} {query}"

    def require_with_used(self) -> None:
        """Refuse a WITH that no subquery can read."""
        if not self._with_used:
            self._statement.refuse(
                self._with[0], "No subquery reads the queries that WITH defines."
            )


class _Target:
    """The table that a statement changes, and its name in expressions.

    Args:
        statement: The statement.
        tree: Its syntax tree.
        node: The table.
        words: The statement's tokens from the table on, which are read.
        what: The change to the table, for messages.
        renamed: Whether the table gets a name that no struct of another table has.

    Attributes:
        name: Its full name.
        written: Its name in the statement: the alias, or the name without the database.
        alias: Its name in the expressions for Spark.
        edits: The replacements of names of relations in the whole statement.
    """

    def __init__(
        self,
        statement: SqlStatement,
        tree: exp.Expr,
        node: exp.Expr,
        words: Words,
        subject: str,
        *,
        renamed: bool = False,
    ) -> None:
        self._statement = statement
        self.name = statement.table(node, subject)
        if node.args.get("partition") is not None:
            statement.refuse(node, f"{subject} a PARTITION is not supported.", "Name it in WHERE.")
        self.written = node.alias or node.name
        relations_of_tree = tree.find_all(exp.Table, exp.Subquery)
        self._others = {
            relation.alias_or_name.lower() for relation in relations_of_tree if relation is not node
        }
        words.table()
        words.alias(node.alias)
        relations = Relations(statement, tree, node if renamed else None)
        self.alias = relations.unique_name(node) or self.written
        self.edits = relations.edits

    def expression(self, tokens: Sequence[Token], inputs: Inputs | None = None) -> str:
        """Return an expression over the target as text for Spark."""
        edits = [] if inputs is None else inputs.edits(tokens)
        return self._statement.slice(tokens, self.with_edits(edits))

    def with_edits(self, edits_of_parts: Iterable[Edit]) -> list[Edit]:
        """Add the edits of the whole statement to others, of which some may be the same."""
        return [*{edit.start: edit for edit in (*edits_of_parts, *self.edits)}.values()]

    def assignments(
        self, tokens: Sequence[Token], text: Callable[[Sequence[Token]], str]
    ) -> dict[str, str]:
        """Read the columns and expressions of a SET.

        Args:
            tokens: The tokens behind SET.
            text: Returns the text of an expression for Spark.
        """
        values: dict[str, str] = {}
        if not tokens:
            self._statement.refuse(None, "SET takes column = value.")
        for part in separated(tokens):
            words = Words(replace(self._statement, tokens=part or tokens))
            if has_brackets := bool(part) and words.keyword == "(":
                names = self.columns(words.brackets()[1:-1])
            else:
                names = [self._column(words)]
            if not part or not (words.take("=") or words.take("==")) or words.done:
                self._statement.refuse(words.next, "SET takes column = value.")
            for name in names:
                if name in values:
                    self._statement.refuse(part[0], f"The column {name} is set twice.")
            tokens_of_value = words.rest()
            texts = (
                self._several(names, tokens_of_value, text)
                if has_brackets
                else [text(tokens_of_value)]
            )
            values |= zip(names, texts, strict=True)
        return values

    def _several(
        self,
        names: Sequence[str],
        tokens: Sequence[Token],
        text: Callable[[Sequence[Token]], str],
    ) -> list[str]:
        """Read the values of several columns: expressions in brackets, or a query of one row."""
        words = Words(replace(self._statement, tokens=tokens))
        inner = words.brackets()[1:-1]
        words.end()
        if inner and keyword_of(inner[0]) in QUERY_WORDS:
            columns = [quoted(f"_{number}") for number in range(1, len(names) + 1)]
            fields = ", ".join(f"'{unquoted(column)}', {column}" for column in columns)
            row = f"{text(tokens)} AS _row({', '.join(columns)})"
            return [f"(SELECT named_struct({fields}) FROM {row}).{column}" for column in columns]
        values = separated(inner)
        if len(values) != len(names) or not all(values):
            self._statement.refuse(
                tokens[0],
                f"SET has {plural(len(names), 'column')} and {plural(len(values), 'value')}.",
            )
        return [text(value) for value in values]

    def columns(self, tokens: Sequence[Token]) -> list[str]:
        """Read the names in the list of columns of an INSERT."""
        names: list[str] = []
        if not tokens:
            self._statement.refuse(None, "A list of columns is empty.")
        for part in separated(tokens):
            words = Words(replace(self._statement, tokens=part or tokens))
            name = self._column(words)
            words.end()
            if name in names:
                self._statement.refuse(part[0], f"The column {name} is there twice.")
            names.append(name)
        return names

    def _column(self, words: Words) -> str:
        position = words.next
        *qualifier, name = words.dotted_name()
        target_names = (self.name, self.written.lower())
        if not qualifier or ".".join(qualifier).lower() in target_names:
            return name.lower()
        if ".".join(qualifier).lower() in self._others:
            self._statement.refuse(
                position,
                f"{'.'.join(qualifier)} is not the table that is changed.",
                f"SET takes columns of {self.written}.",
            )
        path = ".".join([*qualifier, name]).lower()
        # Only one of them: a struct may have the name of its table.
        prefix = next(
            (
                f"{target_name}."
                for target_name in target_names
                if path.startswith(f"{target_name}.")
            ),
            "",
        )
        path = path.removeprefix(prefix)
        column, field = path.split(".")[:2]
        self._statement.refuse(
            position,
            f"SET takes a column, and {path} is a field of the struct {column}.",
            f"Set all of it: {column} = named_struct('{field}', <its value>, 'other', "
            f"{column}.other), with all fields in their order.",
        )


def _merge_source(
    statement: SqlStatement,
    tree: exp.Merge | exp.Update,
    using: exp.Expr,
    with_: Sequence[Token],
    tokens: Sequence[Token],
) -> tuple[Source, str]:
    alias = using.alias or (using.name if isinstance(using, exp.Table) else "")
    if not alias:
        statement.refuse(using, "The source needs a name.", "Write (...) AS s.")
    words = Words(replace(statement, tokens=tokens))
    is_table = words.keyword != "("
    if is_table:
        words.dotted_name()
    elif keyword_of(words.rest()[1]) in (*QUERY_WORDS, "("):
        words.brackets()
    else:
        statement.refuse(words.rest()[1], "Expected a query in brackets.")
    is_plain = is_table and not with_ and using.args.get("version") is None
    if is_table and using.args.get("version") is not None:
        words.version()
    words.alias(using.alias)
    words.end()
    alias = Relations(statement, tree).unique_name(using) or alias
    inputs = Inputs(statement, tree)
    query = f"SELECT * FROM {inputs.text(tokens)}"
    if with_:
        query = f"{inputs.text(with_)} {query}"
    if is_plain and len(inputs.sources) == 1:
        (table,) = inputs.sources.values()
        return table, alias
    return QuerySource(sql=query, inputs=inputs.sources), alias


def _refuse_queries(
    statement: SqlStatement, fragments: Sequence[Sequence[Token]], subject: str, remedy: str
) -> None:
    for tokens in fragments:
        for query in subqueries(statement, tokens):
            statement.refuse(query[0] if query else tokens[0], subject, remedy)


def _clause(statement: SqlStatement, target: _Target, words: Words) -> Clause:
    """Read a clause of MERGE behind its WHEN."""
    start = words.next
    matched = not words.take("NOT")
    words.expect("MATCHED")
    by_source = words.take_all("BY", "SOURCE") if not matched else False
    if not matched and not by_source:
        words.take_all("BY", "TARGET")
    condition = None
    if words.take("AND"):
        tokens = words.until("THEN")
        if not tokens:
            statement.refuse(words.next, "A condition is missing after AND.")
        condition = target.expression(tokens)
    words.expect("THEN")
    clause: Clause | None = None
    if words.take("DELETE") and (matched or by_source):
        clause = MatchedDelete(condition) if matched else NotMatchedBySourceDelete(condition)
    elif (matched or by_source) and words.take("UPDATE"):
        clause = _update_clause(statement, target, words, condition, matched=matched)
    elif not matched and not by_source and words.take("INSERT"):
        clause = _insert_clause(statement, target, words, condition)
    if clause is None:
        statement.refuse(start, f"WHEN {'MATCHED' if matched else 'NOT MATCHED'} cannot do this.")
    if not words.done and words.keyword != "WHEN":
        statement.refuse(words.next, f"Expected WHEN or the end before {words.shown()!r}.")
    return clause


def _update_clause(
    statement: SqlStatement,
    target: _Target,
    words: Words,
    condition: str | None,
    *,
    matched: bool,
) -> Clause:
    words.expect("SET")
    position = words.next
    if words.take("*"):
        if not matched:
            statement.refuse(position, "UPDATE SET * needs a row of the source.")
        return MatchedUpdate(None, condition)
    values = target.assignments(words.until("WHEN", "WHERE"), target.expression)
    return (
        MatchedUpdate(values, condition) if matched else NotMatchedBySourceUpdate(values, condition)
    )


def _insert_clause(
    statement: SqlStatement, target: _Target, words: Words, condition: str | None
) -> NotMatchedInsert:
    position = words.next
    if words.take("*"):
        return NotMatchedInsert(None, condition)
    columns = target.columns(words.brackets()[1:-1]) if words.keyword == "(" else None
    if not words.take("VALUES") or words.keyword != "(":
        statement.refuse(position, "An INSERT in MERGE needs VALUES (...).")
    tokens = words.brackets()[1:-1]
    if not all(separated(tokens)):
        statement.refuse(position, "A value of INSERT is missing.")
    values = [target.expression(value) for value in separated(tokens)]
    if columns is None:
        return NotMatchedInsert(None, condition, row=tuple(values))
    if len(columns) != len(values):
        statement.refuse(
            position,
            f"The INSERT names {plural(len(columns), 'column')} and has {plural(len(values), 'value')}.",
        )
    return NotMatchedInsert(dict(zip(columns, values, strict=True)), condition)
