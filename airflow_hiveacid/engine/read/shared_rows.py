"""What several statements of one transaction read, and must read as one."""

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from airflow_hiveacid.engine.hidden_folder import ReadingTransaction
from airflow_hiveacid.engine.read.kept_rows import keep_rows
from airflow_hiveacid.engine.session import in_session
from airflow_hiveacid.metastore.catalog import HiveTable


class SharedRows:
    """Rows that the first statement to ask for them has found, for all that ask after it.

    Args:
        table: The table that rows are kept beside.
        txn: The transaction of the statements.
    """

    def __init__(self, table: HiveTable, txn: ReadingTransaction) -> None:
        self._table = table
        self._txn = txn
        self._frames: dict[str, DataFrame] = {}

    def found(self, what: object, spark: SparkSession, look: Callable[[], DataFrame]) -> DataFrame:
        """The rows of files, of which there may be more when the next statement asks.

        Args:
            what: What is read.
            spark: The session that uses the rows.
            look: Finds the files.
        """
        if (known := self._frames.get(repr(what))) is not None:
            return in_session(known, spark)
        return self._frames.setdefault(repr(what), look())

    def kept(self, what: object, spark: SparkSession, rows: DataFrame) -> DataFrame:
        """Rows that are evaluated for the first statement, and for no other.

        Args:
            what: What the rows are.
            spark: The session that uses them.
            rows: The same in this session, evaluated for the first one.
        """
        if (known := self._frames.get(repr(what))) is not None:
            return in_session(known, spark)
        kept = keep_rows(rows, spark, self._table, self._txn, "The source")
        return self._frames.setdefault(repr(what), kept.frame)
