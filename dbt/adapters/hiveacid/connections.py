"""Connections of dbt: sessions of SQL on one Spark, and cursors over their rows."""

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from dbt.adapters.contracts.connection import AdapterResponse, Connection, ConnectionState
from dbt.adapters.hiveacid.columns import type_of_query
from dbt.adapters.hiveacid.credentials import HiveAcidCredentials
from dbt.adapters.spark.connections import SparkConnectionManager
from dbt_common.exceptions import DbtDatabaseError, DbtRuntimeError

from hiveacid.errors import HiveAcidError
from hiveacid.jobs.report import RunReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.script import require_one
from hiveacid.rules.sql_names import unquoted
from hiveacid.writes.statement import WriteOptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid.spark.sql_session import AcidSession

_TEMPORARY = re.compile(
    r"(?:\s|/\*.*?\*/|--[^\n]*\n)*CREATE\s+OR\s+REPLACE\s+TEMPORARY\s+VIEW\s+(\S+)\s+AS\s(.*)",
    re.DOTALL | re.IGNORECASE,
)
_starting = threading.Lock()
# The temporary view of the rows of a seed, or of a model in Python, in the session of a thread.
ROWS = "dbt_rows"


class Cursor:
    """The result of the last statement, whose rows are already fetched.

    Attributes:
        response: The summary that dbt shows.
        description: The columns, as in Python's DB API; None without rows.
    """

    def __init__(self, handle: "Handle") -> None:
        self._handle = handle
        self._rows: list[Any] = []
        self.response = AdapterResponse(_message="OK")
        self.description: Sequence[tuple[Any, ...]] | None = None

    def execute(self, sql: str, bindings: Sequence[Any] | None = None) -> None:
        """Run one statement, and fetch its rows.

        Args:
            sql: The statement.
            bindings: Must be empty: values are literals of the text.
        """
        if bindings:
            raise DbtRuntimeError("Statements with bindings are not supported: write literals.")
        self._rows, self.description = [], None
        with self._handle.result(sql) as result:
            self.response = response_of(result)
            if hasattr(result, "collect"):
                fields = result.schema.fields
                self.description = [
                    (each.name, type_of_query(each.dataType), None, None, None, None, each.nullable)
                    for each in fields
                ]
                self._rows = result.collect()

    def fetchall(self) -> list[Any]:
        """Return the remaining rows."""
        rows, self._rows = self._rows, []
        return rows

    def fetchmany(self, size: int) -> list[Any]:
        """Return some of the remaining rows.

        Args:
            size: The maximum number.
        """
        rows, self._rows = self._rows[:size], self._rows[size:]
        return rows

    def fetchone(self) -> Any:
        """Return the next row, or None."""
        return next(iter(self.fetchmany(1)), None)

    def close(self) -> None:
        """Forget the rows."""
        self._rows = []


def response_of(result: object) -> AdapterResponse:
    """Describe the result of a statement for dbt."""
    if not isinstance(result, RunReport):
        return AdapterResponse(_message="OK")
    rows = result.rows_inserted + result.rows_updated + result.rows_deleted
    word = "ALREADY APPLIED" if result.already_done else "OK"
    return AdapterResponse(_message=f"{word} {rows}", code=word, rows_affected=rows)


class Handle:
    """A session of SQL for one thread of dbt, on the Spark that all of them share.

    Spark starts with the first statement that needs it: listing relations does not.

    Attributes:
        client: The metastore.
    """

    def __init__(self, credentials: HiveAcidCredentials) -> None:
        self._credentials = credentials
        self.client = MetastoreClient(credentials.options())
        self._spark: SparkSession | None = None
        self._token: str | None = None
        self._python: AcidSession | None = None

    @property
    def spark(self) -> "SparkSession":
        """The session of Spark of this thread, with temporary views of its own."""
        if self._spark is None:
            from hiveacid.spark.session import application_session, cloned_session

            with _starting:
                shared = application_session("dbt", self._credentials.settings)
            self._spark = cloned_session(shared)
        return self._spark

    def name_next(self, run_token: str) -> None:
        """Give the next statement the name of a run, so that it is applied once.

        Args:
            run_token: The name.
        """
        self._token = run_token

    @contextmanager
    def result(self, sql: str) -> Iterator[Any]:
        """Run a statement, and yield its result, whose rows are read meanwhile.

        Afterwards no read is open, for which the next statement of this thread could wait.

        Args:
            sql: The statement. Names and values from elsewhere in its text must not begin another one.

        Raises:
            SqlError: The text has several statements.
        """
        require_one(sql)
        token, self._token = self._token, None
        options = self._credentials.writes(token)
        with self._session(options) as session:
            if temporary := _TEMPORARY.fullmatch(sql):
                frame = session.sql(temporary[2].rstrip().removesuffix(";"))
                frame.createOrReplaceTempView(unquoted(temporary[1]))  # type: ignore[union-attr]
                yield None
            else:
                # An author of a project means it: UPDATE needs no `WHERE true`.
                yield session.sql(sql, all_rows=True)

    def _session(self, options: WriteOptions) -> "AcidSession":
        from hiveacid.spark.sql_session import AcidSession

        return AcidSession(self.spark, self.client.options, options=options)

    def run_python(self, code: str) -> None:
        """Run a model in Python, and make its rows the temporary view ``ROWS``.

        Args:
            code: The compiled model, which defines ``model`` and ``dbtObj``.
        """
        self._end_python()
        # The files that the rows are read from are kept until the next model.
        self._python = session = self._session(self._credentials.writes())
        module: dict[str, Any] = {"__name__": "__dbt_model__", "spark": self.spark}
        exec(compile(code, "<model>", "exec"), module)
        dbt = module["dbtObj"](lambda table: session.sql(f"SELECT * FROM {table}"))
        rows = module["model"](dbt, self.spark)
        if hasattr(rows, "to_spark"):
            rows = rows.to_spark()
        if not hasattr(rows, "createOrReplaceTempView"):
            rows = self.spark.createDataFrame(rows)
        rows.createOrReplaceTempView(ROWS)

    def _end_python(self) -> None:
        if self._python is not None:
            self._python.close()
            self._python = None

    def cursor(self) -> Cursor:
        """Return a new cursor."""
        return Cursor(self)

    def cancel(self) -> None:
        """Cancel what Spark computes: dbt cancels all connections together."""
        if self._spark is not None:
            self._spark.sparkContext.cancelAllJobs()

    def close(self) -> None:
        """End the transactions of reads, and close the connection."""
        self._end_python()
        self.client.close()

    def rollback(self) -> None:
        """Do nothing: a statement that fails changes nothing."""


class HiveAcidConnectionManager(SparkConnectionManager):
    """Opens connections and translates errors."""

    TYPE = "hiveacid"

    @contextmanager
    def exception_handler(self, sql: str) -> Iterator[None]:
        """Translate the errors of this package and of Spark."""
        try:
            yield
        except HiveAcidError as error:
            raise DbtDatabaseError(str(error)) from error
        except DbtRuntimeError:
            raise
        except Exception as error:
            raise DbtDatabaseError(f"{type(error).__name__}: {error}") from error

    @classmethod
    def open(cls, connection: Connection) -> Connection:
        """Open a connection; neither Spark nor the metastore is called yet."""
        if connection.state != ConnectionState.OPEN:
            connection.handle = Handle(connection.credentials)
            connection.state = ConnectionState.OPEN
        return connection

    def cancel(self, connection: Connection) -> None:
        """Cancel the statement of a connection."""
        connection.handle.cancel()

    @classmethod
    def get_response(cls, cursor: Cursor) -> AdapterResponse:
        """Return the summary of the last statement."""
        return cursor.response
