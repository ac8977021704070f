"""Tokens of Spark SQL expressions, and checks that find expressions that are certainly invalid.

Only Spark can parse its complete language, and it is not available while a DAG is parsed. So this
module is not a parser: it rejects text that is invalid in every reading, and leaves the rest to
Spark. It does not take the tokens of sqlglot either: jobs are validated by it while a DAG is parsed,
and the import of sqlglot would take longer than all of them.
"""

import re
from collections.abc import Iterator, Sequence
from enum import Enum, auto
from itertools import pairwise

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob
from hiveacid.rules.sql_names import quoted as in_backquotes
from hiveacid.rules.sql_names import unquoted

_TOKEN = re.compile(
    r"""
    (?P<space> \s++ | --(?:\\\n|[^\r\n])*+ )
    | (?P<comment> /\* )
    | (?P<text> [rR]'[^']*+' | [rR]"[^"]*+"
        | '(?:[^'\\]|\\.|'')*+' | "(?:[^"\\]|\\.|"")*+" )
    | (?P<name> `(?:[^`]|``)*+` )
    | (?P<number> (?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?\w*+ )
    | (?P<word> [^\W\d]\w*+ )
    | (?P<sign> <=> | >>> | \|> | \|\| | << | >> | <= | >= | <> | != | == | !< | !> | -> | => | ::
        | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_IN_COMMENT = re.compile(r"/\*|\*/")
_CLOSING = {")": "(", "]": "["}
# Operators between two operands. A star may be an operand itself, as in count(*).
_ANGLES = frozenset({"<", ">", "<>", ">>", ">>>"})
_BETWEEN = frozenset(
    {"=", "==", "<=>", "!=", "<=", ">=", "!<", "!>", "||", "|", "&", "^", "%", "/", "<<"} | _ANGLES
)
_BEFORE = frozenset("+-~!")
_TYPES = frozenset({"ARRAY", "MAP", "STRUCT"})
_STRUCT = frozenset({"STRUCT"})
_AND_OR = frozenset({"AND", "OR"})
_CLAUSES = frozenset({"WHERE", "ON", "SET", "WHEN"})
_BEFORE_CONDITION = frozenset({"AND", "NOT", "ON", "OR", "WHEN", "WHERE"})
_COMPARISONS = frozenset({"=", "==", "<=>", "!=", "<>", "<", "<=", ">", ">="})
_EQUALS = frozenset({"=", "==", "<=>"})
_AROUND = _AND_OR | {"NOT"}
_NAME_IN_QUOTES = re.compile(r'"[^\W\d]\w*"')
_SHOWN = 60


class TokenKind(Enum):
    """Kind of a token."""

    TEXT = auto()
    NAME = auto()
    NUMBER = auto()
    WORD = auto()
    SIGN = auto()


@dataclass(frozen=True, slots=True)
class Token:
    """Token of an expression.

    Attributes:
        kind: The kind.
        text: The text as written.
        start: The position in the expression.
    """

    kind: TokenKind
    text: str
    start: int

    @property
    def name(self) -> str | None:
        """The token as an identifier in lower case; None if it cannot be an identifier."""
        if self.kind is TokenKind.NAME:
            return unquoted(self.text).lower()
        return self.text.lower() if self.kind is TokenKind.WORD else None

    def is_word(self, words: frozenset[str]) -> bool:
        """Whether the token is one of some words, which are given in upper case."""
        return self.kind is TokenKind.WORD and self.text.upper() in words

    def is_sign(self, signs: frozenset[str]) -> bool:
        """Whether the token is one of some signs."""
        return self.kind is TokenKind.SIGN and self.text in signs


def require_expression(text: str, subject: str, *, query: bool = False) -> None:
    """Reject text that cannot be an expression, or a query, of Spark SQL.

    Args:
        text: The expression.
        subject: The name of the expression, at the beginning of the message.
        query: Whether the text is a query, which may end with a semicolon.

    Raises:
        InvalidJob: The text is not an expression or query.
    """
    wrong = _wrong(text, query)
    if wrong is not None:
        raise InvalidJob(f"{subject} does not parse: {wrong}.")
    if (quoted := name_in_double_quotes(text)) is not None:
        raise InvalidJob(
            f"{subject}: {quoted.text} is a text, not a name.",
            remedy=remedy_for_quotes(quoted.text),
        )


def name_in_double_quotes(text: str) -> Token | None:
    """Return the first text in double quotes that can only be meant as a name.

    Double quotes are quotes of texts, as in Hive. Other databases use them for names: there,
    ``"day" = 'x'`` compares a column, which here would be a comparison of two texts.
    """
    try:
        tokens = list(_tokens(text))
    except _Unreadable:
        return None
    return next(
        (token for index, token in enumerate(tokens) if _is_meant_as_name(tokens, index)),
        None,
    )


def remedy_for_quotes(quoted: str) -> str:
    """Return the remedy for a name in double quotes."""
    return f"Write names in backquotes, {in_backquotes(quoted[1:-1])}, and texts in single quotes."


def columns_of(text: str, alias: str) -> list[str]:
    """Return the columns that an expression takes from the table of an alias, in lower case.

    Args:
        text: The expression.
        alias: The alias in front of the columns.

    Returns:
        The column names; empty if another part of the expression may have the alias's name: a
        table of a subquery, a variable of a function, or a column.
    """
    try:
        tokens = list(_tokens(text))
    except _Unreadable:
        return []
    columns = []
    for index, token in enumerate(tokens):
        if token.name != alias.lower() or _is_dot(tokens, index - 1):
            continue
        if not _is_dot(tokens, index + 1):
            return []
        column = tokens[index + 2].name if index + 2 < len(tokens) else None
        called = index + 3 < len(tokens) and tokens[index + 3].text == "("
        if column is not None and not called:
            columns.append(column)
    return list(dict.fromkeys(columns))


def names_in(text: str) -> set[str]:
    """Return all identifiers of a SQL text in lower case, including those that are keywords."""
    try:
        return {token.name for token in _tokens(text) if token.name is not None}
    except _Unreadable:
        return set()


def is_qualified(text: str, name: str) -> bool:
    """Whether a name stands behind a dot in a SQL text."""
    try:
        pairs = [*pairwise(_tokens(text))]
    except _Unreadable:
        return False
    return any(dot.text == "." and token.name == name.lower() for dot, token in pairs)


def without_catalog(text: str, catalog: str) -> str:
    """Return a SQL text with blanks in the place of a catalog in front of other names.

    Args:
        text: The text, in which everything else keeps its place.
        catalog: The name in lower case.
    """
    try:
        tokens = [*_tokens(text)]
    except _Unreadable:
        return text
    for before, name, dot in zip([None, *tokens], tokens, tokens[1:], strict=False):
        is_first = before is None or before.text != "."
        if is_first and name.name == catalog and dot.text == ".":
            end = dot.start + 1
            text = text[: name.start] + " " * (end - name.start) + text[end:]
    return text


def compares_with_itself(text: str) -> str | None:
    """Return the first column in a condition that is compared with itself, if any."""
    try:
        tokens = list(_tokens(text))
    except _Unreadable:
        return None
    for index, token in enumerate(tokens):
        if not token.is_sign(_EQUALS):
            continue
        first, last = index, index + 1
        while first > 0 and _is_part_of_column(tokens[first - 1]):
            first -= 1
        while last < len(tokens) and _is_part_of_column(tokens[last]):
            last += 1
        left_tokens, right = tokens[first:index], tokens[index + 1 : last]
        alone = first == 0 or tokens[first - 1].text == "(" or tokens[first - 1].is_word(_AROUND)
        alone &= last == len(tokens) or tokens[last].text == ")" or tokens[last].is_word(_AROUND)
        if (
            alone
            and left_tokens
            and [pair_token.name for pair_token in left_tokens]
            == [pair_token.name for pair_token in right]
        ):
            return "".join(pair_token.text for pair_token in left_tokens)
    return None


def _is_part_of_column(token: Token) -> bool:
    return token.text == "." or (token.name is not None and not token.is_word(_AROUND))


def values_per_row(query: str) -> int | None:
    """Return the number of values in the first row of VALUES; None for another query."""
    try:
        tokens = list(_tokens(query))
    except _Unreadable:
        return None
    if [token.text.upper() for token in tokens[:2]] != ["VALUES", "("]:
        return None
    depth, values = 0, 1
    for token in tokens[1:]:
        depth += (token.text in _CLOSING.values()) - (token.text in _CLOSING)
        if depth == 0:
            return values
        values += token.text == "," and depth == 1
    return None


def parameters_of(text: str) -> set[str]:
    """Return the names of the parameters of a SQL text, as ``id`` of ``:id``."""
    return {name for _, name in parameter_places(text)}


def parameter_places(text: str) -> list[tuple[int, str]]:
    """Return the parameters of a SQL text in order: the position of the colon, and the name.

    A colon in the type of a struct, or between a value and one of its fields, is not a parameter.
    """
    try:
        tokens = list(_tokens(text))
    except _Unreadable:
        return []
    places, depth = [], 0
    for index, token in enumerate(tokens):
        previous = tokens[index - 1] if index else None
        if token.is_sign(_ANGLES):
            opens = previous is not None and (depth > 0 or previous.is_word(_STRUCT))
            if opens and token.text == "<":
                depth += 1
            else:
                depth = max(0, depth - token.text.count(">"))
        if token.text != ":" or depth or index + 1 == len(tokens):
            continue
        following = tokens[index + 1]
        if following.kind is TokenKind.WORD and not _is_value_before(previous, token):
            places.append((token.start, following.text))
    return places


def _is_value_before(previous: Token | None, colon: Token) -> bool:
    """Whether the token before a colon ends a value whose field the colon selects."""
    if previous is None or previous.kind is TokenKind.SIGN:
        return previous is not None and previous.text in _CLOSING
    touches = previous.start + len(previous.text) == colon.start
    return touches if previous.kind is TokenKind.WORD else True


def unended(text: str) -> int | None:
    """Return the position of the quote or the comment that has no end, if there is one."""
    try:
        for _ in _tokens(text):
            pass
    except _Unreadable as error:
        return error.start
    return None


class _Unreadable(Exception):
    """A quoted name, a quoted text or a comment has no end."""

    def __init__(self, message: str, start: int) -> None:
        super().__init__(message)
        self.start = start


def _tokens(text: str) -> Iterator[Token]:
    place = 0
    while place < len(text):
        match = _TOKEN.match(text, place)
        assert match is not None, "the last alternative takes any character"
        place = match.end()
        kind = match.lastgroup or ""
        if kind == "comment":
            place = _end_of_comment(text, place)
        elif kind == "sign" and match[0] in "'\"`":
            what = "name" if match[0] == "`" else "text"
            raise _Unreadable(
                f"the {what} that begins with {_from(text, match.start())} has no end",
                match.start(),
            )
        elif kind != "space":
            yield Token(TokenKind[kind.upper()], match[0], match.start())


def _end_of_comment(text: str, place: int) -> int:
    """Return the end of a comment, which may contain nested comments."""
    depth = 1
    for mark in _IN_COMMENT.finditer(text, place):
        depth += 1 if mark[0] == "/*" else -1
        if not depth:
            return mark.end()
    start = place - 2
    raise _Unreadable(f"the comment that begins with {_from(text, start)} has no end", start)


def _wrong(text: str, query: bool) -> str | None:
    """Describe the certain error of an expression or a query."""
    try:
        tokens = list(_tokens(text))
    except _Unreadable as error:
        return str(error)
    if query:
        while tokens and tokens[-1].text == ";":
            tokens.pop()
    if not tokens:
        return "there is nothing in it"
    return (
        _unbalanced(text, tokens)
        or _missing_operand(text, tokens)
        or (None if query else _no_expression(text, tokens))
    )


def _unbalanced(text: str, tokens: Sequence[Token]) -> str | None:
    open_brackets: list[Token] = []
    for token in tokens:
        if token.kind is not TokenKind.SIGN:
            continue
        if token.text in _CLOSING.values():
            open_brackets.append(token)
        elif token.text in _CLOSING:
            if not open_brackets or open_brackets[-1].text != _CLOSING[token.text]:
                return f"nothing is opened that {_until(text, token)} closes"
            open_brackets.pop()
        elif token.text == ";":
            return f"a semicolon follows {_until(text, token)}"
    return f"{_from(text, open_brackets[-1].start)} is never closed" if open_brackets else None


def _missing_operand(text: str, tokens: Sequence[Token]) -> str | None:
    """Describe an operator without an operand."""
    angles_are_types = any(
        token.is_word(_TYPES) and following.text in _ANGLES for token, following in pairwise(tokens)
    )
    operators = _BETWEEN - _ANGLES if angles_are_types else _BETWEEN
    for index, token in enumerate(tokens):
        between = token.is_sign(operators) or _is_and_or(tokens, index)
        first = index == 0
        last = index + 1 == len(tokens)
        if between and (first or _opens(tokens, index - 1)):
            return f"an operand is missing before {_from(text, token.start)}"
        if not between and not token.is_sign(_BEFORE) and not _is_not(tokens, index):
            continue
        if last or _closes(tokens, index + 1):
            return f"an operand is missing after {_until(text, token)}"
        following = tokens[index + 1]
        if following.is_sign(operators) or _is_and_or(tokens, index + 1):
            pair_text = text[token.start : following.start + len(following.text)]
            return f"an operand is missing between {token.text} and {following.text} in {_shown(pair_text)}"
    return None


def _no_expression(text: str, tokens: Sequence[Token]) -> str | None:
    """Describe text that is valid in a statement but not in an expression."""
    first = tokens[0]
    clause = len(tokens) > 2 and first.is_word(_CLAUSES) and tokens[1].kind is TokenKind.WORD
    if clause and tokens[2].is_sign(_BETWEEN | {"."}):
        return f"it begins with {first.text}, which is not part of it"
    for index in range(1, len(tokens) - 2):
        token, following = tokens[index], tokens[index + 1]
        side_by_side = token.name is not None and following.name is not None
        if side_by_side and _is_dot(tokens, index - 1) and _is_dot(tokens, index + 2):
            return (
                f"an operand is missing between {token.text} and {following.text} in {_shown(text)}"
            )
    return None


def _is_meant_as_name(tokens: Sequence[Token], index: int) -> bool:
    """Whether a text in double quotes stands where a text is invalid or without effect."""
    if tokens[index].kind is not TokenKind.TEXT or tokens[index].text[0] != '"':
        return False
    if _is_dot(tokens, index - 1) or _is_dot(tokens, index + 1):
        return True
    if index and tokens[index - 1].is_word(frozenset({"AS"})) and not _is_dot(tokens, index - 2):
        return True
    begins = index == 0 or tokens[index - 1].is_word(_BEFORE_CONDITION)
    if not begins or not _NAME_IN_QUOTES.fullmatch(tokens[index].text):
        return False
    following = tokens[index + 1 : index + 5]
    if len(following) > 1 and following[0].is_sign(_COMPARISONS):
        ends = (
            len(following) == 2 or following[2].kind is TokenKind.WORD or following[2].text == ")"
        )
        return ends and following[1].kind in (TokenKind.TEXT, TokenKind.NUMBER)
    words = [token.text.upper() for token in following if token.kind is TokenKind.WORD]
    return words[:2] == ["IS", "NULL"] or words[:3] == ["IS", "NOT", "NULL"]


def _is_and_or(tokens: Sequence[Token], index: int) -> bool:
    return tokens[index].is_word(_AND_OR) and not _is_name(tokens, index)


def _is_not(tokens: Sequence[Token], index: int) -> bool:
    return tokens[index].is_word(frozenset({"NOT"})) and not _is_name(tokens, index)


def _is_name(tokens: Sequence[Token], index: int) -> bool:
    """Whether a keyword is used as a name: as a column, or after AS."""
    is_alias = index > 0 and tokens[index - 1].is_word(frozenset({"AS"}))
    return is_alias or _is_dot(tokens, index - 1) or _is_dot(tokens, index + 1)


def _is_dot(tokens: Sequence[Token], index: int) -> bool:
    return 0 <= index < len(tokens) and tokens[index].text == "."


def _opens(tokens: Sequence[Token], index: int) -> bool:
    return tokens[index].is_sign(frozenset("([,"))


def _closes(tokens: Sequence[Token], index: int) -> bool:
    return tokens[index].is_sign(frozenset(")],"))


def _from(text: str, start: int) -> str:
    return _shown(text[start:])


def _until(text: str, token: Token) -> str:
    end = token.start + len(token.text)
    return repr(text[max(0, end - _SHOWN) : end].strip())


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else f"{text[:_SHOWN]}...")
