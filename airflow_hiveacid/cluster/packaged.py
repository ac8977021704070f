"""Locations of the Spark application and the example DAGs, and the library as a zip."""

import hashlib
import io
import shutil
import zipfile
from pathlib import Path

import hiveacid
from hiveacid.errors import SoftwareMissing

_PACKAGE = Path(__file__).parent.parent
_LIBRARY = Path(hiveacid.__file__).parent
# Modules, and the jars that a driver gives to its Spark.
_SHIPPED = ("*.py", "*.pyi", "*.jar")
# One fixed time makes equal content an equal zip, whenever it is built.
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)


def spark_app_path() -> Path:
    """Find the Spark application, which runs any job.

    A wheel carries it inside the package; a checkout keeps it at its top level.

    Raises:
        SoftwareMissing: It is in neither place.
    """
    paths = (_PACKAGE / "_spark_apps" / "run.py", _PACKAGE.parent / "spark_apps" / "run.py")
    for path in paths:
        if path.is_file():
            return path
    raise SoftwareMissing(
        f"The Spark application is not at {' or '.join(map(str, paths))}.",
        remedy="Install the package again.",
    )


def example_dags() -> Path:
    """Find the folder of the example DAGs, in a wheel or in a checkout."""
    shipped = _PACKAGE / "example_dags"
    return shipped if shipped.is_dir() else _PACKAGE.parent / "dags"


def package_copy(folder: Path) -> Path:
    """Copy the library, for Pythons of this machine, and return the folder to import it from.

    Unlike a zip it contains compiled Python files, at the latest after its first import.
    """
    copy = folder / "python"
    shutil.copytree(_LIBRARY, copy / _LIBRARY.name)
    return copy


def package_zip(folder: Path) -> Path:
    """Write the library as a zip for ``--py-files`` and return its path.

    The name carries a hash of the content, so that an executor that lives longer than one
    application never imports the modules of an older one.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(path for kind in _SHIPPED for path in _LIBRARY.rglob(kind)):
            path_in_archive = file.relative_to(_LIBRARY.parent)
            entry = zipfile.ZipInfo(path_in_archive.as_posix(), _ZIP_TIME)
            archive.writestr(entry, file.read_bytes(), zipfile.ZIP_DEFLATED)
    content = buffer.getvalue()
    path = folder / f"{_LIBRARY.name}-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    path.write_bytes(content)
    return path
