"""A real Prometheus: that of the system, or Debian's package, which is fetched once."""

import json
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Self

import yaml

from hiveacid.metastore.dev.distribution import cache_folder
from hiveacid.metastore.dev.embedded import free_port


class PrometheusMissing(Exception):
    """No Prometheus is on the PATH, and Debian's package cannot be fetched."""


@cache
def program(name: str) -> Path:
    """Return `prometheus` or `promtool`.

    Raises:
        PrometheusMissing: It is not on the PATH, and cannot be fetched.
    """
    if found := shutil.which(name):
        return Path(found)
    home = cache_folder() / "prometheus"
    if not home.exists():
        home.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="prometheus.", dir=home.parent) as scratch:
            root = Path(scratch, "root")
            download = ["apt-get", "download", "prometheus"]
            try:
                subprocess.run(download, cwd=scratch, check=True, capture_output=True)
                (package,) = Path(scratch).glob("*.deb")
                subprocess.run(["dpkg", "-x", package, root], check=True)
            except (OSError, subprocess.CalledProcessError) as error:
                raise PrometheusMissing("needs Prometheus: apt-get install prometheus") from error
            root.rename(home)
    return home / "usr" / "bin" / name


class Prometheus:
    """A server that scrapes some targets each second.

    Args:
        folder: Takes its files.
        targets: The addresses, like 127.0.0.1:9108.
        rules: The files of its rules.
    """

    def __init__(self, folder: Path, targets: Sequence[str], rules: Sequence[Path]) -> None:
        self.url = f"http://127.0.0.1:{free_port()}"
        self._folder = folder
        scrape = {"job_name": "hiveacid", "static_configs": [{"targets": [*targets]}]}
        settings = {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(file.resolve()) for file in rules],
            "scrape_configs": [scrape],
        }
        self._config = folder / "prometheus.yml"
        self._config.write_text(yaml.safe_dump(settings))

    def __enter__(self) -> Self:
        with (self._folder / "prometheus.log").open("wb") as log:
            self._process = subprocess.Popen(
                [
                    program("prometheus"),
                    f"--config.file={self._config}",
                    f"--storage.tsdb.path={self._folder / 'tsdb'}",
                    f"--web.listen-address={self.url.removeprefix('http://')}",
                ],
                stdout=log,
                stderr=log,
            )
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def is_ready(self) -> bool:
        """Whether it answers queries."""
        assert self._process.poll() is None, (self._folder / "prometheus.log").read_text()
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=10):
                return True
        except OSError:
            return False

    def series(self, expression: str) -> list[dict[str, Any]]:
        """Return the current series of an expression, which must be valid."""
        return list(self._get("query", query=expression)["result"])

    def rules(self) -> list[dict[str, Any]]:
        """Return its rules with their health."""
        return [rule for group in self._get("rules")["groups"] for rule in group["rules"]]

    def _get(self, path: str, **parameters: str) -> dict[str, Any]:
        query = urllib.parse.urlencode(parameters)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=30) as answer:
                return dict(json.load(answer)["data"])
        except urllib.error.HTTPError as error:
            raise AssertionError(error.read().decode()) from error
