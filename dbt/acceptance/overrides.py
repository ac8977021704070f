"""Suites of dbt-tests-adapter whose expectations name another database."""

import getpass
from pathlib import Path

import pytest
from dbt.tests.adapter.basic import expected_catalog
from dbt.tests.adapter.basic import test_docs_generate as docs
from dbt.tests.adapter.basic import test_get_catalog_for_single_relation as single
from dbt.tests.adapter.catalog import files as catalog_files
from dbt.tests.adapter.catalog import relation_types
from dbt.tests.adapter.constraints import test_constraints as constraints
from dbt.tests.adapter.dbt_show import test_dbt_show as show
from dbt.tests.adapter.incremental import test_incremental_on_schema_change as schema_change
from dbt.tests.adapter.python_model import test_spark as python_models
from dbt.tests.adapter.simple_copy import test_copy_uppercase as uppercase
from dbt.tests.adapter.simple_copy import test_simple_copy as copies
from dbt.tests.adapter.simple_seed import seeds as texts
from dbt.tests.adapter.simple_seed import test_seed as seeds
from dbt.tests.adapter.simple_seed import test_seed_type_override as override
from dbt.tests.adapter.unit_testing import test_types as unit_types
from dbt.tests.adapter.utils import test_current_timestamp as timestamps
from dbt.tests.adapter.utils import test_escape_single_quotes as quotes
from dbt.tests.adapter.utils import test_split_part as parts
from dbt.tests.adapter.utils import test_timestamps as names_of_now
from dbt.tests.adapter.utils.data_types import test_type_float as floats
from dbt.tests.adapter.utils.data_types import test_type_int as ints
from dbt.tests.util import AnyInteger, copy_file, read_file, run_dbt, write_file
from dbt_common.contracts.metadata import CatalogTable, ColumnMetadata, StatsItem, TableMetadata

from hiveacid.spark.spark_versions import SPARK_4_0, VERSION

_TYPES = {
    "id_type": "bigint",
    "text_type": "string",
    "time_type": "timestamp",
    "view_type": "view",
    "table_type": "table",
}


def _sizes():
    described = {
        "bytes": ("Size", "the files that a reader opens, in bytes"),
        "files": ("Files", "the files that a reader opens"),
    }
    return {
        "has_stats": {**expected_catalog.no_stats()["has_stats"], "value": True},
        **{
            key: {
                "id": key,
                "label": label,
                "value": AnyInteger(),
                "description": description,
                "include": True,
            }
            for key, (label, description) in described.items()
        },
    }


class TestDocsGenerate(docs.BaseDocsGenerate):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project):
        return expected_catalog.base_expected_catalog(
            project,
            role=getpass.getuser(),
            model_stats=expected_catalog.no_stats(),
            seed_stats=_sizes(),
            **_TYPES,
        )


class TestDocsGenReferences(docs.BaseDocsGenReferences):
    @pytest.fixture(scope="class")
    def expected_catalog(self, project):
        return expected_catalog.expected_references_catalog(
            project,
            role=getpass.getuser(),
            model_stats=_sizes(),
            view_summary_stats=expected_catalog.no_stats(),
            seed_stats=_sizes(),
            bigint_type="bigint",
            **_TYPES,
        )


def _entry(project, name, kind, stats):
    types = ["bigint", "string", "string", "string", "timestamp"]
    names = ["id", "first_name", "email", "ip_address", "updated_at"]
    columns = zip(names, types, strict=True)
    return CatalogTable(
        metadata=TableMetadata(
            type=kind, schema=project.test_schema, name=name, owner=getpass.getuser()
        ),
        columns={
            name: ColumnMetadata(type=type_, index=place + 1, name=name)
            for place, (name, type_) in enumerate(columns)
        },
        stats=stats,
    )


class BaseGetCatalogForSingleRelation(single.BaseGetCatalogForSingleRelation):
    @pytest.fixture(scope="class")
    def expected_catalog_my_seed(self, project):
        sizes = {key: StatsItem(**value) for key, value in _sizes().items() if key != "has_stats"}
        return _entry(project, "my_seed", "table", sizes)

    @pytest.fixture(scope="class")
    def expected_catalog_my_view_model(self, project):
        return _entry(project, "my_view_model", "view", {})


class CatalogRelationTypes(relation_types.CatalogRelationTypes):
    @pytest.fixture(scope="class", autouse=True)
    def models(self):
        return {"my_table.sql": catalog_files.MY_TABLE, "my_view.sql": catalog_files.MY_VIEW}

    @pytest.mark.parametrize(
        ("node_name", "relation_type"),
        [
            ("seed.test.my_seed", "table"),
            ("model.test.my_table", "table"),
            ("model.test.my_view", "view"),
        ],
    )
    def test_relation_types_populate_correctly(self, docs, node_name, relation_type):
        super().test_relation_types_populate_correctly(docs, node_name, relation_type)


# Contracts: types of Spark, and constraints as the metastore knows them


class _Types:
    @pytest.fixture
    def string_type(self):
        return "string"

    @pytest.fixture
    def int_type(self):
        return "int"

    @pytest.fixture
    def schema_string_type(self):
        return "string"

    @pytest.fixture
    def schema_int_type(self):
        return "int"

    @pytest.fixture
    def data_types(self):
        return [
            ["1", "int", "int"],
            ["'1'", "string", "string"],
            ["true", "boolean", "boolean"],
            ["timestamp '2013-11-03 00:00:00'", "timestamp", "timestamp"],
            ["date '2013-11-03'", "date", "date"],
            ["array('a', 'b')", "array<string>", "array<string>"],
            ["array(1, 2)", "array<int>", "array<int>"],
            ["cast(1 as decimal(10, 2))", "decimal(10,2)", "decimal(10,2)"],
            ["named_struct('bar', 'baz')", "struct<bar:string>", "struct<bar:string>"],
        ]


class TestTableConstraintsColumnsEqual(_Types, constraints.BaseTableConstraintsColumnsEqual):
    pass


class TestViewConstraintsColumnsEqual(_Types, constraints.BaseViewConstraintsColumnsEqual):
    pass


class TestIncrementalConstraintsColumnsEqual(
    _Types, constraints.BaseIncrementalConstraintsColumnsEqual
):
    pass


class _Declared:
    """The constraints of the table, in place of the text that declares them."""

    declared = ("NOT NULL", "CHECK ((id > 0))", "CHECK (id >= 1)", "PRIMARY KEY (`id`)")

    def test__constraints_ddl(self, project):
        _write_schema(project)
        run_dbt(["run", "-s", "+my_model"])
        (text,) = project.run_sql("show create table {schema}.my_model", fetch="one")
        assert [each for each in self.declared if each not in text] == [], text

    def test__model_constraints_ddl(self, project):
        _Declared.test__constraints_ddl(self, project)


def _write_schema(project):
    text = read_file("models", "constraints_schema.yml")
    write_file(text.format(schema=project.test_schema), "models", "constraints_schema.yml")


class TestTableConstraintsRuntimeDdlEnforcement(
    _Declared, constraints.BaseConstraintsRuntimeDdlEnforcement
):
    test__model_constraints_ddl = None


class TestIncrementalConstraintsRuntimeDdlEnforcement(
    _Declared, constraints.BaseIncrementalConstraintsRuntimeDdlEnforcement
):
    test__model_constraints_ddl = None


class TestModelConstraintsRuntimeEnforcement(
    _Declared, constraints.BaseModelConstraintsRuntimeEnforcement
):
    declared = (*_Declared.declared, "UNIQUE (`color`, `date_day`)", "FOREIGN KEY (`id`)")
    test__constraints_ddl = None


class TestConstraintQuotedColumn(_Declared, constraints.BaseConstraintQuotedColumn):
    declared = ("`from` string NOT NULL", "CHECK ((`from` = 'blue'))")
    test__model_constraints_ddl = None


class _Violated:
    @pytest.fixture(scope="class")
    def expected_error_messages(self):
        return ["NOT NULL"]


class TestTableConstraintsRollback(_Violated, constraints.BaseConstraintsRollback):
    pass


class TestIncrementalConstraintsRollback(_Violated, constraints.BaseIncrementalConstraintsRollback):
    pass


# Seeds


class TestBasicSeedTests(seeds.BaseBasicSeedTests):
    def test_simple_seed_full_refresh_flag(self, project):
        """A table that takes the place of another one drops no views."""
        self._build_relations_for_test(project)
        results = run_dbt(["seed", "--full-refresh"])
        self._check_relation_end_state(run_result=results, project=project, exists=True)


class TestSeedConfigFullRefreshOn(seeds.BaseSeedConfigFullRefreshOn):
    def test_simple_seed_full_refresh_config(self, project):
        """A table that takes the place of another one drops no views."""
        self._build_relations_for_test(project)
        self._check_relation_end_state(run_result=run_dbt(["seed"]), project=project, exists=True)


class TestSimpleSeedColumnOverride(override.BaseSimpleSeedColumnOverride):
    @staticmethod
    def seed_enabled_types():
        return {"seed_id": "string", "birthday": "date"}

    @staticmethod
    def seed_tricky_types():
        return {
            "seed_id_str": "string",
            "looks_like_a_bool": "string",
            "looks_like_a_date": "string",
        }


class TestSeedSpecificFormats(seeds.BaseSeedSpecificFormats):
    @pytest.fixture(scope="class")
    def seeds(self):
        """The formats, without a name with dots, which the metastore refuses."""
        big = "\n".join(["seed_id", *map(str, range(20_000))])
        return {"big_seed.csv": big, "seed_unicode.csv": texts.seed__unicode_csv}

    def test_simple_seed(self, project):
        assert len(run_dbt(["seed"])) == 2


class TestSimpleSeedWithBOM(seeds.BaseSimpleSeedWithBOM):
    @pytest.fixture(scope="class", autouse=True)
    def setUp(self, project):
        project.run_sql(texts.seeds__expected_sql)
        file = project.project_root / Path("seeds") / "seed_bom.csv"
        copy_file(Path(texts.__file__).parent, "seed_bom.csv", file, "")


class TestSimpleCopyBase(copies.SimpleCopyBase):
    # It needs materialized views.
    test_simple_copy_with_materialized_views = None


class TestSimpleCopyUppercase(uppercase.BaseSimpleCopyUppercase):
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target):
        return dbt_profile_target


class TestPostgresUnitTestingTypes(unit_types.BaseUnitTestingTypes):
    @pytest.fixture
    def data_types(self):
        return [
            ["1", "1"],
            ["'1'", "1"],
            ["true", "true"],
            ["date '2020-01-02'", "2020-01-02"],
            ["timestamp '2013-11-03 00:00:00'", "2013-11-03 00:00:00"],
            ["cast(1 as decimal(10, 2))", "1"],
        ]


class TestShowDoesNotHandleDoubleLimit(show.BaseShowDoesNotHandleDoubleLimit):
    DATABASE_ERROR_MESSAGE = "Found multiple 'LIMIT' clauses"


# Functions and types


class TestTypeFloat(floats.BaseTypeFloat):
    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"seeds": {"+column_types": {"float_col": "float"}}}


class TestTypeInt(ints.BaseTypeInt):
    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"seeds": {"+column_types": {"int_col": "int"}}}


class TestCurrentTimestamp(timestamps.BaseCurrentTimestampNaive):
    pass


class TestCurrentTimestamps(names_of_now.BaseCurrentTimestamps):
    @pytest.fixture(scope="class")
    def expected_schema(self):
        names = ("current_timestamp", "current_timestamp_in_utc_backcompat")
        return dict.fromkeys((*names, "current_timestamp_backcompat"), "timestamp")

    @pytest.fixture(scope="class")
    def expected_sql(self):
        """The text of PostgreSQL is not compared."""


@pytest.mark.skipif(
    VERSION < SPARK_4_0, reason="Spark 3.5 cannot take an element at a computed place of a null"
)
class TestSplitPart(parts.BaseSplitPart):
    pass


class TestEscapeSingleQuotes(quotes.BaseEscapeSingleQuotesBackslash):
    pass


# Incremental models and models in Python


class TestIncrementalOnSchemaChange(schema_change.BaseIncrementalOnSchemaChange):
    def test_run_incremental_sync_all_columns(self, project):
        """The fixtures drop columns, which is refused."""
        select = ["run", "--select", "model_a incremental_sync_all_columns"]
        run_dbt(select)
        columns = project.run_sql("describe {schema}.incremental_sync_all_columns", fetch="all")
        results = run_dbt(select, expect_pass=False)
        (refused,) = [each for each in results if each.status == "error"]
        assert "cannot be dropped" in refused.message
        again = project.run_sql("describe {schema}.incremental_sync_all_columns", fetch="all")
        assert again == columns


class BasePySparkTests(python_models.BasePySparkTests):
    @pytest.fixture(scope="class")
    def models(self):
        """The frames of pandas and of Spark: the others need packages for older versions of both."""
        return {
            "pandas_df.py": python_models.PANDAS_MODEL,
            "pyspark_df.py": python_models.PYSPARK_MODEL,
        }

    def test_different_dataframes(self, project):
        assert len(run_dbt(["run"])) == 2
