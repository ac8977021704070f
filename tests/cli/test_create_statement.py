"""The statement of SHOW CREATE TABLE."""

import pytest

from hiveacid.jobs.definition_jobs import CreateTableJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.parser.script import to_jobs
from hiveacid.rules.names import TableRef
from hiveacid.tables.definitions.answers import create_statement


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
