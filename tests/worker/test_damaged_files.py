"""Emptied, truncated and damaged files: one error with one remedy from all operations, and a red score."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from hiveacid.api.table import AcidTable
from hiveacid.errors import CorruptFile, HiveAcidError
from hiveacid.jobs.definition_jobs import AnalyzeJob
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.tables.statistics import analyze
from hiveacid.upkeep.compaction.table import TableCompactor
from hiveacid.upkeep.compaction.worker_scheduler import WorkerScheduler
from hiveacid.upkeep.health import HealthMeter
from hiveacid.upkeep.health_score import TableHealth
from tests.places import place_of

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)

_POOR = 50


@pytest.fixture
def table(client: MetastoreClient, database: str) -> Iterator[AcidTable]:
    ref = TableRef(database, "t")
    columns = [HiveColumn("id", "int"), HiveColumn("v", "string")]
    client.create_table(HiveTable.new(ref, columns))
    with AcidTable(ref.full_name, client.options, run_in="worker") as table:
        texts = [os.urandom(10).hex() for _ in range(9999)]
        table.append(pa.table({"id": pa.array(range(9999), pa.int32()), "v": texts}))
        table.append(pa.table({"id": pa.array([-1], pa.int32()), "v": ["a"]}))
        yield table


@pytest.fixture
def file(client: MetastoreClient, database: str, table: AcidTable) -> Path:
    """The larger file of the table."""
    folder = place_of(client.get_table(TableRef(database, "t")).folder)
    return max(folder.rglob("bucket_*"), key=lambda file: file.stat().st_size)


def emptied(content: bytes) -> bytes:
    return b""


def cut(content: bytes) -> bytes:
    return content[:3]


def halved(content: bytes) -> bytes:
    return content[: len(content) // 2]


def without_end(content: bytes) -> bytes:
    return content[:-7]


def overwritten(content: bytes) -> bytes:
    """Only the rows differ: the size and the tail are those of the file."""
    half = len(content) // 2
    return content[:3] + bytes([255]) * half + content[3 + half :]


def compacted(client: MetastoreClient, name: str) -> HiveAcidError | None:
    job = CompactJob(target=name, metastore=client.options, type="major")
    with WorkerScheduler(1) as scheduler:
        (done,) = TableCompactor(scheduler, client, job).run().partitions
    return None if done.error is None else done.error.exception()


def health(client: MetastoreClient, name: str) -> TableHealth:
    (found,) = HealthMeter(client).measure(tables=[name])
    return found


@pytest.mark.parametrize("damage", [emptied, cut, halved, without_end, overwritten])
def test_every_operation_names_the_file_and_the_remedy(
    client: MetastoreClient,
    table: AcidTable,
    file: Path,
    damage: Callable[[bytes], bytes],
    database: str,
) -> None:
    name = f"{database}.t"
    file.write_bytes(damage(file.read_bytes()))
    operations: dict[str, Callable[[], object]] = {
        "scan": lambda: table.scan().to_arrow(),
        "update": lambda: table.update({"v": "'b'"}, "id >= 0"),
        "delete": lambda: table.delete("v LIKE '%b'"),
    }
    if damage is not overwritten:  # The tails have the statistics.
        operations["analyze"] = lambda: analyze(client, AnalyzeJob(target=name))
    for operation, run in operations.items():
        with pytest.raises(CorruptFile) as raised:
            run()
        assert str(file) in raised.value.what, operation
        assert raised.value.remedy == CorruptFile.default_remedy, operation
    # Of a file of no bytes, the survey learns by its listing.
    assert (health(client, name).score < _POOR) is (damage is emptied)

    if damage is overwritten:
        return  # A compaction copies compressed rows as they are.
    error = compacted(client, name)
    assert isinstance(error, CorruptFile)
    assert str(file) in error.what
    assert error.remedy == CorruptFile.default_remedy
    after = health(client, name)
    assert after.score < _POOR
    assert any(str(file) in penalty.reason for penalty in after.penalties)
