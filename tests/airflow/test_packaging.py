import re
import subprocess
import sys
import tomllib
import zipfile
from importlib import import_module
from pathlib import Path

import pytest
from pyarrow import fs

import airflow_hiveacid
from airflow_hiveacid.cluster import packaged
from airflow_hiveacid.cluster.packaged import example_dags, package_zip, spark_app_path
from airflow_hiveacid.provider_info import PACKAGES
from hiveacid.errors import SoftwareMissing
from hiveacid.public_names import homes

ROOT = Path(airflow_hiveacid.__file__).parents[1]


def python(code, path):
    """Run code in a process that finds our package in one place only."""
    return subprocess.run(
        # -S and a path of our own: the editable install of this checkout must not be seen.
        [sys.executable, "-S", "-c", f"import sys; sys.path.insert(0, {str(path)!r})\n{code}"],
        check=True,
        capture_output=True,
        text=True,
        cwd="/",
    ).stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    target = folder / "installed"
    for project in (ROOT / "hiveacid", ROOT):
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
        subprocess.run(build, check=True, cwd=project, capture_output=True)
    for wheel in folder.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(target)
    return target


def test_without_spark_a_class_that_needs_it_names_the_extra():
    code = """
sys.modules["pyspark"] = None
import hiveacid
hiveacid.AcidTable
try:
    hiveacid.HiveAcidDataSource
except hiveacid.HiveAcidError as error:
    print(error)
"""
    installed = subprocess.run(
        [sys.executable, "-c", f"import sys\n{code}"], check=True, capture_output=True, text=True
    )
    assert installed.stdout.strip() == (
        "HiveAcidDataSource requires PySpark, which is not installed. pip install 'hiveacid[spark]'"
    )


def test_a_checkout_has_its_application_at_the_top():
    assert spark_app_path() == ROOT / "spark_apps" / "run.py"


def test_the_readme_of_a_wheel_leads_nowhere_that_an_index_has_not(wheel):
    (metadata,) = wheel.glob("airflow_hiveacid-*.dist-info/METADATA")
    text = metadata.read_text()
    targets = re.findall(r"\]\(([^)]*)\)", text)
    assert [target for target in targets if not target.startswith(("http", "#"))] == []
    # Nothing else is missing.
    assert "| Start | playground, tutorial, concepts |" in text
    assert "MERGE INTO shop.orders t USING shop.corrections s" in text
    assert "Project-URL" not in text


def test_a_wheel_has_its_application_inside(wheel):
    code = "from airflow_hiveacid.cluster.packaged import *; print(spark_app_path())"
    assert python(code, wheel) == str(wheel / "airflow_hiveacid" / "_spark_apps" / "run.py")


def test_the_examples_are_found_in_both(wheel):
    assert (example_dags() / "hourly_merge.py").is_file()
    code = "from airflow_hiveacid.cluster.packaged import *; print(example_dags())"
    assert Path(python(code, wheel), "hourly_merge.py").is_file()


def test_a_missing_application_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(packaged, "_PACKAGE", tmp_path / "airflow_hiveacid")
    with pytest.raises(SoftwareMissing, match=str(tmp_path / "spark_apps" / "run.py")):
        spark_app_path()


def test_every_folder_of_the_package_is_imported_from_its_zip(tmp_path):
    # A zip without directory entries has no namespace packages: each needs its __init__.py.
    path = package_zip(tmp_path)
    modules = {path.parent for path in (ROOT / "hiveacid").rglob("*.py")}
    names = sorted(".".join(folder.relative_to(ROOT).parts) for folder in modules)
    code = f"""
from importlib.util import find_spec
for name in {names}: print(find_spec(name).origin)
"""
    imported = python(code, path).splitlines()
    assert imported == [f"{path}/{name.replace('.', '/')}/__init__.py" for name in names]


def test_equal_content_is_an_equal_zip(tmp_path):
    folders = [tmp_path / "a", tmp_path / "b"]
    for folder in folders:
        folder.mkdir()
    first, second = map(package_zip, folders)
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.parametrize("package", ["hiveacid", "airflow_hiveacid"])
def test_importing_a_package_loads_neither_airflow_nor_spark(package):
    code = f"import {package}; print({{'airflow', 'pyspark', 'thrift'}} & set(sys.modules))"
    assert python(code, ROOT) == "set()"


@pytest.mark.parametrize("package", PACKAGES)
def test_every_public_name_is_there(package):
    module = import_module(package)
    assert module.__all__ == dir(module)
    for name in module.__all__:
        assert getattr(module, name) is not None


def test_each_public_name_has_one_package_of_the_provider():
    names = [name for package in PACKAGES for name in homes(package)]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("package", ["", ".jobs"])
def test_the_provider_has_the_names_of_the_library(package):
    library = import_module(f"hiveacid{package}")
    provider = import_module(f"airflow_hiveacid{package}")
    for name in library.__all__:
        assert getattr(provider, name) == getattr(library, name)


def test_the_top_level_stays_small():
    assert len(airflow_hiveacid.__all__) <= 49


def test_the_docs_describe_each_extra():
    provider, library = (
        tomllib.loads((folder / "pyproject.toml").read_text())["project"]["optional-dependencies"]
        for folder in (ROOT, ROOT / "hiveacid")
    )
    # Each extra of the library is one of the provider, too.
    assert library.keys() <= provider.keys()
    extras = provider | {name: library[name] for name in ("gcs", "azure")}
    page = (ROOT / "docs" / "first-merge.md").read_text()
    told = dict(re.findall(r"^\| (`\[.+\]`) \| (.+?) \|", page, re.M))
    brings = {name: text for names, text in told.items() for name in re.findall(r"\w+", names)}
    assert brings.keys() == extras.keys()
    assert {name for name, text in brings.items() if text.startswith("nothing")} == {
        name for name, packages in extras.items() if not packages
    }


def test_arrow_has_the_clients_that_no_extra_brings():
    assert all(hasattr(fs, f"{name}FileSystem") for name in ("S3", "Gcs", "Azure"))
