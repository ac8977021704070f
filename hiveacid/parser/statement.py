"""One statement of a text, with the shared context of its parts: names, values and errors."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
from itertools import pairwise, zip_longest
from typing import Any, ClassVar, NoReturn, Self

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.errors import ParseError, TokenError
from sqlglot.parsers.hive import HiveParser
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import Token, TokenType

from hiveacid.dataclass import dataclass
from hiveacid.errors import HiveAcidError, SqlError
from hiveacid.jobs.fields import Parameters
from hiveacid.rules.names import TableRef
from hiveacid.rules.sql_tokens import name_in_double_quotes, remedy_for_quotes, unended
from hiveacid.rules.texts import did_you_mean

# The dialect that sqlglot reads: Spark's own, with every function left as it is


# Limit of the parser's steps; typical statements take two steps per word.
_STEPS, _STEPS_PER_WORD = 5_000, 20
# Those whose arguments are no list: CAST(a AS int), EXTRACT(year FROM a).
_OWN_SYNTAX = ("CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTR", "SUBSTRING", "TRIM", "TRY_CAST")


class HiveAcidSql(Spark):
    """Spark's SQL dialect, which is read and never written: Spark gets the text of the author.

    sqlglot translates between databases, and interprets functions. All functions of this dialect are
    unknown.
    """

    class Tokenizer(Spark.Tokenizer):
        """Splits every statement into words; sqlglot keeps the rest of some as one text."""

        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: kind
            for word, kind in Spark.Tokenizer.KEYWORDS.items()
            if kind is not TokenType.COMMAND
        }
        COMMANDS: ClassVar[set[TokenType]] = set()

    class Parser(SparkParser):
        """Takes every function for one that it does not know."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        # Else the elements of array(1, 2)[0] get lost: it is taken for the literal of a list.
        ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parser
            for name, parser in SparkParser.FUNCTION_PARSERS.items()
            if name in _OWN_SYNTAX
        }
        # Those of Spark that sqlglot does not know.
        VERSION_PHRASES: ClassVar[dict[tuple[str, ...], str]] = {
            **SparkParser.VERSION_PHRASES,
            ("FOR", "SYSTEM_VERSION"): "VERSION",
            ("SYSTEM_VERSION", "AS", "OF"): "VERSION",
            ("SYSTEM_TIME", "AS", "OF"): "TIMESTAMP",
        }
        _steps = 0

        def _advance(self, times: int = 1) -> None:
            # The parser reads an ambiguous part several times, and nested ambiguous parts
            # exponentially often: some texts of a hundred words would take years.
            self._steps += 1
            if self._steps > _STEPS_PER_WORD * len(self._tokens) + _STEPS:
                raise SqlError("It can be read in too many ways.", remedy="Use brackets.")
            super()._advance(times)

        def _warn_unsupported(self) -> None:
            """Log nothing: a statement that becomes a command is refused."""

        def _parse_types(
            self,
            check_func: bool = False,
            schema: bool = False,
            allow_identifiers: bool = True,
            with_collation: bool = False,
        ) -> exp.Expr | None:
            # Not the parser of Hive, which replaces char and varchar by string in a CAST. Spark does
            # so itself, but CREATE TABLE ... AS gives the columns the lengths of casts.
            return super(HiveParser, self)._parse_types(
                check_func, schema, allow_identifiers, with_collation
            )


# Misspelled types in the text of a statement that cannot be read


TYPES = (
    *("boolean", "tinyint", "smallint", "int", "integer", "bigint", "float", "real", "double"),
    *("decimal", "dec", "numeric", "string", "char", "varchar", "binary", "date", "timestamp"),
    *("timestamplocaltz", "void"),
    *("array", "map", "struct", "uniontype"),
)
_OPENING_BRACKETS = (TokenType.L_PAREN, TokenType.COMMA)
_BEFORE_ELEMENT = (TokenType.LT, TokenType.COLON, TokenType.COMMA)


def unknown_type(tokens: Sequence[Token], start: int) -> Token | None:
    """Return the first word in the place of a type that names none, if any.

    Args:
        tokens: The words of a statement that sqlglot cannot read.
        start: The offset of the word that it cannot read; a struct, from its first field.
    """
    for word in _words_for_types(tokens, start):
        is_type = word.token_type is not TokenType.VAR or word.text.lower() in TYPES
        if not is_type and word.start >= start:
            return word
    return None


def _words_for_types(tokens: Sequence[Token], start: int) -> Iterator[Token]:
    """The words behind CAST(... AS, behind the names of columns, and in the brackets of types."""
    defines = bool(tokens) and tokens[0].token_type is TokenType.CREATE
    angles, previous = 0, None
    for token, word in pairwise(tokens):
        kind = token.token_type
        if kind is TokenType.ALIAS:
            defines = False
            if word.start == start:
                yield word
        elif defines:
            angles += (kind is TokenType.LT) - (kind is TokenType.GT)
            is_name = kind in (TokenType.VAR, TokenType.IDENTIFIER)
            if (angles > 0 and kind in _BEFORE_ELEMENT and not _names_field(tokens, word)) or (
                angles == 0 and is_name and previous in _OPENING_BRACKETS
            ):
                yield word
        previous = kind


def _names_field(tokens: Sequence[Token], word: Token) -> bool:
    position = tokens.index(word) + 1
    return position < len(tokens) and tokens[position].token_type is TokenType.COLON


# The parser takes some twenty frames for each, and Spark's own is not better.
_DEEPEST = 40
OPENING = frozenset({TokenType.L_PAREN, TokenType.L_BRACKET, TokenType.L_BRACE})
CLOSING = frozenset({TokenType.R_PAREN, TokenType.R_BRACKET, TokenType.R_BRACE})
_NESTED_TYPES = (TokenType.ARRAY, TokenType.MAP, TokenType.STRUCT)
TANGLED = "is nested too deeply."
UNTANGLE = "Write parts of it as queries of their own, or keep long lists in a table."

TextPosition = exp.Expr | Token | int | None


@dataclass(frozen=True, slots=True)
class Edit:
    """A place in the text of a statement and its replacement.

    Attributes:
        start: The offset of its first character.
        end: The offset behind its last character.
        text: The replacement.
    """

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class SqlStatement:
    """A statement that is being converted into a job.

    Attributes:
        text: The whole text that contains it.
        tokens: Its own words.
        database: The database of tables that are named without one.
        params: The values of parameters of the whole text.
        trusted: Whether it may run scripts, call Java and read files by their paths.
        all_rows: Whether an UPDATE or DELETE without WHERE changes all rows.
        of_session: Whether a Spark session reads a table by itself, named as in the text, or with
            its database.
    """

    text: str
    tokens: Sequence[Token]
    database: str
    params: Parameters = field(default_factory=dict)
    trusted: bool = False
    all_rows: bool = False
    of_session: Callable[[str], bool] | None = None

    @classmethod
    def of(cls, text: str, database: str) -> Self:
        """The only statement of a text.

        Raises:
            SqlError: A quote or a comment in it does not end.
        """
        return cls(text, tokens_of(text), database)

    def parse(self) -> exp.Expr:
        """Return the statement as a tree.

        Raises:
            SqlError: The text is not a SQL statement.
        """
        if (deep := _too_deep(self.tokens)) is not None:
            self.refuse(deep, f"Brackets are nested more than {_DEEPEST} levels deep.")
        try:
            trees = HiveAcidSql().parser().parse(_readable(self.tokens), self.text)
        except ParseError as error:
            first = error.errors[0]
            # sqlglot counts up to the end of a word.
            column = max(1, first["col"] - len(first["highlight"] or " ") + 1)
            offset = self._offset(first["line"], column)
            if (word := unknown_type(self.tokens, offset)) is not None:
                message = f"{word.text} is not a type."
                self.refuse(word, message, did_you_mean(word.text, TYPES))
            self.refuse(
                offset,
                f"It cannot be read at {first['highlight']!r}: {_in_words(first['description'])}.",
            )
        except TokenError:
            # The words of a hint are looked at apart.
            self.refuse(None, "A quote or a comment in a hint does not end.")
        if len(trees) != 1 or trees[0] is None:
            self.refuse(None, "It must be one statement.")
        return trees[0]

    def refuse(self, position: TextPosition, message: str, remedy: str = "") -> NoReturn:
        """Raise SqlError with the position of a word, or of the statement."""
        raise self.error(position, message, remedy)

    def error(self, position: TextPosition, message: str, remedy: str = "") -> SqlError:
        """The error that something is wrong at a place."""
        offset = self._start(position)
        line = self.text.count("\n", 0, offset) + 1
        column = offset - (self.text.rfind("\n", 0, offset) + 1) + 1
        return SqlError(f"Line {line}, column {column}: {message}", remedy=remedy)

    def only(
        self, node: exp.Expr, understood: Sequence[str], subject: str, remedy: str = ""
    ) -> None:
        """Refuse a node with parts that are not understood, rather than leave them out."""
        for name, value in node.args.items():
            if value and name not in understood:
                part = name.strip("_").upper().replace("_", " ")
                first = value[0] if isinstance(value, list) else value
                part_node = first if isinstance(first, exp.Expr) else node
                self.refuse(part_node, f"{subject} with {part} is not supported.", remedy)

    def refuse_names_in_double_quotes(self) -> None:
        """Refuse texts in double quotes that can only be meant as names."""
        start = self.tokens[0].start
        quoted = name_in_double_quotes(self.text[start : self.tokens[-1].end + 1])
        if quoted is not None:
            self.refuse_name_in_double_quotes(start + quoted.start)

    def refuse_name_in_double_quotes(self, start: int) -> None:
        """Refuse a text in double quotes in the place of a name, if there is one."""
        if self.text[start] == '"':
            quoted = next(self.text[t.start : t.end + 1] for t in self.tokens if t.start == start)
            self.refuse(start, f"{quoted} is a text, not a name.", remedy_for_quotes(quoted))

    def table(self, node: exp.Expr | None, subject: str) -> str:
        """The full name of a table that is written.

        Raises:
            SqlError: It is something else, like a subquery.
        """
        if not isinstance(node, exp.Table) or not isinstance(node.this, exp.Identifier):
            self.refuse(node, f"{subject} something else than a table is not supported.")
        if node.catalog:
            self.refuse(node, f"{subject} a table of another catalog is not supported.")
        self.only(node, ("this", "db", "alias", "partition"), subject)
        return self.full_name(node)

    def full_name(self, node: exp.Table) -> str:
        """The name of a table with its database, as the metastore keeps it."""
        for part in node.find_all(exp.Identifier):
            self.refuse_name_in_double_quotes(part.meta.get("start", self.tokens[0].start))
        try:
            return TableRef(*_checked(node.db or self.database, node.name)).full_name
        except HiveAcidError as error:
            raise self.error(node, error.what, error.remedy) from error

    def slice(self, tokens: Sequence[Token], edits: Sequence[Edit] = ()) -> str:
        """Return the text from the first to the last of some tokens, for Spark.

        Spark gets the text of the author: a tree written as text again may have lost something.

        Args:
            tokens: Consecutive tokens of the statement.
            edits: Replacements anywhere in the statement; those outside of the tokens are ignored.
        """
        start, end = tokens[0].start, tokens[-1].end + 1
        parts = []
        for edit in sorted(edits, key=lambda edit: edit.start):
            if start <= edit.start and edit.end <= end:
                parts += [self.text[start : edit.start], edit.text]
                start = edit.end
        text = "".join([*parts, self.text[start:end]])
        try:
            text.encode()
        except UnicodeEncodeError as error:
            raise self.error(
                tokens[0], "It has half of a character, which Spark refuses."
            ) from error
        return text

    def _start(self, position: TextPosition) -> int:
        if isinstance(position, int):
            return position
        if isinstance(position, Token):
            return position.start
        nodes = position.walk() if position is not None else ()
        starts = [int(node.meta["start"]) for node in nodes if "start" in node.meta]
        return min(starts, default=self.tokens[0].start if self.tokens else 0)

    def _offset(self, line: int, column: int) -> int:
        lines = self.text.split("\n")
        return sum(len(text) + 1 for text in lines[: line - 1]) + column - 1


def tokens_of(text: str) -> list[Token]:
    """The words of a text.

    Raises:
        SqlError: A quote or a comment in it does not end.
    """
    try:
        return HiveAcidSql().tokenize(text)
    except TokenError as error:
        message = "A quote or a comment does not end."
        if (start := unended(text)) is None:
            raise SqlError(message) from error
        raise SqlStatement(text, (), "").error(start, message, "Close it, or remove it.") from error


def _readable(tokens: Sequence[Token]) -> list[Token]:
    """Leave out tokens of Spark's syntax that sqlglot cannot read.

    The tree only serves to find tables and clauses: Spark gets the text itself. These are the third
    sign of ``>>>`` and the letter in ``X 'F0'``.
    """
    readable: list[Token] = []
    types = shift = 0
    previous = None
    for token, following in zip_longest(tokens, tokens[1:]):
        types += token.token_type is TokenType.LT and previous in _NESTED_TYPES
        types -= token.token_type is TokenType.GT and types > 0
        is_sign = token.token_type is TokenType.GT and types == 0
        shift = shift + 1 if is_sign else 0
        previous = token.token_type
        is_letter = token.text in ("X", "x") and token.token_type is TokenType.VAR
        is_string = following is not None and following.token_type is TokenType.STRING
        if shift != 3 and not (is_letter and is_string):
            readable.append(token)
    return readable


def _too_deep(tokens: Sequence[Token]) -> Token | None:
    """Return the first bracket that is nested too deeply."""
    depth = 0
    for token in tokens:
        depth += (token.token_type in OPENING) - (token.token_type in CLOSING)
        if depth > _DEEPEST:
            return token
    return None


def _in_words(description: str) -> str:
    """Return sqlglot's message without the names of its classes."""
    if description.startswith("Required keyword"):
        return "something is missing after it"
    return description.partition("<Token")[0].strip().removesuffix(" but got").rstrip(".:")


def _checked(database: str, name: str) -> tuple[str, str]:
    ref = TableRef.parse(f"{database}.{name}")
    return ref.database, ref.name
