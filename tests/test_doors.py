"""The functions that make a location which may be opened; everything else only passes it on."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_type_hints

import pytest

from hiveacid.errors import MalformedName
from hiveacid.metastore.catalog import HiveTable
from hiveacid.rules.location import Location, below, split
from hiveacid.storage.filesystems import filesystem_of
from hiveacid.storage.folder import ReadOnlyStorage, Storage
from hiveacid.storage.uploads import Uploads

ROOT = Path(__file__).parents[1]
FOLDERS = ("hiveacid", "airflow_hiveacid", "dbt")
# Why each of them may do so.
DOORS = {
    "airflow_hiveacid/cluster/runs.py ClusterRun._files": "Airflow's own record of a submission",
    "airflow_hiveacid/cluster/runs.py LocalRun.submit": "a temporary folder of the task",
    "hiveacid/cli/snapshot.py _snapshot_of_path": "whoever runs `hiveacid inspect --path` names it",
    "hiveacid/iceberg/catalog_files.py _Hdfs._of": "`CatalogFiles` opens only what it has required",
    "hiveacid/iceberg/data_file_task.py <module>": "no location at all",
    "hiveacid/metastore/catalog.py _checked_by_client": "a definition, which the client has checked",
    "hiveacid/rules/location.py AllowedLocations.require": "the check of a text",
    "hiveacid/rules/location.py below": "inside another location",
    "hiveacid/rules/location.py split": "the folder of a file that may be opened",
    "hiveacid/spark/application.py main": "the submitter of the driver names it",
    "hiveacid/spark/failures.py _reading": "a file that Spark has read for this process",
    "hiveacid/spark/trial.py run_trial": "a temporary folder of the doctor",
    "hiveacid/worker/files.py _files": "the path of a source, which the caller has required",
}


def makers(tree: ast.Module) -> Iterator[str]:
    """Yield the names of functions that use the type other than in an annotation."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            assert all(each.name != "Location" or each.asname is None for each in node.names)
    yield from _makers(tree, ())


def _makers(node: ast.AST, names: tuple[str, ...]) -> Iterator[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        names = (*names, node.name)
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                yield from _makers(child, names)
    named = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id == "Location"
    cast = isinstance(node, ast.Call) and ast.unparse(node.func).endswith("cast") and node.args
    if named or (cast and "Location" in str(getattr(cast[0], "value", ""))):
        yield ".".join(names) or "<module>"


def test_only_known_functions_make_a_location_that_may_be_opened() -> None:
    files = [file for folder in FOLDERS for file in (ROOT / folder).rglob("*.py")]
    assert len(files) > 300
    texts = {file: file.read_text(encoding="utf-8") for file in files}
    found = {
        f"{file.relative_to(ROOT)} {maker}"
        for file, text in texts.items()
        if "Location" in text
        for maker in makers(ast.parse(text))
    }
    assert found == DOORS.keys(), (
        "Pass on the location that a check has returned: AllowedLocations.require, the definition of"
        " a table, or CatalogFiles.require. Only a new kind of check is a new door."
    )


@pytest.mark.parametrize(
    ("source", "maker"),
    [
        ("def a(text):\n    return Storage.of(Location(text))", "a"),
        ("class A:\n    async def a(self, texts):\n        return [*map(Location, texts)]", "A.a"),
        ("def a(text):\n    return cast('Location', text)", "a"),
        ("def a(text):\n    return typing.cast(Location, text)", "a"),
        ("NOWHERE = Location('')", "<module>"),
    ],
)
def test_each_way_to_make_one_is_found(source: str, maker: str) -> None:
    assert set(makers(ast.parse(source))) == {maker}


def test_annotations_make_none() -> None:
    source = "class A:\n    root: Location\n    def a(self, b: Location) -> Location:\n        c: Location = b"
    assert not set(makers(ast.parse(source)))


# mypy, which checks calls by these annotations, accepts no text for the type.
@pytest.mark.parametrize("open_", [ReadOnlyStorage.of, Storage.of, Uploads.of, filesystem_of])
def test_a_text_opens_nothing(open_: object) -> None:
    assert get_type_hints(open_)["location"] is Location


def test_the_folders_of_a_definition_may_be_opened() -> None:
    assert get_type_hints(HiveTable)["location"] == Location | None


def test_no_exception_for_mypy_opens_a_text() -> None:
    opening = (".of(", "filesystem_of(", "below(", "split(")
    ignored = {
        f"{file.relative_to(ROOT)}:{number}"
        for folder in FOLDERS
        for file in (ROOT / folder).rglob("*.py")
        for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1)
        if "type: ignore" in line and any(call in line for call in opening)
    }
    assert not ignored


@pytest.mark.parametrize("path", ["..", "../b", "a/../../b", "a/.."])
def test_a_path_does_not_lead_out_of_its_location(path: str) -> None:
    with pytest.raises(MalformedName, match=r"leaves hdfs://nn/a\."):
        below(Location("hdfs://nn/a"), path)


@pytest.mark.parametrize(
    ("location", "path", "whole"),
    [
        ("s3a://b", ("c", "", "d/e"), "s3a://b/c/d/e"),
        ("file:/a/", ("b",), "file:/a/b"),
        ("file:/a/", ("",), "file:/a/"),
        ("/", ("a",), "/a"),
        ("/", (), "/"),
        ("/a", ("b..c", "..."), "/a/b..c/..."),
    ],
)
def test_a_path_is_below_its_location(location: str, path: tuple[str, ...], whole: str) -> None:
    assert below(Location(location), *path) == whole


def test_a_file_is_split_into_its_folder_and_its_name() -> None:
    assert split(Location("s3a://b/a=1/000000_0")) == ("s3a://b/a=1", "000000_0")
