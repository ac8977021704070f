"""Exports and mirrors in catalogs on servers: PostgreSQL, REST, and both versions of the metastore."""

from pathlib import Path
from typing import Any

import pytest
from pyiceberg.catalog import Catalog
from pyiceberg.schema import Schema
from pyiceberg.types import IntegerType, NestedField

from hiveacid.errors import (
    CommitUncertain,
    HiveAcidError,
    IcebergRefused,
    TableExists,
    TableReplaced,
)
from hiveacid.iceberg.catalogs import KINDS, MetastoreCatalog
from hiveacid.iceberg.guarded_catalog import DatabaseCatalog
from hiveacid.iceberg.lake import ChangedTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.progress import Phase, PhaseObserver
from tests.compaction.written_table import WrittenTable
from tests.iceberg.lakes import ServedCatalog, opened_as
from tests.iceberg.rest_catalog import SECRET, RestCatalog
from tests.iceberg.test_mirror import Mirror
from tests.iceberg.test_paused_mirrors import create_again, paused

pytestmark = [
    pytest.mark.iceberg,
    pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True),
]


class _Lossy:
    """A catalog whose commits fail before, or after, they have taken effect."""

    takes_effect = True

    def commit_table(self, *arguments: Any) -> Any:
        if self.takes_effect:
            super().commit_table(*arguments)  # type: ignore[misc]
        raise ConnectionError("The answer was lost.")


class LossySqlCatalog(_Lossy, DatabaseCatalog):
    pass


class DeadSqlCatalog(LossySqlCatalog):
    takes_effect = False


class LossyMetastoreCatalog(_Lossy, MetastoreCatalog):
    pass


class DeadMetastoreCatalog(LossyMetastoreCatalog):
    takes_effect = False


# The classes whose commits take effect, and those whose commits do not.
LOSSES: dict[str, tuple[type[Catalog], type[Catalog]]] = {
    "sql": (LossySqlCatalog, DeadSqlCatalog),
    "hive": (LossyMetastoreCatalog, DeadMetastoreCatalog),
}


class AtCommit(PhaseObserver):
    """Does something before the commit."""

    def __init__(self, action: Any) -> None:
        self._action = action

    def enter(self, phase: Phase) -> None:
        if phase is Phase.COMMIT:
            self._action()


@pytest.fixture
def mirror(client: MetastoreClient, database: str, tmp_path: Path, served: ServedCatalog) -> Mirror:
    """A table with three rows, which is not mirrored yet."""
    return _mirror(client, database, tmp_path, served)


@pytest.fixture
def rest_mirror(
    client: MetastoreClient, database: str, tmp_path: Path, rest: ServedCatalog
) -> Mirror:
    return _mirror(client, database, tmp_path, rest)


def _mirror(client: MetastoreClient, database: str, folder: Path, served: ServedCatalog) -> Mirror:
    table = WrittenTable.create(client, f"{database}.t")
    table.insert(1, 2, 3)
    return Mirror(table, folder, served)


def test_a_table_is_exported_and_mirrored_and_exported_again_after_it_was_dropped(
    mirror: Mirror,
) -> None:
    assert mirror.counts() == ("created", 1, 0, 0)
    assert mirror.iceberg.properties["write.format.default"] == "parquet"
    second = mirror.hive.insert(4, 5)
    assert mirror.counts(run_token="run") == ("updated", 1, 1, 0)
    assert mirror.update(run_token="run").already_done
    mirror.hive.delete((second, 1))
    assert mirror.counts() == ("updated", 1, 1, 1)
    assert mirror.counts() == ("unchanged", 0, 2, 0)
    assert len(mirror.iceberg.metadata.snapshots) == 3
    before = mirror.iceberg.metadata.table_uuid
    mirror.catalog.drop_table(mirror.name)
    mirror.hive.insert(6)
    # The files of the dropped table may remain.
    assert mirror.run(run_token="run").outcome == "created"
    assert mirror.rows() == [1, 2, 3, 4, 6]
    assert mirror.iceberg.metadata.table_uuid != before


def test_added_columns_are_part_of_the_snapshot(mirror: Mirror) -> None:
    mirror.update()
    mirror.change_columns(("id", "bigint"), ("w", "struct<a:int>"))
    mirror.hive.insert(4)
    assert mirror.counts() == ("updated", 1, 1, 0)
    assert [field.name for field in mirror.iceberg.schema().fields] == ["id", "w"]


def test_a_program_that_creates_the_table_meanwhile_wins(mirror: Mirror) -> None:
    with pytest.raises(TableReplaced, match="was not created"):
        mirror.run(AtCommit(lambda: mirror.run(run_token="rival")), run_token="run")
    assert mirror.counts(run_token="run") == ("unchanged", 0, 1, 0)


def test_of_two_concurrent_runs_one_updates(mirror: Mirror) -> None:
    def rival() -> None:
        mirror.hive.insert(5)
        mirror.run(run_token="rival")

    mirror.update()
    mirror.hive.insert(4)
    with pytest.raises(TableReplaced, match="was not updated"):
        mirror.run(AtCommit(rival), run_token="run")
    assert mirror.counts(run_token="run") == ("unchanged", 0, 2, 0)


@pytest.mark.parametrize("exists", [True, False])
def test_rows_of_a_table_that_was_created_again_are_not_committed(
    mirror: Mirror, exists: bool
) -> None:
    if exists:
        mirror.update()
        mirror.hive.insert(4)
    before = mirror.files()
    with (
        paused(ChangedTable, "stage", None, lambda: create_again(mirror)),
        pytest.raises(TableReplaced, match="created again"),
    ):
        mirror.run()
    assert mirror.files() == before
    assert (mirror.table() is not None) == exists


@pytest.mark.parametrize("takes_effect", [True, False])
@pytest.mark.parametrize("exists", [True, False])
def test_a_commit_whose_answer_is_lost_is_applied_once(
    mirror: Mirror,
    served: ServedCatalog,
    rest_catalog: RestCatalog,
    takes_effect: bool,
    exists: bool,
) -> None:
    if exists:
        mirror.update()
    mirror.hive.insert(4)
    kind = mirror.options["type"]
    if kind == "rest":
        rest_catalog.fail_next_commit("answer" if takes_effect else "request", 0)
    loss = KINDS[kind] if kind == "rest" else LOSSES[kind][not takes_effect]
    with opened_as(kind, loss):
        if takes_effect:
            mirror.update(run_token="run")
        else:
            with pytest.raises(CommitUncertain, match="unknown whether"):
                mirror.run(run_token="run")
    mirror.let_files_age()
    assert mirror.update(run_token="run").already_done == takes_effect
    assert len(mirror.iceberg.metadata.snapshots) == 1 + exists


@pytest.mark.parametrize("fault", ["commit:kill:before", "commit:kill:after"])
def test_a_killed_run_is_applied_once(mirror: Mirror, fault: str) -> None:
    mirror.update()
    mirror.hive.insert(4)
    mirror.kill(fault)
    mirror.let_files_age()
    done = mirror.command("--json")
    assert done.returncode == 0, done.stderr
    assert mirror.rows() == mirror.hive.rows()
    assert mirror.files() == mirror.used_files()
    assert len(mirror.iceberg.metadata.snapshots) == 2


def test_a_missing_namespace_is_named(mirror: Mirror) -> None:
    with pytest.raises(IcebergRefused, match=r"namespace of none\.t does not exist") as raised:
        mirror.run(table="none.t")
    assert raised.value.remedy == "Create it first."


def test_a_table_that_no_export_has_created_is_refused(mirror: Mirror) -> None:
    mirror.catalog.create_table(mirror.name, Schema(NestedField(1, "id", IntegerType())))
    with pytest.raises(TableExists, match="is no mirror"):
        mirror.run()


@pytest.mark.parametrize("status", [500, 502, 503, 504, 409])
@pytest.mark.parametrize("at", ["request", "answer"])
def test_a_rest_server_that_fails_in_a_commit_applies_it_at_most_once(
    rest_mirror: Mirror, rest_catalog: RestCatalog, status: int, at: str
) -> None:
    mirror = rest_mirror
    mirror.update()
    mirror.hive.insert(4)
    rest_catalog.fail_next_commit(at, status)
    if at == "answer":
        mirror.update(run_token="run")
    else:
        error = TableReplaced if status == 409 else CommitUncertain
        with pytest.raises(error):
            mirror.run(run_token="run")
        mirror.let_files_age()
    assert mirror.update(run_token="run").already_done == (at == "answer")
    assert len(mirror.iceberg.metadata.snapshots) == 2


@pytest.mark.parametrize("status", [400, 403])
def test_a_commit_that_a_rest_server_denies_leaves_no_file(
    rest_mirror: Mirror, rest_catalog: RestCatalog, status: int
) -> None:
    mirror = rest_mirror
    mirror.update()
    mirror.hive.insert(4)
    rest_catalog.fail_next_commit("request", status)
    with pytest.raises(IcebergRefused, match="was not updated") as raised:
        mirror.run()
    assert "rights" in raised.value.remedy
    assert mirror.files() == mirror.used_files()
    # The denial of a request that an intermediary has sent twice.
    rest_catalog.fail_next_commit("answer", status)
    assert mirror.update().outcome == "updated"


def test_tokens_that_a_rest_server_revokes_are_renewed(
    rest_mirror: Mirror, rest_catalog: RestCatalog
) -> None:
    mirror = rest_mirror
    mirror.update(AtCommit(rest_catalog.revoke_tokens))
    mirror.hive.insert(4)
    assert mirror.update(AtCommit(rest_catalog.revoke_tokens)).outcome == "updated"


def test_wrong_credentials_are_refused_and_not_shown(rest_mirror: Mirror) -> None:
    wrong = {**rest_mirror.options, "credential": f"nobody:{SECRET}"}
    with pytest.raises(IcebergRefused, match="cannot be opened") as raised:
        rest_mirror.run(catalog_options=wrong)
    assert SECRET not in f"{raised.value} {raised.value.remedy}"


def test_a_rest_server_that_is_unreachable_is_named(rest_mirror: Mirror) -> None:
    away = {**rest_mirror.options, "uri": "http://127.0.0.1:1"}
    with pytest.raises(HiveAcidError, match=r"127\.0\.0\.1"):
        rest_mirror.run(catalog_options=away)
