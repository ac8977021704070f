"""Performs and verifies all steps of a release except for the upload.

With ``--rehearsal``, a missing tag, a missing date in the changelog, and uncommitted files are reported, and the
other steps continue with the last commit.
"""

import argparse
import hashlib
import re
import runpy
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from pathlib import Path

import airflow_hiveacid
from airflow_hiveacid.provider_info import get_provider_info
from hiveacid import __version__
from hiveacid.drivers.spark_support import SUPPORTED_TEXT
from release.build import Distributions, build, tracked_files
from release.constraints import without_hashes, without_spark
from release.contents import sdist_problems, wheel_problems
from release.environment import CleanEnvironment
from release.rules import SourceState, spark_problems, state_problems
from release.sbom import sbom_problems, write_sbom

REPOSITORY = Path(__file__).parents[1]
_ADAPTER = "dbt/adapters/hiveacid/__version__.py"


def main(arguments: Sequence[str] | None = None) -> int:
    """Perform the steps in order; the first failure ends the run."""
    parser = argparse.ArgumentParser(prog="release", description=__doc__)
    parser.add_argument("--folder", type=Path, default=REPOSITORY / "build" / "release")
    parser.add_argument("--rehearsal", action="store_true", help="report problems of the source")
    parser.add_argument("--constraints", type=Path, default=REPOSITORY / "requirements.lock")
    parser.add_argument("--python", default=sys.executable)
    parser.add_argument("--spark", nargs="*", default=[], help="versions for the quickstart")
    options = parser.parse_args(arguments)
    started = time.monotonic()
    folder: Path = options.folder.absolute()
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)

    say("Version, tag, and changelog")
    report(state_problems(source_state()), fatal=not options.rehearsal)
    say("Wheels and source distributions of the commit")
    built = build(REPOSITORY, folder)
    library, provider, adapter = built
    say("Contents")
    for each in built:
        report(contents_problems(each, folder / "source"))
    pins = folder / "constraints.txt"
    pins.write_text(without_hashes(options.constraints.read_text(encoding="utf-8")))
    for kind in ("wheel", "sdist"):
        files = [getattr(library, kind), getattr(provider, kind)]
        say(f"{files[0].name} in an environment without Airflow")
        alone = CleanEnvironment(folder / f"library-{kind}", options.python)
        alone.install([f"hiveacid @ {files[0].as_uri()}"], pins)
        alone.verify_library(__version__)
        say(f"{files[1].name} in a clean environment")
        environment = CleanEnvironment(folder / kind, options.python)
        both = [
            f"{made.project.name} @ {file.as_uri()}"
            for made, file in zip((library, provider), files, strict=True)
        ]
        environment.install(both, pins)
        environment.verify(__version__)
        file = getattr(adapter, kind)
        say(f"{file.name} in an environment without Airflow")
        of_dbt = CleanEnvironment(folder / f"dbt-{kind}", options.python)
        of_dbt.install_adapter(
            [f"hiveacid @ {files[0].as_uri()}", f"dbt-hiveacid @ {file.as_uri()}"]
        )
        of_dbt.verify_adapter(__version__, folder / "source" / "dbt" / "example")
        if kind == "wheel":
            say("Spark of the extra [spark] without constraints")
            resolved = environment.resolve(
                [
                    f"hiveacid[spark] @ {files[0].as_uri()}",
                    f"airflow-hiveacid[spark] @ {files[1].as_uri()}",
                ]
            )
            report(spark_problems(resolved, SUPPORTED_TEXT))
            say("Software bill of materials")
            document = write_sbom(REPOSITORY, environment.python, folder / "sbom.cdx.json")
            report(sbom_problems(document, environment.installed()))
    for spark in options.spark:
        say(f"Quickstart from the wheels with Spark {spark}")
        quickstart((library, provider), spark, folder, options)
    say("Files to upload")
    for file in sorted((folder / "dist").iterdir()):
        print(f"   {hashlib.sha256(file.read_bytes()).hexdigest()}  {file}")
    print(f"\nDone in {time.monotonic() - started:.0f} s. Nothing has been uploaded.")
    return 0


def quickstart(
    built: Sequence[Distributions], spark: str, folder: Path, options: argparse.Namespace
) -> None:
    """Run the quickstart in a clean environment with a version of Spark."""
    pins = folder / f"constraints-spark-{spark}.txt"
    pins.write_text(without_spark((folder / "constraints.txt").read_text(encoding="utf-8")))
    environment = CleanEnvironment(folder / f"spark-{spark}", options.python)
    environment.install_with_spark([each.wheel for each in built], spark, pins)
    begun = time.monotonic()
    module = ["-m", "airflow_hiveacid.quickstart", "--directory", str(environment.work / "files")]
    output = environment.run("python", *module, timeout=1800)
    (environment.work / "quickstart.txt").write_text(output, encoding="utf-8")
    names = ("apache-airflow", "pyspark", "pyarrow", "numpy")
    versions = environment.installed()
    found = ", ".join(f"{name} {versions[name]}" for name in names)
    print(f"   {found}: {time.monotonic() - begun:.0f} s")


def source_state() -> SourceState:
    """Read the state of the repository."""
    citation = (REPOSITORY / "CITATION.cff").read_text(encoding="utf-8")
    (cited,) = re.findall(r"^version: (.*)$", citation, re.MULTILINE)
    return SourceState(
        version=__version__,
        changelog=(REPOSITORY / "CHANGELOG.md").read_text(encoding="utf-8"),
        tags=_lines("git", "tag", "--points-at", "HEAD"),
        uncommitted=[line[3:] for line in _lines("git", "status", "--porcelain")],
        repeated={
            "CITATION.cff": cited,
            "airflow_hiveacid/provider_info.py": get_provider_info()["versions"][0],
            "airflow_hiveacid/__init__.py": airflow_hiveacid.__version__,
            **{f"pyproject.toml ({name})": version for name, version in _pins(REPOSITORY)},
            _ADAPTER: runpy.run_path(str(REPOSITORY / _ADAPTER))["version"],
            **{f"dbt/pyproject.toml ({name})": v for name, v in _pins(REPOSITORY / "dbt")},
        },
    )


def _pins(repository: Path) -> list[tuple[str, str]]:
    """Return the versions of the library that a project requires."""
    text = (repository / "pyproject.toml").read_text(encoding="utf-8")
    return re.findall(r'"(hiveacid(?:\[\w+\])?)==([^"]*)"', text)


def contents_problems(made: Distributions, source: Path) -> list[str]:
    """Compare the distributions of a project with the files of the commit."""
    tracked = tracked_files(REPOSITORY)
    pyproject = (source / made.project.folder / "pyproject.toml").read_text(encoding="utf-8")
    return [
        *wheel_problems(made, tracked, __version__),
        *sdist_problems(made, tracked, __version__, pyproject),
    ]


def report(problems: Iterable[str], *, fatal: bool = True) -> None:
    """Print problems, and end the run if they are fatal."""
    found = list(problems)
    for problem in found:
        print(f"   {problem}")
    if found and fatal:
        raise SystemExit("The release is not possible.")


def say(text: str) -> None:
    """Print a headline."""
    print(f"\n== {text}", flush=True)


def _lines(*command: str) -> list[str]:
    done = subprocess.run(command, cwd=REPOSITORY, check=True, capture_output=True, text=True)
    return done.stdout.splitlines()


if __name__ == "__main__":
    sys.exit(main())
