"""A command that is ended from outside ends its transaction."""

import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from hiveacid.cli.command import interrupted_by_kill
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.locks import Operation, Target
from hiveacid.rules.names import TableRef


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_command_ends_its_transaction(
    number: signal.Signals,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    eventually: Callable[..., None],
) -> None:
    ref = TableRef(database, "t")
    client.create_table(HiveTable.new(ref, [HiveColumn("id", "int")]))
    # A child of nohup, or of a shell in the background, ignores some signals.
    code = (
        f"import signal; signal.signal({number.value}, signal.default_int_handler"
        f" if {number.value} == signal.SIGINT else signal.SIG_DFL)\n"
        "import sys; from hiveacid.cli.main import main; sys.exit(main())"
    )
    with Transaction(client, targets=[Target(ref, Operation.OVERWRITE)]) as overwrite:
        command = subprocess.Popen(
            [sys.executable, "-c", code, "clean", str(ref), "--metastore", hms.uri]
        )
        eventually("the command waits for the lock", lambda: len(client.show_locks(ref)) == 2)
        command.send_signal(number)
        assert command.wait(60) == 128 + number
        assert [lock.txn_id for lock in client.show_locks(ref)] == [overwrite.txn_id]


def test_handlers_are_restored_and_other_threads_have_none() -> None:
    before = signal.getsignal(signal.SIGTERM)
    with interrupted_by_kill():
        assert signal.getsignal(signal.SIGTERM) != before
    assert signal.getsignal(signal.SIGTERM) == before

    seen: list[object] = []

    def enter() -> None:
        with interrupted_by_kill():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    assert seen == [before]
