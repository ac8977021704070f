"""Replacement of tables, and a run without a metastore."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow
import pytest
from dbt.adapters.hiveacid import HiveAcidAdapter
from dbt.tests.util import relation_from_name, run_dbt, write_file
from dbt_common.exceptions import DbtRuntimeError
from dbt_common.invocation import reset_invocation_id

from hiveacid import AcidTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind

MODELS = {
    "plain.sql": "select 1 as id, 'a' as name",
    "shaped.sql": """
{{ config(insert_only=true, file_format='parquet', partition_by=['day'],
          tblproperties={'owner.team': 'shop'}) }}
select date '2026-01-01' as day, 1 as id
""",
    "bucketed.sql": """
{{ config(clustered_by='id', buckets=2) }}
select cast(id as int) as id from range(10)
""",
}


class TestReplacement:
    @pytest.fixture(scope="class")
    def models(self):
        return MODELS

    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"models": {"+materialized": "table"}}

    @pytest.fixture
    def found(self, project, metastore):
        def look(name):
            with MetastoreClient(metastore.options) as client:
                return client.get_table(TableRef(project.test_schema, name))

        return look

    def _names(self, project, metastore):
        with MetastoreClient(metastore.options) as client:
            return sorted(client.get_tables(project.test_schema))

    def test_tables_have_their_settings(self, project, found):
        run_dbt(["run"])
        shaped, bucketed = found("shaped"), found("bucketed")
        assert shaped.kind is TableKind.INSERT_ONLY
        assert [key.name for key in shaped.partition_keys] == ["day"]
        assert shaped.parameters["owner.team"] == "shop"
        assert bucketed.kind is TableKind.FULL_ACID
        assert (bucketed.bucket_columns, bucketed.num_buckets) == (("id",), 2)
        rows = project.run_sql("select count(*) from {schema}.bucketed", fetch="one")
        assert rows[0] == 10

    def test_equal_definitions_overwrite_and_others_take_the_place(self, project, found, metastore):
        run_dbt(["run", "--select", "plain"])
        before = found("plain")
        write_file("select 2 as id, 'b' as name", "models", "plain.sql")
        run_dbt(["run", "--select", "plain"])
        assert found("plain").identity == before.identity
        assert project.run_sql("select id from {schema}.plain", fetch="all") == [(2,)]
        project.run_sql("create table {schema}.plain__dbt_new_0123abcd (id int)")
        project.run_sql("create table {schema}.plain__dbt_old_0123abcd (id int)")
        write_file("select 3L as id, 'c' as name, 1 as more", "models", "plain.sql")
        run_dbt(["run", "--select", "plain"])
        after = found("plain")
        assert after.identity != before.identity
        assert [column.type for column in after.columns] == ["bigint", "string", "int"]
        assert [each for each in self._names(project, metastore) if "__dbt" in each] == []

    def test_each_attempt_of_a_run_fills_a_table_of_its_own(self, project):
        relation = relation_from_name(project.adapter, "plain")
        first = project.adapter.new_relation(relation)
        assert project.adapter.new_relation(relation) == first
        reset_invocation_id()
        assert project.adapter.new_relation(relation) != first

    def test_rows_that_others_write_meanwhile_are_kept(self, project, metastore, monkeypatch):
        write_file("select 1 as id", "models", "plain.sql")
        run_dbt(["run", "--select", "plain", "--full-refresh"])
        create = HiveAcidAdapter.create_table_sql

        def after_a_write(adapter, *arguments):
            with AcidTable(f"{project.test_schema}.plain", metastore.uri, run_in="worker") as plain:
                plain.append(pyarrow.table({"id": pyarrow.array([9], pyarrow.int32())}))
            return create(adapter, *arguments)

        with monkeypatch.context() as patch:
            patch.setattr(HiveAcidAdapter, "create_table_sql", after_a_write)
            (result,) = run_dbt(["run", "--select", "plain", "--full-refresh"], expect_pass=False)
        assert "Others have written to" in result.message
        ids = "select id from {schema}.plain order by id"
        assert project.run_sql(ids, fetch="all") == [(1,), (9,)]
        run_dbt(["run", "--select", "plain", "--full-refresh"])
        assert project.run_sql(ids, fetch="all") == [(1,)]
        assert [each for each in self._names(project, metastore) if "__dbt" in each] == []

    def test_a_comparison_that_fails_gives_the_table_its_name_back(self, project, monkeypatch):
        write_file("select 1 as id", "models", "plain.sql")
        run_dbt(["run", "--select", "plain", "--full-refresh"])

        def look(adapter, relation):
            if "__dbt_old_" in relation.identifier:
                raise DbtRuntimeError("The metastore does not answer.")
            return "seen"

        with monkeypatch.context() as patch:
            patch.setattr(HiveAcidAdapter, "state_of", look)
            (result,) = run_dbt(["run", "--select", "plain", "--full-refresh"], expect_pass=False)
        assert "The metastore does not answer." in result.message
        assert project.run_sql("select id from {schema}.plain", fetch="all") == [(1,)]

    @pytest.mark.parametrize(
        ("kind", "failing"),
        [
            ("table", "select cast(raise_error('planned') as int) as id"),
            ("view", "select missing from range(1)"),
        ],
    )
    def test_a_run_that_is_killed_at_any_statement_leaves_rows_to_the_next_one(
        self, project, metastore, monkeypatch, kind, failing
    ):
        def build(query, **options):
            write_file(query, "models", "plain.sql")
            return run_dbt(["run", "--select", "plain", "--full-refresh"], **options)

        execute = HiveAcidAdapter.execute
        config = f"{{{{ config(materialized='{kind}') }}}}"
        seen = []
        for statements in itertools.count():
            left = itertools.repeat(None, statements)

            def execute_or_be_dead(adapter, sql, *arguments, left=left, **options):
                if ".plain" in sql and next(left, "dead"):
                    raise DbtRuntimeError("The process is dead.")
                return execute(adapter, sql, *arguments, **options)

            build("{{ config(materialized='table') }} select 1 as id")
            with monkeypatch.context() as patch:
                patch.setattr(HiveAcidAdapter, "execute", execute_or_be_dead)
                (result,) = build(f"{config} select 2 as id", expect_pass=None)
            if result.status == "success":
                break
            assert "The process is dead." in result.message
            build(f"{config} {failing}", expect_pass=False)
            seen += project.run_sql("select id from {schema}.plain", fetch="one")
            build(f"{config} select 3 as id")
            assert project.run_sql("select id from {schema}.plain", fetch="all") == [(3,)]
            assert [each for each in self._names(project, metastore) if "__dbt" in each] == []
        assert seen == sorted(seen)
        assert {*seen} == {1, 2}

    def test_the_last_table_that_had_the_name_gets_it_back(self, project):
        write_file("select 1 as id", "models", "plain.sql")
        run_dbt(["run", "--select", "plain", "--full-refresh"])
        project.run_sql("alter table {schema}.plain rename to {schema}.plain__dbt_old_ffffffff")
        # The metastore notes the seconds of creations.
        run_dbt(["run", "--select", "shaped"])
        project.run_sql("create table {schema}.plain__dbt_old_00000000 as select 2 as id")
        write_file("select cast(raise_error('planned') as bigint) as id", "models", "plain.sql")
        run_dbt(["run", "--select", "plain"], expect_pass=False)
        assert project.run_sql("select id from {schema}.plain", fetch="all") == [(2,)]

    def test_a_failing_query_leaves_the_table(self, project, metastore):
        write_file("select 1 as id", "models", "plain.sql")
        run_dbt(["run", "--select", "plain", "--full-refresh"])
        failing = "select cast(raise_error('planned') as bigint) as id"
        for text in (failing, "{{ config(materialized='view') }} select missing from range(1)"):
            write_file(text, "models", "plain.sql")
            run_dbt(["run", "--select", "plain"], expect_pass=False)
            assert project.run_sql("select id from {schema}.plain", fetch="all") == [(1,)]
        write_file("{{ config(materialized='view') }} select 5 as id", "models", "plain.sql")
        run_dbt(["run", "--select", "plain"])
        write_file("select 6 as id", "models", "plain.sql")
        run_dbt(["run", "--select", "plain"])
        assert project.run_sql("select id from {schema}.plain", fetch="all") == [(6,)]
        assert [each for each in self._names(project, metastore) if "__dbt" in each] == []


DAYS = """
{{ config(partition_by='day', insert_only=$only) }}
select id, cast(2 * id + $shift as string) as day, $version as version from range(3)
"""


class TestPartitions:
    @pytest.fixture(scope="class")
    def models(self):
        return {
            f"{name}.sql": DAYS.replace("$only", value)
            .replace("$shift", "0")
            .replace("$version", "0")
            for name, value in (("full", "false"), ("only", "true"))
        }

    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"models": {"+materialized": "table"}}

    @pytest.mark.parametrize("name", ["full", "only"])
    def test_readers_see_all_rows_of_one_version(self, project, metastore, name):
        run_dbt(["run", "--select", name])
        file = f"{name}.sql"
        text = (Path(project.project_root) / "models" / file).read_text()
        ref = TableRef(project.test_schema, name)
        with MetastoreClient(metastore.options) as client:
            before = client.get_table(ref).identity
        seen, done = [], threading.Event()

        def read():
            while not done.is_set():
                rows = AcidTable(ref.full_name, metastore.uri).to_arrow().to_pylist()
                seen.append(tuple(sorted((int(r["version"]), int(r["day"])) for r in rows)))

        with ThreadPoolExecutor(1) as pool:
            reader = pool.submit(read)
            try:
                for version in (1, 2):
                    # Other partitions: those of the old version get no rows.
                    new = text.replace("* id + 0", f"* id + {version}")
                    new = new.replace("0 as version", f"{version} as version")
                    write_file(new, "models", file)
                    run_dbt(["run", "--select", name])
            finally:
                done.set()
            reader.result()
        expected = [tuple((version, 2 * id + version) for id in range(3)) for version in range(3)]
        assert set(seen) <= set(expected)
        assert seen[0] == expected[0]
        rows = AcidTable(ref.full_name, metastore.uri).to_arrow().to_pylist()
        assert sorted((r["version"], int(r["day"])) for r in rows) == [*expected[2]]
        with MetastoreClient(metastore.options) as client:
            assert client.get_table(ref).identity == before


CONSTRAINTS = """
models:
  - name: {name}
    config: {{materialized: table, contract: {{enforced: true}}}}
    constraints:
      - {{type: check, name: positive, expression: id > 0}}
      - {{type: primary_key, name: the_key, columns: [id]}}
    columns:
      - name: id
        data_type: int
        constraints: [{{type: not_null}}, {{type: check, expression: id < 9}}]
"""


class TestConstraintNames:
    @pytest.fixture(scope="class")
    def models(self):
        return {
            f"{name}.{kind}": text.format(name=name)
            for name in ("one", "other")
            for kind, text in (("sql", "select 1 as id"), ("yml", CONSTRAINTS))
        }

    def test_tables_have_constraints_of_the_same_name(self, project):
        run_dbt(["run"])
        run_dbt(["run", "--full-refresh"])
        for name in ("one", "other"):
            for wrong in ("0", "9", "null"):
                with pytest.raises(Exception, match="refuses the row"):
                    project.run_sql(f"insert into {{schema}}.{name} values ({wrong})")
            assert project.run_sql(f"select id from {{schema}}.{name}", fetch="all") == [(1,)]


class TestUnreachable:
    @pytest.fixture(scope="class")
    def models(self):
        return {"plain.sql": "{{ config(materialized='table') }} select 1 as id"}

    def test_a_table_that_cannot_be_looked_up_is_not_missing(self, project, metastore):
        run_dbt(["run"])
        away = {"uris": "thrift://127.0.0.1:1", "patience_seconds": 0}
        text = (project.profiles_dir / "profiles.yml").read_text("utf-8")
        assert metastore.uri in text
        write_file(text.replace(metastore.uri, str(away)), project.profiles_dir, "profiles.yml")
        try:
            with pytest.raises(Exception, match=r"127\.0\.0\.1:1"):
                run_dbt(["run"], expect_pass=False)
        finally:
            write_file(text, project.profiles_dir, "profiles.yml")
        rows = AcidTable(f"{project.test_schema}.plain", metastore.uri).to_arrow()
        assert rows.to_pylist() == [{"id": 1}]
