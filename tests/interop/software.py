"""Programs of Java as files: Hive's query engine and Trino, fetched once by Maven coordinates."""

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

from hiveacid.metastore.dev.distribution import cache_folder

# Of later versions only libraries are artifacts of Maven, and not the server.
TRINO_VERSION = "476"
TRINO_JAVA = 24
HERE = Path(__file__).parent
_HIVE = "hive-engine-4.0.1"
_TRINO_PLUGINS = ("hive", "iceberg")


def hive_libraries() -> Path:
    """Return the folder of Hive's jars: lib, and late for those at the end of the class path."""
    return cached(_HIVE, _fetch_hive)


def has_hive() -> bool:
    """Return whether Hive's jars have been fetched."""
    return (_cache() / _HIVE).exists()


def trino_home() -> Path:
    """The folder of Trino's server with the connectors of Hive and Iceberg, and no other."""
    return cached(f"trino-{TRINO_VERSION}-{'-'.join(_TRINO_PLUGINS)}", _fetch_trino)


def trino_java() -> Path:
    """A java program that Trino runs on.

    Raises:
        RuntimeError: There is none.
    """
    homes = [Path(home) for home in (os.environ.get("TRINO_JAVA_HOME"),) if home]
    for java in (home / "bin" / "java" for home in [*homes, *Path("/usr/lib/jvm").glob("*")]):
        if java.exists() and _java_version(java) >= TRINO_JAVA:
            return java
    raise RuntimeError(f"Trino needs Java {TRINO_JAVA} or newer: name one in TRINO_JAVA_HOME.")


def _java_version(java: Path) -> int:
    said = subprocess.run([java, "-version"], capture_output=True, text=True, check=True).stderr
    match = re.search(r'version "(\d+)', said)
    return int(match[1]) if match else 0


def _cache() -> Path:
    return cache_folder() / "interop"


def cached(name: str, fetch: Callable[[Path], None]) -> Path:
    """Return a folder of the cache; `fetch` fills it the first time."""
    cache = _cache()
    home = cache / name
    if not home.exists():
        cache.mkdir(parents=True, exist_ok=True)
        print(f"Fetching {name} ...", flush=True)
        with tempfile.TemporaryDirectory(prefix=f"{name}.", dir=cache) as scratch:
            partial = Path(scratch) / "home"
            partial.mkdir()
            fetch(partial)
            partial.rename(home)
    return home


def copy_dependencies(project: Path, target: Path) -> None:
    """Fetch the jars that the pom.xml of a folder names."""
    _maven(
        *("dependency:copy-dependencies", f"-DoutputDirectory={target}", "-DincludeScope=runtime"),
        project=project,
    )


def _maven(*arguments: str, project: Path = HERE) -> None:
    subprocess.run(["mvn", "--batch-mode", "--quiet", *arguments], cwd=project, check=True)


def _fetch_hive(home: Path) -> None:
    lib, late = home / "lib", home / "late"
    late.mkdir()
    copy_dependencies(HERE, lib)
    # Tez asks for one class of log4j 1; the rest of that jar must not come before log4j 2's bridge.
    for jar in lib.glob("reload4j-*.jar"):
        jar.rename(late / jar.name)


def _fetch_trino(home: Path) -> None:
    name = f"trino-server-{TRINO_VERSION}"
    coordinates = f"io.trino:trino-server:{TRINO_VERSION}:tar.gz"
    _maven("dependency:copy", f"-Dartifact={coordinates}", f"-DoutputDirectory={home}")
    # Plugins share jars by hard links: all must be unpacked before any may go.
    archive = home / f"{name}.tar.gz"
    shutil.unpack_archive(archive, home)
    archive.unlink()
    for path in (home / name).iterdir():
        path.rename(home / path.name)
    (home / name).rmdir()
    for plugin in (home / "plugin").iterdir():
        if plugin.name not in _TRINO_PLUGINS:
            shutil.rmtree(plugin)
