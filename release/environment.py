"""A clean environment with an installed distribution, and the checks that run in it."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# Prints the installed version and the folder of a package.
_IMPORT = (
    "import {package}, importlib.metadata as m; "
    "print(m.version('{name}'), {package}.__version__, {package}.__file__)"
)
# What needs neither Airflow nor Spark.
_USE = "import sys; from hiveacid import AcidTable, MetastoreOptions; sys.exit('airflow' in sys.modules)"

# Reads a project with the adapter of dbt, which starts no Spark for it.
_PARSE = """
import os, sys
from dbt.adapters.hiveacid.__version__ import version
from dbt.cli.main import dbtRunner
os.environ["HIVEACID_METASTORE"] = "thrift://127.0.0.1:1"
folders = ["--target-path", "target", "--log-path", "logs"]
project = ["--project-dir", sys.argv[1], "--profiles-dir", sys.argv[1]]
sys.exit(version != sys.argv[2] or not dbtRunner().invoke(["parse", *project, *folders]).success)
"""


class CleanEnvironment:
    """A virtual environment that sees neither the repository nor the user's packages.

    Args:
        folder: A folder that does not exist.
        python: The Python to create it with.
    """

    def __init__(self, folder: Path, python: str) -> None:
        self.folder = folder.absolute()
        self._uv("venv", "--quiet", "--python", python, str(self.folder))
        # No program runs in the repository, whose modules it would import.
        self.work = self.folder / "work"
        self.work.mkdir()

    @property
    def python(self) -> Path:
        """The environment's Python."""
        return self.folder / "bin" / "python"

    def install(self, requirements: Sequence[str], constraints: Path) -> None:
        """Install requirements, and verify that all their dependencies are present and match."""
        self._uv("pip", "install", "--quiet", "--constraint", str(constraints), *requirements)
        self._uv("pip", "check", "--quiet")

    def install_with_spark(self, wheels: Sequence[Path], spark: str, constraints: Path) -> None:
        """Install the wheels beside the `pyspark` of a version, as docs/platforms.md describes.

        Args:
            wheels: The wheels of the library and of the provider.
            spark: A minor version with a `pyspark-client`, such as 4.1, or 3.5, or an exact one without
                a client, such as 4.3.0.
            constraints: Constraints for all other packages.
        """
        library, provider = (wheel.as_uri() for wheel in wheels)
        if spark.count(".") == 2:
            # The extra allows only versions that have a client of the same version.
            self.install([f"hiveacid @ {library}", f"airflow-hiveacid @ {provider}"], constraints)
            self._uv("pip", "uninstall", "--quiet", "pyspark-client")
            pin = ("--constraint", str(constraints))
            self._uv("pip", "install", "--quiet", *pin, f"pyspark=={spark}")
            return
        both = [f"hiveacid[spark] @ {library}", f"airflow-hiveacid[spark] @ {provider}"]
        if int(spark.partition(".")[0]) >= 4:
            # Their files overlap, so that only equal versions work, and the client may be published later.
            self.install([f"pyspark-client=={spark}.*"], constraints)
            version = self.installed()["pyspark-client"]
            pair = [f"pyspark=={version}", f"pyspark-client=={version}"]
            self.install([*both, *pair], constraints)
        else:
            self.install([*both, f"pyspark=={spark}.*"], constraints)
            # The client of another version has overwritten files of pyspark.
            self._uv("pip", "uninstall", "--quiet", "pyspark-client")
            again = ["--reinstall", "--no-deps", f"pyspark=={spark}.*"]
            self._uv("pip", "install", "--quiet", *again)

    def install_adapter(self, requirements: Sequence[str]) -> None:
        """Install the adapter of dbt, without the parser of dbt 2, whose package downloads a program.

        Args:
            requirements: The library and the adapter.
        """
        left_out = self.work / "left-out.txt"
        left_out.write_text("dbt-core-experimental-parser; python_version < '3'", encoding="utf-8")
        self._uv("pip", "install", "--quiet", "--override", str(left_out), *requirements)

    def installed(self) -> dict[str, str]:
        """Return the version of each installed distribution."""
        listed = self._uv("pip", "list", "--quiet", "--format", "json")
        return {entry["name"].lower(): entry["version"] for entry in json.loads(listed)}

    def verify_library(self, version: str) -> None:
        """Verify that the library has this version, and works where Airflow is not installed.

        Raises:
            SystemExit: It does not.
        """
        self._verify_package("hiveacid", version)
        if "apache-airflow-core" in self.installed():
            raise SystemExit("The library has installed Airflow.")
        self.run("hiveacid", "--help")
        self.run("python", "-c", _USE)

    def _verify_package(self, name: str, version: str) -> None:
        code = _IMPORT.format(name=name, package=name.replace("-", "_"))
        installed, imported, file = self.run("python", "-c", code).split()
        if (installed, imported) != (version, version):
            raise SystemExit(f"{file} has the versions {installed} and {imported}, not {version}.")
        if not Path(file).is_relative_to(self.folder):
            raise SystemExit(f"{file} is not in the clean environment {self.folder}.")

    def verify(self, version: str) -> None:
        """Verify that packages, command, and provider have this version.

        Raises:
            SystemExit: One of them does not.
        """
        for name in ("hiveacid", "airflow-hiveacid"):
            self._verify_package(name, version)
        self.run("hiveacid", "--help")
        providers = json.loads(self.run("airflow", "providers", "list", "--output", "json"))
        found = {entry["package_name"]: entry["version"] for entry in providers}
        if found.get("airflow-hiveacid") != version:
            raise SystemExit(f"Airflow does not list the provider with the version {version}.")

    def verify_adapter(self, version: str, project: Path) -> None:
        """Verify that the adapter of dbt has this version, and reads a project.

        Args:
            version: The version.
            project: The folder of the project.

        Raises:
            SystemExit: It does not.
        """
        self.run("python", "-c", _PARSE, str(project.absolute()), version)

    def resolve(self, requirements: Sequence[str]) -> dict[str, str]:
        """Return the versions that an installation without constraints selects."""
        source = self.work / "requirement.txt"
        source.write_text("\n".join(requirements), encoding="utf-8")
        python = ("--python", str(self.python))
        pins = self._uv(
            "pip", "compile", "--quiet", "--no-header", "--no-annotate", *python, str(source)
        )
        return dict(re.findall(r"^([\w.-]+)==(\S+)", pins, re.MULTILINE))

    def run(self, program: str, *arguments: str, timeout: float = 600) -> str:
        """Run a program of the environment, and return its output.

        Raises:
            SystemExit: The program fails; the message contains its output.
        """
        command = [str(self.folder / "bin" / program), *arguments]
        ended = subprocess.run(
            command,
            cwd=self.work,
            env=self._variables(),
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
        if ended.returncode:
            raise SystemExit(f"{' '.join(command)} failed:\n{ended.stdout}{ended.stderr}")
        return ended.stdout

    def _variables(self) -> Mapping[str, str]:
        """Return the variables of this process without those that select other packages or servers."""
        other = ("AIRFLOW", "HADOOP", "HIVEACID", "MAKE", "PYTHON", "SPARK", "VIRTUAL_ENV")
        own = {name: value for name, value in os.environ.items() if not name.startswith(other)}
        return {
            **own,
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{os.environ['PATH']}",
            "AIRFLOW_HOME": str(self.work / "airflow"),
        }

    def _uv(self, *arguments: str) -> str:
        uv = Path(sys.executable).with_name("uv")
        ended = subprocess.run(
            [str(uv), *arguments],
            env={**os.environ, "VIRTUAL_ENV": str(self.folder)},
            capture_output=True,
            text=True,
            check=False,
        )
        if ended.returncode:
            raise SystemExit(f"uv {' '.join(arguments)} failed:\n{ended.stdout}{ended.stderr}")
        return ended.stdout
