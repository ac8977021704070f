"""Where the Spark applications and the example DAGs are, and the package as a zip."""

import hashlib
import io
import zipfile
from pathlib import Path

from airflow_hiveacid.errors import ApplicationNotFound

_PACKAGE = Path(__file__).parent.parent
# Data for the Airflow side, not modules that an executor could import.
_NOT_SHIPPED = {"__pycache__", "_spark_apps", "example_dags"}
# One fixed time makes equal content an equal zip, whenever it is built.
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)


def spark_app_path(name: str) -> Path:
    """Find the Spark application of a job, for example ``spark_app_path("merge")``.

    A wheel carries the applications inside the package; a checkout keeps them at its top level.

    Raises:
        ApplicationNotFound: There is no application of that name.
    """
    folders = (_PACKAGE / "_spark_apps", _PACKAGE.parent / "spark_apps")
    for folder in folders:
        path = folder / f"{name}.py"
        if path.is_file():
            return path
    raise ApplicationNotFound(f"No Spark application {name!r} in {' or '.join(map(str, folders))}.")


def example_dags() -> Path:
    """Find the folder of the example DAGs, in a wheel or in a checkout."""
    shipped = _PACKAGE / "example_dags"
    return shipped if shipped.is_dir() else _PACKAGE.parent / "dags"


def package_zip(folder: Path) -> Path:
    """Write this package as a zip for ``--py-files`` and return its path.

    The name carries a hash of the content, so that an executor that lives longer than one
    application never imports the modules of an older one.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for module in sorted(_PACKAGE.rglob("*.py")):
            inside = module.relative_to(_PACKAGE)
            if _NOT_SHIPPED.isdisjoint(inside.parts):
                entry = zipfile.ZipInfo(f"{_PACKAGE.name}/{inside.as_posix()}", _ZIP_TIME)
                archive.writestr(entry, module.read_bytes(), zipfile.ZIP_DEFLATED)
    content = buffer.getvalue()
    path = folder / f"{_PACKAGE.name}-{hashlib.sha256(content).hexdigest()[:16]}.zip"
    path.write_bytes(content)
    return path
