"""The table of all statements: the parser, its messages and the docs are made from it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import NoReturn

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from hiveacid.dataclass import dataclass
from hiveacid.errors import SqlError
from hiveacid.jobs.definition_jobs import (
    AlterColumnsJob,
    AnalyzeJob,
    ConvertJob,
    CreateViewJob,
    PartitionsJob,
    TablePropertiesJob,
    TruncateJob,
)
from hiveacid.jobs.job import ScriptedJob
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.sources import TableSource
from hiveacid.jobs.write_jobs import RestoreJob
from hiveacid.parser.alterations import CLAUSES, alter_job
from hiveacid.parser.questions import create_database_job, drop_job
from hiveacid.parser.relations import Inputs
from hiveacid.parser.statement import SqlStatement
from hiveacid.parser.views import view_query
from hiveacid.parser.words import Words, keyword_of
from hiveacid.rules.names import TableRef, partition_name
from hiveacid.rules.schema import ColumnChange
from hiveacid.rules.texts import did_you_mean

# ANALYZE, COMMENT, CONVERT, MSCK, OPTIMIZE, RESTORE and TRUNCATE as jobs, read word by word


def analyze_job(statement: SqlStatement) -> AnalyzeJob:
    """ANALYZE TABLE ... [PARTITION (...)] COMPUTE STATISTICS [FOR COLUMNS [...]]."""
    words = Words(statement)
    words.expect("ANALYZE")
    words.expect("TABLE")
    target = words.table()
    partitions = None
    if words.take("PARTITION"):
        # Keys without a value mean all partitions.
        values, _ = words.partition()
        partitions = (partition_name([*values], [*values.values()]),) if values else None
    words.expect("COMPUTE")
    words.expect("STATISTICS")
    if not words.take("FOR"):
        words.end()
        return AnalyzeJob(target=target, partitions=partitions, rows_only=True)
    words.expect("COLUMNS")
    columns = None if words.done else words.names()
    words.end()
    return AnalyzeJob(target=target, partitions=partitions, columns=columns)


def comment_job(statement: SqlStatement) -> TablePropertiesJob | AlterColumnsJob:
    """COMMENT ON TABLE name, or ON COLUMN name.name, IS 'text' or NULL."""
    words = Words(statement)
    words.expect("COMMENT")
    words.expect("ON")
    if not words.take("COLUMN"):
        words.expect_one_of(("TABLE", "COLUMN"))
        target = words.table()
        comment = _comment(words)
        if comment is None:
            return TablePropertiesJob(target=target, unset=("comment",), if_exists=True)
        return TablePropertiesJob(target=target, set={"comment": comment})
    position, parts = words.next, words.dotted_name()
    if not 2 <= len(parts) <= 3:
        statement.refuse(position, "A column is named by its table and its name.", "Write t.a.")
    table = [statement.database, *parts[:-1]][-2:]
    change = ColumnChange(parts[-1].lower(), comment=_comment(words) or "")
    return AlterColumnsJob(target=TableRef.parse(".".join(table)).full_name, change=change)


def _comment(words: Words) -> str | None:
    words.expect("IS")
    comment = None if words.take("NULL") else words.string()
    words.end()
    return comment


def optimize_job(statement: SqlStatement) -> CompactJob:
    """OPTIMIZE name [PARTITION (...)]."""
    words = Words(statement)
    words.expect("OPTIMIZE")
    words.take("TABLE")
    target = words.table()
    partition = words.partition_name() if words.take("PARTITION") else None
    if not words.done:
        statement.refuse(
            words.next,
            f"OPTIMIZE with {words.shown()} is not supported.",
            "ALTER TABLE ... COMPACT 'rebalance' ORDER BY sorts the rows.",
        )
    return CompactJob(target=target, partitions=None if partition is None else (partition,))


def truncate_job(statement: SqlStatement) -> TruncateJob:
    """TRUNCATE TABLE name [PARTITION (...)]."""
    words = Words(statement)
    words.expect("TRUNCATE")
    words.expect("TABLE")
    target = words.table()
    partition = words.partition_values() if words.take("PARTITION") else None
    words.end()
    return TruncateJob(target=target, partition=partition)


def convert_job(statement: SqlStatement) -> ConvertJob:
    """CONVERT TABLE ... [TO ACID]."""
    words = Words(statement)
    words.expect("CONVERT")
    words.expect("TABLE")
    target = words.table()
    if words.take("TO"):
        words.expect("ACID")
    words.end()
    return ConvertJob(target=target)


def restore_job(statement: SqlStatement) -> RestoreJob:
    """RESTORE TABLE ... TO VERSION AS OF 7, or TO SYSTEM_TIME AS OF '2026-03-01 12:00:00'."""
    words = Words(statement)
    words.expect("RESTORE")
    words.expect("TABLE")
    target = words.table()
    words.expect("TO")
    by_write_id = words.take("VERSION")
    # TIMESTAMP is another word for SYSTEM_TIME.
    if not by_write_id and not words.take("TIMESTAMP"):
        words.expect("SYSTEM_TIME")
    words.expect("AS")
    words.expect("OF")
    if not by_write_id:
        words.take("TIMESTAMP")
    as_of = str(words.count("a version")) if by_write_id else words.time()
    words.end()
    return RestoreJob(target=target, as_of=as_of)


def repair_job(statement: SqlStatement) -> PartitionsJob:
    """MSCK REPAIR TABLE ... [ADD PARTITIONS]."""
    words = Words(statement)
    words.expect("MSCK")
    words.expect("REPAIR")
    words.expect("TABLE")
    target = words.table()
    if words.take_one_of(("DROP", "SYNC")):
        statement.refuse(
            words.next,
            "MSCK REPAIR TABLE does not drop partitions.",
            "ALTER TABLE ... DROP PARTITION drops a partition by its values.",
        )
    if words.take("ADD"):
        words.expect("PARTITIONS")
    words.end()
    return PartitionsJob(target=target, action="repair")


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
    reads = {
        source_table.name
        for source_table in source.inputs.values()
        if isinstance(source_table, TableSource)
    }
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


@dataclass(frozen=True, slots=True)
class StatementKind:
    """A kind of statements.

    Attributes:
        words: Its first keywords.
        syntax: An example with its optional parts in square brackets.
        effect: The effect, for the docs.
        read: Converts it into a job; None for statements that are read from their syntax tree, and
            for questions.
    """

    words: tuple[str, ...]
    syntax: str
    effect: str
    read: Callable[[SqlStatement], ScriptedJob] | None = None


def _kind(
    words: str, syntax: str, effect: str, read: Callable[[SqlStatement], ScriptedJob] | None = None
) -> StatementKind:
    return StatementKind(tuple(words.split()), syntax, effect, read)


KINDS = (
    _kind(
        "CREATE DATABASE",
        "CREATE DATABASE [IF NOT EXISTS] d [COMMENT …] [LOCATION …] [WITH DBPROPERTIES …]",
        "creates a database; `SCHEMA` is another word for it",
        create_database_job,
    ),
    _kind("CREATE SCHEMA", "", "", create_database_job),
    _kind("DROP DATABASE", "DROP DATABASE [IF EXISTS] d [CASCADE]", "drops a database", drop_job),
    _kind("DROP SCHEMA", "", "", drop_job),
    _kind(
        "CREATE TABLE",
        "CREATE TABLE [IF NOT EXISTS] t (a int, …) …",
        "creates a [transactional table](#create-tables)",
    ),
    _kind(
        "CREATE TABLE",
        "CREATE TABLE [IF NOT EXISTS] t LIKE u",
        "creates a table without rows that has the definition of another one",
    ),
    _kind(
        "CREATE TABLE",
        "CREATE TABLE [IF NOT EXISTS] t … AS SELECT …",
        "creates a table with the columns and the rows of a query",
    ),
    _kind("DROP TABLE", "DROP TABLE [IF EXISTS] t", "drops a table with its rows", drop_job),
    _kind(
        "CREATE VIEW",
        "CREATE [OR REPLACE] VIEW [IF NOT EXISTS] v [(a [COMMENT 'x'], …)] [COMMENT 'c'] AS SELECT …",
        "creates or replaces a [view](#views)",
        view_job,
    ),
    _kind("CREATE OR REPLACE VIEW", "", "", view_job),
    _kind("ALTER VIEW", "ALTER VIEW v AS SELECT …", "gives a view another query", view_job),
    _kind("DROP VIEW", "DROP VIEW [IF EXISTS] v", "drops a view", drop_job),
    *(
        StatementKind(("ALTER", "TABLE"), f"ALTER TABLE t {each.syntax}", each.effect, alter_job)
        for each in CLAUSES
    ),
    _kind(
        "COMMENT ON",
        "COMMENT ON TABLE t IS 'c', COMMENT ON COLUMN t.a IS 'c'",
        "sets the comment of a table or a column; `NULL` removes it",
        comment_job,
    ),
    _kind(
        "MSCK",
        "MSCK REPAIR TABLE t [ADD PARTITIONS]",
        "registers folders of partitions that have [no files](#partitions)",
        repair_job,
    ),
    _kind(
        "OPTIMIZE",
        "OPTIMIZE t [PARTITION (k = v)]",
        "[compacts](compaction.md) each partition that is worth it",
        optimize_job,
    ),
    _kind(
        "ANALYZE",
        "ANALYZE TABLE t [PARTITION (k = v)] COMPUTE STATISTICS [FOR COLUMNS [a, b]]",
        "stores [statistics](operating.md#statistics)",
        analyze_job,
    ),
    _kind(
        "CONVERT",
        "CONVERT TABLE t [TO ACID]",
        "makes a plain table of ORC files [full ACID](#convert-a-plain-table)",
        convert_job,
    ),
    _kind(
        "RESTORE",
        "RESTORE TABLE t TO VERSION AS OF 7",
        "makes a version that is equal to an [earlier one](#restore)",
        restore_job,
    ),
    _kind(
        "INSERT", "INSERT INTO t …, INSERT OVERWRITE TABLE t …", "[adds or replaces](#insert) rows"
    ),
    _kind("FROM", "FROM s INSERT INTO t … INSERT INTO u …", "inserts into several tables at once"),
    _kind(
        "UPDATE",
        "UPDATE t SET a = 1 [FROM s, …] WHERE …",
        "[changes](#update-and-delete) rows",
    ),
    _kind("DELETE", "DELETE FROM t [USING s, …] WHERE …", "[deletes](#update-and-delete) rows"),
    _kind("MERGE", "MERGE INTO t USING s ON … WHEN …", "[merges](#merge) the rows of a source"),
    _kind("WITH", "WITH s AS (…) MERGE INTO t …", "names queries for one statement"),
    _kind(
        "TRUNCATE",
        "TRUNCATE TABLE t [PARTITION (k = v)]",
        "removes all rows of a table or of some partitions",
        truncate_job,
    ),
    _kind(
        "SHOW", "SHOW DATABASES [LIKE 's*']", "the databases; in a pattern `*` and `%` are any text"
    ),
    _kind("SHOW", "SHOW TABLES [IN d] [LIKE 'o*']", "the tables and views of a database"),
    _kind("SHOW", "SHOW VIEWS [IN d] [LIKE 'o*']", "the views of a database"),
    _kind(
        "SHOW",
        "SHOW PARTITIONS t [PARTITION (k = v)]",
        "the partitions, or those with these values",
    ),
    _kind(
        "SHOW", "SHOW COLUMNS IN t, SHOW TBLPROPERTIES t [('name')]", "names of columns, properties"
    ),
    _kind(
        "SHOW",
        "SHOW CREATE TABLE t",
        "a statement, for here and for Hive, that creates an equal table without rows; it has no"
        " `LOCATION`, so that it can run under another name",
    ),
    _kind(
        "SHOW",
        "SHOW TRANSACTIONS, SHOW LOCKS [t], SHOW COMPACTIONS [t]",
        "open transactions, locks, compactions",
    ),
    _kind("SHOW", "SHOW HISTORY t [LIMIT n]", "[the writes](versions.md#history) and compactions"),
    _kind(
        "DESCRIBE",
        "DESCRIBE [EXTENDED] t, DESCRIBE DATABASE d",
        "the columns; with `EXTENDED` the location and the storage",
    ),
    _kind("DESC", "", ""),
    _kind("DESCRIBE", "DESCRIBE t c", "one column"),
    _kind("DESCRIBE", "DESCRIBE [EXTENDED] t PARTITION (k = v)", "a partition"),
    _kind("DESCRIBE", "DESCRIBE DETAIL t", "[versions, files and deltas](versions.md#history)"),
    _kind(
        "SELECT",
        "SELECT …",
        "the first rows: 100 unless `LIMIT` or `--limit` is given",
    ),
    _kind("USE", "USE d", "sets the database of tables that later statements name without one"),
    _kind(
        "EXPLAIN",
        "EXPLAIN …",
        "[the partitions, files, locks, and clauses](#explain) of a statement",
    ),
)
_DATABASE_COMMENT = (
    "The metastore replaces the whole definition of a database, so a concurrent change of it would be"
    " lost."
)
_AT_CREATION = "Write COMMENT in CREATE DATABASE."
# Statements of Hive and Spark that are refused, each with the reason and the remedy.
REFUSED: Mapping[tuple[str, ...], tuple[str, str]] = {
    ("GRANT",): ("This package does not manage rights.", "Grant rights in Hive or Ranger."),
    ("REVOKE",): ("This package does not manage rights.", "Revoke rights in Hive or Ranger."),
    ("LOAD",): (
        "It would move files into a table without row ids.",
        "INSERT what the files hold: SELECT from parquet.`/path` (trusted) or from a PathSource.",
    ),
    ("SET",): (
        "A statement cannot change settings.",
        "Set options of Spark in the connection or the operator.",
    ),
    ("ABORT",): ("Statements end no transactions of others.", "Use `hiveacid txns abort`."),
    ("VACUUM",): ("Files that no reader needs are removed by a cleaning.", "Use `hiveacid clean`."),
    ("CREATE", "EXTERNAL"): (
        "External tables are not transactional.",
        "Leave EXTERNAL out. LOCATION chooses the folder of the table.",
    ),
    ("CREATE", "OR", "REPLACE", "TABLE"): (
        "The metastore cannot replace a table and its rows in one step.",
        "INSERT OVERWRITE replaces the rows. For other columns, CREATE another table and RENAME both.",
    ),
    ("CREATE", "TEMPORARY"): ("Temporary tables and views belong to a session.", "Use WITH."),
    ("CREATE", "MATERIALIZED"): ("Nothing would refresh it.", "CREATE TABLE ... AS, and MERGE."),
    ("COMMENT", "ON", "DATABASE"): (_DATABASE_COMMENT, _AT_CREATION),
    ("COMMENT", "ON", "SCHEMA"): (_DATABASE_COMMENT, _AT_CREATION),
}


def reader_of(statement: SqlStatement) -> Callable[[SqlStatement], ScriptedJob] | None:
    """Return the function that makes a job of a statement; None if its tree, or an answer, is needed.

    Raises:
        SqlError: The statement is not supported.
    """
    words = Words(statement)
    for keywords, (reason, remedy) in REFUSED.items():
        if words.take_all(*keywords):
            statement.refuse(None, f"{' '.join(keywords)} is not supported. {reason}", remedy)
    for kind in KINDS:
        if words.take_all(*kind.words):
            return kind.read
    refuse_unknown(statement)


# Statements that a Spark session also has, and that never concern a transactional table.
_OF_SPARK = (("SET",), ("CREATE", "TEMPORARY"), ("CREATE", "EXTERNAL"))


def is_of_spark(statement: SqlStatement) -> bool:
    """Return whether the words of a statement leave it to Spark: SET, temporary views, functions.

    A statement that could concern a transactional table is of this package even if it is refused.
    """
    words = Words(statement)
    if any(words.take_all(*keywords) for keywords in _OF_SPARK):
        return True
    creates = words.take_all("CREATE", "TABLE") or words.take_all(
        "CREATE", "OR", "REPLACE", "TABLE"
    )
    if creates:
        # Not the USING of a join, which has brackets.
        pairs = pairwise(map(keyword_of, statement.tokens))
        formats = {following for word, following in pairs if word == "USING"} - {"", "("}
        # Programs that make tables for Spark always name a format.
        return bool(formats) and not (formats == {"ORC"} and declares_transactional(statement))
    beginnings = (*(kind.words for kind in KINDS), *REFUSED, ("VALUES",), ("TABLE",), ("(",))
    return not any(words.take_all(*keywords) for keywords in beginnings)


_CHANGES = (
    *(("MERGE", "INTO"), ("INSERT", "INTO"), ("INSERT", "OVERWRITE"), ("DELETE", "FROM")),
    *((verb, "TABLE") for verb in ("ALTER", "ANALYZE", "DROP", "TRUNCATE", "RESTORE")),
    *(("UPDATE",), ("OPTIMIZE",)),
)
_VERBS = {words[0] for words in _CHANGES}


def target_of(text: str) -> list[str] | None:
    """Return the parts of the name behind the first words of a change, which may be invalid.

    Args:
        text: A statement; None is returned for one that has no such words.
    """
    try:
        words = Words(SqlStatement.of(text, ""))
        words.until(*_VERBS)
        if not any(words.take_all(*change) for change in _CHANGES):
            return None
        words.take("TABLE")
        words.take_all("IF", "EXISTS")
        return words.dotted_name()
    except SqlError:
        return None


def declares_transactional(statement: SqlStatement) -> bool:
    """Whether the property 'transactional' of a CREATE TABLE is 'true'."""
    texts = [token.text.lower() for token in statement.tokens]
    return ("transactional", "=", "true") in zip(texts, texts[1:], texts[2:], strict=False)


def refuse_unknown(statement: SqlStatement) -> NoReturn:
    """Raise SqlError for a statement that begins like no other, and name similar ones."""
    first, *further_tokens = statement.tokens
    word = keyword_of(first)
    first_words = {kind.words[0] for kind in documented()}
    if word not in first_words:
        _refuse(statement, first, word or first.text, did_you_mean(word, first_words), first_words)
    seconds = {kind.words[1:2] for kind in documented() if kind.words[0] == word}
    if further_tokens and () not in seconds:
        first_words = {f"{word} {second}" for (second,) in seconds}
        second_word = keyword_of(further_tokens[0])
        if (second_word,) not in seconds:
            similar = did_you_mean(second_word, [second for (second,) in seconds], f"{word} ")
            _refuse(
                statement, further_tokens[0], f"{word} {second_word}".rstrip(), similar, first_words
            )
        word = f"{word} {second_word}"
    statement.refuse(first, f"This {word} cannot be read.")


def _refuse(
    statement: SqlStatement, position: Token, words: str, similar: str, alternatives: Iterable[str]
) -> NoReturn:
    remedy = similar or f"There are {', '.join(sorted(alternatives))}."
    statement.refuse(position, f"{words} is not supported.", remedy)


def documented() -> Iterator[StatementKind]:
    """Yield the statements that the docs list."""
    yield from (kind for kind in KINDS if kind.syntax)
