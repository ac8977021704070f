"""The command that prints metrics, or answers scrapes."""

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from threading import Barrier, Event, Thread

import pytest

from hiveacid.cli.commands import metrics as metrics_command
from hiveacid.cli.commands import metrics as metrics_server
from hiveacid.cli.commands.metrics import MetricsServer, parse_address
from hiveacid.errors import UserError
from hiveacid.metastore.client import MetastoreClient
from hiveacid.records.consumers import Consumer
from hiveacid.upkeep import metrics
from hiveacid.upkeep.metrics import CONTENT_TYPE, Sample
from tests.fakes.metastore import FakeMetastore
from tests.proxy import Proxy
from tests.upkeep.acid_folders import AcidFolders

FAKE = pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)


def names(text):
    return {*re.findall(r"^(\w+)", re.sub(r"(?m)^#.*\n", "", text), re.MULTILINE)}


@FAKE
def test_the_metrics_of_the_metastore_are_printed(hiveacid):
    status, printed = hiveacid("metrics")
    assert status == 0
    # The time of a commit is unknown to version 3, but none is needed for an empty queue.
    assert names(printed) == {metric.name for metric in metrics.METASTORE}


@FAKE
def test_named_tables_are_measured(client, database, hiveacid):
    folders = AcidFolders.create(client, f"{database}.t_1")
    folders.insert()
    AcidFolders.create(client, f"{database}.u")
    for arguments, tables in (
        ((f"{database}.t_1",), {"t_1"}),
        ((f"{database}.t*",), {"t_1"}),
        ((database,), {"t_1", "u"}),
    ):
        status, printed = hiveacid("metrics", *arguments)
        assert status == 0
        found = re.findall(rf'^hiveacid_table_score{{table="{database}\.(\w+)"}}', printed, re.M)
        assert {*found} == tables
        assert f'compaction_num_active_deltas{{table="{database}.t_1"}} 1\n' in printed
        assert "hiveacid_last_run" not in printed
    note = '{"format": 1, "operation": "merge", "time": "2026-11-20T12:00:00+00:00"}'
    (folders.root / "delta_0000001_0000001_0000" / "_hiveacid.json").write_text(note)
    printed = hiveacid("metrics", f"{database}.t_1", "--runs")[1]
    assert f'hiveacid_last_run_bytes{{operation="merge",table="{database}.t_1"}}' in printed
    Consumer(client, f"{database}.t_1", "log", ["d.copy"]).begin(0)
    printed = hiveacid("metrics", f"{database}.t_1", "--runs")[1]
    labels = f'{{table="{database}.t_1",consumer="log"}}'
    assert f"hiveacid_consumer_versions_behind{labels} 1\n" in printed
    assert f"hiveacid_consumer_lag_in_sec{labels} " in printed
    assert hiveacid("metrics", "nowhere")[0] == 20


def test_an_unreachable_metastore_is_an_exit_code(capsys):
    from hiveacid.cli.main import main

    assert main(["metrics", "--metastore", "thrift://127.0.0.1:1"]) == 40
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("9108", ("127.0.0.1", 9108)),
        ("0.0.0.0:1", ("0.0.0.0", 1)),
        ("localhost:65535", ("localhost", 65535)),
        ("[::1]:9108", ("::1", 9108)),
    ],
)
def test_without_a_host_an_address_is_that_of_this_machine(text, address):
    assert parse_address(text) == address


@pytest.mark.parametrize(
    "text",
    ["", ":", ":9108", "host:", "host", "65536", "-1", "1:2:3", "[::1:9", "::1", "٣", "a b:1"],
)
def test_other_texts_are_no_addresses(text):
    with pytest.raises(UserError, match="is not an address"):
        parse_address(text)


@contextmanager
def serving(scrape, names=()):
    with MetricsServer(("127.0.0.1", 0), scrape, names) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def get(url):
    with urllib.request.urlopen(url, timeout=30) as answer:
        return answer.headers["Content-Type"], answer.read()


def test_a_scrape_is_answered_at_one_path():
    with serving(lambda: 'a{b="\udcff"} 1\n') as server:
        assert get(server.url) == (CONTENT_TYPE, b'a{b="\\udcff"} 1\n')
        with pytest.raises(urllib.error.HTTPError, match="404"):
            get(server.url.replace("metrics", ""))


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:9108", 200),
        ("127.0.0.1", 200),
        ("localhost:9108", 200),
        ("LocalHost.", 200),
        ("[::1]:9108", 200),
        ("metrics.example.com:9108", 200),
        ("METRICS.example.com", 200),
        ("rebound.example.net", 421),
        ("rebound.example.net:9108", 421),
        ("localhost.example.net", 421),
        ("127.0.0.1.example.net", 421),
        ("127.0.0.1@example.net", 421),
        ("example.net#127.0.0.1", 421),
        ("10.0.0.1", 421),
        ("0.0.0.0", 421),
        ("[::ffff:10.0.0.1]", 421),
        ("[::1", 421),
        ("", 421),
        (None, 421),
        ("localhost\r\nHost: rebound.example.net", 421),
    ],
)
def test_only_requests_for_a_name_of_the_server_are_answered(host, status):
    with serving(lambda: "x 1\n", ["Metrics.example.com"]) as server:
        header = "" if host is None else f"Host: {host}\r\n"
        with socket.create_connection(server.server_address[:2], timeout=30) as client:
            client.sendall(f"GET /metrics HTTP/1.0\r\n{header}\r\n".encode())
            with client.makefile("rb") as answer:
                content = answer.read()
    assert int(content.split()[1]) == status
    assert (b"x 1" in content) == (status == 200)


def test_a_taken_address_is_an_error():
    with serving(str) as server, pytest.raises(UserError, match="cannot be listened on"):
        MetricsServer(("127.0.0.1", server.server_address[1]), str)


def test_clients_that_wait_share_a_scrape(monkeypatch):
    clients = 5
    all_wait, scrapes = Barrier(clients + 1), []

    class Worker(ThreadPoolExecutor):
        def submit(self, *call):
            scrape = super().submit(*call)
            result = scrape.result

            def result_of_all():
                all_wait.wait(60)
                return result()

            scrape.result = result_of_all
            return scrape

    def scrape():
        if not scrapes:
            may_end.wait(60)
        scrapes.append(len(scrapes))
        return f"{scrapes[-1]}"

    may_end = Event()
    monkeypatch.setattr(metrics_server, "Threads", Worker)
    with serving(scrape) as server, ThreadPoolExecutor(clients) as pool:
        answers = [pool.submit(get, server.url) for _ in range(clients)]
        all_wait.wait(60)
        may_end.set()
        assert [answer.result(60)[1] for answer in answers] == [b"0"] * clients
    assert scrapes == [0]


def test_a_client_that_sends_nothing_delays_no_other():
    with (
        serving(lambda: "x 1\n") as server,
        socket.create_connection(server.server_address[:2]) as silent,
    ):
        assert get(server.url)[1] == b"x 1\n"
        assert silent.fileno() >= 0


def test_scrapes_continue_while_the_metastore_does_not_answer(tmp_path):
    up, of_table = "hiveacid_metastore_up 1\n", 'compaction_num_active_deltas{table="shop.t"} 1\n'
    with FakeMetastore("4.0.1", directory=tmp_path) as metastore:
        with MetastoreClient(metastore.options) as client:
            client.create_database("shop")
            AcidFolders.create(client, "shop.t").insert()
        # Lost: the answer for the second scrape, and its repetition.
        with (
            closing(Proxy(metastore, "show_compact", after=2, times=2)) as proxy,
            subprocess.Popen(
                [
                    *(
                        sys.executable,
                        "-m",
                        "hiveacid.cli.main",
                        "metrics",
                        "shop.t",
                        "gone",
                    ),
                    *("--listen", "0", "--metastore", proxy.uri),
                ],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            ) as program,
        ):
            url = program.stdout.readline().split()[-1]
            assert url.startswith("http://127.0.0.1:")
            # A database that does not exist hides no other name.
            assert "gone" in program.stderr.readline()
            first, second, third = (get(url)[1].decode() for _ in range(3))
            program.send_signal(signal.SIGTERM)
            assert program.wait(60) == 0
            assert "Traceback" not in program.stderr.read()
    for text in (first, third):
        assert up in text
        assert of_table in text
    assert "hiveacid_metastore_up 0\n" in second
    assert of_table in second
    assert "compaction_num_initiated" not in second


def test_a_bug_in_a_measurement_does_not_end_the_later_ones(monkeypatch, capsys):
    tables, sample = metrics_command._Tables(None, ["shop.t"], runs=False), Sample(metrics.UP, 1)

    def measured(tables, name):
        if "a bug" not in capsys.readouterr().err:
            raise ValueError("a bug")
        tables.stop()
        return [sample]

    monkeypatch.setattr(metrics_command, "_LEAST_SECONDS", 0)
    monkeypatch.setattr(metrics_command._Tables, "_measured", measured)
    tables.measure_every(0)
    assert tables.latest == [sample]
