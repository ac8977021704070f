"""Rules for the version, the tag, and the changelog of a release."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)(?:rc(\d+))?")
_HEADING = re.compile(r"^## (\S+)(?: \((.*)\))?$", re.MULTILINE)
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


@dataclass(frozen=True)
class SourceState:
    """The state of the source tree that a release depends on.

    Attributes:
        version: The version of the package.
        changelog: The text of the changelog.
        tags: The tags of the commit.
        uncommitted: The files that differ from the commit.
        repeated: The version that each other file states.
    """

    version: str
    changelog: str
    tags: Sequence[str]
    uncommitted: Sequence[str]
    repeated: Mapping[str, str]


def tag_of(version: str) -> str:
    """Return the tag of a version."""
    return f"v{version}"


def state_problems(state: SourceState) -> list[str]:
    """Return each reason why this state must not be released, with its remedy."""
    return [
        *_version_problems(state),
        *_changelog_problems(state.version, state.changelog),
        *_commit_problems(state),
    ]


def spark_problems(resolved: Mapping[str, str], supported: str) -> list[str]:
    """Return the problems of the Spark that the extra `spark` installs without constraints.

    Args:
        resolved: The version of each distribution.
        supported: A text that names the supported minor versions.
    """
    spark, client = resolved.get("pyspark"), resolved.get("pyspark-client")
    problems = []
    if spark is None or ".".join(spark.split(".")[:2]) not in re.findall(r"\d+\.\d+", supported):
        problems.append(
            f"[spark] installs pyspark {spark}, not {supported}: limit it in pyproject.toml."
        )
    if spark != client:
        problems.append(
            f"[spark] installs pyspark {spark} and pyspark-client {client}, which overwrite each other's files: "
            "limit both in pyproject.toml to versions that both have."
        )
    return problems


def _version_problems(state: SourceState) -> list[str]:
    problems = []
    if not _VERSION.fullmatch(state.version):
        problems.append(
            f"The version {state.version} is not of the form 1.2.3 or 1.2.3rc1: change __version__."
        )
    problems += [
        f"{file} states the version {version}: change it to {state.version}."
        for file, version in state.repeated.items()
        if version != state.version
    ]
    return problems


def _changelog_problems(version: str, changelog: str) -> list[str]:
    headings = list(_HEADING.finditer(changelog))
    if not headings or headings[0][1] != version:
        return [
            f"CHANGELOG.md does not begin with {version}: add the heading '## {version} (date)'."
        ]
    problems = []
    if not _DATE.fullmatch(headings[0][2] or ""):
        problems.append(
            f"CHANGELOG.md has no date for {version}: write '## {version} (2026-12-31)'."
        )
    end = headings[1].start() if len(headings) > 1 else len(changelog)
    if not re.search(r"^- ", changelog[headings[0].end() : end], re.MULTILINE):
        problems.append(f"CHANGELOG.md lists no change of {version}: add its changes.")
    if len(headings) > 1 and _order(headings[1][1]) >= _order(version):
        problems.append(f"{version} does not follow {headings[1][1]}: choose a higher version.")
    return problems


def _commit_problems(state: SourceState) -> list[str]:
    problems = []
    if state.uncommitted:
        files = ", ".join(state.uncommitted)
        problems.append(f"These files differ from the commit: {files}. Commit or remove them.")
    tag = tag_of(state.version)
    if tag not in state.tags:
        problems.append(f"The commit does not have the tag {tag}: run `git tag --sign {tag}`.")
    return problems


def _order(version: str) -> tuple[float, ...]:
    """Return a key by which a release candidate precedes its version."""
    match = _VERSION.fullmatch(version)
    if not match:
        return ()
    major, minor, patch, candidate = match.groups()
    return int(major), int(minor), int(patch), float(candidate or "inf")
