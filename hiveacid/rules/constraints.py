"""Constraints of a table: rules for its rows, and default values of its columns.

As in Hive, NOT NULL and CHECK are enforced for every written row while they are enabled, and
DEFAULT gives the value of a column that an INSERT omits. Keys are declarations that optimizers
may rely on; they are not enforced.
"""

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import ClassVar, Literal, get_args

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob
from hiveacid.rules.schema import parse_type
from hiveacid.rules.sql_names import unquoted

_LITERAL = re.compile(
    r"""[-+]?\d[\w.]*|[-+]?\.\d\w*|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""", re.DOTALL
)
KeyType = Literal["primary", "unique", "foreign"]
VIOLATION_REMEDY = "Nothing was written. Correct or filter such rows in the source."


@dataclass(frozen=True, slots=True, kw_only=True)
class NotNull:
    """Constraint NOT NULL of a column.

    Attributes:
        column: The column.
        name: The name of the constraint; None if it has none yet, and gets one.
        enabled: New rows are checked.
        validated: The earlier rows are known to satisfy it.
        rely: Optimizers may rely on it.
    """

    kind: ClassVar[str] = "not_null"

    column: str
    name: str | None = None
    enabled: bool = True
    validated: bool = False
    rely: bool = True

    def __str__(self) -> str:
        return f"{self.name or 'without a name'}, NOT NULL of column {self.column},"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Condition that must be true or unknown for each row.

    Attributes:
        expression: The condition in Hive's SQL.
        column: The column that it was declared with; None if it was declared for the table.
        name: The name of the constraint; None if it has none yet, and gets one.
        enabled: New rows are checked.
        validated: The earlier rows are known to satisfy it.
        rely: Optimizers may rely on it.
    """

    kind: ClassVar[str] = "check"

    expression: str
    column: str | None = None
    name: str | None = None
    enabled: bool = True
    validated: bool = False
    rely: bool = True

    def __str__(self) -> str:
        of = "" if self.column is None else f" of column {self.column}"
        return f"{self.name or 'without a name'}, CHECK ({self.expression}){of},"


@dataclass(frozen=True, slots=True, kw_only=True)
class Default:
    """Default value of a column that an INSERT omits.

    Attributes:
        column: The column.
        value: The value in Hive's SQL.
        name: The name of the constraint; None if it has none yet, and gets one.
        enabled: It is used.
        validated: No meaning for a default; the metastore stores it.
        rely: No meaning for a default; the metastore stores it.
    """

    kind: ClassVar[str] = "default"

    column: str
    value: str
    name: str | None = None
    enabled: bool = True
    validated: bool = False
    rely: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """Key, which is declared and not enforced.

    Attributes:
        type: "primary", "unique" or "foreign".
        columns: The columns, in order.
        name: The name of the constraint; None if it has none yet, and gets one.
        enabled: Always false: Hive has no enabled keys.
        validated: Always false, too.
        rely: Optimizers may rely on it.
        references: The other table of a foreign key: "database.table".
        referenced_columns: The columns of the other table's primary key, in the order of ``columns``.
    """

    kind: ClassVar[str] = "key"

    type: KeyType | str
    columns: Sequence[str]
    name: str | None = None
    enabled: bool = False
    validated: bool = False
    rely: bool = False
    references: str | None = None
    referenced_columns: Sequence[str] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "referenced_columns", tuple(self.referenced_columns))


Constraint = NotNull | Check | Default | Key


@dataclass(frozen=True, slots=True)
class TableConstraints:
    """All constraints of a table.

    Attributes:
        not_null: The columns without nulls.
        checks: The conditions.
        defaults: The default values.
        keys: The keys.
    """

    not_null: Sequence[NotNull] = ()
    checks: Sequence[Check] = ()
    defaults: Sequence[Default] = ()
    keys: Sequence[Key] = ()

    @property
    def all(self) -> tuple[Constraint, ...]:
        """All constraints."""
        return (*self.not_null, *self.checks, *self.defaults, *self.keys)

    def same_rules(self, other: "TableConstraints") -> bool:
        """Whether both have the same effect on writes."""
        return self.rules == other.rules

    @property
    def rules(self) -> set[Constraint]:
        """The constraints that have an effect on writes."""
        return {
            constraint
            for constraint in self.all
            if constraint.enabled and not isinstance(constraint, Key)
        }


def constrained_columns(constraints: TableConstraints) -> frozenset[str]:
    """Return the columns, in lower case, that a constraint names."""
    names: set[str] = set()
    for constraint in constraints.all:
        match constraint:
            case Check():
                # Each word: a name may be in quotes that are those of texts elsewhere.
                names.update(re.findall(r"\w+", constraint.expression))
            case NotNull() | Default():
                names.add(constraint.column)
            case Key():
                names.update(constraint.columns)
    return frozenset(name.lower() for name in names)


NO_CONSTRAINTS = TableConstraints()


@dataclass(frozen=True, slots=True)
class Moment:
    """Values of the functions of a default value in one statement.

    Attributes:
        now: The time of CURRENT_TIMESTAMP and CURRENT_DATE.
        user: The name of CURRENT_USER.
    """

    now: datetime
    user: str


@dataclass(frozen=True, slots=True)
class Rule:
    """Enabled constraint as a condition for Spark.

    Attributes:
        constraint: The name of the constraint in messages.
        holds: A condition that is true for each valid row, and never null.
    """

    constraint: str
    holds: str


@dataclass(frozen=True)
class WriteRules:
    """Effects of a table's enabled constraints on the rows that a statement writes.

    Attributes:
        table: The full name of the table.
        columns: The types of all columns by their names, partition keys included.
        rules: The conditions on rows.
        default: Returns the default value of a column in Spark's SQL; None without a default.
    """

    table: str
    columns: Mapping[str, str]
    rules: tuple[Rule, ...]
    default: Callable[[str], str | None]


def with_defaults(values: Mapping[str, str], rules: WriteRules | None) -> dict[str, str]:
    """Return expressions by column with the keyword DEFAULT replaced by the column's default value.

    Args:
        values: The expressions; DEFAULT is valid only as a complete expression.
        rules: The constraints of the table.
    """
    return {
        name: ((rules.default(unquoted(name)) if rules else None) or "NULL")
        if is_default(value)
        else value
        for name, value in values.items()
    }


def is_default(expression: str) -> bool:
    """Whether an expression is the keyword DEFAULT."""
    return expression.strip().upper() == "DEFAULT"


def typed_default(constraint: Constraint, columns: Mapping[str, str]) -> Constraint:
    """Return the constraint with a literal of another type cast to the type of its column.

    Hive accepts default values of exactly the type of the column, and no number with a sign.

    Args:
        constraint: A validated constraint.
        columns: The types of the columns by their names in lower case.
    """
    if not isinstance(constraint, Default) or not _LITERAL.fullmatch(constraint.value.strip()):
        return constraint
    type_ = str(parse_type(columns[constraint.column.lower()]))
    is_text = constraint.value.strip()[0] in "'\""
    if type_ == ("string" if is_text else "int") and constraint.value.strip()[0] not in "+-":
        return constraint
    return replace(constraint, value=f"cast({constraint.value.strip()} as {type_})")


def validate_declared(
    constraints: Sequence[Constraint], columns: Mapping[str, str], keys: Collection[str]
) -> None:
    """Check the constraints of a new table, as Hive does.

    Args:
        constraints: The constraints.
        columns: The types of the columns by their names in lower case, partition keys excluded.
        keys: The names of the partition keys in lower case.

    Raises:
        InvalidJob: Hive would refuse one of them, or could not use the table.
    """
    declarations: set[object] = set()
    for constraint in constraints:
        _validate_flags(constraint)
        names = constraint.columns if isinstance(constraint, Key) else [constraint.column]
        for name in names:
            if name is not None and name.lower() in keys:
                raise InvalidJob(f"Hive has no constraints on partition keys such as {name}.")
            if name is not None and name.lower() not in columns:
                raise InvalidJob(f"A constraint names {name}, which is no column of the table.")
        single_declarations: list[object] = (
            [] if constraint.name is None else [constraint.name.lower()]
        )
        if isinstance(constraint, NotNull | Default):
            single_declarations.append((type(constraint), constraint.column.lower()))
        elif isinstance(constraint, Key) and constraint.type == "primary":
            single_declarations.append("a second primary key")
        for declaration in single_declarations:
            if declaration in declarations:
                label = declaration if isinstance(declaration, str) else str(names[0])
                raise InvalidJob(f"The constraint {label} is declared twice.")
            declarations.add(declaration)


def _validate_flags(constraint: Constraint) -> None:
    if constraint.validated:
        raise InvalidJob("VALIDATE is not supported by Hive.", remedy="Write NOVALIDATE.")
    if not isinstance(constraint, Key):
        return
    if constraint.type not in get_args(KeyType):
        raise InvalidJob(f"{constraint.type!r} is not one of {', '.join(get_args(KeyType))}.")
    if constraint.enabled:
        raise InvalidJob("Hive has no enabled keys.", remedy="Write DISABLE NOVALIDATE.")
    if not constraint.columns:
        raise InvalidJob("A key needs a column.")
    referenced = len(constraint.referenced_columns)
    if (constraint.type == "foreign") != (constraint.references is not None):
        raise InvalidJob("references belongs to a foreign key.")
    if constraint.type == "foreign" and referenced != len(constraint.columns):
        raise InvalidJob("A foreign key has as many columns as the key that it references.")
