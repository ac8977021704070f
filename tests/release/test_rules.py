"""The states of the source that may be released."""

from dataclasses import replace

import pytest

from release.__main__ import source_state
from release.rules import SourceState, spark_problems, state_problems

CHANGELOG = "# Changelog\n\n## 1.10.0 (2026-12-01)\n\n### Added\n\n- A line.\n\n## 1.9.3 (2026-11-01)\n\n- B.\n"
READY = SourceState(
    version="1.10.0",
    changelog=CHANGELOG,
    tags=["v1.10.0"],
    uncommitted=[],
    repeated={"CITATION.cff": "1.10.0"},
)


def test_a_tagged_commit_with_a_dated_changelog_is_ready() -> None:
    assert state_problems(READY) == []


def test_a_release_candidate_precedes_its_version() -> None:
    changelog = "## 1.0.0 (2026-12-01)\n\n- A.\n\n## 1.0.0rc2 (2026-11-01)\n\n- B.\n"
    state = SourceState("1.0.0", changelog, ["v1.0.0"], [], {})
    assert state_problems(state) == []


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"tags": []}, "git tag --sign v1.10.0"),
        ({"tags": ["v1.9.0"]}, "does not have the tag v1.10.0"),
        ({"uncommitted": ["setup.cfg"]}, "setup.cfg"),
        ({"repeated": {"CITATION.cff": "1.9.3"}}, "CITATION.cff states the version 1.9.3"),
        ({"changelog": CHANGELOG.replace("2026-12-01", "unreleased")}, "has no date for 1.10.0"),
        ({"changelog": CHANGELOG.replace("## 1.10.0", "## 1.11.0")}, "does not begin with 1.10.0"),
        ({"changelog": "# Changelog\n"}, "does not begin with 1.10.0"),
        ({"changelog": CHANGELOG.replace("- A line.", "")}, "lists no change of 1.10.0"),
        ({"changelog": CHANGELOG.replace("1.9.3", "1.10.0")}, "does not follow 1.10.0"),
        # Compared as numbers.
        ({"changelog": CHANGELOG.replace("1.9.3", "1.11.0")}, "does not follow 1.11.0"),
    ],
)
def test_another_state_is_refused_with_the_remedy(changes: dict, expected: str) -> None:
    (problem,) = state_problems(replace(READY, **changes))
    assert expected in problem


def test_a_version_has_three_numbers() -> None:
    state = SourceState(
        "1.10", CHANGELOG.replace("1.10.0", "1.10"), ["v1.10"], [], {"CITATION.cff": "1.10"}
    )
    assert any("is not of the form 1.2.3" in problem for problem in state_problems(state))


def test_every_file_of_this_repository_states_the_same_version() -> None:
    state = source_state()
    assert set(state.repeated.values()) == {state.version}
    assert f"\n## {state.version} (" in state.changelog


@pytest.mark.parametrize(
    ("resolved", "expected"),
    [
        ({"pyspark": "4.1.3", "pyspark-client": "4.1.3"}, []),
        ({"pyspark": "4.3.0", "pyspark-client": "4.3.0"}, ["pyspark 4.3.0, not Spark 3.5 and 4.1"]),
        ({"pyspark": "4.1.4", "pyspark-client": "4.1.3"}, ["overwrite each other's files"]),
        ({"pyspark-client": "4.1.3"}, ["pyspark None, not", "overwrite each other's files"]),
    ],
)
def test_the_extra_installs_an_equal_pair_of_a_supported_spark(
    resolved: dict, expected: list[str]
) -> None:
    problems = spark_problems(resolved, "Spark 3.5 and 4.1")
    assert len(problems) == len(expected)
    assert all(part in problem for part, problem in zip(expected, problems, strict=True))
