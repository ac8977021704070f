"""The statement of SHOW CREATE TABLE."""

import pytest

from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.cli.create_statement import create_statement
from airflow_hiveacid.jobs.definitions.ddl_jobs import CreateTableJob
from airflow_hiveacid.metastore.catalog import HiveColumn, HiveTable
from airflow_hiveacid.sql.script import to_jobs


@pytest.mark.parametrize(
    "type_",
    [
        "struct<a:int>",
        "struct<a b:int,x.y:string>",
        "map<string,array<struct<select:int,from:struct<table:decimal(3,1)>>>>",
    ],
)
def test_types_are_printed_so_that_they_can_be_read(type_: str) -> None:
    table = HiveTable.new(TableRef("db", "t"), [HiveColumn("a", type_)])
    (job,) = to_jobs(create_statement(table))
    assert isinstance(job, CreateTableJob)
    assert [column.type for column in job.columns] == [type_]
