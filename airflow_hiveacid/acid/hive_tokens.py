"""Tokens of an expression in Hive's SQL."""

import re
from dataclasses import dataclass, field

from airflow_hiveacid.errors import UnsupportedTable

_TOKEN = re.compile(
    r"""
    (?P<space> \s++ )
    | (?P<text> '(?:[^'\\]|\\.)*+' | "(?:[^"\\]|\\.)*+" )
    | (?P<name> `(?:[^`]|``)++` )
    | (?P<number> (?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?(?:BD|[YSLD])?+(?!\w) )
    | (?P<word> [A-Za-z_]\w*+ )
    | (?!--|/\*) (?P<sign> <=> | <= | >= | <> | != | == | [-+*/%=<>!(),.] )
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass
class Tokens:
    """Tokens of a text, from left to right.

    Attributes:
        text: The text.
    """

    text: str
    _tokens: list[tuple[str, str]] = field(init=False, default_factory=list)
    _at: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        position = 0
        while position < len(self.text):
            match = _TOKEN.match(self.text, position)
            if match is None:
                raise UnsupportedTable(f"{self.text[position:][:20]!r} cannot be parsed.")
            if match.lastgroup != "space":
                self._tokens.append((match.lastgroup or "", match.group()))
            position = match.end()

    @property
    def done(self) -> bool:
        """Whether no token is left."""
        return self._at == len(self._tokens)

    @property
    def kind(self) -> str:
        """The kind of the next token: a text, a name in quotes, a number, a word or a sign."""
        return "" if self.done else self._tokens[self._at][0]

    @property
    def next(self) -> str:
        """The next token in lower case, if it is a word or a sign."""
        return self._tokens[self._at][1].lower() if self.kind in ("word", "sign") else ""

    def pop(self) -> str:
        """Take the next token of any kind.

        Raises:
            UnsupportedTable: No token is left.
        """
        if self.done:
            raise UnsupportedTable("It ends too early.")
        self._at += 1
        return self._tokens[self._at - 1][1]

    def take(self, word: str) -> bool:
        """Take the next token if it is this word or sign."""
        is_next = self.next == word
        self._at += is_next
        return is_next

    def expect(self, word: str) -> None:
        """Take this word or sign.

        Raises:
            UnsupportedTable: The next token is a different one.
        """
        if not self.take(word):
            raise UnsupportedTable(f"{word.upper()} is missing.")
