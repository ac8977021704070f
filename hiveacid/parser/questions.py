"""Statements that only ask something: SHOW, DESCRIBE and SELECT."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from sqlglot import exp

from hiveacid.dataclass import dataclass
from hiveacid.jobs.definition_jobs import (
    CreateDatabaseJob,
    DropDatabaseJob,
    DropTableJob,
    TruncateJob,
)
from hiveacid.jobs.job import EVERYTHING, READ, SHOW, Access, ScriptedJob
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, RestoreJob, UpdateJob
from hiveacid.parser.relations import Inputs
from hiveacid.parser.statement import SqlStatement
from hiveacid.parser.words import Words, keyword_of
from hiveacid.rules.names import TableRef

# CREATE DATABASE and DROP, read word by word


DATABASE = ("DATABASE", "SCHEMA")


def create_database_job(statement: SqlStatement) -> CreateDatabaseJob:
    """CREATE DATABASE ... [COMMENT] [LOCATION] [MANAGEDLOCATION] [WITH DBPROPERTIES]."""
    words = Words(statement)
    words.expect("CREATE")
    words.expect_one_of(DATABASE)
    if_not_exists = words.take_all("IF", "NOT", "EXISTS")
    job = CreateDatabaseJob(target=words.name(), if_not_exists=if_not_exists)
    if words.take("COMMENT"):
        job = replace(job, comment=words.string())
    if words.take("LOCATION"):
        job = replace(job, location=words.string())
    if words.take("MANAGEDLOCATION"):
        job = replace(job, managed_location=words.string())
    if words.take("WITH"):
        words.expect("DBPROPERTIES")
        job = replace(job, properties=words.properties())
    words.end()
    return job


def drop_job(statement: SqlStatement) -> DropTableJob | DropDatabaseJob:
    """DROP TABLE or VIEW [IF EXISTS] ..., or DROP DATABASE [IF EXISTS] ... [RESTRICT | CASCADE]."""
    words = Words(statement)
    words.expect("DROP")
    if words.take_one_of(DATABASE):
        if_exists = words.take_all("IF", "EXISTS")
        name = words.name()
        cascade = words.take("CASCADE")
        if not cascade:
            words.take("RESTRICT")
        words.end()
        return DropDatabaseJob(target=name, if_exists=if_exists, cascade=cascade)
    view = words.take("VIEW")
    if not view and not words.take("TABLE"):
        statement.refuse(words.next, f"DROP {words.shown()} is not supported.")
    if_exists = words.take_all("IF", "EXISTS")
    target = words.table()
    words.end()
    return DropTableJob(target=target, if_exists=if_exists, view=view)


WORDS = frozenset({"SHOW", "DESCRIBE", "DESC", "SELECT", "VALUES", "("})
RowChange = InsertJob | UpdateJob | DeleteJob | MergeJob | TruncateJob | RestoreJob
_DATABASES = ("DATABASES", "SCHEMAS")
_IN = ("IN", "FROM")
_HISTORY = 100


@dataclass(frozen=True, slots=True)
class ShowDatabases:
    """SHOW DATABASES [LIKE 'pattern']."""

    pattern: str | None = None

    def own_accesses(self) -> Iterator[Access]:
        """Yield one access to all databases."""
        yield Access(EVERYTHING, (), SHOW)


@dataclass(frozen=True, slots=True)
class ShowTables:
    """SHOW TABLES [IN database] [LIKE 'pattern']."""

    database: str
    pattern: str | None = None

    def own_accesses(self) -> Iterator[Access]:
        """Yield the access to the database."""
        yield Access(self.database, (), SHOW)


@dataclass(frozen=True, slots=True)
class ShowViews:
    """SHOW VIEWS [IN database] [LIKE 'pattern']."""

    database: str
    pattern: str | None = None

    def own_accesses(self) -> Iterator[Access]:
        """Yield the access to the database."""
        yield Access(self.database, (), SHOW)


@dataclass(frozen=True, slots=True)
class ShowPartitions:
    """SHOW PARTITIONS table [PARTITION (key = value)]: those with all of these values."""

    table: TableRef
    values: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class ShowColumns:
    """SHOW COLUMNS IN table."""

    table: TableRef


@dataclass(frozen=True, slots=True)
class ShowProperties:
    """SHOW TBLPROPERTIES table [('name')]."""

    table: TableRef
    name: str | None = None


@dataclass(frozen=True, slots=True)
class ShowCreateTable:
    """SHOW CREATE TABLE table."""

    table: TableRef


@dataclass(frozen=True, slots=True)
class ShowTransactions:
    """SHOW TRANSACTIONS."""

    def own_accesses(self) -> Iterator[Access]:
        """Yield one access to all tables: transactions name their users and runs."""
        yield Access(EVERYTHING, (), SHOW)


@dataclass(frozen=True, slots=True)
class ShowLocks:
    """SHOW LOCKS [table]."""

    table: TableRef | None = None

    def own_accesses(self) -> Iterator[Access]:
        """Yield one access to all tables, unless there is a table."""
        if self.table is None:
            yield Access(EVERYTHING, (), SHOW)


@dataclass(frozen=True, slots=True)
class ShowCompactions:
    """SHOW COMPACTIONS [table | DATABASE database]."""

    database: str | None = None
    table: TableRef | None = None

    def own_accesses(self) -> Iterator[Access]:
        """Yield the access to the database, or one to all tables, unless there is a table."""
        if self.table is None:
            yield Access(self.database or EVERYTHING, (), SHOW)


@dataclass(frozen=True, slots=True)
class ShowHistory:
    """SHOW HISTORY table [LIMIT n]."""

    table: TableRef
    limit: int = _HISTORY


@dataclass(frozen=True, slots=True)
class Describe:
    """DESCRIBE [EXTENDED | FORMATTED] table."""

    table: TableRef
    extended: bool = False


@dataclass(frozen=True, slots=True)
class DescribeColumn:
    """DESCRIBE table column."""

    table: TableRef
    column: str


@dataclass(frozen=True, slots=True)
class DescribePartition:
    """DESCRIBE [EXTENDED | FORMATTED] table PARTITION (key = value, ...)."""

    table: TableRef
    values: tuple[tuple[str, str | None], ...]
    extended: bool = False


@dataclass(frozen=True, slots=True)
class DescribeDatabase:
    """DESCRIBE DATABASE [EXTENDED] database."""

    database: str
    extended: bool = False

    def own_accesses(self) -> Iterator[Access]:
        """Yield the access to the database."""
        yield Access(self.database, None, READ)


@dataclass(frozen=True, slots=True)
class DescribeDetail:
    """DESCRIBE DETAIL table."""

    table: TableRef


@dataclass(frozen=True, slots=True)
class Total:
    """A number of rows or values, or the least or greatest value of a column.

    Attributes:
        function: "count", "min", or "max".
        column: The column; None for the number of rows.
        name: Its name in the result, as Spark gives it.
    """

    function: str
    column: str | None
    name: str


@dataclass(frozen=True, slots=True)
class Select:
    """A query.

    Attributes:
        query: The query, for Spark.
        table: The table, if the query only reads its rows; then Spark is not required.
        columns: The requested names; all columns of the table if None. A name that is not a column
            may be a function of Spark, such as current_date.
        limit: The number of requested rows; all if None.
        totals: The counts and bounds of all rows that the query selects instead of rows.
    """

    query: QuerySource
    table: TableSource | None = None
    columns: tuple[str, ...] | None = None
    limit: int | None = None
    totals: tuple[Total, ...] = ()

    def own_accesses(self) -> Iterator[Access]:
        """Yield one access to all tables, unless the query has inputs, which are accesses."""
        if not self.query.inputs:
            yield Access(EVERYTHING, (), READ)


@dataclass(frozen=True, slots=True)
class Explain:
    """EXPLAIN of a statement."""

    job: "Explained"


Question = (
    ShowDatabases
    | ShowTables
    | ShowViews
    | ShowPartitions
    | ShowColumns
    | ShowProperties
    | ShowCreateTable
    | ShowTransactions
    | ShowLocks
    | ShowCompactions
    | ShowHistory
    | Describe
    | DescribeColumn
    | DescribePartition
    | DescribeDatabase
    | DescribeDetail
    | Select
    | Explain
)


Explained = ScriptedJob | Question


def matches(pattern: str | None, name: str) -> bool:
    """Whether a name is like a pattern: * and % are any text, | is or; case does not matter."""
    if pattern is None:
        return True
    parts = [re.escape(part) for part in pattern.lower().split("|")]
    expression = "|".join(part.replace(r"\*", ".*").replace("%", ".*") for part in parts)
    return re.fullmatch(expression, name.lower()) is not None


def question_of(statement: SqlStatement) -> Question:
    """Return the question of a statement."""
    words = Words(statement)
    if words.take("SHOW"):
        question = _show(statement, words)
    elif words.take_one_of(("DESCRIBE", "DESC")):
        question = _describe(words)
    else:
        return select_of(statement, statement.parse())
    words.end()
    return question


def _show(statement: SqlStatement, words: Words) -> Question:
    if words.take_one_of(_DATABASES):
        return ShowDatabases(_pattern(words))
    if words.take("TABLES"):
        database = words.name() if words.take_one_of(_IN) else statement.database
        return ShowTables(database.lower(), _pattern(words))
    if words.take("VIEWS"):
        database = words.name() if words.take_one_of(_IN) else statement.database
        return ShowViews(database.lower(), _pattern(words))
    if words.take("PARTITIONS"):
        table = _table(words)
        values = words.partition_values() if words.take("PARTITION") else {}
        return ShowPartitions(table, tuple(values.items()))
    if words.take("COLUMNS"):
        words.expect_one_of(_IN)
        return ShowColumns(_table(words))
    if words.take("TBLPROPERTIES"):
        table = _table(words)
        position, names = words.next, () if words.done else words.strings()
        if len(names) > 1:
            statement.refuse(position, "One property can be asked for, or all.")
        return ShowProperties(table, next(iter(names), None))
    if words.take_all("CREATE", "TABLE"):
        return ShowCreateTable(_table(words))
    if words.take("TRANSACTIONS"):
        return ShowTransactions()
    if words.take("LOCKS"):
        table_or_all = None if words.done or words.keyword == "EXTENDED" else _table(words)
        words.take("EXTENDED")
        return ShowLocks(table_or_all)
    if words.take("COMPACTIONS"):
        if words.take_one_of(DATABASE):
            return ShowCompactions(words.name().lower())
        return ShowCompactions() if words.done else ShowCompactions(table=_table(words))
    if words.take("HISTORY"):
        table = _table(words)
        return ShowHistory(table, words.count("lines") if words.take("LIMIT") else _HISTORY)
    statement.refuse(
        words.next,
        f"SHOW {words.shown()} is not supported.",
        "There are DATABASES, TABLES, VIEWS, PARTITIONS, COLUMNS, TBLPROPERTIES, CREATE TABLE, "
        "TRANSACTIONS, LOCKS, COMPACTIONS and HISTORY.",
    )


def _describe(words: Words) -> Question:
    if words.take_one_of(DATABASE):
        extended = words.take("EXTENDED")
        return DescribeDatabase(words.name().lower(), extended)
    if words.take("DETAIL"):
        return DescribeDetail(_table(words))
    words.take("TABLE")
    extended = words.take_one_of(("EXTENDED", "FORMATTED"))
    table = _table(words)
    if words.take("PARTITION"):
        return DescribePartition(table, tuple(words.partition_values().items()), extended)
    if words.done or extended:
        return Describe(table, extended)
    return DescribeColumn(table, words.name().lower())


def _pattern(words: Words) -> str | None:
    return words.string() if words.take("LIKE") or not words.done else None


def _table(words: Words) -> TableRef:
    return TableRef.parse(words.table())


def select_of(statement: SqlStatement, tree: exp.Expr) -> Select:
    """A query as a question."""
    if not isinstance(tree, exp.Query | exp.Values):
        statement.refuse(None, "The text is not a query.")
    limit = _literal_limit(tree)
    totals = _totals(tree)
    plain = bool(totals) or _is_plain(tree)
    columns = None
    if plain and not totals and not tree.is_star:
        columns = tuple(column.name.lower() for column in tree.expressions)
    query = Inputs(statement, tree).query(statement.tokens)
    (table,) = query.inputs.values() if plain and len(query.inputs) == 1 else (None,)
    if not isinstance(table, TableSource):
        return Select(query, limit=limit)
    return Select(query, table, columns, limit, totals)


def _totals(tree: exp.Expr) -> tuple[Total, ...]:
    """Return the counts and bounds of all rows of one table, if a query selects nothing else."""
    expressions = tree.expressions if isinstance(tree, exp.Select) else ()
    totals = [total for expression in expressions if (total := _total(expression)) is not None]
    if not totals or len(totals) < len(expressions) or tree.args.get("limit") is not None:
        return ()
    rows = tree.copy()
    rows.set("expressions", [exp.Star()])
    return tuple(totals) if _is_plain(rows) else ()


def _total(expression: exp.Expr) -> Total | None:
    call = expression.this if isinstance(expression, exp.Alias) else expression
    if not isinstance(call, exp.Anonymous) or len(call.expressions) != 1:
        return None
    function, (argument,) = call.name.lower(), call.expressions
    if isinstance(argument, exp.Column) and not argument.table:
        if function not in ("count", "min", "max"):
            return None
        return Total(
            function, argument.name.lower(), expression.alias or f"{function}({argument.name})"
        )
    counts_rows = isinstance(argument, exp.Star) or argument == exp.Literal.number(1)
    return (
        Total("count", None, expression.alias or "count(1)")
        if function == "count" and counts_rows
        else None
    )


# The nodes of a query that selects unchanged columns of one table, each with its arguments.
_PLAIN: Mapping[type[exp.Expr], tuple[str, ...]] = {
    exp.Column: ("this",),
    exp.From: ("this",),
    exp.Identifier: ("this", "quoted"),
    exp.Limit: ("expression",),
    exp.Literal: ("this",),
    exp.Select: ("expressions", "from_", "limit"),
    exp.Star: (),
    exp.Table: ("this", "db", "alias", "version"),
    exp.TableAlias: ("this",),
    exp.Version: ("this", "expression", "kind"),
}


def _is_plain(tree: exp.Expr) -> bool:
    """Whether a query selects only unchanged columns of one table."""
    # A version is read with the table.
    for node in tree.walk(prune=lambda child: isinstance(child, exp.Version)):
        arguments = {name for name, value in node.args.items() if value}
        if not arguments <= {*_PLAIN.get(type(node), ())} or type(node) not in _PLAIN:
            return False
    columns = all(isinstance(column, exp.Column) for column in tree.expressions)
    limited = tree.args.get("limit") is None or _literal_limit(tree) is not None
    has_table = tree.args.get("from_") is not None
    return has_table and limited and (columns or tree.expressions == [exp.Star()])


def _literal_limit(tree: exp.Expr) -> int | None:
    clause = tree.args.get("limit")
    value = clause.expression if isinstance(clause, exp.Limit) else None
    if isinstance(value, exp.Literal) and not value.is_string and value.name.isdecimal():
        return int(value.name)
    return None


def is_question(statement: SqlStatement) -> bool:
    """Whether a statement begins like a question."""
    return keyword_of(statement.tokens[0]) in WORDS
