"""CREATE and ALTER VIEW as jobs."""

from dataclasses import replace

from sqlglot import exp

from hiveacid.errors import SqlError
from hiveacid.jobs.definitions.view_job import CreateViewJob
from hiveacid.jobs.sources import TableSource
from hiveacid.sql.inputs import Inputs
from hiveacid.sql.statement import SqlStatement
from hiveacid.sql.views import view_query
from hiveacid.sql.words import Words


def view_job(statement: SqlStatement) -> CreateViewJob:
    """CREATE [OR REPLACE] VIEW [IF NOT EXISTS] ..., or ALTER VIEW ... AS a query."""
    words = Words(statement)
    mode = "alter" if words.take("ALTER") else "create"
    if mode == "create":
        words.expect("CREATE")
        mode = "replace" if words.take_all("OR", "REPLACE") else mode
    words.expect("VIEW")
    if mode == "create" and words.take_all("IF", "NOT", "EXISTS"):
        mode = "create_if_missing"
    target = words.table()
    columns: list[str] = []
    comments: dict[str, str] = {}
    comment = None
    if mode != "alter":
        if words.take("("):
            columns.append(_column(words, comments))
            while words.take(","):
                columns.append(_column(words, comments))
            words.expect(")")
        if words.take("COMMENT"):
            comment = words.string()
    words.expect("AS")
    query = replace(statement, tokens=words.rest())
    if words.done:
        statement.refuse(words.next, "AS needs a query.")
    tree = query.parse()
    if not isinstance(tree, exp.Query):
        query.refuse(None, "AS needs a query.")
    expanded = Inputs(query, tree).with_databases(query.tokens)
    try:
        source = view_query(expanded, statement.database, target)
    except SqlError as error:
        raise query.error(None, error.what, error.remedy) from error
    reads = {each.name for each in source.inputs.values() if isinstance(each, TableSource)}
    return CreateViewJob(
        target=target,
        text=query.slice(query.tokens),
        expanded=expanded,
        reads=tuple(sorted(reads)),
        mode=mode,
        columns=tuple(columns),
        column_comments=comments,
        comment=comment,
    )


def _column(words: Words, comments: dict[str, str]) -> str:
    """Read the name of a column, and its comment if there is one."""
    name = words.name()
    if words.take("COMMENT"):
        comments[name.lower()] = words.string()
    return name
