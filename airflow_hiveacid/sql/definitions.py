"""Databases, DROP, and what ALTER TABLE changes of a definition, read word by word."""

from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp

from airflow_hiveacid.jobs.catalog_jobs import (
    AddColumnsJob,
    CreateDatabaseJob,
    DropDatabaseJob,
    DropTableJob,
    RenameTableJob,
    TablePropertiesJob,
)
from airflow_hiveacid.jobs.ddl_jobs import ColumnSpec, ConvertJob
from airflow_hiveacid.sql.statement import SqlStatement, tokens_of
from airflow_hiveacid.sql.tables import columns_of
from airflow_hiveacid.sql.understood import UNDERSTOOD
from airflow_hiveacid.sql.words import Words

Definition = ConvertJob | RenameTableJob | AddColumnsJob | TablePropertiesJob
DATABASE = ("DATABASE", "SCHEMA")
_FILES_STAY = (
    "Columns are found by their places in the files that are there.",
    "Only ADD COLUMNS keeps those readable; for anything else CREATE TABLE, and INSERT INTO it.",
)
# Why other changes are not safe, and what to do instead.
_UNSAFE = {
    "CHANGE": _FILES_STAY,
    "REPLACE": _FILES_STAY,
    "DROP": (
        "A partition would go with its rows outside of any transaction.",
        "TRUNCATE TABLE ... PARTITION removes its rows.",
    ),
    "ADD": ("Only COLUMNS can be added.", "An INSERT adds the partitions that it needs."),
    "SET": ("Only TBLPROPERTIES can be set.", ""),
    "RENAME": ("Only the table itself can be given another name.", ""),
}


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
    """DROP TABLE [IF EXISTS] ..., or DROP DATABASE [IF EXISTS] ... [RESTRICT | CASCADE]."""
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
    if not words.take("TABLE"):
        statement.refuse(words.next, f"DROP {words.text()} is not supported.")
    if_exists = words.take_all("IF", "EXISTS")
    target = words.table()
    words.end()
    return DropTableJob(target=target, if_exists=if_exists)


def alter_definition(statement: SqlStatement, words: Words, target: str) -> Definition:
    """What follows ALTER TABLE ... where it changes nothing but the definition."""
    at = words.next
    if words.take_all("RENAME", "TO"):
        new_name = words.table()
        words.end()
        return RenameTableJob(target=target, new_name=new_name)
    if words.take_all("SET", "TBLPROPERTIES"):
        properties = words.properties()
        words.end()
        if {name.lower(): value.lower() for name, value in properties.items()} == {
            "transactional": "true"
        }:
            return ConvertJob(target=target)
        return TablePropertiesJob(target=target, set=properties)
    if words.take_all("UNSET", "TBLPROPERTIES"):
        if_exists = words.take_all("IF", "EXISTS")
        names = words.strings()
        words.end()
        return TablePropertiesJob(target=target, unset=names, if_exists=if_exists)
    if words.take_all("ADD", "COLUMNS"):
        columns = _columns(statement, words)
        if words.take("RESTRICT"):
            statement.refuse(
                at,
                "ADD COLUMNS with RESTRICT is not supported.",
                "Hive would read no new column in the partitions that are there: leave it out.",
            )
        words.take("CASCADE")
        words.end()
        return AddColumnsJob(target=target, columns=columns)
    why, remedy = _UNSAFE.get(words.text(), ("", ""))
    statement.refuse(at, f"ALTER TABLE ... {words.text()} is not supported. {why}".rstrip(), remedy)


def _columns(statement: SqlStatement, words: Words) -> Sequence[ColumnSpec]:
    """The columns in brackets, read as those of a table that is created."""
    tokens = [*tokens_of("CREATE TABLE t"), *words.brackets()]
    tree = replace(statement, tokens=tokens).parse()
    assert isinstance(tree, exp.Create)
    for node in tree.this.find_all(exp.ColumnDef):
        statement.only(node, UNDERSTOOD[exp.ColumnDef], "ADD COLUMNS", "New columns are the last.")
    return tuple(columns_of(statement, tree.this.expressions))
