"""Queries of stored views, as sources of jobs."""

import re
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import TokenType

from hiveacid.errors import SqlError
from hiveacid.jobs.sources import QuerySource
from hiveacid.sql.inputs import Inputs
from hiveacid.sql.outputs import with_names_of_hive
from hiveacid.sql.statement import TANGLED, UNTANGLE, SqlStatement
from hiveacid.sql.view_syntax import check_view


def view_query(text: str, database: str, view: str) -> QuerySource:
    """Return the query of a view, with the tables that it reads as its inputs.

    Spark receives the text of the author. Only the tables are replaced, and hints, which are for
    another engine, are blanked.

    Args:
        text: The text stored in the metastore.
        database: The database of tables that are named without one.
        view: The view's name.

    Raises:
        SqlError: The text cannot be parsed, or contains something that is invalid in a view.
    """
    try:
        statement = _without_hints(SqlStatement.of(text, database))
        tree = statement.parse()
        if not isinstance(tree, exp.Query):
            statement.refuse(None, "The text is not a query.")
        check_view(statement, tree)
        named = with_names_of_hive(statement, tree)
        if named != statement.slice(statement.tokens):
            statement = SqlStatement.of(named, database)
            tree = statement.parse()
        # Separate from the names that the query on the view defines.
        return Inputs(statement, tree, f"_{view}_").query(statement.tokens)
    except RecursionError:
        raise SqlError(f"The query of the view {view} {TANGLED}", remedy=UNTANGLE) from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # The parser trips over some texts, and lets others pass that lack a part.
        raise SqlError(f"The query of the view {view} cannot be read.") from error
    except SqlError as error:
        raise SqlError(f"The query of the view {view} cannot be read. {error}") from error


def _without_hints(statement: SqlStatement) -> SqlStatement:
    text = statement.text
    for token in statement.tokens:
        if token.token_type is TokenType.HINT:
            start, end = token.start, token.end + 1
            text = text[:start] + re.sub(r"\S", " ", text[start:end]) + text[end:]
    words = [token for token in statement.tokens if token.token_type is not TokenType.HINT]
    return replace(statement, text=text, tokens=words)
