"""The public names of packages, as their stubs list them."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module

from hiveacid.errors import SoftwareMissing


@cache
def homes(package: str) -> dict[str, str]:
    """Return the module that defines each public name of a package."""
    # Most imports of the package need no public name, and should not load these modules.
    import ast
    from pkgutil import get_data

    # The package may be in a zip file, as it is in Spark's executors.
    # `get_data` would load the package without setting it as an attribute of its parent.
    import_module(package)
    stub = ast.parse(get_data(package, "__init__.pyi") or b"")
    modules_by_name: dict[str, str] = {}
    for node in stub.body:
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            for alias in node.names:
                modules_by_name |= (
                    homes(node.module) if alias.name == "*" else {alias.name: node.module}
                )
    return modules_by_name


def loaders(package: str) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` of a package, which load public names at first use."""
    return partial(_load, package), partial(_names, package)


def _load(package: str, name: str) -> object:
    """Load a public name from the module that defines it."""
    if name == "__all__":
        return _names(package)
    # The import system asks for names with underscores all the time.
    if not name.startswith("__") and name in homes(package):
        with requiring_pyspark(name):
            return getattr(import_module(homes(package)[name]), name)
    raise AttributeError(f"module {package!r} has no attribute {name!r}")


def _names(package: str) -> list[str]:
    """List the public names, loaded or not."""
    return sorted([*homes(package), *([] if "." in package else ["__version__"])])


@contextmanager
def requiring_pyspark(what: str) -> Iterator[None]:
    """Explain a failed import of PySpark.

    Args:
        what: The name of the part that imports it.

    Raises:
        SoftwareMissing: PySpark is not installed.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("pyspark", "py4j"):
            raise
        raise SoftwareMissing(
            f"{what} requires PySpark, which is not installed.",
            remedy="pip install 'hiveacid[spark]'",
        ) from error
