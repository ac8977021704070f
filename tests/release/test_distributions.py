"""The contents of the wheel and the source distribution of the commit."""

import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from airflow_hiveacid import __version__
from release.build import Distributions, build, tracked_files
from release.contents import sdist_problems, wheel_problems

# Java compiles the jars.
pytestmark = pytest.mark.server

ROOT = Path(__file__).parents[2]
PYPROJECT = (ROOT / "pyproject.toml").read_text()
INFO = f"airflow_hiveacid-{__version__}.dist-info"


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """Build both, which also shows that the wheel of the source distribution is that of the commit."""
    return build(ROOT, tmp_path_factory.mktemp("build"))


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    return tracked_files(ROOT)


@pytest.fixture
def unpacked(distributions: Distributions, tmp_path: Path) -> Path:
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(distributions.wheel) as archive:
        archive.extractall(folder)
    return folder


def packed(folder: Path) -> Path:
    wheel = folder.with_suffix(".whl")
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in folder.rglob("*"):
            if file.is_file():
                archive.write(file, file.relative_to(folder).as_posix())
    return wheel


def test_the_distributions_of_the_commit_are_complete(
    distributions: Distributions, tracked: list[str]
) -> None:
    assert wheel_problems(distributions.wheel, tracked, __version__) == []
    assert sdist_problems(distributions.sdist, tracked, __version__, PYPROJECT) == []


@pytest.mark.parametrize(
    "name",
    [
        "airflow_hiveacid/py.typed",
        "airflow_hiveacid/_spark_apps/run.py",
        "hiveacid/spark/jars/hiveacid-scan_2.12.jar",
        f"{INFO}/licenses/NOTICE",
    ],
)
def test_a_missing_file_is_found(unpacked: Path, tracked: list[str], name: str) -> None:
    (unpacked / name).unlink()
    (problem,) = wheel_problems(packed(unpacked), tracked, __version__)
    assert problem == f"unpacked.whl lacks {name}."


@pytest.mark.parametrize(
    "name", ["tests/conftest.py", "airflow_hiveacid/.env", "airflow_hiveacid/old.pyc"]
)
def test_an_additional_file_is_found(unpacked: Path, tracked: list[str], name: str) -> None:
    (unpacked / name).parent.mkdir(exist_ok=True)
    (unpacked / name).write_text("")
    (problem,) = wheel_problems(packed(unpacked), tracked, __version__)
    assert problem == f"unpacked.whl must not contain {name}."


def test_another_version_in_the_metadata_is_found(unpacked: Path, tracked: list[str]) -> None:
    metadata = unpacked / INFO / "METADATA"
    metadata.write_text(
        metadata.read_text().replace(f"\nVersion: {__version__}", "\nVersion: 9.9.9")
    )
    (problem,) = wheel_problems(packed(unpacked), tracked, __version__)
    assert problem == f"unpacked.whl states Version: 9.9.9, not {__version__}."


def test_a_file_that_is_not_under_version_control_is_found_in_a_source_distribution(
    distributions: Distributions, tracked: list[str], tmp_path: Path
) -> None:
    # The name of the archive's folder is that of the release.
    with tarfile.open(distributions.sdist) as archive:
        archive.extractall(tmp_path, filter="data")
    root = tmp_path / f"airflow_hiveacid-{__version__}"
    (root / "credentials.json").write_text("{}")
    (root / "CHANGELOG.md").unlink()
    changed = shutil.make_archive(str(tmp_path / "changed"), "gztar", tmp_path, root.name)
    assert sdist_problems(Path(changed), tracked, __version__, PYPROJECT) == [
        f"changed.tar.gz lacks {root.name}/CHANGELOG.md.",
        f"changed.tar.gz must not contain {root.name}/credentials.json.",
    ]
