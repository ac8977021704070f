"""Names from foreign files become neither SQL nor other statements."""

import json

import pytest
from dbt.adapters.hiveacid.columns import HiveAcidColumn, type_of_metastore, type_of_query
from dbt.adapters.hiveacid.connections import Handle
from dbt.adapters.hiveacid.credentials import HiveAcidCredentials
from dbt.adapters.hiveacid.definitions import Definition, ModelColumn
from dbt.adapters.hiveacid.relation import HiveAcidRelation
from dbt.tests.util import run_dbt, write_file
from dbt_common.exceptions import CompilationError, DbtRuntimeError
from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

from hiveacid.errors import SqlError, UnsupportedTable
from hiveacid.metastore.client import MetastoreClient

HOSTILE = "a` int); drop table t; --"


def test_a_name_is_quoted() -> None:
    assert HiveAcidColumn(HOSTILE, "int").quoted == "`a`` int); drop table t; --`"


@pytest.mark.parametrize(
    ("columns", "config"),
    [
        ([ModelColumn(HOSTILE, "int")], {}),
        ([ModelColumn("id", "int")], {"clustered_by": HOSTILE, "buckets": 2}),
        ([ModelColumn("id", "int"), ModelColumn(HOSTILE, "int")], {"partition_by": HOSTILE}),
    ],
)
def test_no_table_gets_a_column_that_some_engine_cannot_read(columns, config) -> None:
    with pytest.raises(CompilationError, match="A column cannot have the name"):
        Definition(columns, (), config).statement("s.t", "run")


def test_names_of_fields_are_quoted_in_types() -> None:
    fields = [StructField("plain", IntegerType()), StructField(HOSTILE, IntegerType())]
    assert type_of_query(ArrayType(StructType(fields))) == (
        "array<struct<plain:int,`a`` int); drop table t; --`:int>>"
    )


def test_a_type_of_the_metastore_is_a_type() -> None:
    assert type_of_metastore("array<decimal(10,2)>") == "array<decimal(10,2)>"
    assert type_of_metastore("void") == "void"
    with pytest.raises(UnsupportedTable):
        type_of_metastore("int); drop table t; --")


@pytest.mark.parametrize("part", ["schema", "identifier"])
def test_a_relation_has_a_plain_name(part: str) -> None:
    names = {"schema": "s", "identifier": "t", part: "t; drop table u"}
    with pytest.raises(DbtRuntimeError, match="is not the name of a table"):
        HiveAcidRelation.create(**names).render()


@pytest.mark.parametrize(
    "sql",
    [
        "select 1; drop table t",
        "create or replace temporary view v as select 1; drop table t",
        "/* ; */ select ';' as a; -- b\n drop table t;",
    ],
)
def test_an_execution_runs_one_statement(sql: str) -> None:
    handle = Handle(HiveAcidCredentials(schema="s", metastore="thrift://127.0.0.1:1"))
    with pytest.raises(SqlError, match="Another statement begins there"):
        handle.cursor().execute(sql)


class TestHostileFile:
    @pytest.fixture(scope="class")
    def folder(self, tmp_path_factory):
        return tmp_path_factory.mktemp("foreign")

    @pytest.fixture(scope="class")
    def models(self, folder):
        read = f"select * from json.`file:{folder}/feed`"
        incremental = "materialized='incremental', on_schema_change='append_new_columns'"
        return {
            "victim.sql": "{{ config(materialized='table') }} select 1 as id",
            "whole.sql": "{{ config(materialized='table') }}" + read,
            "part.sql": f"{{{{ config({incremental}) }}}}" + read,
        }

    @pytest.fixture(scope="class")
    def snapshots(self, folder):
        body = f"select * from json.`file:{folder}/feed`"
        config = "unique_key='id', strategy='check', check_cols=['id']"
        return {
            "states.sql": f"{{% snapshot states %}}{{{{ config({config}) }}}}{body}{{% endsnapshot %}}"
        }

    def _feed(self, folder, **rows):
        write_file(json.dumps({"id": 1, **rows}), str(folder), "feed")

    def test_a_key_of_a_file_becomes_no_statement(self, project, metastore, folder):
        run_dbt(["run", "--select", "victim"])
        self._feed(folder, plain=1)
        run_dbt(["build", "--select", "whole", "part", "states"])
        started = folder / "started"
        for form in ("a` int); {}; --", "a` string); {}; --", "a`) select 1; {}; --"):
            for statement in (
                f"drop table {project.test_schema}.victim",
                f"select transform (1) using 'touch {started}' as (a string)",
            ):
                self._feed(folder, **{form.format(statement): {"b` int>); c": 1}})
                for command in (["run", "--select", "whole", "part"], ["snapshot"]):
                    results = run_dbt(command, expect_pass=False)
                    assert all(
                        "A column cannot have the name" in each.message for each in results
                    ), [each.message for each in results]
                run_dbt(["run", "--select", "whole", "--full-refresh"], expect_pass=False)
        assert not started.exists()
        with MetastoreClient(metastore.options) as client:
            assert "victim" in client.get_tables(project.test_schema)
