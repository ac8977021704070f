"""A WITH before a statement, put into the queries of the statement."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from hiveacid.sql.statement import Edit, SqlStatement
from hiveacid.sql.words import Words, keyword_of

QUERY_WORDS = ("SELECT", "VALUES", "TABLE", "WITH", "FROM")


def subqueries(statement: SqlStatement, tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Find the outermost queries in brackets, without the brackets."""
    words = Words(replace(statement, tokens=tokens))
    while not words.done:
        following = words.rest()[:2]
        if words.keyword == "(" and len(following) == 2 and keyword_of(following[1]) in QUERY_WORDS:
            yield words.brackets()[1:-1]
        else:
            words.skip()


def query_with(
    statement: SqlStatement,
    tree: exp.Expr,
    outer: Sequence[Token],
    body: Sequence[Token],
    edits: Sequence[Edit],
) -> str:
    """Return a query with the queries that a WITH before its statement defines.

    Args:
        statement: The statement.
        tree: Its syntax tree.
        outer: The tokens of the WITH; may be empty.
        body: The tokens of the query.
        edits: The replacements of tables.
    """
    if not outer:
        return statement.slice(body, edits)
    first = statement.slice(outer, edits)
    if keyword_of(body[0]) != "WITH":
        return f"{first} {statement.slice(body, edits)}"
    names = {cte.alias.lower() for cte in tree.args["with_"].expressions}
    words = Words(replace(statement, tokens=body))
    words.expect("WITH")
    recursive = words.take("RECURSIVE")
    own = Words(replace(statement, tokens=words.rest()))
    while True:
        at = own.next
        if own.name().lower() in names:
            statement.refuse(at, f"{at.text} is defined twice.")
        own.until("(", "AS")
        if own.keyword == "(":
            own.brackets()
        own.expect("AS")
        own.brackets()
        if not own.take(","):
            break
    if recursive and keyword_of(outer[1]) != "RECURSIVE":
        first = first.replace(outer[0].text, f"{outer[0].text} RECURSIVE", 1)
    return f"{first}, {statement.slice(words.rest(), edits)}"
