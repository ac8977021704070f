"""Profiles of a real metastore for dbt's own suites."""

import os
from collections.abc import Iterator
from pathlib import Path

import dialect
import freezegun
import pytest
import suites

from hiveacid.metastore.dev.embedded import EmbeddedMetastore

pytest_plugins = ["dbt.tests.fixtures.project"]

dialect.install()
# It reads all names of a module, and some of this package need Spark 4.
freezegun.configure(extend_ignore_list=["hiveacid"])
VERSION = os.environ.get("METASTORE", "4.0.1")


@pytest.fixture(scope="session")
def metastore(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedMetastore]:
    with EmbeddedMetastore(VERSION, directory=tmp_path_factory.mktemp("metastore")) as running:
        yield running


@pytest.fixture(scope="class")
def dbt_profile_target(metastore: EmbeddedMetastore) -> dict[str, object]:
    return {
        "type": "hiveacid",
        "threads": 4,
        "metastore": metastore.uri,
        "spark": {
            "spark.master": "local[2]",
            "spark.sql.shuffle.partitions": 2,
            "spark.default.parallelism": 2,
            "spark.sql.ui.explainMode": "simple",
            "spark.ui.enabled": False,
            # Thorough compilation takes longer than it saves.
            "spark.driver.extraJavaOptions": "-Duser.timezone=UTC -XX:TieredStopAtLevel=1 "
            "-XX:ReservedCodeCacheSize=512m -XX:+UseSerialGC",
        },
    }


@pytest.fixture(scope="class")
def test_data_dir(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of a suite, translated."""
    folder = tmp_path_factory.mktemp("data")
    for base in request.cls.__mro__:
        if base.__module__.startswith(f"{dialect.PACKAGE}."):
            subject = base.__module__.split(".")[3]
            for file in (suites.folder_of_suites() / subject / "data").glob("*.*"):
                (folder / file.name).write_text(dialect.translated(file.read_text()))
    return folder


@pytest.fixture(scope="class")
def logs_dir(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A folder outside of the repository."""
    folder = str(tmp_path_factory.mktemp("logs"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DBT_LOG_PATH", folder)
        yield folder


@pytest.fixture(scope="session", autouse=True)
def _columns_in_parentheses() -> None:
    from dbt.tests.adapter.simple_snapshot import common

    def add_column(project, table, column, definition):
        type_ = definition.partition(" ")[0]
        name = common.relation_from_name(project.adapter, table)
        project.run_sql(f"alter table {name} add columns ({column} {type_})")

    common.add_column = add_column


@pytest.fixture(scope="session", autouse=True)
def _statements_of_suites_one_by_one() -> None:
    """Suites give their own connection several statements, which dbt never does."""
    from dbt.adapters.hiveacid import HiveAcidAdapter

    from hiveacid.parser.script import statements

    run_one = HiveAcidAdapter.run_sql_for_tests

    def run_each(adapter, sql, fetch, connection):
        found = [*statements(sql)]
        *others, last = [sql[each.tokens[0].start : each.tokens[-1].end + 1] for each in found]
        for each in others:
            run_one(adapter, each, None, connection)
        return run_one(adapter, last, fetch, connection)

    HiveAcidAdapter.run_sql_for_tests = run_each
