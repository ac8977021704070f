"""What a push and a commit are judged by is what a developer runs: the targets of the Makefile."""

import os
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[1]
MAKEFILE = (ROOT / "Makefile").read_text()
RECIPES = dict(re.findall(r"^([a-z]+): .*\n((?:\t.*\n)*)", MAKEFILE, re.M))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def workflow() -> dict[str, Any]:
    return yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]


def test_the_workflow_runs_targets_of_the_makefile_and_nothing_else() -> None:
    commands = [
        step["run"] for job in workflow().values() for step in job["steps"] if "run" in step
    ]
    assert {command.split()[0] for command in commands} == {"make"}
    targets = {command.split()[1] for command in commands}
    assert {"lint", "unit", "test", "quickstart"} <= targets <= RECIPES.keys()
    settings = re.findall(r"(\w+)=", " ".join(commands))
    assert all(f"$({setting})" in MAKEFILE for setting in settings)


def test_actions_are_pinned_by_commit() -> None:
    actions = [
        step["uses"] for job in workflow().values() for step in job["steps"] if "uses" in step
    ]
    assert actions
    assert [
        each for each in actions if not re.fullmatch(r"actions/[a-z-]+@[0-9a-f]{40}", each)
    ] == []


def test_a_changed_download_changes_the_key_of_the_cache() -> None:
    for job in workflow().values():
        [key] = [
            step["with"]["key"] for step in job["steps"] if "actions/cache@" in step.get("uses", "")
        ]
        hashed = {file for pattern in re.findall("'(.*?)'", key) for file in ROOT.glob(pattern)}
        listed = [
            *ROOT.glob("airflow_hiveacid/metastore/dev/releases.py"),
            *ROOT.glob("airflow_hiveacid/metastore/dev/*.sha256"),
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


def test_a_commit_is_judged_by_what_make_lint_runs() -> None:
    [repo] = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    of_commit = {hook["entry"].removeprefix(".venv/bin/").split()[0] for hook in repo["hooks"]}
    assert of_commit == set(re.findall(r"\$\(BIN\)/(\S+)", RECIPES["lint"]))


def test_what_the_makefile_runs_is_there() -> None:
    paths = set(re.findall(r"(?<![\w./])(?:tests|bench|docs)/[\w./-]+", MAKEFILE))
    assert {"tests/airflow", "bench/first_hour.py", "docs/build_site.py"} <= paths
    assert sorted(path for path in paths if not (ROOT / path).exists()) == []


def test_the_help_has_a_line_for_every_target() -> None:
    targets = re.findall(r"^([a-z][a-z0-9]*):", MAKEFILE, re.M)
    # A make around this test would have the inner one tell of its folder.
    own = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    shown = subprocess.run(
        ["make", "help"], cwd=ROOT, env=own, check=True, capture_output=True, text=True
    )
    lines = [line.split(maxsplit=2) for line in shown.stdout.splitlines()]
    assert [line[1] for line in lines] == targets
    assert all(len(line) == 3 for line in lines)
    (phony,) = re.findall(r"^\.PHONY: (.*)", MAKEFILE, re.M)
    assert sorted(phony.split()) == sorted(targets)
