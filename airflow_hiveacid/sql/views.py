"""Reading the queries of stored views, so that Spark runs nothing but what was checked."""

from sqlglot import exp

from airflow_hiveacid.errors import SqlError
from airflow_hiveacid.jobs.sources import QuerySource
from airflow_hiveacid.sql.inputs import Inputs
from airflow_hiveacid.sql.statement import TANGLED, UNTANGLE, SqlStatement
from airflow_hiveacid.sql.view_syntax import check_view, made_plain


def view_query(text: str, database: str, view: str) -> QuerySource:
    """The query of a view, the tables that it reads as its inputs.

    Spark gets what was understood and found to be harmless, written again: never the text itself.

    Args:
        text: What the metastore keeps.
        database: Where tables are that are named without one.
        view: The view's name.

    Raises:
        SqlError: It cannot be read, or says what a view may not.
    """
    try:
        statement = SqlStatement.of(text, database)
        tree = made_plain(_query(statement))
        check_view(statement, tree)
        plain = SqlStatement.of(statement.rendered(tree), database)
        # Apart from what the query that reads the view calls by a name of its own.
        source = Inputs(plain, _query(plain), f"_{view}_").query(plain.tokens)
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
        statement.refuse(None, "It is no query.")
    return tree


def _check_again(source: QuerySource) -> None:
    """Make sure that what Spark will read says what was checked, and reads nothing but inputs."""
    statement = SqlStatement.of(source.sql, "")
    tree = _query(statement)
    check_view(statement, tree)
    known = {*source.inputs, *(cte.alias for cte in tree.find_all(exp.CTE))}
    for table in tree.find_all(exp.Table):
        if table.db or table.name not in known:
            statement.refuse(table, "A view reads tables by their names only.")
    if statement.rendered(tree) != source.sql:
        statement.refuse(None, "It says different things to different readers.")
