"""ALTER TABLE as jobs, read word by word: sqlglot has no tree for most of its clauses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from hiveacid.dataclass import dataclass
from hiveacid.jobs.definition_jobs import (
    AddColumnsJob,
    AlterColumnsJob,
    ColumnSpec,
    ConvertJob,
    PartitionsJob,
    RenameTableJob,
    TablePropertiesJob,
)
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.parser.statement import SqlStatement, tokens_of
from hiveacid.parser.tables import UNDERSTOOD, columns_of
from hiveacid.parser.words import Words
from hiveacid.rules.compaction import CompactionType
from hiveacid.rules.partitions import KeyComparison
from hiveacid.rules.schema import ColumnChange
from hiveacid.rules.texts import did_you_mean

AlterJob = (
    AlterColumnsJob
    | ConvertJob
    | RenameTableJob
    | AddColumnsJob
    | TablePropertiesJob
    | PartitionsJob
    | CompactJob
)


@dataclass(frozen=True, slots=True)
class Alteration:
    """The beginning of an ALTER TABLE that has been read.

    Attributes:
        statement: The statement.
        words: The words after the clause's own keywords.
        target: The table.
        at: The first keyword of the clause.
        partition: The partition in front of the clause.
    """

    statement: SqlStatement
    words: Words
    target: str
    at: Token
    partition: str | None = None


def rename_table(alter: Alteration) -> RenameTableJob:
    """RENAME TO name."""
    job = RenameTableJob(target=alter.target, new_name=alter.words.table())
    alter.words.end()
    return job


def set_properties(alter: Alteration) -> ConvertJob | TablePropertiesJob:
    """SET TBLPROPERTIES (...)."""
    properties = alter.words.properties()
    alter.words.end()
    if {name.lower(): value.lower() for name, value in properties.items()} == {
        "transactional": "true"
    }:
        return ConvertJob(target=alter.target)
    return TablePropertiesJob(target=alter.target, set=properties)


def unset_properties(alter: Alteration) -> TablePropertiesJob:
    """UNSET TBLPROPERTIES [IF EXISTS] (...)."""
    if_exists = alter.words.take_all("IF", "EXISTS")
    names = alter.words.strings()
    alter.words.end()
    return TablePropertiesJob(target=alter.target, unset=names, if_exists=if_exists)


def add_columns(alter: Alteration) -> AddColumnsJob:
    """ADD COLUMNS (...) [CASCADE], or one column without brackets."""
    words = alter.words
    if words.take_all("IF", "NOT", "EXISTS"):
        alter.statement.refuse(
            alter.at,
            "ADD COLUMNS with IF NOT EXISTS is not supported.",
            "Leave it out: a retry of the task finds the columns that it has added.",
        )
    definitions = words.brackets() if words.keyword == "(" else _bracketed(words.until(*_CASCADE))
    columns = _columns(alter, definitions, "ADD COLUMNS", _IN_ORDER)
    _cascade(alter, "ADD COLUMNS")
    return AddColumnsJob(target=alter.target, columns=columns)


def rename_column(alter: Alteration) -> AlterColumnsJob:
    """RENAME COLUMN name TO name."""
    column = alter.words.name()
    alter.words.expect("TO")
    change = ColumnChange(column.lower(), name=alter.words.name().lower())
    alter.words.end()
    return AlterColumnsJob(target=alter.target, change=change)


def change_column(alter: Alteration) -> AlterColumnsJob:
    """CHANGE [COLUMN] name name type [COMMENT 'text'] [FIRST | AFTER name] [CASCADE]."""
    alter.words.take("COLUMN")
    column = alter.words.name().lower()
    new = _column(alter, alter.words.until(*_AFTER_COLUMN), "CHANGE COLUMN")
    change = ColumnChange(
        column,
        name=None if new.name == column else new.name,
        type=new.type,
        comment=new.comment,
        **_place(alter),
    )
    _cascade(alter, "CHANGE COLUMN")
    return AlterColumnsJob(target=alter.target, change=change)


def alter_column(alter: Alteration) -> AlterColumnsJob:
    """ALTER [COLUMN] name TYPE type, COMMENT 'text', FIRST or AFTER name."""
    words = alter.words
    position, column = words.next, words.name().lower()
    change = ColumnChange(column)
    if words.take("TYPE"):
        tokens = [position, *words.until(*_AFTER_COLUMN, "COMMENT")]
        change = replace(change, type=_column(alter, tokens, "ALTER COLUMN").type)
    if words.take("COMMENT"):
        change = replace(change, comment=words.string())
    change = replace(change, **_place(alter))
    if change == ColumnChange(column):
        alter.statement.refuse(
            words.next,
            f"ALTER COLUMN ... {words.shown()} is not supported.",
            "There are TYPE, COMMENT, FIRST and AFTER; RENAME COLUMN gives another name.",
        )
    words.end()
    return AlterColumnsJob(target=alter.target, change=change)


def replace_columns(alter: Alteration) -> AlterColumnsJob:
    """REPLACE COLUMNS (...) [CASCADE]."""
    columns = _columns(alter, alter.words.brackets(), "REPLACE COLUMNS", _IN_ORDER)
    _cascade(alter, "REPLACE COLUMNS")
    return AlterColumnsJob(target=alter.target, columns=columns)


def add_partition(alter: Alteration) -> PartitionsJob:
    """ADD [IF NOT EXISTS] PARTITION (...) [PARTITION (...)]...."""
    words = alter.words
    lenient = words.take_all("IF", "NOT", "EXISTS")
    words.expect("PARTITION")
    clauses = [words.comparisons()]
    while words.take("PARTITION"):
        clauses.append(words.comparisons())
    if words.keyword == "LOCATION":
        alter.statement.refuse(
            words.next,
            "ADD PARTITION with LOCATION is not supported.",
            "INSERT the rows of the files: they get the row ids and the version of a transaction.",
        )
    words.end()
    return PartitionsJob(
        target=alter.target, action="add", partitions=tuple(clauses), lenient=lenient
    )


def drop_partition(alter: Alteration) -> PartitionsJob:
    """DROP [IF EXISTS] PARTITION (...) [, PARTITION (...)]...."""
    words = alter.words
    lenient = words.take_all("IF", "EXISTS")
    words.expect("PARTITION")
    clauses: list[tuple[KeyComparison, ...]] = [words.comparisons()]
    while words.take(","):
        words.expect("PARTITION")
        clauses.append(words.comparisons())
    if words.keyword == "PURGE":
        alter.statement.refuse(
            words.next, "PURGE is not supported.", "Set the property 'auto.purge' of the table."
        )
    words.end()
    return PartitionsJob(
        target=alter.target, action="drop", partitions=tuple(clauses), lenient=lenient
    )


def compact(alter: Alteration) -> CompactJob:
    """COMPACT 'type' [AND WAIT] [ORDER BY ...]."""
    statement, words = alter.statement, alter.words
    position = words.next
    kind = words.string().lower()
    if kind not in list(CompactionType):
        statement.refuse(
            position, f"A compaction is 'minor', 'major' or 'rebalance', not {kind!r}."
        )
    if words.take("AND"):
        words.expect("WAIT")
    position, order_by = words.next, words.order_by()
    if order_by and kind != CompactionType.REBALANCE:
        statement.refuse(position, f"A {kind} compaction sorts nothing; 'rebalance' does.")
    if not words.done:
        statement.refuse(words.next, f"COMPACT with {words.shown()} is not supported.")
    return CompactJob(
        target=alter.target,
        type=kind,
        order_by=order_by,
        partitions=None if alter.partition is None else (alter.partition,),
    )


_CASCADE = ("CASCADE", "RESTRICT")
_AFTER_COLUMN = ("FIRST", "AFTER", *_CASCADE)
_IN_ORDER = "Columns are in the order of the list."
_KEPT = "The files keep the column, and a later column at its place would show its values."
# The clauses that are refused, each with the reason and the remedy.
_REFUSED: Mapping[tuple[str, ...], tuple[str, str]] = {
    ("DROP", "COLUMN"): (_KEPT, "CREATE TABLE ... AS SELECT the columns that are left."),
    ("DROP", "COLUMNS"): (_KEPT, "CREATE TABLE ... AS SELECT the columns that are left."),
    ("ADD", "CONSTRAINT"): ("Constraints are declared by CREATE TABLE.", ""),
    ("DROP", "CONSTRAINT"): ("Constraints are declared by CREATE TABLE.", ""),
    ("SET", "LOCATION"): ("Readers would look for the files of the rows elsewhere.", ""),
}


class Clause(NamedTuple):
    """A clause of ALTER TABLE: its first words, its syntax, its effect, and the reader of the rest."""

    words: tuple[str, ...]
    syntax: str
    effect: str
    read: Callable[[Alteration], AlterJob]


# Of two that begin alike, the longer one is the first.
CLAUSES = (
    Clause(("RENAME", "TO"), "RENAME TO u", "gives the table another name", rename_table),
    Clause(
        ("SET", "TBLPROPERTIES"),
        "SET TBLPROPERTIES ('k' = 'v')",
        "sets properties; `'transactional' = 'true'` alone converts a plain table",
        set_properties,
    ),
    Clause(
        ("UNSET", "TBLPROPERTIES"),
        "UNSET TBLPROPERTIES [IF EXISTS] ('k')",
        "removes properties",
        unset_properties,
    ),
    Clause(
        ("ADD", "COLUMNS"), "ADD COLUMNS (a int, …)", "adds columns behind the others", add_columns
    ),
    Clause(("ADD", "COLUMN"), "ADD COLUMN a int", "adds a column behind the others", add_columns),
    Clause(
        ("REPLACE", "COLUMNS"),
        "REPLACE COLUMNS (a bigint, …)",
        "widens columns, replaces comments and adds columns; drops none",
        replace_columns,
    ),
    Clause(("RENAME", "COLUMN"), "RENAME COLUMN a TO b", "renames a column", rename_column),
    Clause(
        ("CHANGE",),
        "CHANGE [COLUMN] a b bigint [COMMENT 'c'] [FIRST | AFTER d]",
        "renames, widens, comments or moves a column",
        change_column,
    ),
    Clause(
        ("ALTER", "COLUMN"),
        "ALTER COLUMN a [TYPE bigint] [COMMENT 'c'] [FIRST | AFTER d]",
        "widens, comments or moves a column",
        alter_column,
    ),
    Clause(
        ("ADD",),
        "ADD [IF NOT EXISTS] PARTITION (k = v) [PARTITION …]",
        "adds partitions without rows",
        add_partition,
    ),
    Clause(
        ("DROP",),
        "DROP [IF EXISTS] PARTITION (k < v, …) [, PARTITION …]",
        "drops partitions with their rows and files",
        drop_partition,
    ),
    Clause(
        ("COMPACT",),
        "[PARTITION (k = v)] COMPACT 'major'",
        "compacts: 'minor', 'major' or 'rebalance' [ORDER BY …]",
        compact,
    ),
)


def alter_job(statement: SqlStatement) -> AlterJob:
    """ALTER TABLE name [PARTITION (...)] and a clause."""
    words = Words(statement)
    words.expect("ALTER")
    words.expect("TABLE")
    target = words.table()
    partition = words.partition_name() if words.take("PARTITION") else None
    position = words.next
    for keywords, (reason, remedy) in _REFUSED.items():
        if words.take_all(*keywords):
            statement.refuse(
                position, f"ALTER TABLE ... {' '.join(keywords)} is not supported. {reason}", remedy
            )
    for clause in CLAUSES:
        if (partition is None or clause.read is compact) and words.take_all(*clause.words):
            return clause.read(Alteration(statement, words, target, position, partition))
    clauses = sorted({clause.words[0] for clause in CLAUSES})
    statement.refuse(
        position,
        f"ALTER TABLE ... {words.shown()} is not supported.",
        did_you_mean(words.shown(), clauses),
    )


def _columns(
    alter: Alteration, tokens: Sequence[Token], subject: str, remedy: str
) -> tuple[ColumnSpec, ...]:
    """The columns in brackets, read as those of a table that is created."""
    tokens = [*tokens_of("CREATE TABLE t"), *tokens]
    tree = replace(alter.statement, tokens=tokens).parse()
    if not isinstance(tree, exp.Create) or not isinstance(tree.this, exp.Schema):
        alter.statement.refuse(alter.at, f"The columns of {subject} cannot be read.")
    for node in tree.this.find_all(exp.ColumnDef):
        alter.statement.only(node, UNDERSTOOD[exp.ColumnDef], subject, remedy)
    return tuple(columns_of(alter.statement, tree.this.expressions))


def _column(alter: Alteration, tokens: Sequence[Token], subject: str) -> ColumnSpec:
    """A name with a type, and perhaps a comment."""
    columns = _columns(alter, _bracketed(tokens), subject, "")
    if len(columns) != 1:
        alter.statement.refuse(alter.at, f"{subject} takes one column.")
    return columns[0]


def _bracketed(tokens: Sequence[Token]) -> Sequence[Token]:
    opening, closing = tokens_of("()")
    return [opening, *tokens, closing]


def _place(alter: Alteration) -> Mapping[str, Any]:
    """FIRST or AFTER name, as fields of a change."""
    if alter.words.take("FIRST"):
        return {"first": True}
    return {"after": alter.words.name().lower()} if alter.words.take("AFTER") else {}


def _cascade(alter: Alteration, subject: str) -> None:
    """Read CASCADE, which is the only way that columns change, up to the end."""
    if alter.words.take("RESTRICT"):
        alter.statement.refuse(
            alter.at,
            f"{subject} with RESTRICT is not supported.",
            "Partitions would keep other columns than the table: leave it out.",
        )
    alter.words.take("CASCADE")
    alter.words.end()
