"""The public names of the package, as its stub lists them."""

import ast
from functools import cache
from importlib.resources import files


@cache
def homes() -> dict[str, str]:
    """Return the module that defines each public name."""
    # The package may be in a zip file, as it is in Spark's executors.
    stub = ast.parse(files(__package__).joinpath("__init__.pyi").read_text(encoding="utf-8"))
    return {
        alias.name: node.module
        for node in stub.body
        if isinstance(node, ast.ImportFrom) and node.module is not None
        for alias in node.names
    }
