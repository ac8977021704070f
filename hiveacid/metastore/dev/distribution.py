"""A Hive Metastore release on this machine: found, or downloaded once and prepared.

A release is one folder of the cache: Hive's own jars, the few jars it lacks outside Hadoop, and a
Derby database that already holds the schema. The folder appears by one rename, under a lock, so
that concurrent processes wait for one download and never see an incomplete one.
"""

import fcntl
import hashlib
import importlib.util
import os
import re
import shutil
import struct
import subprocess
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from xml.sax.saxutils import escape

from hiveacid.dataclass import dataclass
from hiveacid.errors import JobFailed, SoftwareMissing

# Releases of Hive Metastore that run on this machine, and their differences


# From version 24 on Java rejects Hadoop's calls for impersonating a user.
JAVA = range(17, 24)
JAVA_REMEDY = "Install a Java 17 runtime and put it on PATH or set JAVA_HOME."

_ACID_INPUT = "org/apache/hadoop/hive/ql/io/AcidInputFormat"
_ACID_OUTPUT = "org/apache/hadoop/hive/ql/io/AcidOutputFormat"
# The only class that Hive 4 uses from HDFS's server side.
_OF_HDFS = {"org/apache/hadoop/hdfs/protocol/SnapshotException": "java/io/IOException"}
# The metastore looks up the class of every full ACID table, although it never reads a row. It
# checks only these names; the real classes come with 40 to 90 MB of Hive's query engine.
_OF_THE_ENGINE = {
    _ACID_INPUT: "java/lang/Object",
    _ACID_OUTPUT: "java/lang/Object",
    "org/apache/hadoop/hive/ql/io/orc/OrcInputFormat": _ACID_INPUT,
    "org/apache/hadoop/hive/ql/io/orc/OrcOutputFormat": _ACID_OUTPUT,
}
_HIVE_4 = "org.apache.hive:hive-standalone-metastore-server:4.0.1"
_LIBRARIES_OF_4 = ("org.slf4j:slf4j-api:1.7.36", "commons-collections:commons-collections:3.2.2")
# Off by default: then transactions of dead owners would never be aborted.
_SETTINGS_OF_4 = {"metastore.housekeeping.threads.on": "true"}


@dataclass(frozen=True, kw_only=True)
class Release:
    """Instructions to download and run a release.

    Attributes:
        version: Hive's version number.
        archive: Maven coordinates of the ``bin`` archive that has its jars and its schema.
        megabytes: Rough size of the download, for the message that announces it.
        libraries: Maven coordinates of the jars that the archive lacks.
        spark_jars: Names of the jars that Spark ships and the archive lacks.
        empty_classes: Classes that only need to exist, each with its parent.
        schema_tool: The class that creates the schema.
        settings: Settings that only this release needs.
        java: The versions of Java that it runs on.
        left_out: Name prefixes of the archive's jars that the libraries replace.
        schema: Statements that convert the archive's newest schema into that of the release.
        opens_all: Whether it listens on all addresses, whatever its settings are.
    """

    version: str
    archive: str
    megabytes: int
    libraries: tuple[str, ...]
    spark_jars: tuple[str, ...]
    empty_classes: Mapping[str, str]
    schema_tool: str = "org.apache.hadoop.hive.metastore.tools.schematool.MetastoreSchemaTool"
    settings: Mapping[str, str]
    java: range = JAVA
    left_out: tuple[str, ...] = ()
    schema: tuple[str, ...] = ()
    opens_all: bool = False


# Columns that the schema has dropped since 4.0: the metastore no longer fills them, but the schema
# of 4.0 requires them.
_SCHEMA_OF_4_1 = tuple(
    f'ALTER TABLE "APP"."{table}" DROP COLUMN "{column}"'
    for table, columns in {
        "TAB_COL_STATS": ("CAT_NAME", "DB_NAME", "TABLE_NAME"),
        "PART_COL_STATS": ("CAT_NAME", "DB_NAME", "TABLE_NAME", "PARTITION_NAME"),
    }.items()
    for column in columns
)
_SCHEMA_OF_4_2 = (
    *_SCHEMA_OF_4_1,
    'CREATE TABLE "APP"."CATALOG_PARAMS" ("CTLG_ID" BIGINT NOT NULL, "PARAM_KEY" VARCHAR(180)'
    ' NOT NULL, "PARAM_VALUE" VARCHAR(4000), PRIMARY KEY ("CTLG_ID", "PARAM_KEY"))',
)


def _in_the_engine(version: str, *, first_java: int, schema: tuple[str, ...]) -> Release:
    """Return a release whose metastore is published only as a part of Hive's query engine."""
    return Release(
        version=version,
        archive=_HIVE_4,
        megabytes=180,
        libraries=(
            *_LIBRARIES_OF_4,
            f"org.apache.hive:hive-exec:{version}",
            "org.datanucleus:datanucleus-core:6.0.10",
            "org.datanucleus:datanucleus-rdbms:6.0.10",
            "org.datanucleus:datanucleus-api-jdo:6.0.3",
        ),
        spark_jars=("commons-io", "javax.servlet-api", "httpclient", "gson"),
        empty_classes=_OF_HDFS,
        settings={
            **_SETTINGS_OF_4,
            # On by default, which takes effect if Hive's engine is present, as in this case.
            "metastore.compactor.initiator.on": "false",
            "metastore.compactor.cleaner.on": "false",
            # The default also names a task of Iceberg, without which no task starts.
            "metastore.task.threads.remote": ",".join(
                f"org.apache.hadoop.hive.metastore.{task}"
                for task in (
                    "txn.service.AcidHouseKeeperService",
                    "txn.service.CompactionHouseKeeperService",
                    "txn.service.AcidTxnCleanerService",
                    "txn.service.AcidOpenTxnsCounterService",
                )
            ),
        },
        java=range(first_java, JAVA.stop),
        # The engine has its own of these, or wants newer ones.
        left_out=("hive-", "orc-", "datanucleus-"),
        schema=(
            *schema,
            f'UPDATE "APP"."VERSION" SET "SCHEMA_VERSION" = \'{version}\'',
        ),
    )


_ALL = (
    Release(
        version="4.0.1",
        archive=_HIVE_4,
        megabytes=80,
        libraries=_LIBRARIES_OF_4,
        spark_jars=("commons-io", "javax.servlet-api", "httpclient", "gson"),
        empty_classes={**_OF_THE_ENGINE, **_OF_HDFS},
        settings=_SETTINGS_OF_4,
    ),
    Release(
        version="3.1.3",
        archive="org.apache.hive:hive-standalone-metastore:3.1.3",
        megabytes=30,
        libraries=(
            "org.slf4j:slf4j-api:1.7.36",
            "org.slf4j:jcl-over-slf4j:1.7.36",
            "commons-collections:commons-collections:3.2.2",
            "org.codehaus.jackson:jackson-core-asl:1.9.13",
            "org.codehaus.jackson:jackson-mapper-asl:1.9.13",
        ),
        spark_jars=("commons-cli", "commons-io", "commons-codec"),
        empty_classes=_OF_THE_ENGINE,
        schema_tool="org.apache.hadoop.hive.metastore.tools.MetastoreSchemaTool",
        # The default also names a task of Hive's query engine, without which it does not start.
        # The tasks that abort and forget dead transactions would start only beside Hive's own
        # compactor; named here, they always do.
        settings={
            "metastore.task.threads.always": ",".join(
                f"org.apache.hadoop.hive.metastore.{task}"
                for task in (
                    "events.EventCleanerTask",
                    "txn.AcidHouseKeeperService",
                    "txn.AcidCompactionHistoryService",
                    "txn.AcidWriteSetService",
                )
            )
        },
        opens_all=True,
    ),
    _in_the_engine("4.1.0", first_java=17, schema=_SCHEMA_OF_4_1),
    _in_the_engine("4.2.0", first_java=21, schema=_SCHEMA_OF_4_2),
)
RELEASES = {release.version: release for release in _ALL}


Progress = Callable[[str], None]
_CHECKSUMS = Path(__file__).with_name("downloads.sha256")
# Jars with the same classes.
_NAMES_IN_SPARK_3 = {"javax.servlet-api": ("jakarta.servlet-api",)}
_OWN_JAVA = "Name the folder of one that will do in HIVEACID_METASTORE_JAVA_HOME."


@dataclass(frozen=True)
class Distribution:
    """A complete release in the cache."""

    release: Release
    home: Path

    @property
    def database(self) -> Path:
        """The Derby database to copy: the schema, and nothing in it."""
        return self.home / "derby"

    @property
    def archive_jar(self) -> Path:
        """The metastore's own jar of the archive."""
        _, module, revision = self.release.archive.split(":")
        return self.home / "lib" / f"{module}-{revision}.jar"

    @property
    def classpath(self) -> str:
        """Everything the metastore needs, its own jars before Spark's."""
        shared = spark_jars("hadoop-client-api", "hadoop-client-runtime", *self.release.spark_jars)
        return os.pathsep.join([str(self.home / "lib" / "*"), *map(str, shared)])


def find_java(versions: range = JAVA, home: str | None = None) -> str:
    """Find a Java that Hadoop's libraries run on.

    Args:
        versions: The supported versions.
        home: Its folder; without one JAVA_HOME or PATH names it.

    Returns:
        The path of the ``java`` program.

    Raises:
        SoftwareMissing: Java is missing, or its version is unsupported.
    """
    home = home or os.environ.get("JAVA_HOME")
    java = str(Path(home, "bin", "java")) if home else shutil.which("java")
    if java is None:
        raise SoftwareMissing(
            "No java program is on PATH and JAVA_HOME is not set.", remedy=JAVA_REMEDY
        )
    try:
        answer = subprocess.run([java, "-version"], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise SoftwareMissing(f"{java} cannot be run: {error}.", remedy=JAVA_REMEDY) from error
    match = re.search(r'version "(\d+)', answer.stderr)
    if match is None or int(match[1]) not in versions:
        raise SoftwareMissing(
            f"{java} is {answer.stderr.splitlines()[0]}, not Java {versions[0]} to {versions[-1]}.",
            remedy=JAVA_REMEDY if versions == JAVA else _OWN_JAVA,
        )
    return java


def spark_jars(*names: str) -> list[Path]:
    """Find jars that pyspark ships, without importing it.

    Args:
        *names: Their names, without version.

    Returns:
        The jars, in the same order.
    """
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JobFailed(
            "pyspark, whose jars the metastore needs, is not installed.",
            remedy="pip install 'hiveacid[spark]'",
        )
    folder = Path(spec.origin).parent / "jars"
    jars = []
    for name in names:
        matching = [
            jar
            for spelled in (name, *_NAMES_IN_SPARK_3.get(name, ()))
            for jar in sorted(folder.glob(f"{spelled}-[0-9]*.jar"))
        ]
        if not matching:
            raise JobFailed(f"{folder} holds no {name} jar.")
        jars.append(matching[0])
    return jars


def cache_folder() -> Path:
    """Return the folder of the releases: HIVEACID_CACHE, or a folder of the user's cache."""
    return Path(os.environ.get("HIVEACID_CACHE") or Path.home() / ".cache" / "airflow-hiveacid")


def prepare(version: str, progress: Progress) -> Distribution:
    """Download a release into the cache unless it is already present.

    Args:
        version: One of RELEASES.
        progress: Receives one line for each download.

    Returns:
        The release, complete and with an initialised database.
    """
    if version not in RELEASES:
        raise JobFailed(f"There is no embedded metastore {version}, only {', '.join(RELEASES)}.")
    release = RELEASES[version]
    cache = cache_folder()
    ready = Distribution(release, cache / f"metastore-{version}")
    if ready.home.exists():
        return ready
    cache.mkdir(parents=True, exist_ok=True)
    with _locked(cache / f"metastore-{version}.lock"):
        if not ready.home.exists():  # Another process may have created it while this one waited.
            for leftover in cache.glob(f"metastore-{version}.partial-*"):
                shutil.rmtree(leftover, ignore_errors=True)
            # A name of its own: Ivy may still write for a moment after its owner was killed.
            home = Path(tempfile.mkdtemp(prefix=f"metastore-{version}.partial-", dir=cache))
            try:
                partial = Distribution(release, home)
                _fetch(partial, progress)
                _initialise(partial, progress)
                home.rename(ready.home)
            finally:
                shutil.rmtree(home, ignore_errors=True)
    return ready


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    # The kernel gives the lock back when its owner dies, however it dies.
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(target: Distribution, progress: Progress) -> None:
    release, lib, downloads = target.release, target.home / "lib", target.home / "downloads"
    downloads.mkdir(parents=True)
    progress(f"Fetching Hive Metastore {release.version} (about {release.megabytes} MB, once) ...")
    ivy_file = downloads / "ivy.xml"
    ivy_file.write_text(_ivy_file(release))
    command = ivy_command(
        *("-ivy", str(ivy_file), "-retrieve", f"{downloads}/[artifact]-[revision].[ext]"),
        home=downloads / "ivy",
    )
    lines = []
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as ivy:
        assert ivy.stdout is not None
        for line in ivy.stdout:
            lines.append(line)
            if line.startswith("downloading "):
                progress(f"  {line.split()[1].rpartition('/')[2]}")
    if ivy.returncode != 0:
        raise JobFailed(
            f"Hive Metastore {release.version} could not be fetched:\n{''.join(lines[-30:])}",
            remedy="Behind a mirror, name an ivysettings.xml in HIVEACID_IVY_SETTINGS.",
        )
    _, module, revision = release.archive.split(":")
    tarball = downloads / f"{module}-{revision}.tar.gz"
    jars = sorted(downloads.glob("*.jar"))
    require_checksums([tarball, *jars], _CHECKSUMS)
    left_out = tuple(f"lib/{name}" for name in release.left_out)
    with tarfile.open(tarball) as archive:
        for member in archive:
            # Drop the archive's single top folder; of the rest, only the jars and the schema are
            # needed.
            name = member.name.partition("/")[2]
            is_needed = name.startswith(("lib/", "scripts/")) and not {"py", ".."} & {
                *name.split("/")
            }
            is_needed = is_needed and not name.startswith(left_out)
            # By hand: Pythons before 3.11.4 have no safe way to unpack.
            if is_needed and (source := archive.extractfile(member)) is not None:
                path = target.home / name
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("wb") as sink:
                    shutil.copyfileobj(source, sink)
    for jar in jars:
        jar.rename(lib / jar.name)
    shutil.rmtree(downloads)
    _write_marker_jar(lib / "acid-markers.jar", release.empty_classes)


def ivy_command(*arguments: str, home: Path) -> list[str]:
    """Return the command line of the Ivy in Spark's jars, which downloads from Maven repositories.

    Args:
        *arguments: The arguments of Ivy.
        home: The folder of its cache, which it creates; temporary files are beside it.
    """
    settings = os.environ.get("HIVEACID_IVY_SETTINGS")
    return [
        *(find_java(), f"-Divy.home={home}", f"-Djava.io.tmpdir={home.parent}"),
        *("-jar", str(spark_jars("ivy")[0])),
        *(["-settings", settings] if settings else []),
        *arguments,
    ]


def require_checksums(files: Iterable[Path], checksum_file: Path) -> None:
    """Reject files that differ from those with which this version of the package was tested.

    Ivy compares a file only with the checksum that the same server sends.

    Args:
        files: The downloaded files.
        checksum_file: The expected SHA-256 checksums, as the program sha256sum writes them.

    Raises:
        JobFailed: A file is not listed, or its checksum differs.
    """
    expected_digests = {
        name: digest for digest, name in map(str.split, checksum_file.read_text().splitlines())
    }
    for file in files:
        with file.open("rb") as content:
            checksum = hashlib.file_digest(content, "sha256").hexdigest()
        if checksum != expected_digests.get(file.name):
            raise JobFailed(
                f"The download {file.name} has the SHA-256 checksum {checksum}; {checksum_file.name} expects "
                f"{expected_digests.get(file.name, 'no such file')}.",
                remedy="Find out who changed the file in the Maven repository or mirror before "
                "you run it.",
            )


def _ivy_file(release: Release) -> str:
    organisation, module, revision = release.archive.split(":")
    libraries = "".join(
        f'<dependency org="{org}" name="{name}" rev="{rev}" transitive="false"'
        ' conf="default->master"/>'
        for org, name, rev in (coordinates.split(":") for coordinates in release.libraries)
    )
    return (
        '<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">'
        '<info organisation="local" module="metastore"/><dependencies>'
        f'<dependency org="{organisation}" name="{module}" rev="{revision}"'
        f' transitive="false"><artifact name="{module}" type="bin" ext="tar.gz"'
        f' m:classifier="bin"/></dependency>{libraries}</dependencies></ivy-module>'
    )


def _write_marker_jar(path: Path, classes: Mapping[str, str]) -> None:
    with zipfile.ZipFile(path, "w") as jar:
        for name, superclass in classes.items():
            jar.writestr(f"{name}.class", _empty_class(name, superclass))


def _empty_class(name: str, superclass: str) -> bytes:
    """Write a public class without members, in Java 8's class file format."""
    constants = b"".join(
        struct.pack(">BHBH", 7, index + 1, 1, len(text)) + text.encode()
        for index, text in ((1, name), (3, superclass))
    )
    public_super, no_interfaces_fields_methods_attributes = 0x0021, (0, 0, 0, 0)
    return (
        struct.pack(">IHHH", 0xCAFEBABE, 0, 52, 5)
        + constants
        + struct.pack(">7H", public_super, 1, 3, *no_interfaces_fields_methods_attributes)
    )


def write_site(folder: Path, database: Path, settings: Mapping[str, str]) -> None:
    """Write the metastore's configuration.

    Args:
        folder: The folder of the files.
        database: Folder of the Derby database.
        settings: Further settings besides the database.
    """
    folder.mkdir(parents=True, exist_ok=True)
    every = {
        "javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={database}",
        "javax.jdo.option.ConnectionDriverName": "org.apache.derby.jdbc.EmbeddedDriver",
        **settings,
    }
    write_properties(folder / "metastore-site.xml", every)
    (folder / "log4j2.properties").write_text(
        "appender.console.type = Console\n"
        "appender.console.name = console\n"
        "appender.console.layout.type = PatternLayout\n"
        "appender.console.layout.pattern = %d %p %c: %m%n%ex\n"
        "rootLogger.level = WARN\n"
        "rootLogger.appenderRef.console.ref = console\n"
    )


def write_properties(file: Path, settings: Mapping[str, str]) -> None:
    """Write settings as Hadoop and Hive read them."""
    properties = "".join(
        f"<property><name>{escape(name)}</name><value>{escape(value)}</value></property>\n"
        for name, value in settings.items()
    )
    file.write_text(f"<configuration>\n{properties}</configuration>\n")


def java_command(
    distribution: Distribution,
    folder: Path,
    main: str,
    *arguments: str,
    options: Sequence[str] = (),
    libraries: Sequence[Path] = (),
) -> list[str]:
    """Return the command line of one of the metastore's programs.

    Args:
        distribution: The release to run.
        folder: Holds the configuration, in ``conf``, and receives the temporary files.
        main: The class to run.
        *arguments: Its arguments.
        options: Further options of Java.
        libraries: Further jars.

    Returns:
        The program and its arguments.
    """
    classpath = [str(folder / "conf"), distribution.classpath, *map(str, libraries)]
    java = find_java(distribution.release.java, os.environ.get("HIVEACID_METASTORE_JAVA_HOME"))
    return [
        *(java, "-Xmx512m", "-Xss2m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
        "-XX:-UsePerfData",  # It would leave a file in /tmp when the process is killed.
        f"-Djava.io.tmpdir={folder}",
        f"-Dderby.stream.error.file={folder / 'derby.log'}",
        "-Dderby.locks.waitTimeout=5",  # Seconds; the default would block all clients for a minute.
        f"-Dlog4j.configurationFile={folder / 'conf' / 'log4j2.properties'}",
        *options,
        *("-cp", os.pathsep.join(classpath), main, *arguments),
    ]


def java_environment(distribution: Distribution, folder: Path) -> dict[str, str]:
    """Return the environment of one of the metastore's programs."""
    homes = {"METASTORE_HOME": str(distribution.home), "METASTORE_CONF_DIR": str(folder / "conf")}
    return {**os.environ, **homes}


def _initialise(target: Distribution, progress: Progress) -> None:
    progress(f"Creating the schema of Hive Metastore {target.release.version} ...")
    folder = target.home / "initialise"
    if target.release.schema:
        _write_schema(target)
    write_site(folder / "conf", Path(f"{target.database};create=true"), {})
    answer = subprocess.run(
        java_command(
            *(target, folder, target.release.schema_tool),
            *("-dbType", "derby", "-initSchema"),
        ),
        env=java_environment(target, folder),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        tail = "\n".join((answer.stdout + answer.stderr).splitlines()[-30:])
        raise JobFailed(f"The metastore's schema could not be created:\n{tail}")
    shutil.rmtree(folder)


def _write_schema(target: Distribution) -> None:
    """Write the script for the release's own tool, based on that of the preceding release."""
    scripts = target.home / "scripts" / "metastore" / "upgrade" / "derby"
    revision = target.release.archive.rpartition(":")[2]
    # Patch releases have the same tables as their first release.
    old_script = scripts / f"hive-schema-{revision.rpartition('.')[0]}.0.derby.sql"
    statements = [
        old_script.read_text(),
        *(f"{statement};\n" for statement in target.release.schema),
    ]
    new_script = scripts / f"hive-schema-{target.release.version}.derby.sql"
    new_script.write_text("\n".join(statements))
