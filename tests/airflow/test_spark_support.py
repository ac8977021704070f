"""Unsupported versions of Spark and Python are reported before anything runs on them."""

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from airflow_hiveacid.cluster.packaged import spark_app_path
from hiveacid.drivers.spark_support import (
    OLDEST_PACKAGES,
    installed_spark,
    require_supported_spark,
)
from hiveacid.errors import SoftwareMissing


def installed(folder: Path, version: str, scala: str = "2.12") -> Path:
    """A folder of Spark as its archives unpack it."""
    (folder / "bin").mkdir(parents=True)
    program = folder / "bin" / "spark-submit"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    (folder / "jars").mkdir()
    (folder / "jars" / f"spark-core_{scala}-{version}.jar").touch()
    return folder


@pytest.mark.parametrize("version", ["3.5.0", "3.5.9", "4.0.0", "4.1.3-preview1", "4.2.1", "4.3.0"])
def test_supported_versions(version):
    assert require_supported_spark(version, "/opt/spark") is None


@pytest.mark.parametrize("version", ["4.4.0", "4.12.1"])
def test_newer_minor_versions_are_accepted_with_a_warning(version):
    warning = require_supported_spark(version, "/opt/spark")
    assert warning is not None
    assert f"/opt/spark is Spark {version}, which is newer" in warning
    assert "hiveacid doctor --spark" in warning


@pytest.mark.parametrize("version", ["2.4.8", "3.4.4", "3.3.2-amzn-0", "5.0.0"])
def test_other_versions_are_refused_with_a_remedy(version):
    with pytest.raises(SoftwareMissing, match=f"/opt/spark is Spark {version}") as caught:
        require_supported_spark(version, "/opt/spark")
    assert "SPARK_HOME" in caught.value.remedy


def test_the_version_is_that_of_the_spark_which_spark_submit_starts(tmp_path):
    home = installed(tmp_path / "home", "3.5.1", "2.13")
    on_path = installed(tmp_path / "path", "3.5.9-amzn-2")
    bin_ = str(on_path / "bin")
    assert installed_spark("spark-submit", {"PATH": bin_}) == ("3.5.9-amzn-2", on_path)
    both = {"PATH": bin_, "SPARK_HOME": str(home)}
    assert installed_spark("spark-submit", both) == ("3.5.1", home)
    link = tmp_path / "links" / "spark-submit"
    link.parent.mkdir()
    link.symlink_to(on_path / "bin" / "spark-submit")
    assert installed_spark("spark-submit", {"PATH": str(link.parent)}) == ("3.5.9-amzn-2", on_path)


def test_the_version_of_an_installed_package():
    version, home = installed_spark("spark-submit", {"PATH": str(Path(sys.executable).parent)})
    assert (home / "jars").is_dir()
    assert (
        version
        == subprocess.run(
            [sys.executable, "-c", "import pyspark; print(pyspark.__version__)"],
            capture_output=True,
            text=True,
            check=True,
        ).stdout.strip()
    )


def test_a_folder_without_jars_has_no_known_version(tmp_path):
    assert installed_spark("spark-submit", {"SPARK_HOME": str(tmp_path)}) is None


@pytest.fixture
def run_application(tmp_path):
    """Run the packaged application after some statements, and return its last line."""

    def run(before: str) -> str:
        code = f"import runpy, sys\n{textwrap.dedent(before)}\nsys.argv = ['run.py']\n"
        code += f"runpy.run_path({str(spark_app_path())!r}, run_name='__main__')\n"
        ended = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env=os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.returncode == 1
        return ended.stderr.splitlines()[-1]

    return run


def test_a_driver_on_an_old_python_says_so(run_application):
    line = run_application("sys.version_info, sys.version = (3, 9, 18), '3.9.18 (main)'")
    assert line.startswith("SoftwareMissing: the driver runs on Python 3.9.18;")
    assert "spark.pyspark.python" in line


def test_a_driver_of_an_old_spark_says_so(run_application):
    line = run_application(
        """
        import types
        sys.modules["pyspark"] = types.ModuleType("pyspark")
        sys.modules["pyspark"].__version__ = "3.3.2"
        """
    )
    assert line.startswith("SoftwareMissing: The driver is Spark 3.3.2;")
    assert "SPARK_HOME" in line


@pytest.mark.parametrize("package", OLDEST_PACKAGES)
def test_a_driver_without_a_package_says_so(run_application, package):
    line = run_application(f"sys.modules[{package!r}] = None")
    assert line.startswith(f"SoftwareMissing: The driver's Python cannot import {package}:")
    assert "spark.pyspark.python" in line


@pytest.mark.parametrize(("package", "version"), [("pyarrow", "18.1.0"), ("numpy", "1.25.2")])
def test_a_driver_with_an_old_package_says_so(run_application, package, version):
    line = run_application(
        f"""
        import types
        sys.modules[{package!r}] = types.ModuleType({package!r})
        sys.modules[{package!r}].__version__ = {version!r}
        """
    )
    assert line.startswith(f"SoftwareMissing: The driver has {package} {version};")
    assert "spark.archives" in line
