"""Writers, compactions, cleanings and consumers for hours, with kills and lost answers."""

import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from random import Random

import pytest

from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.failover.shared_metastore import MetastoreDatabase, SharedMetastore
from tests.live.postgres import Postgres
from tests.proxy import Harm, Proxy
from tests.soak.actors import Place
from tests.soak.processes import Sample, grown
from tests.soak.soak import Soak
from tests.versions import VERSIONS

MINUTES = float(os.environ.get("SOAK_MINUTES", "60"))
_HARMS = [Harm.LOSE, Harm.CUT, Harm.FAIL]


@contextmanager
def losing_answers(metastore: EmbeddedMetastore, every: float) -> Iterator[Proxy]:
    """Forward calls to a metastore, and lose an answer or a question now and then."""
    proxy = Proxy(metastore, call=None, times=0)
    over, dice = threading.Event(), Random(1)

    def lose() -> None:
        while not over.wait(dice.uniform(0.5, 1.5) * every):
            proxy.strike_next(dice.choice(_HARMS), arrives=dice.random() < 0.7)

    thread = threading.Thread(target=lose, daemon=True)
    thread.start()
    try:
        yield proxy
    finally:
        over.set()
        thread.join()
        proxy.close()


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_no_row_is_lost_in_some_seconds(
    hms: EmbeddedMetastore, client: MetastoreClient, database: str, tmp_path: Path
) -> None:
    with losing_answers(hms, every=2) as proxy:
        place = Place(MetastoreOptions(uris=proxy.uri), database, tmp_path, writers=2)
        soak = Soak(client, place)
        soak.begin()
        soak.run(15, kill_every=4)
    counts = soak.verify()
    assert counts["jobs"] > 10, counts
    assert counts["kills"], counts
    assert counts["copies"], counts


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("version", VERSIONS)
def test_nothing_is_lost_and_nothing_grows_for_long(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = Path(os.environ.get("SOAK_FOLDER", tmp_path)).resolve() / version
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with ExitStack() as stack:
        # On Derby, clients of version 4 delay each other by a minute at a time.
        database = MetastoreDatabase.on(stack.enter_context(Postgres()))
        database.fill(version, tmp_path / "schema")
        hms = stack.enter_context(SharedMetastore(version, database, tmp_path / "hms"))
        client = stack.enter_context(MetastoreClient(hms.options))
        proxy = stack.enter_context(losing_answers(hms, every=10))
        client.create_database("soak")
        place = Place(MetastoreOptions(uris=proxy.uri), "soak", folder, writers=4, rows=400)
        soak = Soak(client, place, server=hms.pid)
        soak.begin()
        soak.run(60 * MINUTES, kill_every=20)
        soak.write_samples(folder / "samples.jsonl")
        counts = soak.verify()
    with capsys.disabled():
        print(f"\n{version}, {MINUTES:.0f} minutes: {dict(counts)}, {proxy.cuts} lost answers")
    assert grown(soak.samples) == []


def test_growth_after_the_warm_up_is_found() -> None:
    def samples(megabytes: list[float]) -> list[Sample]:
        return [Sample(float(at), "writer-0", value, 3, 9, 1) for at, value in enumerate(megabytes)]

    assert grown(samples([20.0 + at for at in range(25)] + [100.0] * 75)) == []
    assert grown(samples([100.0 + at for at in range(100)])) == [
        "megabytes of writer-0 grew from 137 to 187"
    ]
    leaking = [Sample(float(at), "house-0", 100, 3, 9 + at, 1) for at in range(40)]
    assert grown(leaking) == ["files of house-0 grew from 24 to 44"]
