"""The suites of dbt-tests-adapter: all of their test classes, by folder and name."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import dbt.tests
from dialect import PACKAGE

from hiveacid.dataclass import dataclass


@dataclass(frozen=True)
class Suite:
    """A class of tests.

    Attributes:
        folder: The folder that it is in.
        name: The name of the class.
        cls: The class.
    """

    folder: str
    name: str
    cls: type

    @property
    def key(self) -> str:
        """How the lists of this folder name it."""
        return f"{self.folder}.{self.name}"


def leaves() -> Iterator[Suite]:
    """Yield the classes that no other one extends."""
    found = [*_suites()]
    for suite in found:
        if not any(other is not suite and issubclass(other.cls, suite.cls) for other in found):
            yield suite


def _suites() -> Iterator[Suite]:
    for file in sorted(folder_of_suites().glob("*/**/*.py")):
        parts = file.relative_to(folder_of_suites()).with_suffix("").parts
        module = import_module(".".join((PACKAGE, *parts)))
        for name, value in sorted(vars(module).items()):
            if (
                isinstance(value, type)
                and value.__module__ == module.__name__
                and _has_tests(value)
            ):
                yield Suite(parts[0], name, value)


def folder_of_suites() -> Path:
    """Return the folder with a folder for each subject."""
    for root in dbt.tests.__path__:
        if (found := Path(root, "adapter")).is_dir():
            return found
    raise AssertionError("dbt-tests-adapter is not installed.")


def _has_tests(cls: type) -> bool:
    return any(name.startswith("test") and callable(getattr(cls, name)) for name in dir(cls))
