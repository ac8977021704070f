"""A push and a commit are checked like a developer's change: by the targets of the Makefile."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
MAKEFILE = (ROOT / "Makefile").read_text()
RECIPES = dict(re.findall(r"^([a-z0-9]+): .*\n((?:\t.*\n)*)", MAKEFILE, re.M))
# A make around these tests would let the inner ones print their folder.
OWN_ENVIRONMENT = {key: value for key, value in os.environ.items() if not key.startswith("MAKE")}
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def workflow() -> dict[str, Any]:
    return yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]


def jobs() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for file in WORKFLOWS:
        for name, job in yaml.safe_load(file.read_text())["jobs"].items():
            yield file.name, name, job


def steps() -> Iterator[dict[str, Any]]:
    for _, _, job in jobs():
        yield from job["steps"]


def commands_of_jobs() -> Iterator[str]:
    """Yield the commands, with each suite of the nightly workflow."""
    for _, _, job in jobs():
        suites = job.get("strategy", {}).get("matrix", {}).get("suite", [""])
        for step in job["steps"]:
            if "run" in step:
                yield from {step["run"].replace("${{ matrix.suite }}", suite) for suite in suites}


def test_workflows_run_targets_of_the_makefile_and_nothing_else() -> None:
    commands = [*commands_of_jobs()]
    assert {command.split()[0] for command in commands} == {"make"}
    targets = {command.split()[1] for command in commands}
    assert {"lint", "unit", "test", "quickstart", "release"} <= targets <= RECIPES.keys()
    settings = re.findall(r"(\w+)=", " ".join(commands))
    assert all(f"$({setting})" in MAKEFILE for setting in settings)


def test_actions_are_pinned_by_commit() -> None:
    uses = [
        line.split("uses: ")[1]
        for file in WORKFLOWS
        for line in file.read_text().splitlines()
        if "uses: " in line
    ]
    assert len(uses) == len([step for step in steps() if "uses" in step]) > 10
    pinned = re.compile(r"(actions|github|ossf|pypa)/[a-z/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+")
    assert [each for each in uses if not pinned.fullmatch(each)] == []
    # One version of each action.
    assert len({each.split("@")[0] for each in uses}) == len({*uses})


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("vendor.github-workflows", ".github/workflows/*.yml"),
        ("custom.github-workflows-require-timeout", ".github/workflows/*.yml"),
        ("vendor.dependabot", ".github/dependabot.yml"),
        ("vendor.github-issue-forms", ".github/ISSUE_TEMPLATE/*_*.yml"),
        ("vendor.github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
        ("vendor.citation-file-format", "CITATION.cff"),
    ],
)
def test_files_of_the_repository_s_host_follow_their_schema(schema: str, pattern: str) -> None:
    files = sorted(map(str, ROOT.glob(pattern)))
    assert files
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", schema, *files]
    checked = subprocess.run(command, check=False, capture_output=True, text=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_a_workflow_has_no_rights_that_a_job_does_not_ask_for() -> None:
    for file in WORKFLOWS:
        described = yaml.safe_load(file.read_text())
        assert described["permissions"] in ({}, {"contents": "read"}), file.name
        # YAML reads the key `on` as true. This trigger gives rights to the code of a fork.
        assert "pull_request_target" not in described[True], file.name
    for step in steps():
        if "checkout" in step.get("uses", ""):
            assert step["with"]["persist-credentials"] is False
        # A title or a branch of a contributor would be a part of the command.
        assert "github.event" not in step.get("run", "")


def test_only_a_job_that_runs_no_code_of_the_repository_may_publish() -> None:
    described = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    assert described[True] == {"push": {"tags": ["v*"]}}
    publish = described["jobs"]["publish"]
    assert publish["needs"] == "build"
    assert publish["environment"] == "release"
    assert [step for step in publish["steps"] if "run" in step or "checkout" in step["uses"]] == []
    # Trusted publishing takes the place of a password.
    assert [step for step in publish["steps"] if "password" in step.get("with", {})] == []
    writing = {
        (file, name)
        for file, name, job in jobs()
        for right, value in job.get("permissions", {}).items()
        if (right, value) in {("id-token", "write"), ("attestations", "write")}
    }
    assert writing == {
        ("release.yml", "publish"),
        ("release.yml", "pages"),
        # Its results are signed.
        ("scorecard.yml", "analyze"),
    }


def test_the_published_files_are_the_verified_ones() -> None:
    described = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    build = described["jobs"]["build"]["steps"]
    (command,) = [step["run"] for step in build if "run" in step]
    assert command.split()[:2] == ["make", "release"]
    assert "REHEARSAL" not in command
    uploaded = {
        step["with"]["name"]: step["with"]["path"]
        for step in build
        if "upload-artifact" in step.get("uses", "")
    }
    assert uploaded == {"dist": "build/release/dist/", "sbom": "build/release/sbom.cdx.json"}
    # The tags and the history, which the release compares.
    assert build[0]["with"]["fetch-depth"] == 0
    # A cache is written by other workflows.
    assert [step for step in build if "actions/cache@" in step.get("uses", "")] == []


def test_a_changed_download_changes_the_key_of_the_cache() -> None:
    for job in workflow().values():
        [key] = [
            step["with"]["key"] for step in job["steps"] if "actions/cache@" in step.get("uses", "")
        ]
        hashed = {file for pattern in re.findall("'(.*?)'", key) for file in ROOT.glob(pattern)}
        listed = [
            *ROOT.glob("hiveacid/metastore/dev/distribution.py"),
            *ROOT.glob("hiveacid/metastore/dev/*.sha256"),
            *ROOT.glob("deploy/jars.*"),
            *ROOT.glob("tests/**/*-ivy.*"),
        ]
        assert len(listed) > 8
        assert {file for file in listed if file not in hashed} == set()


def test_its_matrix_is_what_the_package_promises() -> None:
    matrix = workflow()["versions"]["strategy"]["matrix"]
    promised = [line.split(" :: ")[-1] for line in PROJECT["classifiers"] if "Python :: 3." in line]
    assert matrix["python"] == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"
    assert f"apache-airflow>={matrix['airflow'][0]},<4" in PROJECT["dependencies"]


def test_a_commit_is_checked_like_make_lint() -> None:
    [repo] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    of_commit = {hook["entry"].removeprefix(".venv/bin/").split()[0] for hook in repo["hooks"]}
    assert of_commit == set(re.findall(r"\$\(BIN\)/(\S+)", RECIPES["lint"]))


def test_files_in_the_makefile_exist() -> None:
    paths = set(re.findall(r"(?<![\w./])(?:tests|bench|docs)/[\w./-]+", MAKEFILE))
    assert {"tests/airflow", "bench/peers.py", "docs/build_site.py"} <= paths
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []


def test_the_installer_of_all_packages_is_pinned_with_its_hashes(tmp_path: Path) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    # In place of pip: prints the arguments, and the file of requirements, which is the last one.
    python.write_text('#!/bin/sh\necho "$@"\nfor file; do :; done\ncat "$file"\n')
    python.chmod(0o755)
    made = subprocess.run(
        ["make", f"VENV={tmp_path}", str(python.with_name("uv"))],
        cwd=ROOT,
        env=OWN_ENVIRONMENT,
        capture_output=True,
        text=True,
        check=True,
    )
    arguments, *requirements = made.stdout.splitlines()
    assert {"--require-hashes", "--no-deps", "--requirement"} <= {*arguments.split()}
    text = "\n".join(line for line in requirements if not line.strip().startswith("#"))
    assert re.fullmatch(r"uv==[0-9.]+( \\\n    --hash=sha256:[0-9a-f]{64})+", text)
    assert text in (ROOT / "requirements.lock").read_text()


def test_pip_installs_nothing_without_a_hash() -> None:
    """Only this repository itself, which has none, is installed without its dependencies."""
    commands = [*MAKEFILE.splitlines(), *(ROOT / "deploy" / "Dockerfile").read_text().splitlines()]
    installs = [line for line in commands if re.search(r"(?<!uv )pip install", line)]
    assert len(installs) == 3
    own = re.compile(r"--no-deps --no-build-isolation \./hiveacid \.$")
    assert [x for x in installs if "--require-hashes" not in x and not own.search(x)] == []


def test_the_help_has_a_line_for_every_target() -> None:
    targets = re.findall(r"^([a-z][a-z0-9]*):", MAKEFILE, re.M)
    shown = subprocess.run(
        ["make", "help"], cwd=ROOT, env=OWN_ENVIRONMENT, check=True, capture_output=True, text=True
    )
    lines = [line.split(maxsplit=2) for line in shown.stdout.splitlines()]
    assert [line[1] for line in lines] == targets
    assert all(len(line) == 3 for line in lines)
    (phony,) = re.findall(r"^\.PHONY: (.*)", MAKEFILE, re.M)
    assert sorted(phony.split()) == sorted(targets)


def test_tests_of_the_long_suites_find_their_fixtures() -> None:
    options = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["pytest"]["ini_options"]
    marks = [mark.split(":")[0] for mark in options["markers"] if "run with `make" in mark]
    # `make test` runs other tests of these folders, with the same fixtures.
    often = {"tests/airflow", "tests/contract", "tests/differential", "tests/engine", "tests/fuzz"}
    paths = set(re.findall(r"tests/\w+(?=[/\s])", MAKEFILE)) - often
    assert {"tests/hdfs", "tests/s3", "tests/secure", "tests/live"} <= paths
    command = [sys.executable, "-m", "pytest", "-q", "--setup-plan", "-p", "no:cacheprovider"]
    planned = subprocess.run(
        [*command, "-m", " or ".join(marks), *sorted(paths)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert planned.returncode in (0, 5), planned.stdout[-4000:]
    assert re.findall(r"^(?:ERROR|E ) .*", planned.stdout, re.M) == []


def test_a_sample_has_a_case_of_every_test() -> None:
    """Most cases of these tests belong to `make differential`, and `make test` runs one of the others."""
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider"]
    folder = "tests/differential"
    tests = {}
    for cases in ("all", "sample"):
        collected = subprocess.run(
            [*command, folder],
            cwd=ROOT,
            env={**OWN_ENVIRONMENT, "CASES": cases},
            capture_output=True,
            text=True,
            check=False,
        )
        tests[cases] = set(re.findall(rf"^{folder}/\S+::\w+", collected.stdout, re.M))
    assert tests["sample"] == tests["all"] != set()
