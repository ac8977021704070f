"""Commits that a catalog refuses: files are removed only if the commit surely had no effect."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from hiveacid.errors import CommitUncertain, IcebergRefused, MetastoreUnreachable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.compaction.written_table import WrittenTable
from tests.iceberg.conftest import in_database, in_metastore
from tests.iceberg.lakes import ServedCatalog
from tests.iceberg.test_mirror import Mirror
from tests.live.database_server import USER
from tests.live.postgres import Postgres
from tests.notifications.listener import compiled

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

EXISTS = pytest.mark.parametrize("exists", [True, False])


def mirror_of(
    client: MetastoreClient,
    database: str,
    folder: Path,
    exists: bool,
    server: ServedCatalog | None = None,
) -> Mirror:
    """Return a table with rows that its mirror, which may exist, does not have."""
    table = WrittenTable.create(client, f"{database}.t")
    table.insert(1, 2, 3)
    mirror = Mirror(table, folder, server)
    if exists:
        mirror.update()
        table.insert(4)
    return mirror


@pytest.fixture
def mirror(client: MetastoreClient, database: str, tmp_path: Path, exists: bool) -> Mirror:
    return mirror_of(client, database, tmp_path, exists)


def sqlite(mirror: Mirror, *options: str) -> dict[str, str]:
    """The options of the catalog, whose database is opened in another way."""
    uri = "&".join((f"sqlite:///file:{mirror.folder}/catalog.db?uri=true", *options))
    return {**mirror.options, "uri": uri}


def require_denied(
    mirror: Mirror,
    error: type[Exception] = IcebergRefused,
    match: str = "was not (created|updated)",
    **fields: Any,
) -> None:
    """Check that a run fails without any files, and that the next one commits."""
    with pytest.raises(error, match=match):
        mirror.run(run_token="run", **fields)
    assert mirror.files() == mirror.used_files()


def require_uncertain(mirror: Mirror, match: str, **fields: Any) -> None:
    """Check that a run fails, and leaves its files until the next one."""
    with pytest.raises(CommitUncertain, match=match):
        mirror.run(run_token="run", **fields)
    assert mirror.files() > mirror.used_files()


def require_done(mirror: Mirror) -> None:
    assert not mirror.update(run_token="run").already_done


def require_settled(mirror: Mirror, exists: bool) -> None:
    """Check that the next run commits, and removes what no catalog can have."""
    left = mirror.files() - mirror.used_files()
    mirror.let_files_age()
    if exists:
        require_done(mirror)
        return
    # For all that is known, the table was created, and dropped without its files.
    report = mirror.run(run_token="run")
    assert not report.already_done
    assert mirror.rows() == mirror.hive.rows()
    assert mirror.files() - mirror.used_files() == left
    assert "outcome" in report.warnings[0]


@EXISTS
def test_a_read_only_database_denies_a_commit(mirror: Mirror) -> None:
    require_denied(mirror, match="readonly database", catalog_options=sqlite(mirror, "mode=ro"))
    require_done(mirror)


@EXISTS
def test_a_statement_that_waits_too_long_has_no_effect(mirror: Mirror) -> None:
    with closing(sqlite3.connect(mirror.folder / "catalog.db")) as writer:
        writer.execute("BEGIN IMMEDIATE")
        options = sqlite(mirror, "timeout=0")
        require_denied(mirror, MetastoreUnreachable, "locked", catalog_options=options)
    require_done(mirror)


@EXISTS
def test_the_failure_of_a_commit_itself_is_uncertain(mirror: Mirror, exists: bool) -> None:
    with closing(sqlite3.connect(mirror.folder / "catalog.db")) as reader:
        # Readers exclude only the end of a transaction.
        reader.execute("BEGIN")
        reader.execute("SELECT * FROM iceberg_namespace_properties").fetchall()
        require_uncertain(mirror, "locked", catalog_options=sqlite(mirror, "timeout=0"))
    require_settled(mirror, exists)


@pytest.mark.iceberg
@EXISTS
def test_a_role_without_rights_is_denied(
    client: MetastoreClient, database: str, tmp_path: Path, postgres: Postgres, exists: bool
) -> None:
    served = in_database(postgres, tmp_path)
    mirror = mirror_of(client, database, tmp_path, exists, served)
    uri = served.options["uri"]
    name = uri.rpartition("/")[2]
    postgres.query(
        name,
        f"CREATE ROLE {name}_reader LOGIN; GRANT SELECT ON ALL TABLES IN SCHEMA public TO"
        f" {name}_reader",
    )
    weak = {**served.options, "uri": uri.replace(f"//{USER}@", f"//{name}_reader@")}
    require_denied(mirror, match="InsufficientPrivilege", catalog_options=weak)
    read_only = {**served.options, "uri": f"{uri}?options=-cdefault_transaction_read_only%3Don"}
    require_denied(mirror, match="ReadOnlySqlTransaction", catalog_options=read_only)
    require_done(mirror)


@pytest.mark.iceberg
@EXISTS
@pytest.mark.parametrize(
    ("kind", "action", "match"),
    [
        ("CONSTRAINT TRIGGER late", "RAISE 'at the end'", "at the end"),
        ("TRIGGER fatal", "PERFORM pg_terminate_backend(pg_backend_pid())", "terminat"),
    ],
)
def test_a_failure_of_a_commit_and_a_lost_connection_are_uncertain(
    client: MetastoreClient,
    database: str,
    tmp_path: Path,
    postgres: Postgres,
    exists: bool,
    kind: str,
    action: str,
    match: str,
) -> None:
    served = in_database(postgres, tmp_path)
    mirror = mirror_of(client, database, tmp_path, exists, served)
    name = served.options["uri"].rpartition("/")[2]
    deferred = "DEFERRABLE INITIALLY DEFERRED" if kind.startswith("CONSTRAINT") else ""
    postgres.query(
        name,
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS"
        f" $$BEGIN {action}; RETURN NEW; END$$;"
        f"CREATE {kind} AFTER INSERT OR UPDATE ON iceberg_tables {deferred}"
        " FOR EACH ROW EXECUTE FUNCTION fail()",
    )
    require_uncertain(mirror, match)
    postgres.query(name, f"DROP TRIGGER {kind.rpartition(' ')[2]} ON iceberg_tables")
    require_settled(mirror, exists)


@pytest.fixture(scope="module", params=["4.0.1", "3.1.3"])
def authorized(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[EmbeddedMetastore, Path]]:
    """A metastore with an authorizer, and the file that lets it deny changes."""
    folder = tmp_path_factory.mktemp("authorized")
    denial = folder / "denial"
    source = Path(__file__).parent / "java" / "Denials.java"
    with EmbeddedMetastore(
        request.param,
        directory=folder / "metastore",
        settings={
            "metastore.pre.event.listeners": "Denials",
            "hive.metastore.pre.event.listeners": "Denials",
            "tests.denials": str(denial),
        },
        libraries=[compiled(source, request.param, folder)],
    ) as metastore:
        yield metastore, denial


@pytest.fixture
def denying(
    authorized: tuple[EmbeddedMetastore, Path], tmp_path: Path
) -> Iterator[tuple[ServedCatalog, Path]]:
    """A catalog in this metastore, and the same file."""
    metastore, denial = authorized
    for served in in_metastore(metastore, tmp_path):
        yield served, denial
        denial.unlink(missing_ok=True)


@pytest.mark.server
@pytest.mark.iceberg
@EXISTS
def test_a_metastore_denies_commits_and_its_failures_are_uncertain(
    client: MetastoreClient,
    database: str,
    tmp_path: Path,
    denying: tuple[ServedCatalog, Path],
    exists: bool,
) -> None:
    served, denial = denying
    mirror = mirror_of(client, database, tmp_path, exists, served)
    denied = "Permission denied: user [me] does not have [ALTER] privilege on [ns/t]"
    for kind in ("MetaException", "InvalidOperationException"):
        denial.write_text(f"{kind}\n{denied}")
        require_denied(mirror, match=r"was not .*\[ALTER\] privilege")
    denial.write_text("MetaException\nCommunications link failure")
    require_uncertain(mirror, "Communications link failure")
    denial.unlink()
    require_settled(mirror, exists)
