"""docker-compose.yml, as Compose itself would understand it."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
FILE = ROOT / "docker-compose.yml"
DOCKERFILE = ROOT / "deploy" / "Dockerfile"
_VARIABLE = re.compile(r"\$\{(\w+):-([^}]*)\}")


@dataclass(frozen=True)
class Service:
    """One service.

    Attributes:
        name: Its name.
        command: Entry point and command together.
        environment: The settings of its file and of the Compose file; the latter take precedence.
        health: The command that checks its health; empty without one.
        raw: The whole of it.
    """

    name: str
    command: tuple[str, ...]
    environment: dict[str, str]
    health: tuple[str, ...]
    raw: dict[str, Any]

    @property
    def ours(self) -> bool:
        """Whether it runs in the image that is built here."""
        return "build" in self.raw

    @property
    def mounts(self) -> list[str]:
        """The part of this folder that it sees."""
        return [entry.split(":")[0] for entry in self.raw["volumes"] if entry.startswith("./")]


def read() -> dict[str, Any]:
    """Return the file with its anchors resolved."""
    content: dict[str, Any] = yaml.safe_load(FILE.read_text())
    return content


def services() -> dict[str, Service]:
    """The services, with the defaults of their variables."""
    return {name: _service(name, raw) for name, raw in read()["services"].items()}


def image_environment() -> dict[str, str]:
    """Return the variables of the image that is built here."""
    text = DOCKERFILE.read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line.startswith("ENV ")]
    return dict(word.split("=", 1) for line in lines for word in line.split()[1:])


def _service(name: str, raw: dict[str, Any]) -> Service:
    environment: dict[str, str] = {}
    if "env_file" in raw:
        lines = (ROOT / raw["env_file"]).read_text().splitlines()
        environment |= dict(line.split("=", 1) for line in lines if line and line[0] != "#")
    environment |= {key: interpolated(value) for key, value in raw.get("environment", {}).items()}
    health = [str(word) for word in raw.get("healthcheck", {}).get("test", ["CMD"])]
    assert health[0] == "CMD", f"{name}: {health}"
    return Service(
        name=name,
        command=tuple(str(word) for word in [*raw.get("entrypoint", []), *raw.get("command", [])]),
        environment=environment,
        health=tuple(health[1:]),
        raw=raw,
    )


def interpolated(text: str) -> str:
    """Return the text without any variables set."""
    return _VARIABLE.sub(lambda match: match[2], text)
