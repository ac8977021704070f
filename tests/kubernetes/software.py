"""The programs of Kubernetes that tests run: built by Go from their modules, once."""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path

from hiveacid.metastore.dev.distribution import cache_folder

_MODULE = Path(__file__).with_name("go.mod")
# Each with the name of its file, without which Go takes a part of the path for one.
_PROGRAMS = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
}


def programs() -> Path:
    """The folder of both programs, built if need be: it is complete or absent."""
    version = re.findall(r"k8s\.io/kubernetes v(\S+)", _MODULE.read_text())[0]
    cache = cache_folder()
    home = cache / f"kubernetes-{version}"
    cache.mkdir(parents=True, exist_ok=True)
    with (cache / f"{home.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not home.exists():
            print("Building an API server of Kubernetes (some minutes, once) ...", flush=True)
            with tempfile.TemporaryDirectory(prefix=f"{home.name}.", dir=cache) as scratch:
                _build(Path(scratch))
                shutil.move(Path(scratch, "bin"), home)
    return home


def _build(scratch: Path) -> None:
    go = shutil.which("go")
    assert go is not None, "go, which builds an API server of Kubernetes, has to be on PATH"
    shutil.copy(_MODULE, scratch)
    for name, package in _PROGRAMS.items():
        built = subprocess.run(
            [go, "build", "-mod=mod", "-trimpath", "-ldflags=-s -w", "-o", f"bin/{name}", package],
            cwd=scratch,
            # The settings of a machine concern other modules.
            env=os.environ | {"GOFLAGS": "-buildvcs=false", "GOWORK": "off"},
            capture_output=True,
            text=True,
            check=False,
        )
        if built.returncode != 0:
            raise RuntimeError(f"{name} could not be built:\n{built.stderr[-3000:]}")
