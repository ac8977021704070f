"""`hiveacid erase`, `erasures`, and `verify-erasure`."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from hiveacid.cli.main import main
from hiveacid.errors import AccessRefused, CheckFailed, CorruptFile
from hiveacid.jobs.erase_job import token_of_request
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.names import TableRef
from tests.conftest import KEY_FILE
from tests.places import place_of

pytestmark = pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
KEYS = ["ada@example.org", "grace@example.org"]


class Shell:
    """A table of persons, a file of keys, and a folder of requests."""

    def __init__(self, client: MetastoreClient, database: str, folder: Path, capsys: Any) -> None:
        self.client, self.t, self.capsys = client, f"{database}.t", capsys
        self.requests, self.keys = folder / "erasures", folder / "keys.txt"
        self.keys.write_text("\n".join([*KEYS, "", KEYS[0]]))
        values = ", ".join(f"('{key}', 1)" for key in [*KEYS, "other@example.org"])
        script = f"CREATE TABLE t (who string, n int); INSERT INTO t VALUES {values}"
        assert self.run("sql", script, "--database", database, "--run-in", "worker")[0] == 0

    def run(self, *arguments: str) -> tuple[int, str]:
        self.capsys.readouterr()
        status = main([*arguments, "--metastore", self.client.options.uris])
        printed = self.capsys.readouterr()
        return status, printed.out + (printed.err if status else "")

    def erase(self, *more: str) -> tuple[int, str]:
        arguments = ("erase", "r1", "--column", f"{self.t}.who", "--keys", str(self.keys))
        folder = ("--folder", f"file:{self.requests}", "--retention", "0")
        return self.run(*arguments, *folder, *more)

    def erasures(self, *more: str) -> tuple[int, str]:
        return self.run("erasures", "--folder", f"file:{self.requests}", *more)

    def verify(self, *more: str) -> tuple[int, str]:
        certificate = str(self.requests / "r1" / "certificate.json")
        return self.run("verify-erasure", certificate, "--keys", str(self.keys), *more)

    @property
    def folder(self) -> Path:
        return Path(place_of(self.client.get_table(TableRef.parse(self.t)).folder))


@pytest.fixture
def shell(client: MetastoreClient, database: str, tmp_path: Path, capsys: Any) -> Shell:
    return Shell(client, database, tmp_path, capsys)


def test_a_dry_run_then_an_erasure_and_its_verification(shell: Shell) -> None:
    status, printed = shell.erase("--dry-run")
    assert status == 0
    assert "r1: 2 rows to delete; 1 file holds keys" in printed
    assert not shell.requests.exists()
    status, printed = shell.erase()
    assert status == 0
    assert "r1: 2 rows deleted; 0 files hold keys" in printed
    assert f"certificate: file:{shell.requests}/r1/certificate.json" in printed
    status, printed = shell.erase("--json")
    assert json.loads(printed)["certificate"]
    status, printed = shell.verify()
    assert (status, "2 keys, 0 of them not in the certificate" in printed) == (0, True)
    assert "signature: unsigned" in printed
    status, printed = shell.verify("--json")
    assert json.loads(printed)["held"] == []


def test_requests_are_listed_with_what_they_wait_for_and_continued(shell: Shell) -> None:
    with Transaction(shell.client, reads=[TableRef.parse(shell.t)]):
        assert "may still read it" in shell.erase()[1]
        status, printed = shell.erasures("--continue")
        assert status == 0
        assert "waits: reader" in printed
        # An empty line separates what it waits for.
        assert "\n\nr1, at " in printed
    assert "waits: reader" in shell.erasures()[1]
    assert "erased" in shell.erasures("r1", "--continue")[1]
    (listed,) = json.loads(shell.erasures("--json")[1])
    assert (listed["request"], listed["waits"]) == ("r1", [])


def test_metrics_show_the_time_until_the_earliest_deadline(shell: Shell) -> None:
    with Transaction(shell.client, reads=[TableRef.parse(shell.t)]):
        shell.erase("--within-days", "3")
        _, printed = shell.run("metrics", "--erasures", f"file:{shell.requests}")
    assert "hiveacid_open_erasures 1\n" in printed
    (left,) = re.findall(r"^hiveacid_erasure_time_left_in_sec (\S+)$", printed, re.MULTILINE)
    assert 2.9 < float(left) / 86_400 <= 3
    shell.erasures("--continue")
    _, printed = shell.run("metrics", "--erasures", f"file:{shell.requests}")
    assert "hiveacid_open_erasures 0\n" in printed
    assert "hiveacid_erasure_time_left_in_sec" not in printed


def test_a_verification_finds_a_file_that_was_copied_back(shell: Shell, tmp_path: Path) -> None:
    (delta,) = (each for each in shell.folder.iterdir() if each.name.startswith("delta_"))
    shutil.copytree(delta, tmp_path / "backup")
    assert shell.erase()[0] == 0
    shutil.copytree(tmp_path / "backup", shell.folder / delta.name)
    status, printed = shell.verify()
    assert status == CheckFailed.exit_code
    assert "1 file holds keys of the request r1" in printed
    assert delta.name in printed
    # The keys of others were never there.
    shell.keys.write_text("someone@example.org\n")
    status, printed = shell.verify()
    assert (status, "1 of them not in the certificate" in printed) == (0, True)


def test_a_verification_searches_the_mirrors_that_it_is_given(shell: Shell, tmp_path: Path) -> None:
    assert shell.erase()[0] == 0
    data = tmp_path / "lake" / "t" / "data"
    data.mkdir(parents=True)
    mirror = ("--mirror", f"file:{data.parent}")
    status, printed = shell.verify(*mirror)
    assert (status, f"{data.parent} has no files" in printed) == (20, True)
    parquet.write_table(pa.table({"who": ["other@example.org"]}), data / "rest.parquet")
    assert shell.verify(*mirror)[0] == 0
    parquet.write_table(pa.table({"who": KEYS[:1]}), data / "old.parquet")
    status, printed = shell.verify(*mirror)
    assert (status, "old.parquet: Rows have keys." in printed) == (CheckFailed.exit_code, True)
    assert shell.verify()[0] == 0


def test_a_verification_does_not_pass_over_a_column_with_another_name(shell: Shell) -> None:
    assert shell.erase()[0] == 0
    assert shell.run("sql", f"ALTER TABLE {shell.t} RENAME COLUMN who TO person")[0] == 0
    status, printed = shell.verify()
    assert (status, "has no column who" in printed) == (20, True)


def test_a_signature_shows_a_changed_certificate(
    shell: Shell, signing_key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shell.erase()[0] == 0
    assert "signature: valid" in shell.verify()[1]
    path = shell.requests / "r1" / "certificate.json"
    certificate = json.loads(path.read_text())
    assert signing_key.read_text() not in path.read_text()
    path.write_text(json.dumps({**certificate, "deleted_at": "2020-01-01T00:00:00+00:00"}))
    status, printed = shell.verify()
    assert (status, "does not have its signature" in printed) == (CheckFailed.exit_code, True)
    signing_key.write_text("short")
    assert "less than 16 bytes" in shell.verify()[1]
    monkeypatch.delenv(KEY_FILE)
    assert "signature: no key" in shell.verify()[1]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--column", "t.who"], "is not DB.TABLE.COLUMN"),
        (["--folder", "/srv"], "does not name its file system"),
        (["--folder", ""], "There is no folder"),
        (["--within-days", "0"], "within_days"),
        (["--keys", "/missing"], "cannot be read"),
    ],
)
def test_mistakes_are_refused(shell: Shell, arguments: list[str], words: str) -> None:
    status, printed = shell.erase(*arguments)
    assert (status, words in printed) == (20, True), printed


def test_commands_ask_the_authorizer(shell: Shell, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shell.erase()[0] == 0
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", "tests.cli.test_erasures.refusing")
    for command in (shell.erase, shell.erasures, shell.verify):
        status, printed = command()
        assert (status, "erase" in printed) == (AccessRefused.exit_code, True), printed
    monkeypatch.delenv("AIRFLOW__HIVE_ACID__AUTHORIZER")
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__ALLOWED_LOCATIONS", "hdfs")
    for command in (shell.erase, shell.erasures):
        status, printed = command()
        assert status == AccessRefused.exit_code, printed


def test_one_foreign_request_stops_neither_the_list_nor_the_others(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Transaction(shell.client, reads=[TableRef.parse(shell.t)]):
        shell.erase()
    foreign = shell.requests / "foreign"
    shutil.copytree(shell.requests / "r1", foreign)
    (path,) = (foreign / "record").iterdir()
    copied = json.loads(path.read_text().replace(json.dumps(shell.t), '"other.t"'))
    token = token_of_request(f"file:{shell.requests}", "foreign", 1)
    path.write_text(json.dumps({**copied, "request": "foreign", "run_tokens": [token]}))
    (shell.requests / "damaged" / "record").mkdir(parents=True)
    (shell.requests / "damaged" / "record" / "1.json").write_text("{")
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__AUTHORIZER", "tests.cli.test_erasures.refusing_others")
    status, printed = shell.erasures()
    assert status == 0
    assert "3 requests" in printed
    assert "foreign: os:" in printed
    assert "may not erase other.t" in printed
    assert "damaged/record/1.json cannot be read as the record of a request" in printed
    assert "waits: reader" in printed
    assert shell.erasures("foreign")[0] == AccessRefused.exit_code
    status, printed = shell.erasures("--continue")
    assert (status, "erased" in printed) == (CorruptFile.exit_code, True)
    assert (shell.requests / "r1" / "certificate.json").exists()
    assert shell.erasures("r1", "--continue")[0] == 0


def test_a_verification_needs_the_signature_if_there_is_a_key(
    shell: Shell, signing_key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_FILE)
    assert shell.erase()[0] == 0
    assert "signature: unsigned" in shell.verify()[1]
    monkeypatch.setenv(KEY_FILE, str(signing_key))
    status, printed = shell.verify()
    assert (status, "does not have its signature" in printed) == (CheckFailed.exit_code, True)


def test_a_verification_searches_no_location_that_is_not_allowed(
    shell: Shell, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert shell.erase()[0] == 0
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__ALLOWED_LOCATIONS", "file")
    assert shell.verify("--mirror", "hdfs://other:8020/lake")[0] == AccessRefused.exit_code


def refusing_others(*, table: str, **_: object) -> bool:
    return not table.startswith("other.")


def refusing(*, action: str, **_: object) -> bool:
    return action != "erase"
