"""CREATE TABLE for models: columns, constraints, comments, and layout."""

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from dbt_common.exceptions import CompilationError

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob
from hiveacid.jobs.definition_jobs import require_column_name
from hiveacid.rules.sql_names import quoted, unquoted

# The digest of the definition that a table was created with, and the run that created it.
DEFINITION = "dbt.definition"
RUN = "dbt.run"
# The settings of a model that decide how its table is stored.
_LAYOUT = ("partition_by", "clustered_by", "buckets", "file_format", "location_root")
_FORMATS = ("orc", "parquet", "textfile", "jsonfile")


@dataclass(frozen=True)
class ModelColumn:
    """A column of a model.

    Attributes:
        name: Its name.
        type: Its type.
        constraints: Its constraints, as SQL.
        comment: Its description; empty for none.
    """

    name: str
    type: str
    constraints: tuple[str, ...] = ()
    comment: str = ""

    def clause(self, owner: str) -> str:
        """Return the column in CREATE TABLE.

        Args:
            owner: See ``_named``.
        """
        comment = f"COMMENT {text(self.comment)}" if self.comment else ""
        constraints = [_named(each, f"{owner}.{self.name}") for each in self.constraints]
        parts = (column_name(self.name), self.type, *constraints, comment)
        return " ".join(part for part in parts if part)


@dataclass(frozen=True)
class Definition:
    """The definition of the table of a model.

    Attributes:
        columns: All columns, in the order of the query.
        constraints: The constraints of the table, as SQL.
        config: The configuration of the model.
        comment: The comment of the table; empty for none.
    """

    columns: Sequence[ModelColumn]
    constraints: Sequence[str]
    config: Mapping[str, Any]
    comment: str = ""

    def statement(self, name: str, run: str) -> str:
        """Return the statement that creates the table.

        Args:
            name: The rendered name of the table.
            run: The run token.
        """
        comments = [f"COMMENT {text(self.comment)}"] if self.comment else []
        properties = {**self._properties, DEFINITION: self.digest, RUN: run}
        return "\n".join(
            [
                f"CREATE TABLE {name} (",
                ",\n".join(f"  {each}" for each in self._elements(f"{name}/{run}")),
                ")",
                *comments,
                *self._layout(name, f"{name}/{run}"),
                f"TBLPROPERTIES ({_pairs(properties)})",
            ]
        )

    @property
    def digest(self) -> str:
        """A digest of all but the comments, the name, and the run: of what needs another table."""
        plain = [
            *((c.name.lower(), c.type.lower(), c.constraints) for c in self.columns),
            *self.constraints,
            *((name, self.config.get(name)) for name in _LAYOUT),
            _pairs(self._properties),
        ]
        return hashlib.sha256(repr(plain).encode()).hexdigest()[:32]

    @property
    def names(self) -> list[str]:
        """The names of the columns, in lower case and in the order of the table."""
        keys = [name.lower() for name in self._keys]
        others = [c.name.lower() for c in self.columns if c.name.lower() not in keys]
        return [*others, *keys]

    @property
    def _keys(self) -> list[str]:
        return listed(self.config.get("partition_by"))

    def _elements(self, owner: str) -> Iterator[str]:
        keys = {name.lower() for name in self._keys}
        yield from (each.clause(owner) for each in self.columns if each.name.lower() not in keys)
        yield from (_named(each, owner) for each in self.constraints)

    def _layout(self, name: str, owner: str) -> Iterator[str]:
        if self._keys:
            yield f"PARTITIONED BY ({', '.join(self._key(key, owner) for key in self._keys)})"
        buckets, clustered = self.config.get("buckets"), listed(self.config.get("clustered_by"))
        if bool(buckets) != bool(clustered):
            raise CompilationError("clustered_by and buckets need each other: set both or neither.")
        if clustered:
            names = ", ".join(map(column_name, clustered))
            yield f"CLUSTERED BY ({names}) INTO {int(buckets)} BUCKETS"  # type: ignore[arg-type]
        form = str(self.config.get("file_format") or "orc").lower()
        if form not in _FORMATS:
            raise CompilationError(f"file_format {form!r} is none of {', '.join(_FORMATS)}.")
        yield f"STORED AS {form.upper()}"
        if root := self.config.get("location_root"):
            folder = unquoted(name.rpartition(".")[2])
            yield f"LOCATION {text(f'{root}/{folder}')}"

    def _key(self, key: str, owner: str) -> str:
        for column in self.columns:
            if column.name.lower() == key.lower():
                return column.clause(owner)
        raise CompilationError(f"partition_by names {key!r}, which the model does not return.")

    @property
    def _properties(self) -> dict[str, str]:
        given = self.config.get("tblproperties") or {}
        kind = {"transactional_properties": "insert_only"} if self.config.get("insert_only") else {}
        return {**{key: str(value) for key, value in given.items()}, **kind}


def column_name(name: str) -> str:
    """Return the name of a column of a new table as SQL.

    Raises:
        CompilationError: Not every engine reads the name, which may come from a foreign file.
    """
    try:
        require_column_name(name)
    except InvalidJob as error:
        raise CompilationError(str(error)) from error
    return quoted(name)


def listed(given: object) -> list[str]:
    """Return a setting that is a name or some names as a list."""
    if given is None:
        return []
    return [given] if isinstance(given, str) else [str(each) for each in given]  # type: ignore[attr-defined]


def text(value: str) -> str:
    """Return a text as a literal of SQL."""
    plain = value.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n")
    return f"'{plain}'"


def _named(constraint: str, owner: str) -> str:
    """Return a constraint with a name that no other table has.

    Metastore 3.1 accepts a name once, and the names that it makes up can be equal.

    Args:
        constraint: The constraint.
        owner: A text that no other table has.
    """
    given = re.fullmatch(r"constraint (\S+) (.*)", constraint, re.IGNORECASE | re.DOTALL)
    if given is None and not constraint.lower().startswith("check"):
        return constraint
    name, rule = ("dbt", constraint) if given is None else (unquoted(given[1]), given[2])
    digest = hashlib.sha256(f"{owner}/{constraint}".encode()).hexdigest()[:16]
    return f"CONSTRAINT {quoted(f'{name}_{digest}')} {rule}"


def _pairs(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{text(key)} = {text(value)}" for key, value in sorted(properties.items()))
