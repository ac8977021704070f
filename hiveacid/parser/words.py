"""The words of a statement, from left to right, for syntax without a tree in sqlglot."""

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from hiveacid.errors import HiveAcidError, InvalidJob
from hiveacid.jobs.fields import partition_text
from hiveacid.parser.statement import CLOSING, OPENING, SqlStatement
from hiveacid.rules.names import TableRef, partition_name
from hiveacid.rules.partitions import OPERATORS, KeyComparison
from hiveacid.rules.schema import SortColumn
from hiveacid.rules.write_ids import AsOf

_LITERALS = frozenset(
    {
        *(TokenType.STRING, TokenType.RAW_STRING, TokenType.NUMBER, TokenType.HEX_STRING),
        *(TokenType.BIT_STRING, TokenType.BYTE_STRING, TokenType.NATIONAL_STRING),
    }
)
_SIGNS = {**{sign: sign for sign in OPERATORS}, "==": "=", "<>": "!="}


def keyword_of(token: Token) -> str:
    """Return a token in capitals, or nothing for a literal or a quoted name.

    A token has its text without quotes: only its type distinguishes 'TRUE' and `constraint` from
    keywords.
    """
    is_quoted = token.token_type in _LITERALS or token.token_type is TokenType.IDENTIFIER
    return "" if is_quoted else str(token.text).upper()


class Nesting:
    """The brackets and CASE expressions around the next token."""

    def __init__(self) -> None:
        self._open: list[bool] = []
        self._after_dot = False

    @property
    def is_outside(self) -> bool:
        """Whether no bracket and no CASE is open."""
        return not self._open

    def pass_by(self, token: Token) -> None:
        """Take note of a token."""
        if token.token_type in OPENING:
            self._open.append(False)
        elif token.token_type in CLOSING:
            # A CASE without END in brackets is left to Spark to refuse.
            while self._open and self._open.pop():
                pass
        elif token.token_type is TokenType.CASE and not self._after_dot:
            self._open.append(True)
        elif token.token_type is TokenType.END and self._open and self._open[-1]:
            self._open.pop()
        self._after_dot = token.token_type is TokenType.DOT


def separated(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """Split tokens at the commas outside of brackets and CASE expressions."""
    parts, start, nesting = [], 0, Nesting()
    for index, token in enumerate(tokens):
        if nesting.is_outside and token.token_type is TokenType.COMMA:
            parts.append(tokens[start:index])
            start = index + 1
        nesting.pass_by(token)
    return [*parts, tokens[start:]]


class Words:
    """The words of a statement, from left to right."""

    def __init__(self, statement: SqlStatement) -> None:
        self._statement = statement
        self._tokens: Sequence[Token] = statement.tokens
        self._at = 0

    @property
    def done(self) -> bool:
        """Whether no word is left."""
        return self._at == len(self._tokens)

    @property
    def next(self) -> Token:
        """The next word; the last one if no word is left."""
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    @property
    def keyword(self) -> str:
        """The next word in capitals; empty for a literal, for a quoted name, and at the end."""
        return "" if self.done else keyword_of(self.next)

    def shown(self) -> str:
        """The next word in capitals, with or without quotes, for messages."""
        return "the end" if self.done else self.next.text.upper()

    def take(self, word: str) -> bool:
        """Advance if this is the next word."""
        return self.take_all(word)

    def take_all(self, *words: str) -> bool:
        """Advance if these are the next words."""
        following = self._tokens[self._at : self._at + len(words)]
        are_next = [keyword_of(token) for token in following] == list(words)
        self._at += len(words) * are_next
        return are_next

    def skip(self) -> Token:
        """Skip the next word."""
        self._at += 1
        return self._tokens[self._at - 1]

    def take_one_of(self, words: Sequence[str]) -> bool:
        """Advance if one of these is the next word."""
        return any(self.take(word) for word in words)

    def expect(self, word: str) -> None:
        """Go on; anything else is refused."""
        if not self.take(word):
            self._statement.refuse(self.next, f"Expected {word} before {self.shown()!r}.")

    def expect_one_of(self, words: Sequence[str]) -> None:
        """Go on with one of these; anything else is refused."""
        if not self.take_one_of(words):
            self._statement.refuse(
                self.next, f"Expected {' or '.join(words)} before {self.shown()!r}."
            )

    def end(self) -> None:
        """Refuse further words."""
        if not self.done:
            self._statement.refuse(self.next, f"Expected the end before {self.shown()!r}.")

    def rest(self) -> Sequence[Token]:
        """Return all tokens that are left, without reading them."""
        return self._tokens[self._at :]

    def dotted_name(self) -> list[str]:
        """Read the parts of a name that dots separate."""
        parts = [self.name()]
        while self.take("."):
            parts.append(self.name())
        return parts

    def alias(self, expected_alias: str) -> None:
        """Read the alias that a table has in the tree; columns after it are refused."""
        if expected_alias:
            self.take("AS")
            self.name()
        if self.keyword == "(":
            self._statement.refuse(self.next, "Names of columns after an alias are not supported.")

    def version(self) -> None:
        """Read FOR VERSION AS OF 7, or FOR SYSTEM_TIME AS OF a time."""
        self.take("FOR")
        self.expect_one_of(("VERSION", "SYSTEM_VERSION", "TIMESTAMP", "SYSTEM_TIME"))
        self.expect("AS")
        self.expect("OF")
        self.take_one_of(("TIMESTAMP", "DATE"))
        self.skip()

    def table(self) -> str:
        """The full name of a table."""
        position = self.next
        parts = self.dotted_name()
        if len(parts) > 2:
            self._statement.refuse(position, "A table of another catalog is not supported.")
        try:
            return TableRef.parse(".".join([self._statement.database, *parts][-2:])).full_name
        except HiveAcidError as error:
            raise self._statement.error(position, error.what, error.remedy) from error

    def partition(self) -> tuple[dict[str, str | None], tuple[str, ...]]:
        """Read the keys of a PARTITION clause: those with a value, and those without one."""
        values: dict[str, str | None] = {}
        dynamic: list[str] = []
        self.expect("(")
        while True:
            position, key = self.next, self.name().lower()
            if key in values or key in dynamic:
                self._statement.refuse(position, f"The partition key {key} is there twice.")
            if not self.take_one_of(("=", "==")):
                dynamic.append(key)
            elif dynamic:
                message = (
                    f"The partition key {key} has a value, but {dynamic[-1]} before it has none."
                )
                self._statement.refuse(position, message, "Keys without a value come last.")
            else:
                values[key] = self._value()
            if not self.take(","):
                break
        self.expect(")")
        return values, tuple(dynamic)

    def partition_values(self) -> dict[str, str | None]:
        """Read the keys of a PARTITION clause, which all have a value."""
        position = self.next
        values, dynamic = self.partition()
        if dynamic:
            message = f"The partition key {dynamic[0]} has no value."
            self._statement.refuse(position, message, f"Write {dynamic[0]} = 'value'.")
        return values

    def partition_name(self) -> str:
        """Read the name of a partition from the keys of a PARTITION clause, which all have a value."""
        values = self.partition_values()
        return partition_name([*values], [*values.values()])

    def properties(self) -> dict[str, str]:
        """Texts with their values, in brackets."""
        values: dict[str, str] = {}
        self.expect("(")
        while True:
            position, name = self.next, self.string()
            if name in values:
                self._statement.refuse(position, f"The property {name!r} is there twice.")
            self.expect("=")
            values[name] = self.string()
            if not self.take(","):
                break
        self.expect(")")
        return values

    def strings(self) -> tuple[str, ...]:
        """Texts in brackets."""
        self.expect("(")
        texts = [self.string()]
        while self.take(","):
            texts.append(self.string())
        self.expect(")")
        return tuple(texts)

    def names(self) -> tuple[str, ...]:
        """Names that commas separate."""
        names = [self.name()]
        while self.take(","):
            names.append(self.name())
        return tuple(names)

    def brackets(self) -> Sequence[Token]:
        """Read a bracket with all tokens up to the one that closes it."""
        start, nesting = self._at, Nesting()
        if self.keyword != "(":
            self.expect("(")
        while True:
            if self.done:
                self._statement.refuse(self.next, "A bracket is not closed.")
            nesting.pass_by(self.skip())
            if nesting.is_outside:
                return self._tokens[start : self._at]

    def until(self, *keywords: str) -> Sequence[Token]:
        """Read the tokens before the next of some keywords, or all of the rest.

        Keywords within brackets or CASE ... END belong to an expression, as does IS DISTINCT FROM.
        """
        start, nesting, previous_word = self._at, Nesting(), ""
        while not self.done:
            word = keyword_of(self.next)
            if (
                nesting.is_outside
                and word in keywords
                and (previous_word, word) != ("DISTINCT", "FROM")
            ):
                break
            nesting.pass_by(self.skip())
            previous_word = word
        return self._tokens[start : self._at]

    def order_by(self) -> tuple[str, ...]:
        """Return the columns of an ORDER BY, if present, each with its direction."""
        if not self.take("ORDER BY"):
            return ()
        columns = []
        while True:
            name, nulls_last = self.name(), None
            descending = not self.take("ASC") and self.take("DESC")
            if self.take("NULLS"):
                nulls_last = not self.take("FIRST")
                if nulls_last:
                    self.expect("LAST")
            columns.append(str(SortColumn(name, descending, nulls_last)))
            if not self.take(","):
                return tuple(columns)

    def string(self) -> str:
        """A text in quotes."""
        return self._of(TokenType.STRING, "a text in quotes")

    def time(self) -> str:
        """A time in ISO form; nothing but digits, as 20260301, would be a write id elsewhere."""
        position = self.next
        try:
            return str(AsOf.of_time(self.string()).time)
        except InvalidJob as error:
            raise self._statement.error(position, error.what, error.remedy) from error

    def count(self, of: str) -> int:
        """A whole number."""
        position = self.next
        number = self._of(TokenType.NUMBER, "a number")
        if not number.isdecimal() or len(number) > 9:
            self._statement.refuse(position, f"{number} is no number of {of}.")
        return int(number)

    def name(self) -> str:
        """A name of one word."""
        if not self.done and self.next.token_type not in _LITERALS:
            word = self.next.text
            if self.next.token_type is TokenType.IDENTIFIER or word.replace("_", "a").isalnum():
                self._at += 1
                return word
        if not self.done:
            self._statement.refuse_name_in_double_quotes(self.next.start)
        self._statement.refuse(self.next, f"Expected a name before {self.shown()!r}.")

    def comparisons(self) -> tuple[KeyComparison, ...]:
        """Read the comparisons of partition keys in the brackets of a PARTITION clause."""
        found = []
        self.expect("(")
        while True:
            key = self.name().lower()
            sign = keyword_of(self.next)
            if sign not in _SIGNS:
                self._statement.refuse(
                    self.next, f"Expected a comparison with a value before {self.shown()!r}."
                )
            self.skip()
            position = self.next
            value = self._value()
            is_number = value is not None and position.token_type in (
                TokenType.NUMBER,
                TokenType.DASH,
            )
            found.append(KeyComparison(key, value, _SIGNS[sign], is_number))
            if not self.take(","):
                break
        self.expect(")")
        return tuple(found)

    def _value(self) -> str | None:
        if self.take("NULL"):
            return None
        if self.take(":"):
            return partition_text(self._statement.params[self.name()])
        if self.keyword in ("TRUE", "FALSE"):
            return keyword_of(self.skip()).lower()
        if self._tokens[self._at + 1 : self._at + 2]:
            following = self._tokens[self._at + 1].token_type
            if following is TokenType.STRING and self.take_one_of(("DATE", "TIMESTAMP")):
                return self.string()
        sign = "-" if self.take("-") else ""
        if not sign and not self.done and self.next.token_type is TokenType.STRING:
            return self.string()
        return sign + self._of(TokenType.NUMBER, "a literal or a parameter")

    def _of(self, kind: TokenType, expectation: str) -> str:
        if self.done or self.next.token_type is not kind:
            self._statement.refuse(self.next, f"Expected {expectation} before {self.shown()!r}.")
        self._at += 1
        return self._tokens[self._at - 1].text
