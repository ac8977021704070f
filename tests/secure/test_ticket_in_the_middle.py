"""Tickets that end in the middle of a run without a renewal: it fails, and the next one completes."""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from hiveacid.errors import HiveAcidError
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.report import ErrorReport
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.storage.folder import Storage
from tests.faults.operations import OPERATIONS, Tables
from tests.faults.outside import Outsider
from tests.hadoop.hdfs import Hdfs
from tests.secure.hadoop import core_site, give_folder, hdfs_site, secured_hdfs
from tests.secure.kdc import Kdc

pytestmark = pytest.mark.secure

HOUR = 3600
TICKET_SECONDS = 5

EndTicket = Callable[[str], None]


@pytest.fixture(scope="module")
def hdfs(kdc: Kdc, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Hdfs]:
    with (
        secured_hdfs(kdc, tmp_path_factory.mktemp("hdfs")) as hdfs,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("HADOOP_CONF_DIR", str(hdfs.conf))
        yield hdfs


@pytest.fixture
def tables(
    request: pytest.FixtureRequest, kdc: Kdc, hdfs: Hdfs, ticket: Path, tmp_path: Path
) -> Iterator[Tables]:
    """Alice's table of three writes; metastore and HDFS know her by the same ticket."""
    warehouse = give_folder(hdfs, kdc, f"{tmp_path}/warehouse", "hive", 0o1777)
    sources = tmp_path / "sources"
    sources.mkdir()
    with (
        EmbeddedMetastore(
            request.param,
            directory=tmp_path / "metastore",
            kerberized=kdc.kerberized(),
            settings={"metastore.warehouse.dir": warehouse},
            hadoop=core_site(kdc) | hdfs_site(kdc) | {"fs.defaultFS": hdfs.uri},
        ) as metastore,
        MetastoreClient(metastore.options) as client,
    ):
        tables = Tables(client, "db", sources)
        tables.create(tables.main)
        tables.fill(tables.main)
        yield tables


@pytest.fixture
def ticket(kdc: Kdc, cache: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Alice's cache, with a ticket that outlives the test."""
    monkeypatch.setenv("KRB5_CONFIG", str(kdc.short_tickets(HOUR)))
    kdc.log_in("alice", cache)
    return cache


@pytest.fixture
def end_ticket_at(kdc: Kdc, hdfs: Hdfs, ticket: Path, monkeypatch: pytest.MonkeyPatch) -> EndTicket:
    """Let the ticket end, and clients of HDFS connect again, before the second call of a method."""

    def end_ticket_at(method: str) -> None:
        really, calls = getattr(Storage, method), itertools.count(1)

        def without_ticket(storage: Storage, *arguments: Any) -> Any:
            if next(calls) != 2:
                return really(storage, *arguments)
            ticket.unlink()
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("KRB5_CONFIG", str(kdc.short_tickets(TICKET_SECONDS)))
                kdc.log_in("alice", ticket)
            assert not Event().wait(TICKET_SECONDS)
            hdfs.restart_namenode()
            hdfs.wait_until_usable()
            return really(storage, *arguments)

        monkeypatch.setattr(Storage, method, without_ticket)

    return end_ticket_at


def failure_of(tables: Tables, job: Job) -> ErrorReport:
    """Return the error at the end of a run; a compaction continues with the next partition before."""
    try:
        error = tables.run(job).error
    except HiveAcidError as failure:
        error = ErrorReport.of(failure)
    assert isinstance(error, ErrorReport)
    return error


@pytest.mark.parametrize(
    ("tables", "operation"),
    [("4.0.1", "merge"), ("3.1.3", "major compaction")],
    indirect=["tables"],
)
def test_the_next_try_makes_it_right(
    operation: str, tables: Tables, end_ticket_at: EndTicket, kdc: Kdc, ticket: Path
) -> None:
    outsider = Outsider(tables.client, tables.main)
    before = outsider.rows()
    job: Job = replace(OPERATIONS[operation].job(tables), run_token="d/r/t/-1")
    expected = OPERATIONS[operation].expected_in_main(job, before, tables)

    def fails_and_is_tried_again(job: Job, method: str, meanwhile: object) -> Any:
        end_ticket_at(method)
        failure = failure_of(tables, job)
        assert (failure.id, failure.retryable) == ("StorageUnreachable", True)
        assert "xpired" in failure.message
        kdc.log_in("alice", ticket)
        assert outsider.rows() == meanwhile
        return tables.run(job)

    assert fails_and_is_tried_again(job, "rename", before).error is None
    assert outsider.rows() == expected

    tables.run(OPERATIONS["major compaction"].job(tables))
    clean = CleanJob(target=str(tables.main), retention="0")
    assert fails_and_is_tried_again(clean, "delete_directory", expected).removed
    assert outsider.rows() == expected
    assert outsider.left_over() == []
