"""The constraints in a CREATE TABLE, which sqlglot has no tree for as Hive writes them."""

from collections.abc import Sequence
from dataclasses import replace

from sqlglot.tokenizer_core import Token, TokenType

from hiveacid.dataclass import dataclass
from hiveacid.parser.statement import SqlStatement
from hiveacid.parser.words import Words, keyword_of
from hiveacid.rules.constraints import Check, Constraint, Default, Key, NotNull
from hiveacid.rules.names import TableRef

_STARTS = frozenset(
    {"CONSTRAINT", "NOT", "DEFAULT", "CHECK", "PRIMARY KEY", "UNIQUE", "REFERENCES", "FOREIGN KEY"}
)
_FLAGS = frozenset(
    {"ENABLE", "DISABLE", "ENFORCED", "NOT", "VALIDATE", "NOVALIDATE", "RELY", "NORELY"}
)
_OF_TABLE = frozenset({"CONSTRAINT", "PRIMARY KEY", "FOREIGN KEY"})
_OF_TABLE_WITH_BRACKET = frozenset({"UNIQUE", "CHECK"})
_OPENING = (TokenType.L_PAREN, TokenType.LT)
_CLOSING = (TokenType.R_PAREN, TokenType.GT)
_COMMA = Token(TokenType.COMMA, ",")


def without_constraints(statement: SqlStatement) -> tuple[SqlStatement, tuple[Constraint, ...]]:
    """A CREATE TABLE as sqlglot reads it, and the constraints of the table.

    Args:
        statement: The statement; one without columns has no constraints.

    Raises:
        SqlError: A constraint cannot be read.
    """
    tokens = statement.tokens
    start = _start_of_columns(tokens)
    if start is None:
        return statement, ()
    column_tokens: list[Token] = [*tokens[: start + 1]]
    constraints: list[Constraint] = []
    elements, end = _elements(tokens, start)
    for element in elements:
        column, constraint_tokens, remaining_tokens = _parted(element)
        if constraint_tokens:
            parser = _Parser(
                statement, constraint_tokens, column[0].text.lower() if column else None
            )
            constraints += parser.all()
        if column:
            column_tokens += [
                *([_COMMA] if len(column_tokens) > start + 1 else []),
                *column,
                *remaining_tokens,
            ]
    if not constraints:
        return statement, ()
    return replace(statement, tokens=[*column_tokens, *tokens[end:]]), tuple(constraints)


def _start_of_columns(tokens: Sequence[Token]) -> int | None:
    """The place of the bracket that opens the columns."""
    words = [keyword_of(token) for token in tokens]
    if words[1:2] != ["TABLE"]:
        return None
    index = 5 if words[2:5] == ["IF", "NOT", "EXISTS"] else 2
    index += 1
    while words[index : index + 1] == ["."]:
        index += 2
    is_bracket = index < len(tokens) and tokens[index].token_type is TokenType.L_PAREN
    return index if is_bracket else None


def _elements(tokens: Sequence[Token], start: int) -> tuple[list[list[Token]], int]:
    """Return the elements between a bracket's commas, and the position of its end."""
    elements: list[list[Token]] = [[]]
    depth = angles = 0
    for index in range(start, len(tokens)):
        kind = tokens[index].token_type
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if depth == 0:
            return elements, index
        if depth == 1:
            angles += (kind is TokenType.LT) - (kind is TokenType.GT)
        if depth == 1 and angles == 0 and kind is TokenType.COMMA:
            elements.append([])
        elif index > start:
            elements[-1].append(tokens[index])
    return elements, len(tokens)


def _parted(element: list[Token]) -> tuple[list[Token], list[Token], list[Token]]:
    """Split an element into a column with its type, its constraints, and the rest."""
    words = [keyword_of(token) for token in element]
    of_table = words[:1] and words[0] in _OF_TABLE
    if of_table or (words[:1] and words[0] in _OF_TABLE_WITH_BRACKET and words[1:2] == ["("]):
        return [], element, []
    first = _first(element, _STARTS, angles=True)
    comment = _first(element, frozenset({"COMMENT"}), angles=False)
    constraint_tokens = element[first:comment] if first < comment else []
    return element[: min(first, comment)], constraint_tokens, element[comment:]


def _first(element: Sequence[Token], words: frozenset[str], *, angles: bool) -> int:
    """The place of the first of some words behind a name and a type, outside of brackets.

    Args:
        element: A column.
        words: The words.
        angles: Whether angles are brackets, as in a type, or signs.
    """
    depth = 0
    for index, token in enumerate(element):
        if not angles and token.token_type in (TokenType.LT, TokenType.GT):
            continue
        depth += (token.token_type in _OPENING) - (token.token_type in _CLOSING)
        if index > 1 and depth == 0 and keyword_of(token) in words:
            return index
    return len(element)


@dataclass(frozen=True, slots=True)
class _Flags:
    enabled: bool | None = None
    validated: bool = False
    rely: bool | None = None


class _Parser:
    """Reads the constraints of a column or of the table."""

    def __init__(
        self, statement: SqlStatement, tokens: Sequence[Token], column: str | None
    ) -> None:
        self._statement = replace(statement, tokens=tokens)
        self._words = Words(self._statement)
        self._column = column

    def all(self) -> list[Constraint]:
        """Each of them."""
        constraints = [self._one()]
        while not self._words.done:
            constraints.append(self._one())
        return constraints

    def _one(self) -> Constraint:
        words, column = self._words, self._column
        name = words.name().lower() if words.take("CONSTRAINT") else None
        if words.take("CHECK"):
            text = self._text(words.brackets()[1:-1])
            flags = self._flags()
            return Check(expression=text, column=column, name=name, **self._row_rule(flags))
        if words.take("PRIMARY KEY"):
            return self._key("primary", name)
        if words.take("UNIQUE"):
            return self._key("unique", name)
        if words.take("FOREIGN KEY"):
            columns = self._names()
            words.expect("REFERENCES")
            return self._foreign_key(columns, name)
        if column is not None and words.take("REFERENCES"):
            return self._foreign_key([column], name)
        if column is not None and words.take_all("NOT", "NULL"):
            return NotNull(column=column, name=name, **self._row_rule(self._flags()))
        if column is not None and words.take("DEFAULT"):
            value = self._value()
            return Default(column=column, value=value, name=name, **self._row_rule(self._flags()))
        self._statement.refuse(words.next, f"Expected a constraint before {words.shown()!r}.")

    def _value(self) -> str:
        words = self._words
        value = [*words.until(*_FLAGS, *_STARTS)]
        if not value and not words.done:
            value = [words.skip(), *words.until(*_FLAGS, *_STARTS)]
        if not value:
            self._statement.refuse(words.next, "DEFAULT needs a value.")
        return self._text(value)

    def _key(self, kind: str, name: str | None) -> Key:
        columns = [self._column] if self._column is not None else self._names()
        flags = self._flags()
        return Key(
            type=kind,
            columns=columns,
            name=name,
            enabled=bool(flags.enabled),
            validated=flags.validated,
            rely=bool(flags.rely),
        )

    def _foreign_key(self, columns: Sequence[str], name: str | None) -> Key:
        referenced_table = TableRef.parse(self._words.table()).full_name
        referenced = self._names()
        flags = self._flags()
        return Key(
            type="foreign",
            columns=columns,
            name=name,
            enabled=bool(flags.enabled),
            validated=flags.validated,
            rely=bool(flags.rely),
            references=referenced_table,
            referenced_columns=referenced,
        )

    def _names(self) -> list[str]:
        self._words.expect("(")
        names = [name.lower() for name in self._words.names()]
        self._words.expect(")")
        return names

    def _flags(self) -> _Flags:
        words, flags = self._words, _Flags()
        while True:
            if words.take_all("NOT", "ENFORCED") or words.take("DISABLE"):
                flags = replace(flags, enabled=False)
            elif words.take("ENABLE") or words.take("ENFORCED"):
                flags = replace(flags, enabled=True)
            elif words.take("VALIDATE"):
                flags = replace(flags, validated=True)
            elif words.take("RELY"):
                flags = replace(flags, rely=True)
            elif words.take("NORELY"):
                flags = replace(flags, rely=False)
            elif not words.take("NOVALIDATE"):
                return flags

    @staticmethod
    def _row_rule(flags: _Flags) -> dict[str, bool]:
        """Return the flags of a constraint enforced for each row, which is enabled by default."""
        enabled = flags.enabled is not False
        rely = enabled if flags.rely is None else flags.rely
        return {"enabled": enabled, "validated": flags.validated, "rely": rely}

    def _text(self, tokens: Sequence[Token]) -> str:
        """Return the statement's text from one token to another one."""
        if not tokens:
            self._statement.refuse(self._words.next, "CHECK needs a condition.")
        return self._statement.text[tokens[0].start : tokens[-1].end + 1]
