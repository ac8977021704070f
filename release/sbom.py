"""The software bill of materials: the distributions that the wheel was verified with."""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_PACKAGE = "airflow-hiveacid"


def write_sbom(repository: Path, python: Path, file: Path) -> dict[str, Any]:
    """Write the CycloneDX document of an environment.

    Args:
        repository: The folder of pyproject.toml, whose group `release` pins the program.
        python: The Python of the environment.
        file: The file to write.

    Returns:
        The document.
    """
    uv = Path(sys.executable).with_name("uv")
    tools = file.with_name("sbom-tools")
    group = ["--group", f"{repository / 'pyproject.toml'}:release"]
    subprocess.run([uv, "venv", "--quiet", str(tools)], check=True)
    install = [uv, "pip", "install", "--quiet", "--python", str(tools), *group]
    subprocess.run(install, check=True)
    command = [tools / "bin" / "cyclonedx-py", "environment", "--output-reproducible"]
    command += ["--spec-version", "1.6", "--output-file", str(file), str(python)]
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    describe_package(document)
    file.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return document


def describe_package(document: dict[str, Any]) -> None:
    """Make this package the subject of the document, instead of one of its components."""
    (own,) = [each for each in document["components"] if each["name"] == _PACKAGE]
    document["components"].remove(own)
    # The address of the local file that was installed has no meaning elsewhere.
    own.pop("externalReferences", None)
    own["purl"] = f"pkg:pypi/{_PACKAGE}@{own['version']}"
    document.setdefault("metadata", {})["component"] = own


def sbom_problems(document: Mapping[str, Any], installed: Mapping[str, str]) -> list[str]:
    """Compare the document with the installed distributions.

    Args:
        document: The document.
        installed: The version of each distribution.
    """
    components = [document["metadata"]["component"], *document["components"]]
    listed = {_normal(each["name"]): each["version"] for each in components}
    expected = {_normal(name): version for name, version in installed.items()}
    return [
        f"The bill of materials lists {name} {listed.get(name)}, and {expected.get(name)} is installed."
        for name in sorted(listed.keys() | expected.keys())
        if listed.get(name) != expected.get(name)
    ]


def _normal(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
