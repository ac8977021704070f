"""Hive ACID tables from Apache Airflow, on Spark and a bare Hive Metastore.

Public names are loaded at first use, because Airflow imports every provider at startup and every DAG
file while it parses, and neither should pay for Spark. ``__init__.pyi`` lists the names.
"""

from importlib import import_module

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Load a public name from the module that defines it."""
    if name.startswith("__") and name != "__all__":
        # The import system asks for such names all the time.
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    homes = import_module(f"{__name__}.public_names").homes()
    if name == "__all__":
        return sorted([*homes, "__version__"])
    if name not in homes:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(homes[name]), name)


def __dir__() -> list[str]:
    """List the public names, loaded or not."""
    return list(__getattr__("__all__"))  # type: ignore[call-overload]
