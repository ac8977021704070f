"""CREATE DATABASE and DROP, read word by word."""

from dataclasses import replace

from hiveacid.jobs.definitions.catalog_jobs import (
    CreateDatabaseJob,
    DropDatabaseJob,
    DropTableJob,
)
from hiveacid.sql.statement import SqlStatement
from hiveacid.sql.words import Words

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
