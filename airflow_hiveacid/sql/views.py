"""The queries that the metastore keeps as views."""

from sqlglot import exp
from sqlglot.errors import TokenError

from airflow_hiveacid.acid.errors import SqlError
from airflow_hiveacid.jobs.options import QuerySource
from airflow_hiveacid.sql.dialect import HiveAcidSql
from airflow_hiveacid.sql.inputs import Inputs
from airflow_hiveacid.sql.statement import Statement


def view_query(text: str, database: str, view: str) -> QuerySource:
    """The query of a view, the tables that it reads as its inputs.

    Args:
        text: What the metastore keeps.
        database: Where tables are that are named without one.
        view: The view's name.

    Raises:
        SqlError: It cannot be read.
    """
    try:
        statement = Statement(text, HiveAcidSql().tokenize(text), database)
        tree = statement.parse()
        if not isinstance(tree, exp.Query):
            statement.refuse(None, "It is no query.")
        # Apart from what the query that reads the view calls by a name of its own.
        return Inputs(statement, tree, f"_{view}_").query(tree)
    except (SqlError, TokenError) as error:
        raise SqlError(f"The query of the view {view} cannot be read. {error}") from error
