"""Queries of stored views, parsed so that Spark runs only checked queries."""

import sys
from collections.abc import Iterator

from sqlglot import exp

from airflow_hiveacid.errors import SqlError
from airflow_hiveacid.jobs.sources import QuerySource
from airflow_hiveacid.sql.inputs import Inputs
from airflow_hiveacid.sql.statement import TANGLED, UNTANGLE, SqlStatement
from airflow_hiveacid.sql.view_syntax import check_view, unambiguous

# The parts of a SELECT that are rendered before its FROM.
_BEFORE_FROM = ("with_", "distinct", "expressions")


def view_query(text: str, database: str, view: str) -> QuerySource:
    """Return the query of a view, with the tables that it reads as its inputs.

    Spark receives the parsed and checked query, rendered again: never the text itself.

    Args:
        text: The text stored in the metastore.
        database: The database of tables that are named without one.
        view: The view's name.

    Raises:
        SqlError: The text cannot be parsed, or uses syntax that a view may not.
    """
    try:
        statement = SqlStatement.of(text, database)
        tree = unambiguous(_query(statement))
        check_view(statement, tree)
        plain = SqlStatement.of(statement.rendered(tree), database)
        plain_tree = _query(plain)
        if [*_names(tree)] != [*_names(plain_tree)]:
            statement.refuse(
                None,
                "Its clauses have another order in Spark.",
                "Put a LATERAL VIEW in front of a JOIN into a subquery.",
            )
        # Separate from the names that the query on the view defines.
        source = Inputs(plain, plain_tree, f"_{view}_").query(plain.tokens)
        _check_again(source)
    except RecursionError:
        raise SqlError(f"The query of the view {view} {TANGLED}", remedy=UNTANGLE) from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # The parser trips over some texts, and lets others pass that lack a part.
        raise SqlError(f"The query of the view {view} cannot be read.") from error
    except SqlError as error:
        raise SqlError(f"The query of the view {view} cannot be read. {error}") from error
    return source


def _query(statement: SqlStatement) -> exp.Expr:
    tree = statement.parse()
    if not isinstance(tree, exp.Query):
        statement.refuse(None, "The text is not a query.")
    return tree


def _names(tree: exp.Expr) -> Iterator[str]:
    """The names in a tree, in the order of its text; those of a SELECT precede those of its FROM.

    sqlglot renders the clauses of a query in a fixed order, so that a LATERAL VIEW in front of a JOIN
    would get another meaning behind it.
    """
    starts: dict[int, int] = {}
    for node in reversed([*tree.walk()]):
        inner = [starts[id(child)] for child in node.iter_expressions()]
        starts[id(node)] = min([*inner, node.meta.get("start", sys.maxsize)])
    # Conditions can be connected by more ANDs than calls can be nested.
    pending = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, exp.Identifier):
            yield node.name
        is_select = isinstance(node, exp.Select)
        pending += sorted(
            node.iter_expressions(),
            key=lambda child: (is_select and child.arg_key not in _BEFORE_FROM, starts[id(child)]),
            reverse=True,
        )


def _check_again(source: QuerySource) -> None:
    """Ensure that Spark's query equals the checked one, and reads only inputs."""
    statement = SqlStatement.of(source.sql, "")
    tree = _query(statement)
    check_view(statement, tree)
    known = {*source.inputs, *(cte.alias for cte in tree.find_all(exp.CTE))}
    for table in tree.find_all(exp.Table):
        if table.db or table.name not in known:
            statement.refuse(table, "A view reads tables by their names only.")
    if statement.rendered(tree) != source.sql:
        statement.refuse(None, "Different readers read it differently.")
