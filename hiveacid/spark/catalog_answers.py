"""Answers of the metastore to SHOW and DESCRIBE, with the columns of Spark.

Clients know tables by these columns, as drivers of databases for SQLAlchemy and dbt do.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql import SparkSession

from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser import questions
from hiveacid.parser.questions import Question, matches
from hiveacid.spark.java_objects import (
    elements,
    java_class,
    java_session,
    scala_object,
    temporary_folder,
)
from hiveacid.tables.definitions.answers import Answer, Cell, answer

_COLUMNS = ("col_name", "data_type", "comment")
_NAMES: dict[type[object], tuple[str, ...]] = {
    questions.ShowDatabases: ("namespace",),
    questions.ShowTables: ("namespace", "tableName", "isTemporary"),
    questions.ShowViews: ("namespace", "viewName", "isTemporary"),
    questions.ShowColumns: ("col_name",),
    questions.ShowProperties: ("key", "value"),
    questions.DescribeDatabase: ("info_name", "info_value"),
}
_HEADINGS = {
    "partition": "# Partition Information",
    "table": "# Detailed Table Information",
}


def spark_answer(spark: SparkSession, client: MetastoreClient, question: Question) -> Answer:
    """Answer a question, of names also with those that only Spark knows.

    Args:
        spark: The session.
        client: The metastore.
        question: The question.

    Raises:
        TableNotFound: The table or the database does not exist.
    """
    told = answer(client, question)
    names = _NAMES.get(type(question), told.columns)
    catalog = java_session(spark).sessionState().catalog()
    match question:
        case questions.ShowDatabases(pattern):
            own = {str(name) for name in elements(catalog.listDatabases())}
            known = {str(name) for (name,) in told.rows}
            shown = {name for name in own if matches(pattern, name)} | known
            return Answer(names, [(name,) for name in sorted(shown)])
        case questions.ShowTables(database, pattern):
            found = {(database, str(name), False) for (name,) in told.rows}
            if catalog.databaseExists(database):
                found |= set(_tables(catalog.listTables(database), pattern))
            return Answer(names, sorted(found))
        case questions.ShowViews(database, pattern):
            found = {(database, str(name), False) for (name,) in told.rows}
            if catalog.databaseExists(database):
                found |= set(_tables(catalog.listViews(database, "*"), pattern))
            return Answer(names, sorted(found))
        case questions.DescribeDatabase():
            titles = ("Namespace Name", "Comment", "Location", "Managed Location", "Owner")
            described = [*zip(titles, told.rows[0], strict=True)]
            return Answer(
                names, [("Catalog Name", "spark_catalog"), *described, *_details(told, 2)]
            )
    return Answer(names, [*told.rows, *_details(told, len(names))])


def _tables(tables: Any, pattern: str | None) -> Iterator[tuple[str, str, bool]]:
    for table in elements(tables):
        database, name = table.database(), str(table.table())
        if matches(pattern, name):
            # A temporary view has no database.
            is_known = database.isDefined()
            yield (str(database.get()) if is_known else "", name, not is_known)


def _details(told: Answer, width: int) -> Iterator[tuple[Cell, ...]]:
    for topic, values in told.details.items():
        yield _padded((_HEADINGS.get(topic, f"# {topic.capitalize()}"),), width)
        for name, value in values.items():
            yield _padded((name, None if value is None else str(value)), width)


def _padded(row: Sequence[Cell], width: int) -> tuple[Cell, ...]:
    return (*row, *[""] * width)[:width]


# The databases of the metastore in a Spark without support for Hive


def know_database(client: MetastoreClient, spark: SparkSession, java: Any, name: str) -> None:
    """Let Spark know a database of the metastore, so that a session can use it.

    Its folder is a temporary one: Spark would delete the folder of a database that is dropped.

    Args:
        client: The metastore.
        spark: Any session of the context.
        java: The session, an object of Java.
        name: The database.
    """
    catalog = java.sessionState().catalog()
    if catalog.databaseExists(name) or name.lower() not in client.get_databases():
        return
    folder = temporary_folder(spark) / "databases" / name.lower()
    database = java_class(spark, "org.apache.spark.sql.catalyst.catalog.CatalogDatabase")(
        name.lower(),
        "",
        java_class(spark, "java.net.URI").create(folder.as_uri()),
        scala_object(spark, "scala.collection.immutable.Map").empty(),
    )
    catalog.createDatabase(database, True)


def forget_database(spark: SparkSession, java: Any, name: str) -> None:
    """Let Spark forget a database that it was told, after the metastore has dropped it."""
    catalog = java.sessionState().catalog()
    folder = (temporary_folder(spark) / "databases" / name.lower()).as_uri()
    if (
        catalog.databaseExists(name)
        and str(catalog.getDatabaseMetadata(name).locationUri()) == folder
    ):
        catalog.dropDatabase(name, True, True)
