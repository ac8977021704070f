"""ALTER TABLE as jobs, read word by word: sqlglot has no tree for most of its clauses."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from airflow_hiveacid.acid.compaction import CompactionType
from airflow_hiveacid.acid.partition_filter import KeyComparison
from airflow_hiveacid.jobs.catalog_jobs import AddColumnsJob, RenameTableJob, TablePropertiesJob
from airflow_hiveacid.jobs.ddl_jobs import ColumnSpec, ConvertJob
from airflow_hiveacid.jobs.maintenance_jobs import CompactJob
from airflow_hiveacid.jobs.partitions_job import PartitionsJob
from airflow_hiveacid.sql.statement import SqlStatement, tokens_of
from airflow_hiveacid.sql.tables import columns_of
from airflow_hiveacid.sql.understood import UNDERSTOOD
from airflow_hiveacid.sql.words import Words

AlterJob = (
    ConvertJob | RenameTableJob | AddColumnsJob | TablePropertiesJob | PartitionsJob | CompactJob
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
    """ADD COLUMNS (...) [CASCADE]."""
    columns = _columns(alter, alter.words.brackets(), "ADD COLUMNS", "New columns are the last.")
    _cascade(alter, "ADD COLUMNS")
    return AddColumnsJob(target=alter.target, columns=columns)


def add_partition(alter: Alteration) -> PartitionsJob:
    """ADD [IF NOT EXISTS] PARTITION (...) [PARTITION (...)]...."""
    words = alter.words
    lenient = words.take_all("IF", "NOT", "EXISTS")
    words.expect("PARTITION")
    clauses = [words.comparisons()]
    while words.take("PARTITION"):
        clauses.append(words.comparisons())
    if words.text() == "LOCATION":
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
    if words.text() == "PURGE":
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
    at = words.next
    kind = words.string().lower()
    if kind not in list(CompactionType):
        statement.refuse(at, f"A compaction is 'minor', 'major' or 'rebalance', not {kind!r}.")
    if words.take("AND"):
        words.expect("WAIT")
    at, order_by = words.next, words.order_by()
    if order_by and kind != CompactionType.REBALANCE:
        statement.refuse(at, f"A {kind} compaction sorts nothing; 'rebalance' does.")
    if not words.done:
        statement.refuse(words.next, f"COMPACT with {words.text()} is not supported.")
    return CompactJob(
        target=alter.target,
        type=kind,
        order_by=order_by,
        partitions=None if alter.partition is None else (alter.partition,),
    )


_KEPT = "The files keep the column, and a later column at its place would show its values."
# The clauses that are refused, each with the reason and the remedy.
_REFUSED: Mapping[tuple[str, ...], tuple[str, str]] = {
    ("DROP", "COLUMN"): (_KEPT, "CREATE TABLE ... AS SELECT the columns that are left."),
    ("DROP", "COLUMNS"): (_KEPT, "CREATE TABLE ... AS SELECT the columns that are left."),
    ("ADD", "CONSTRAINT"): ("Constraints are declared by CREATE TABLE.", ""),
    ("DROP", "CONSTRAINT"): ("Constraints are declared by CREATE TABLE.", ""),
    ("SET", "LOCATION"): ("Readers would look for the files of the rows elsewhere.", ""),
}
# The clauses, by their first words.
_CLAUSES: Mapping[tuple[str, ...], Callable[[Alteration], AlterJob]] = {
    ("RENAME", "TO"): rename_table,
    ("SET", "TBLPROPERTIES"): set_properties,
    ("UNSET", "TBLPROPERTIES"): unset_properties,
    ("ADD", "COLUMNS"): add_columns,
    ("ADD", "COLUMN"): add_columns,
    ("COMPACT",): compact,
    ("ADD",): add_partition,
    ("DROP",): drop_partition,
}


def alter_job(statement: SqlStatement) -> AlterJob:
    """ALTER TABLE name [PARTITION (...)] and a clause."""
    words = Words(statement)
    words.expect("ALTER")
    words.expect("TABLE")
    target = words.table()
    partition = words.partition() if words.take("PARTITION") else None
    at = words.next
    for keywords, (why, remedy) in _REFUSED.items():
        if words.take_all(*keywords):
            statement.refuse(
                at, f"ALTER TABLE ... {' '.join(keywords)} is not supported. {why}", remedy
            )
    for keywords, read in _CLAUSES.items():
        if (partition is None or read is compact) and words.take_all(*keywords):
            return read(Alteration(statement, words, target, at, partition))
    statement.refuse(at, f"ALTER TABLE ... {words.text()} is not supported.")


def _columns(
    alter: Alteration, tokens: Sequence[Token], what: str, remedy: str
) -> tuple[ColumnSpec, ...]:
    """The columns in brackets, read as those of a table that is created."""
    tokens = [*tokens_of("CREATE TABLE t"), *tokens]
    tree = replace(alter.statement, tokens=tokens).parse()
    assert isinstance(tree, exp.Create)
    for node in tree.this.find_all(exp.ColumnDef):
        alter.statement.only(node, UNDERSTOOD[exp.ColumnDef], what, remedy)
    return tuple(columns_of(alter.statement, tree.this.expressions))


def _cascade(alter: Alteration, what: str) -> None:
    """Read CASCADE, which is the only way that columns change, up to the end."""
    if alter.words.take("RESTRICT"):
        alter.statement.refuse(
            alter.at,
            f"{what} with RESTRICT is not supported.",
            "Hive would read no new column in the partitions that are there: leave it out.",
        )
    alter.words.take("CASCADE")
    alter.words.end()
