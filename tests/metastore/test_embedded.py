"""The embedded metastore starts, survives, ends and is fetched as promised."""

import os
import shutil
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from hiveacid.errors import JobFailed, SoftwareMissing
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev import distribution
from hiveacid.metastore.dev.distribution import (
    RELEASES,
    Distribution,
    find_java,
    java_command,
    prepare,
    require_checksums,
)
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import TableRef
from tests.versions import REAL


def processes_using(directory: Path) -> list[str]:
    """The command lines of running programs that name a directory."""
    lines = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:
            continue
        if str(directory) in line and int(process.name) != os.getpid():
            lines.append(line)
    return lines


@pytest.mark.server
@pytest.mark.parametrize("version", REAL)
def test_tables_survive_a_killed_server_and_nothing_survives_the_end(
    version: str, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    table = HiveTable.new(TableRef("default", "events"), [HiveColumn("id", "bigint")])
    with EmbeddedMetastore(version, directory=tmp_path) as metastore:
        uri = metastore.uri
        client = MetastoreClient(metastore.options)
        client.create_table(table)
        client.close()

        metastore.restart()

        assert metastore.uri == uri
        client = MetastoreClient(metastore.options)
        assert client.get_table(table.ref).columns == table.columns
        client.close()
    eventually("all processes end", lambda: processes_using(tmp_path) == [])


@pytest.mark.server
@pytest.mark.parametrize("version", REAL)
def test_the_transaction_timeout_can_be_read_from_the_server(version: str, tmp_path: Path) -> None:
    with EmbeddedMetastore(version, directory=tmp_path, txn_timeout_seconds=7) as metastore:
        client = MetastoreClient(metastore.options)
        assert client.config_value("hive.txn.timeout", "") == "7s"
        client.close()


@pytest.mark.server
def test_a_killed_owner_takes_its_metastore_along(
    tmp_path: Path, eventually: Callable[..., None]
) -> None:
    directory, temporary = tmp_path / "metastore", tmp_path / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "hiveacid.cli.main", "metastore", "--port", "0"]
    owner = subprocess.Popen(
        [*command, "--folder", str(directory)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    assert owner.stdout is not None
    assert any(line.startswith("export HIVEACID_METASTORE=thrift://") for line in owner.stdout)
    assert any("HiveMetaStore" in line for line in processes_using(directory))

    owner.send_signal(signal.SIGKILL)
    owner.wait()

    eventually("the server ends", lambda: processes_using(directory) == [])
    assert list(temporary.iterdir()) == []


@pytest.mark.server
@pytest.mark.parametrize("version", REAL)
def test_a_failed_start_shows_the_log_and_leaves_no_process(
    version: str, tmp_path: Path, eventually: Callable[..., None]
) -> None:
    (tmp_path / "metastore_db").mkdir()  # A database, but none that Derby can read.
    with pytest.raises(JobFailed, match="metastore_db"):
        EmbeddedMetastore(version, directory=tmp_path).start()
    eventually("all processes end", lambda: processes_using(tmp_path) == [])


def test_a_taken_port_is_an_error(hms4: EmbeddedMetastore, tmp_path: Path) -> None:
    port = int(hms4.uri.rpartition(":")[2])
    with pytest.raises(JobFailed, match="already listens"):
        EmbeddedMetastore(directory=tmp_path, port=port).start()


def test_a_folder_of_another_version_is_refused_before_anything_is_fetched(tmp_path: Path) -> None:
    (tmp_path / "version").write_text("3.1.3")
    with pytest.raises(JobFailed, match=r"database of a metastore 3\.1\.3") as error:
        EmbeddedMetastore("4.0.1", directory=tmp_path).start()
    assert "another folder" in error.value.remedy


@pytest.mark.parametrize("hidden", ["_warehouse", ".hive/warehouse"])
def test_a_warehouse_that_readers_would_skip_is_refused(tmp_path: Path, hidden: str) -> None:
    with pytest.raises(JobFailed, match="skip folders"):
        EmbeddedMetastore(directory=tmp_path, warehouse=tmp_path / hidden)


def a_java(home: Path, version: str) -> Path:
    """A folder with a program that claims to be that version of Java."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"""#!/bin/sh\necho 'openjdk version "{version}"' >&2\n""")
    java.chmod(0o755)
    return home


@pytest.mark.parametrize("version", ["1.8.0_402", "11.0.2", "24", "25.0.1"])
def test_java_of_the_wrong_version_is_named(
    version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path, version)))
    with pytest.raises(SoftwareMissing, match=version):
        find_java()


def test_a_release_that_wants_a_newer_java_can_have_one_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(a_java(tmp_path / "17", "17.0.15")))
    monkeypatch.delenv("HIVEACID_METASTORE_JAVA_HOME", raising=False)
    newer = Distribution(RELEASES["4.2.0"], tmp_path)
    with pytest.raises(SoftwareMissing, match="not Java 21 to 23") as error:
        java_command(newer, tmp_path, "Main")
    assert "HIVEACID_METASTORE_JAVA_HOME" in error.value.remedy

    own = a_java(tmp_path / "21", "21.0.8")
    monkeypatch.setenv("HIVEACID_METASTORE_JAVA_HOME", str(own))
    assert java_command(newer, tmp_path, "Main")[0] == str(own / "bin" / "java")


def test_missing_java_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SoftwareMissing, match="PATH"):
        find_java()


@pytest.fixture
def mirror(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An Ivy repository in a folder, and an empty cache, in place of the user's own."""
    root = tmp_path / "mirror"
    root.mkdir()
    settings = tmp_path / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="mirror"/><resolvers>'
        '<filesystem name="mirror" m2compatible="true">'
        f'<ivy pattern="{root}/[organisation]/[module]/[revision]/[module]-[revision].pom"/>'
        f'<artifact pattern="{root}/[organisation]/[module]/[revision]/'
        '[artifact]-[revision](-[classifier]).[ext]"/>'
        "</filesystem></resolvers></ivysettings>"
    )
    monkeypatch.setenv("HIVEACID_IVY_SETTINGS", str(settings))
    monkeypatch.setenv("HIVEACID_CACHE", str(tmp_path / "cache"))
    return root


def publish(root: Path, coordinates: str) -> Path:
    organisation, module, revision = coordinates.split(":")
    folder = root.joinpath(*organisation.split("."), module, revision)
    folder.mkdir(parents=True)
    (folder / f"{module}-{revision}.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion>"
        f"<groupId>{organisation}</groupId><artifactId>{module}</artifactId>"
        f"<version>{revision}</version></project>"
    )
    return folder


@pytest.mark.server
def test_two_processes_share_one_fetch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    release = RELEASES["3.1.3"]
    home = prepare(release.version, print).home
    root = request.getfixturevalue("mirror")
    for coordinates in release.libraries:
        folder = publish(root, coordinates)
        shutil.copy(next((home / "lib").glob(f"{coordinates.split(':')[1]}-[0-9]*.jar")), folder)
    folder = publish(root, release.archive)
    archive = folder / f"{folder.parent.name}-{release.version}-bin.tar.gz"
    with tarfile.open(archive, "w:gz", compresslevel=1) as tar:
        tar.add(home / "lib", "top/lib")
        tar.add(home / "scripts", "top/scripts")

    # Packed again, the archive differs from the published one.
    digest = sha256(archive.read_bytes()).hexdigest()
    listed = distribution._CHECKSUMS.read_text().splitlines()
    name = archive.name.replace("-bin", "")
    checksums = tmp_path / "downloads.sha256"
    others = [line for line in listed if not line.endswith(name)]
    checksums.write_text("\n".join([*others, f"{digest}  {name}"]))
    program = (
        "from pathlib import Path;"
        "from hiveacid.metastore.dev import distribution;"
        f"distribution._CHECKSUMS = Path({str(checksums)!r});"
        f"print(distribution.prepare({release.version!r}, print).database)"
    )
    both = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    outputs = [process.communicate()[0] for process in both]

    database = tmp_path / "cache" / "metastore-3.1.3" / "derby"
    assert [process.returncode for process in both] == [0, 0]
    assert [output.splitlines()[-1] for output in outputs] == [str(database)] * 2
    assert sorted("Fetching" in output for output in outputs) == [False, True]
    assert sorted(path.name for path in database.parent.parent.iterdir()) == [
        "metastore-3.1.3",
        "metastore-3.1.3.lock",
    ]


@pytest.mark.server
def test_a_failed_fetch_names_what_is_missing_and_leaves_nothing(
    tmp_path: Path, mirror: Path
) -> None:
    with pytest.raises(JobFailed, match="hive-standalone-metastore-server") as error:
        prepare("4.0.1", print)
    assert "HIVEACID_IVY_SETTINGS" in error.value.remedy
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["metastore-4.0.1.lock"]


def test_a_file_with_another_checksum_is_refused(tmp_path: Path) -> None:
    listed, jar = tmp_path / "listed.sha256", tmp_path / "driver-1.jar"
    jar.write_bytes(b"tested")
    listed.write_text(f"{sha256(b'tested').hexdigest()}  driver-1.jar\n")
    require_checksums([jar], listed)
    jar.write_bytes(b"changed")
    with pytest.raises(JobFailed, match=r"driver-1\.jar has the SHA-256 checksum"):
        require_checksums([jar], listed)
    with pytest.raises(JobFailed, match="expects no such file"):
        require_checksums([jar.rename(tmp_path / "other.jar")], listed)


@pytest.mark.server
def test_a_changed_archive_is_refused_before_it_is_unpacked(tmp_path: Path, mirror: Path) -> None:
    release = RELEASES["3.1.3"]
    for coordinates in (*release.libraries, release.archive):
        folder = publish(mirror, coordinates)
        name = f"{folder.parent.name}-{folder.name}"
        file = f"{name}-bin.tar.gz" if coordinates == release.archive else f"{name}.jar"
        (folder / file).write_bytes(b"changed")
    with pytest.raises(JobFailed, match="SHA-256"):
        prepare(release.version, print)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == ["metastore-3.1.3.lock"]


def test_every_download_has_a_checksum() -> None:
    listed = {line.split()[1] for line in distribution._CHECKSUMS.read_text().splitlines()}
    names = set()
    for release in RELEASES.values():
        _, module, revision = release.archive.split(":")
        names.add(f"{module}-{revision}.tar.gz")
        names |= {"-".join(library.split(":")[1:]) + ".jar" for library in release.libraries}
    assert names == listed
