"""The software of the services of docker-compose.yml, fetched or built once for this machine."""

import os
import shutil
import subprocess
import sys
from hashlib import sha256
from pathlib import Path

from hiveacid.metastore.dev.distribution import cache_folder
from tests.deploy import compose


def jars() -> Path:
    """The folder that deploy/prepare.py fills."""
    listed = (compose.ROOT / "deploy" / "jars.xml").read_bytes()
    folder = cache_folder() / f"deploy-jars-{sha256(listed).hexdigest()[:8]}"
    if not folder.exists():
        partial = folder.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        prepare = [sys.executable, str(compose.ROOT / "deploy" / "prepare.py"), str(partial)]
        subprocess.run(prepare, check=True)
        partial.rename(folder)
    return folder


def s3_store() -> Path:
    """The program of the image of the S3 store, which is one file: from PATH, or built once."""
    version = compose.services()["s3"].raw["image"].rpartition(":")[2]
    program = shutil.which("versitygw")
    built = cache_folder() / f"versitygw-{version}" / "versitygw"
    if program is not None:
        return Path(program)
    if not built.exists():
        go = shutil.which("go")
        assert go is not None, "versitygw, or go to build it with, has to be on PATH"
        subprocess.run(
            [go, "install", f"github.com/versity/versitygw/cmd/versitygw@{version}"],
            env=os.environ | {"GOBIN": str(built.parent)},
            check=True,
        )
    return built
