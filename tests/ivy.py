"""Jars of servers that tests run: fetched once into the cache, each by its Maven coordinates."""

import fcntl
import shutil
import subprocess
import tempfile
from pathlib import Path

from hiveacid.metastore.dev.distribution import (
    cache_folder,
    ivy_command,
    require_checksums,
)


def fetched(name: str, megabytes: int, ivy_file: Path) -> Path:
    """The folder of a server's jars, fetched if need be: it is complete or absent.

    Args:
        name: The server with its version.
        megabytes: Rough size of the download, for the message that announces it.
        ivy_file: Lists the jars.
    """
    cache = cache_folder()
    home = cache / name
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            print(f"Fetching {name} (about {megabytes} MB, once) ...", flush=True)
            with tempfile.TemporaryDirectory(prefix=f"{name}.", dir=cache) as scratch:
                _fetch(Path(scratch), ivy_file)
                shutil.move(Path(scratch, "lib"), home)
    return home


def _fetch(scratch: Path, ivy_file: Path) -> None:
    command = ivy_command(
        *("-ivy", str(ivy_file), "-retrieve", f"{scratch}/lib/[artifact]-[revision].[ext]"),
        home=scratch / "ivy",
    )
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise RuntimeError(f"{ivy_file.name}: not all could be fetched:\n{answer.stdout[-3000:]}")
    require_checksums((scratch / "lib").iterdir(), ivy_file.with_suffix(".sha256"))
