"""Sessions of JDBC that transfer money at the same time, with kills and cancellations."""

import os
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import TableRef
from hiveacid.upkeep.table_cleaning import clean
from tests.door.bank import Bank
from tests.door.jdbc import Jdbc
from tests.door.servers import THRIFT, Server
from tests.engine.acid_tables import folder, left_behind

pytestmark = pytest.mark.server

MINUTES = float(os.environ.get("DOOR_MINUTES", "10"))
# Transactions of killed engines end after this time.
TIMEOUT_SECONDS = 10


@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("seconds", "kill_every"),
    [
        pytest.param(40, 30, id="sample"),
        pytest.param(60 * MINUTES, 45, id="long", marks=pytest.mark.soak),
    ],
)
def test_no_money_is_lost_and_nothing_is_left(
    seconds: float,
    kill_every: float,
    tmp_path: Path,
    eventually: Callable[..., None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ExitStack() as stack:
        metastore = stack.enter_context(
            # Spark's own client of the metastore cannot speak to version 4.
            EmbeddedMetastore(
                "3.1.3", directory=tmp_path / "hms", txn_timeout_seconds=TIMEOUT_SECONDS
            )
        )
        client = stack.enter_context(MetastoreClient(metastore.options))
        client.create_database("bank")
        server = Server(THRIFT, metastore, tmp_path)
        stack.callback(server.stop)
        jdbc = Jdbc()
        stack.callback(jdbc.stop)
        eventually("the server accepts connections", server.accepts, 120)
        session = jdbc.connect(server, "owner")
        bank = Bank(server, "bank", customers=8)
        bank.begin(session)
        bank.open_for(seconds, kill_every, jdbc, seed=1)
        with capsys.disabled():
            print(f"\n{dict(bank.counts)}")
        eventually("all transactions have ended", lambda: left_behind(client) == [], 150)
        bank.verify(session)
        assert len(server.engines()) <= 1
        for name in bank.tables():
            session.run(f"ALTER TABLE {name} COMPACT 'major'")
            for _ in range(2):
                clean(client, CleanJob(target=name, metastore=metastore.options, retention="0"))
            names = sorted(
                path.name for path in folder(client.get_table(TableRef.parse(name))).iterdir()
            )
            assert len([text for text in names if not text.startswith("_hiveacid")]) <= 1, names
        eventually("all reads have ended", lambda: left_behind(client) == [])
        engines = server.engines()
        server.stop()
        eventually(
            "no process is left", lambda: not any(Path(f"/proc/{pid}").exists() for pid in engines)
        )
        assert "Traceback" not in server.log()
