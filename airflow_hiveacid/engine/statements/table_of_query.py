"""CREATE TABLE ... AS SELECT, up to the empty table: its columns are those of the query."""

from pyspark.sql import SparkSession

from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.ddl.tables import create_table, find_table
from airflow_hiveacid.engine.statements.text_types import columns_of_query
from airflow_hiveacid.errors import TableExists
from airflow_hiveacid.jobs.create_table_as import CreateTableAsJob
from airflow_hiveacid.jobs.ddl_jobs import ColumnSpec
from airflow_hiveacid.jobs.report import RunReport
from airflow_hiveacid.jobs.run_token import is_same_run
from airflow_hiveacid.jobs.table_properties import RUN_PROPERTY
from airflow_hiveacid.metastore.client import MetastoreClient


def create_table_of(
    spark: SparkSession, client: MetastoreClient, job: CreateTableAsJob
) -> RunReport | None:
    """Create the table of a query, unless an earlier try of the run has done so.

    Args:
        spark: The session, which is left as it is.
        client: The metastore.
        job: What is to be created.

    Returns:
        The report, where another table of the name is to be left as it is; None where the rows are
        still to be inserted.

    Raises:
        TableExists: There is another table of the name.
        TypeMismatch: A column of the query has a type that Hive lacks.
        UnknownColumn: A column has a name that not every engine reads.
    """
    ref = TableRef.parse(job.target)
    ours = False
    try:
        table = find_table(client, ref)
        if table is None:
            found = columns_of_query(spark, client, ref, job.source)
            columns = [ColumnSpec(each.name, each.type) for each in found]
            create_table(client, ref, job.creation(columns))
        elif not job.run_token or (by := table.parameters.get(RUN_PROPERTY)) != job.run_token:
            # It may lack the rows that the other statement was to insert.
            ours = bool(job.run_token and by and is_same_run(by, job.run_token))
            remedy = "Drop it: another statement of this run has created it." if ours else None
            raise TableExists(f"{ref.full_name} is there already.", remedy=remedy)
    except TableExists:
        if ours or not job.if_not_exists:
            raise
        warning = f"{ref.full_name} was there already, and is left as it was."
        return RunReport(job=job.tag, target=ref.full_name, warnings=(warning,))
    return None
