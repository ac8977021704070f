"""The contents of the wheel and the source distribution of the commit."""

import shutil
import tarfile
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid import __version__
from release.build import ADAPTER, LIBRARY, PROVIDER, Distributions, Project, build, tracked_files
from release.contents import sdist_problems, wheel_problems

# Java compiles the jars.
pytestmark = pytest.mark.server

ROOT = Path(__file__).parents[2]
INFO = f"airflow_hiveacid-{__version__}.dist-info"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Distributions]:
    """Build all, which also shows that each wheel of a source distribution is that of the commit."""
    made = build(ROOT, tmp_path_factory.mktemp("build"))
    return {each.project.name: each for each in made}


@pytest.fixture
def distributions(request: pytest.FixtureRequest, built: dict[str, Distributions]) -> Distributions:
    return built[getattr(request, "param", PROVIDER.name)]


def pyproject(made: Distributions) -> str:
    return (ROOT / made.project.folder / "pyproject.toml").read_text()


@pytest.fixture(scope="module")
def tracked() -> list[str]:
    return tracked_files(ROOT)


@pytest.fixture
def unpacked(distributions: Distributions, tmp_path: Path) -> Path:
    folder = tmp_path / "unpacked"
    with zipfile.ZipFile(distributions.wheel) as archive:
        archive.extractall(folder)
    return folder


def packed(distributions: Distributions, folder: Path) -> Distributions:
    wheel = folder.with_suffix(".whl")
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in folder.rglob("*"):
            if file.is_file():
                archive.write(file, file.relative_to(folder).as_posix())
    return replace(distributions, wheel=wheel)


@pytest.mark.parametrize(
    "distributions", [LIBRARY.name, PROVIDER.name, ADAPTER.name], indirect=True
)
def test_the_distributions_of_the_commit_are_complete(
    distributions: Distributions, tracked: list[str]
) -> None:
    assert wheel_problems(distributions, tracked, __version__) == []
    assert sdist_problems(distributions, tracked, __version__, pyproject(distributions)) == []


@pytest.mark.parametrize("project", [LIBRARY, ADAPTER], ids=lambda project: project.name)
def test_all_projects_have_the_same_license(project: Project) -> None:
    for name in ("LICENSE", "NOTICE"):
        assert (ROOT / project.folder / name).read_text() == (ROOT / name).read_text()


@pytest.mark.parametrize(
    ("distributions", "name"),
    [
        (PROVIDER.name, "airflow_hiveacid/py.typed"),
        (PROVIDER.name, "airflow_hiveacid/_spark_apps/run.py"),
        (LIBRARY.name, "hiveacid/spark/jars/hiveacid-scan_2.12.jar"),
        (PROVIDER.name, f"{INFO}/licenses/NOTICE"),
    ],
    indirect=["distributions"],
)
def test_a_missing_file_is_found(
    distributions: Distributions, unpacked: Path, tracked: list[str], name: str
) -> None:
    (unpacked / name).unlink()
    (problem,) = wheel_problems(packed(distributions, unpacked), tracked, __version__)
    assert problem == f"unpacked.whl lacks {name}."


@pytest.mark.parametrize(
    "name", ["tests/conftest.py", "airflow_hiveacid/.env", "airflow_hiveacid/old.pyc"]
)
def test_an_additional_file_is_found(
    distributions: Distributions, unpacked: Path, tracked: list[str], name: str
) -> None:
    (unpacked / name).parent.mkdir(exist_ok=True)
    (unpacked / name).write_text("")
    (problem,) = wheel_problems(packed(distributions, unpacked), tracked, __version__)
    assert problem == f"unpacked.whl must not contain {name}."


def test_another_version_in_the_metadata_is_found(
    distributions: Distributions, unpacked: Path, tracked: list[str]
) -> None:
    metadata = unpacked / INFO / "METADATA"
    metadata.write_text(
        metadata.read_text().replace(f"\nVersion: {__version__}", "\nVersion: 9.9.9")
    )
    (problem,) = wheel_problems(packed(distributions, unpacked), tracked, __version__)
    assert problem == f"unpacked.whl states Version: 9.9.9, not {__version__}."


def test_a_file_that_is_not_under_version_control_is_found_in_a_source_distribution(
    distributions: Distributions, tracked: list[str], tmp_path: Path
) -> None:
    # The name of the archive's folder is that of the release.
    with tarfile.open(distributions.sdist) as archive:
        # The filter exists since Python 3.11.4.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(tmp_path)
    root = tmp_path / f"airflow_hiveacid-{__version__}"
    (root / "credentials.json").write_text("{}")
    (root / "CHANGELOG.md").unlink()
    changed = shutil.make_archive(str(tmp_path / "changed"), "gztar", tmp_path, root.name)
    made = replace(distributions, sdist=Path(changed))
    assert sdist_problems(made, tracked, __version__, pyproject(made)) == [
        f"changed.tar.gz lacks {root.name}/CHANGELOG.md.",
        f"changed.tar.gz must not contain {root.name}/credentials.json.",
    ]
