"""Columns and table functions that a query names although there are none, found without Spark.

Only a name that is wrong in every reading is reported: in doubt, Spark decides.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from sqlglot import exp

from hiveacid.dataclass import dataclass
from hiveacid.errors import SqlError
from hiveacid.parser.statement import SqlStatement
from hiveacid.rules.sql_names import quoted
from hiveacid.rules.texts import did_you_mean

# The columns of tables by the names of the tables, both in lower case; None if only Spark knows them.
Columns = Mapping[str, Sequence[str] | None]

# Functions without brackets, units of time, and other keywords in the place of a column.
_WORDS = frozenset(
    [
        "all",
        "any",
        "current_catalog",
        "current_database",
        "current_date",
        "current_role",
        "current_schema",
        "current_time",
        "current_timestamp",
        "current_user",
        "default",
        "grouping__id",
        "localtime",
        "localtimestamp",
        "session_user",
        "some",
        "sysdate",
        "system_user",
        "user",
        "both",
        "leading",
        "trailing",
        "century",
        "day",
        "dayofweek",
        "dayofyear",
        "days",
        "dayofweek_iso",
        "decade",
        "dow",
        "doy",
        "epoch",
        "hour",
        "hours",
        "isodow",
        "isoyear",
        "microsecond",
        "microseconds",
        "millennium",
        "millisecond",
        "milliseconds",
        "minute",
        "minutes",
        "month",
        "months",
        "nanosecond",
        "nanoseconds",
        "quarter",
        "second",
        "seconds",
        "week",
        "weeks",
        "year",
        "years",
        "yearofweek",
    ]
)
# Columns that Spark adds for the functions of these names.
_WINDOWS = frozenset({"window", "session_window"})
# Clauses behind a table that change its columns, or add others.
_OTHER_COLUMNS = ("joins", "laterals", "pivots", "match_recognize")
# Clauses that can name the columns that a SELECT returns.
_BEHIND = frozenset({"group", "having", "order", "sort", "cluster", "distribute", "qualify"})
_FROM = (exp.From, exp.Join)
# Spark's functions in the place of a table, and this package's.
_TABLE_FUNCTIONS = (
    *("range", "explode", "explode_outer", "posexplode", "posexplode_outer", "inline"),
    *("inline_outer", "stack", "json_tuple", "sql_keywords", "collations", "table_changes"),
    *("variant_explode", "variant_explode_outer", "parse_url_tuple"),
)
_QUERIES = frozenset({"this", "expression"})
# The parser accepts texts with missing or misplaced parts.
_UNREADABLE = (SqlError, RecursionError, AttributeError, LookupError, TypeError, ValueError)


@dataclass(frozen=True, slots=True)
class UnknownName:
    """A name that means no column.

    Attributes:
        name: The name, as in the query.
        candidates: The columns that it could mean.
    """

    name: str
    candidates: Sequence[str]


def unknown_name(query: str, tables: Columns) -> UnknownName | None:
    """Return the first name in a query that certainly means no column, if any.

    Args:
        query: The query.
        tables: The tables that it can read.
    """
    if "|>" in query:
        return None  # Each step of a pipe has columns of its own.
    try:
        tree = SqlStatement.of(query, "").parse()
        return next(_unknown(tree, tables), None)
    except _UNREADABLE:
        return None


def misspelt_function(query: str) -> tuple[str, str] | None:
    """Return a function in the place of a table that is none of Spark's, with the similar ones.

    Args:
        query: The query; names that are similar to no function are left to Spark.
    """
    try:
        tree = SqlStatement.of(query, "").parse()
        for place in tree.find_all(exp.Table, exp.Lateral):
            called = place.this
            if isinstance(called, exp.Anonymous) and not place.args.get("db"):
                name = called.name
                similar = did_you_mean(name, _TABLE_FUNCTIONS)
                if similar and name.lower() not in _TABLE_FUNCTIONS:
                    return name, similar
    except _UNREADABLE:
        pass
    return None


def unknown_name_of_condition(
    text: str, alias: str, columns: Sequence[str], inputs: Columns
) -> UnknownName | None:
    """Return the first name in an expression on a table that certainly means no column, if any.

    Args:
        text: The expression.
        alias: The name of the table in it.
        columns: The columns of the table.
        inputs: The tables that subqueries can read.
    """
    # In a subquery, the alias may be the name of an input.
    table_name = next(name for name in ("_own", "_own_2") if name not in inputs)
    return unknown_name(
        f"SELECT ({text}\n) FROM {table_name} AS {quoted(alias)}", {**inputs, table_name: columns}
    )


def columns_of_query(query: str, tables: Columns) -> Sequence[str] | None:
    """Return the columns of a query in order; None if only Spark knows them.

    Args:
        query: The query.
        tables: The tables that it can read.
    """
    try:
        return _outputs(SqlStatement.of(query, "").parse(), tables)
    except _UNREADABLE:
        return None


@dataclass(frozen=True, slots=True)
class _Relation:
    """A table or a subquery in a FROM, with its columns if they are known."""

    alias: str
    columns: Sequence[str] | None


def _unknown(tree: exp.Expr, tables: Columns) -> Iterator[UnknownName]:
    scopes: dict[int, list[_Relation]] = {}
    for column in tree.find_all(exp.Column, bfs=False):
        parts = [part.name.lower() for part in column.parts]
        if isinstance(column.this, exp.Star) or any(part.startswith("_") for part in parts):
            continue  # A name that begins with an underscore may be a column that Spark adds.
        is_word = parts[0] in _WORDS or parts[0].startswith("sql_tsi_")
        if parts[0] in _WINDOWS or (len(parts) == 1 and is_word):
            continue
        if _is_defined(column, parts[0]):
            continue
        selects = _selects(column, tables)
        if not selects:
            continue
        for select in selects:
            if id(select) not in scopes:
                scopes[id(select)] = _relations(select, tables)
        relations = [scope for select in selects for scope in scopes[id(select)]]
        if not relations or any(relation.columns is None for relation in relations):
            continue
        if not any(_may_mean(parts, relation) for relation in relations):
            columns = [name for relation in relations for name in relation.columns or ()]
            yield UnknownName(".".join(part.name for part in column.parts), columns)


def _selects(column: exp.Expr, tables: Columns) -> list[exp.Select] | None:
    """The queries around a column whose relations it can name; None if it can name other columns."""
    selects: list[exp.Select] = []
    node, is_hidden = column, False
    while (parent := node.parent) is not None:
        if isinstance(parent, exp.CTE) and parent.parent is not None:
            # A query that WITH defines does not see the relations of the query after it.
            node = parent.parent.parent or parent.parent
            continue
        if isinstance(parent, exp.Hint):
            return None
        if isinstance(parent, exp.SetOperation | exp.Subquery) and node.arg_key not in _QUERIES:
            return None
        if isinstance(parent, exp.Select):
            if node.arg_key in _BEHIND and _outputs(parent, tables) is None:
                return None
            if not is_hidden:
                selects.append(parent)
            is_hidden = False
        is_hidden |= isinstance(parent, exp.Subquery) and isinstance(parent.parent, _FROM)
        node = parent
    return selects


def _is_defined(column: exp.Column, name: str) -> bool:
    """Whether a name is a parameter of a lambda, an alias of a SELECT, or no column at all."""
    if column.arg_key == "expression" and isinstance(column.parent, exp.Collate):
        return True
    if isinstance(column.parent, exp.Kwarg | exp.PropertyEQ) and column.arg_key == "this":
        return True
    inner: exp.Expr = column
    while (around := inner.parent) is not None:
        # A column is not defined by its own expression.
        defined = [expression for expression in around.expressions if expression is not inner]
        inner = around
        if not isinstance(around, exp.Lambda | exp.Select):
            continue
        if isinstance(around, exp.Lambda):
            names = {definition.name.lower() for definition in defined}
        else:
            names = {alias.lower() for definition in defined for alias in _aliases(definition)}
        if name in names:
            return True
    return False


def _aliases(column: exp.Expr) -> Iterator[str]:
    if isinstance(column, exp.Aliases):
        yield from (alias.name for alias in column.aliases)
    elif column.alias:
        yield column.alias
    elif isinstance(column, exp.Dot) or (isinstance(column, exp.Column) and column.table):
        yield column.name


def _may_mean(parts: Sequence[str], relation: _Relation) -> bool:
    """Whether a dotted name may mean a column of a relation, or a field of one."""
    columns = {name.lower() for name in relation.columns or ()}
    if parts[0] in columns:
        return True
    return any(
        name == relation.alias and following in columns for name, following in pairwise(parts)
    )


def _relations(select: exp.Expr, tables: Columns) -> list[_Relation]:
    """The relations of the FROM of a SELECT; one without known columns if any of them is unclear."""
    first = select.args.get("from_")
    if first is None:
        return []
    unclear = [_Relation("", None)]
    if any(select.args.get(name) for name in ("pivots", "match_recognize")):
        return unclear
    views = [view.args.get("alias") for view in select.args.get("laterals") or ()]
    if not all(isinstance(view, exp.TableAlias) and view.columns for view in views):
        return unclear
    sources = [first.this, *(join.this for join in select.args.get("joins") or ())]
    relations = [_relation(source, tables) for source in sources]
    generated = [_Relation(view.name.lower(), [c.name for c in view.columns]) for view in views]
    return [*relations, *generated]


def _relation(source: exp.Expr, tables: Columns) -> _Relation:
    alias = source.args.get("alias")
    column_names = (
        [column.name for column in alias.columns] if isinstance(alias, exp.TableAlias) else []
    )
    name = source.alias_or_name.lower()
    if any(source.args.get(argument) for argument in _OTHER_COLUMNS):
        return _Relation(name, None)
    if column_names:
        return _Relation(name, column_names)
    if isinstance(source, exp.Subquery):
        return _Relation(name, _outputs(source.this, tables))
    if not isinstance(source, exp.Table) or not isinstance(source.this, exp.Identifier):
        return _Relation(name, None)
    if source.db:
        return _Relation(name, None)
    ctes = [
        cte for cte in source.root().find_all(exp.CTE) if cte.alias.lower() == source.name.lower()
    ]
    if not ctes:
        return _Relation(name, tables.get(source.name.lower()))
    return _Relation(name, _outputs_of_with(ctes, source, tables))


def _outputs_of_with(
    ctes: Sequence[exp.CTE], source: exp.Table, tables: Columns
) -> Sequence[str] | None:
    """The columns of a query of WITH; None unless a table certainly means it."""
    (cte, *more_ctes), clause = ctes, ctes[0].parent
    around = source.find_ancestor(exp.CTE)
    if more_ctes or clause is None or clause.parent is None or around is not None:
        return None  # Another query of WITH may see other tables.
    node: exp.Expr | None = source
    while node is not None and node is not clause.parent:
        node = node.parent
    if node is None:
        return None
    alias = cte.args["alias"]
    return [column.name for column in alias.columns] or _outputs(cte.this, tables)


def _outputs(query: exp.Expr, tables: Columns) -> Sequence[str] | None:
    """The names of the columns of a query; None if only Spark knows them."""
    if isinstance(query, exp.Subquery) and not any(map(query.args.get, _OTHER_COLUMNS)):
        return _outputs(query.this, tables)
    if isinstance(query, exp.SetOperation):
        return _outputs(query.this, tables)
    if not isinstance(query, exp.Select) or query.args.get("kind"):
        return None
    names: list[str] = []
    for column in query.expressions:
        if isinstance(column, exp.Star) and not any(column.args.values()):
            relations = _relations(query, tables)
            if len(relations) != 1 or relations[0].columns is None:
                return None
            names += relations[0].columns
        elif isinstance(column, exp.Alias | exp.Column) and not column.is_star:
            names.append(column.alias_or_name)
        else:
            return None
    return names
