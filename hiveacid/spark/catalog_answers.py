"""Answers of the door to SHOW and DESCRIBE, in the columns of Spark.

A Spark without support for Hive knows no database and no table of the metastore. With it, Spark does
not know tables that are insert-only, nor the definition of a transactional one.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql import SparkSession

from hiveacid.errors import SqlError
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser import questions
from hiveacid.parser.questions import Question
from hiveacid.parser.script import statements, step_of
from hiveacid.rules.names import TableRef
from hiveacid.spark.java_objects import elements, java_class, scala_object, temporary_folder
from hiveacid.tables.definitions.answers import Answer, answer

_DESCRIBED = "`col_name` string,`data_type` string,`comment` string"
_INFORMATION = "`info_name` string,`info_value` string"
_OF_TABLE: Mapping[type, str] = {
    questions.ShowPartitions: "`partition` string",
    questions.ShowColumns: "`col_name` string",
    questions.ShowProperties: "`key` string,`value` string",
    questions.ShowCreateTable: "`createtab_stmt` string",
    questions.Describe: _DESCRIBED,
    questions.DescribePartition: _DESCRIBED,
    questions.DescribeColumn: _INFORMATION,
}
_OF_DATABASE: Mapping[type, str] = {
    questions.ShowDatabases: "`namespace` string",
    questions.ShowTables: "`namespace` string,`tableName` string,`isTemporary` boolean",
    questions.ShowViews: "`namespace` string,`viewName` string,`isTemporary` boolean",
    questions.DescribeDatabase: _INFORMATION,
}


def question_of(text: str, database: str) -> Question | None:
    """Return the question of a SHOW or DESCRIBE statement; None for any other statement.

    Args:
        text: The statement.
        database: The current database.
    """
    try:
        (step,) = map(step_of, statements(text, database, trusted=True))
    except (SqlError, ValueError):
        return None  # Spark has more forms of them.
    return step if type(step) in {**_OF_TABLE, **_OF_DATABASE} else None  # type: ignore[return-value]


def table_of(question: Question) -> TableRef | None:
    """Return the table that a question is about; None if it is about a database, or about all."""
    table = getattr(question, "table", None)
    return table if type(question) in _OF_TABLE and isinstance(table, TableRef) else None


def is_answerable(client: MetastoreClient, question: Question) -> bool:
    """Whether the metastore has the database that a question is about."""
    match question:
        case questions.ShowTables() | questions.ShowViews() | questions.DescribeDatabase():
            return question.database.lower() in client.get_databases()
    return True


def columns_of(question: Question) -> str:
    """Return the columns of the answer to a question."""
    return {**_OF_TABLE, **_OF_DATABASE}[type(question)]


def answered(client: MetastoreClient, spark: Any, question: Question) -> list[dict[str, Any]]:
    """Answer a question about the metastore, and about the views and databases of a session.

    Args:
        client: The metastore.
        spark: The session, an object of Java.
        question: The question.

    Raises:
        TableNotFound: The table or database does not exist.
    """
    found = answer(client, question)
    names = [column.split("`")[1] for column in columns_of(question).split(",")]
    rows = _rows(found, question, spark.sessionState().catalog())
    return [{name: _cell(value) for name, value in zip(names, row, strict=True)} for row in rows]


def _cell(value: object) -> object:
    return value if value is None or isinstance(value, bool) else str(value)


def _rows(found: Answer, question: Question, catalog: Any) -> Iterator[Sequence[object]]:
    match question:
        case questions.ShowDatabases(pattern):
            databases = {str(name) for (name,) in found.rows}
            for own in elements(catalog.listDatabases()):
                databases |= {str(own)} if questions.matches(pattern, str(own)) else set()
            yield from ([name] for name in sorted(databases))
        case questions.ShowTables(database, pattern) | questions.ShowViews(database, pattern):
            yield from ([database, name, False] for (name,) in found.rows)
            views = [str(view.table()) for view in elements(catalog.listLocalTempViews("*"))]
            yield from (["", view, True] for view in views if questions.matches(pattern, view))
        case questions.Describe() | questions.DescribePartition():
            yield from found.rows
            yield from _details(found)
        case questions.DescribeColumn():
            ((name, type_, comment),) = found.rows
            yield from (("col_name", name), ("data_type", type_), ("comment", comment or "NULL"))
        case questions.DescribeDatabase():
            (row,) = found.rows
            yield from zip(
                ("Name", "Comment", "Location", "Managed Location", "Owner"), row, strict=True
            )
        case _:
            yield from found.rows


def _details(found: Answer) -> Iterator[tuple[object, object, object]]:
    """Yield the parts of a description under the titles that clients of Spark look for."""
    details = dict(found.details)
    if keys := details.pop("partition", None):
        yield "# Partition Information", "", ""
        yield "# col_name", "data_type", "comment"
        comments = {name: comment for name, _, comment in found.rows}
        yield from ((name, value, comments.get(name)) for name, value in keys.items())
    if details:
        yield "", "", ""
        yield "# Detailed Table Information", "", ""
    for title, values in details.items():
        if title == "properties":
            pairs = ", ".join(f"{name}={value}" for name, value in values.items())
            yield "Table Properties", f"[{pairs}]", ""
        else:
            yield from (
                (name.replace("_", " ").title(), value, "") for name, value in values.items()
            )


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
