"""Sessions of the Thrift server by Hive's driver of JDBC, which knows nothing of this package."""

from typing import Any

from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway
from py4j.protocol import Py4JJavaError

from tests.door.servers import SPARK, Rows, Server


class JdbcError(Exception):
    """The driver's error of a statement."""


class Jdbc:
    """A Java with the driver; threads may use it at the same time."""

    def __init__(self) -> None:
        port = launch_gateway(
            classpath=f"{SPARK / 'jars'}/*", javaopts=["-Xmx256m"], die_on_exit=True
        )
        self._gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))

    def connect(self, server: Server, user: str) -> "JdbcSession":
        url = f"jdbc:hive2://127.0.0.1:{server.port}/default"
        try:
            drivers: Any = self._gateway.jvm.java.sql.DriverManager
            return JdbcSession(drivers.getConnection(url, user, ""))
        except Py4JJavaError as error:
            raise JdbcError(str(error.java_exception.toString())) from None

    def stop(self) -> None:
        self._gateway.shutdown()


class JdbcSession:
    """A connection, which is a session of Spark."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._statement = connection.createStatement()

    def run(self, text: str) -> Rows:
        """Return the rows of a statement.

        Raises:
            JdbcError: It has failed, or was cancelled.
        """
        try:
            if not self._statement.execute(text):
                return []
            answer, rows = self._statement.getResultSet(), []
            width = answer.getMetaData().getColumnCount()
            while answer.next():
                rows.append([str(answer.getString(1 + index)) for index in range(width)])
            return rows
        except Py4JJavaError as error:
            raise JdbcError(str(error.java_exception.toString())) from None

    def cancel(self) -> None:
        """Cancel the statement that another thread runs, if it still does."""
        try:
            self._statement.cancel()
        except Py4JJavaError as error:
            raise JdbcError(str(error.java_exception.toString())) from None

    def close(self) -> None:
        """End the session, also if another thread runs a statement in it."""
        try:
            self._connection.close()
        except Py4JJavaError as error:
            raise JdbcError(str(error.java_exception.toString())) from None
