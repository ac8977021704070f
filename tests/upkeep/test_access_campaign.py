"""No job, statement, or command reaches files of another team by any name or location."""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from hiveacid.cli.main import main
from hiveacid.errors import AccessRefused
from hiveacid.jobs.erase_job import EraseJob
from hiveacid.jobs.export_job import ExportChangesJob
from hiveacid.jobs.iceberg_job import IcebergCompareJob, IcebergExportJob
from hiveacid.jobs.job import Job, accesses_of
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.jobs.sources import BatchSource, ChangesSource, QuerySource
from hiveacid.jobs.stage_jobs import DiscardJob, PublishJob, StageJob
from hiveacid.jobs.stream_job import StreamJob, StreamSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_tables
from hiveacid.parser.script import to_steps
from hiveacid.rules.names import TableRef
from hiveacid.tables.locations import require_job_access
from tests.cli.test_command_accesses import ARGUMENTS, parsed
from tests.parser.test_accesses import STATEMENTS
from tests.places import place_of
from tests.upkeep.acid_folders import AcidFolders

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)

# The tables of the statements and commands, which each of the two teams has.
NAMES = ("t", "u", "s")
OWN = {"name": ""}
# The jobs that no statement of SQL describes, on tables of a database.
JOBS: Mapping[str, Callable[[str], Job]] = {
    "clean": lambda db: CleanJob(target=f"{db}.t"),
    "stage": lambda db: StageJob(change=DeleteJob(target=f"{db}.t", where="true")),
    "publish": lambda db: PublishJob(target=f"{db}.t", staged="x"),
    "discard": lambda db: DiscardJob(target=f"{db}.t", staged="x"),
    "erase": lambda db: EraseJob(
        request="x", columns={f"{db}.t": "id"}, folder="/x", keys=QuerySource("SELECT 1")
    ),
    "changes": lambda db: ExportChangesJob(source=ChangesSource(f"{db}.t", after="0"), path="/x"),
    "compare": lambda db: IcebergCompareJob(target=f"{db}.t", table="lake.t"),
    "export": lambda db: IcebergExportJob(target=f"{db}.t", table="lake.t"),
    "script": lambda db: ScriptJob.of([DeleteJob(target=f"{db}.t", where="true")]),
    "stream": lambda db: StreamJob(
        name="x",
        source=StreamSource("rate"),
        statements=[InsertJob(target=f"{db}.t", source=BatchSource())],
        checkpoint="/x",
    ),
}
# Each of them may have another location, by the folder of the other team's table and a free one.
LOCATIONS: dict[str, Callable[[Path, Path], str]] = {
    "the folder": lambda secret, _: f"file:{secret}",
    "above": lambda secret, _: f"file:{secret.parent.parent}/./{secret.parent.name}",
    "below": lambda secret, _: f"file:{secret}/delta_0000001_0000001_0000",
    "slashes": lambda secret, _: f"file://{secret.parent}//{secret.name}/",
    "dots": lambda secret, free: f"file:{free}/../{os.path.relpath(secret, free.parent)}",
    "encoded": lambda secret, free: f"file:{free}/%2E%2E/{os.path.relpath(secret, free.parent)}",
    "no scheme": lambda secret, _: str(secret),
    "link": lambda secret, free: f"file:{_linked(secret, free)}",
}


def _linked(secret: Path, free: Path) -> Path:
    free.parent.mkdir(parents=True, exist_ok=True)
    if not free.is_symlink():
        free.symlink_to(secret)
    return free


def permit(*, table: str, **_: object) -> bool:
    is_of_lake = table.startswith(("iceberg:", "*"))
    return is_of_lake or table.partition(".")[0] == OWN["name"]


@pytest.fixture
def others(client: MetastoreClient, database: str) -> list[Path]:
    """The folders of the tables of another team."""
    tables = [AcidFolders.create(client, f"{database}.{name}") for name in NAMES]
    return [place_of(table.table.folder) for table in tables]


@pytest.fixture
def own(
    client: MetastoreClient, database: str, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[..., str]]:
    """Create a database of the asker, with its tables: its name."""
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", f"{__name__}.permit")
    OWN["name"] = f"{database}_own"

    def make(home: str | None = None, *locations: str | None) -> str:
        client.create_database(OWN["name"], location=home)
        for name, location in zip(NAMES, locations or [None] * len(NAMES), strict=True):
            AcidFolders.create(client, f"{OWN['name']}.{name}", location=location)
        return OWN["name"]

    yield make
    for table in client.get_tables(OWN["name"]):
        client.drop_table(TableRef(OWN["name"], table), delete_data=False)
    client.call(idl_tables.drop_database, OWN["name"], False, False)


def permitted(client: MetastoreClient, database: str) -> tuple[set[str], set[str]]:
    """Return all that is permitted of jobs, statements, and commands, and all that names a table."""
    steps = {text: to_steps(text.replace("hr.", f"{database}."), "default") for text in STATEMENTS}
    work = {text: (step, list(accesses_of(step))) for text, [step] in steps.items()}
    for name, make in JOBS.items():
        work[name] = (make(database), list(accesses_of(make(database))))
    for text in ARGUMENTS:
        arguments = parsed(text.replace("hr.", f"{database}."))
        work[text] = ((), arguments.command.accesses(arguments))
    found, all_ = set(), set()
    for text, (job, named) in work.items():
        if any(each.table == f"{database}.{name}" for each, name in product(named, NAMES)):
            all_.add(text)
            with suppress(AccessRefused):
                require_job_access(client, "dag:d", job, named)
                found.add(text)
    return found, all_


def test_every_kind_of_job_is_asked_for(hms) -> None:
    jobs = [
        *(make("hr") for make in JOBS.values()),
        *(to_steps(text, "default")[0] for text in STATEMENTS),
    ]
    assert {type(job) for job in jobs} >= set(Job.kinds())


def test_all_that_names_only_own_tables_is_permitted(client, own) -> None:
    found, all_ = permitted(client, own())
    assert found == all_
    assert len(all_) > 50


def test_nothing_that_names_a_table_of_others_is_permitted(client, database, others, own) -> None:
    own()
    found, all_ = permitted(client, database)
    assert found == set()
    assert len(all_) > 50


@pytest.mark.parametrize("location", LOCATIONS.values(), ids=LOCATIONS)
def test_nothing_is_permitted_on_a_table_in_a_folder_of_others(
    client, others, own, tmp_path, location
) -> None:
    places = [
        location(each, tmp_path / "free" / name) for each, name in zip(others, NAMES, strict=True)
    ]
    found, _ = permitted(client, own(None, *places))
    assert found == set()


# The tables of a database above another one are not in the folders of its tables.
@pytest.mark.parametrize("spelling", [each for each in LOCATIONS if each != "above"])
def test_nothing_is_permitted_in_a_database_in_a_folder_of_others(
    client, others, own, tmp_path, spelling
) -> None:
    home = LOCATIONS[spelling](others[0].parent, tmp_path / "free" / "home")
    places = [f"{home}/{name}" for name in NAMES]
    found, _ = permitted(client, own(home, *places))
    assert found == set()


def test_all_is_permitted_in_a_free_folder(client, others, own, tmp_path) -> None:
    found, all_ = permitted(client, own(f"file:{tmp_path}/free"))
    assert found == all_


LISTS = {
    "tables": ["tables", "{db}", "--json"],
    "metrics": ["metrics", "{db}.*"],
    "maintain": ["maintain", "{db}.*", "--json"],
}


@pytest.mark.parametrize("command", LISTS)
@pytest.mark.parametrize("place", ["free", "of others", "of others' database"])
def test_lists_and_patterns_leave_out_tables_in_folders_of_others(
    client, others, own, tmp_path, capsys, command, place
) -> None:
    """Other commands name their tables, so that they are asked for before they begin."""
    home = others[0].parent if place == "of others' database" else tmp_path / "free"
    places = [f"file:{each}" for each in others] if place == "of others" else [None] * len(NAMES)
    database = own(f"file:{home}", *places)
    arguments = [each.format(db=database) for each in LISTS[command]]
    status = main([*arguments, "--metastore", client.options.uris])
    printed = capsys.readouterr().out
    if command == "maintain":
        failed = {each["table"]: each["error"]["id"] for each in json.loads(printed)["tables"]}
        refused = (
            {} if place == "free" else {f"{database}.{name}": "AccessRefused" for name in NAMES}
        )
        assert (status == 0, failed) == (place == "free", refused)
    else:
        assert status == 0
        shown = [name for name in NAMES if f'"{database}.{name}"' in printed]
        assert shown == (sorted(NAMES, key=NAMES.index) if place == "free" else [])
