"""Expressions in Hive's SQL with the same meaning in Spark's: those of CHECK and DEFAULT.

The metastore stores such an expression as the text that its author wrote. The text is parsed here by
Hive's rules of precedence, and written again for Spark with every bracket and every literal explicit,
so that no setting of a session changes its meaning. Expressions that Hive and Spark may evaluate
differently are refused: functions other than a few, conversions between kinds of values, arithmetic
on decimals.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal

from airflow_hiveacid.acid import schema
from airflow_hiveacid.acid.hive_literals import (
    cast_literal,
    parse_day,
    parse_number,
    parse_text,
    parse_time,
)
from airflow_hiveacid.acid.hive_values import (
    Kind,
    Value,
    arithmetic,
    comparable,
    kind_of,
    literal_value,
    one_kind,
    require_kind,
)
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
_COMPARISONS = {"=": "=", "==": "=", "<=>": "<=>", "<>": "<>", "!=": "<>"} | {
    sign: sign for sign in ("<", "<=", ">", ">=")
}
# Words that are column names only in quotes.
_WORDS = frozenset(
    [
        "and",
        "or",
        "not",
        "between",
        "in",
        "like",
        "rlike",
        "regexp",
        "is",
        "null",
        "true",
        "false",
        "case",
        "when",
        "then",
        "else",
        "end",
    ]
)
_DEEPEST = 40


@dataclass(frozen=True, slots=True)
class Moment:
    """Values of the functions of a default value in one statement.

    Attributes:
        now: The time of CURRENT_TIMESTAMP and CURRENT_DATE.
        user: The name of CURRENT_USER.
    """

    now: datetime
    user: str


# The kinds of the arguments and of the result of each function.
_FUNCTIONS: dict[str, tuple[frozenset[Kind], Kind, str]] = {
    **{name: (frozenset({Kind.STRING}), Kind.STRING, name) for name in ("upper", "lower", "trim")},
    **{name: (frozenset({Kind.STRING}), Kind.STRING, name) for name in ("ltrim", "rtrim")},
    "ucase": (frozenset({Kind.STRING}), Kind.STRING, "upper"),
    "lcase": (frozenset({Kind.STRING}), Kind.STRING, "lower"),
    "length": (frozenset({Kind.STRING}), Kind.INTEGER, "length"),
    **{
        name: (frozenset({Kind.DATE, Kind.TIMESTAMP}), Kind.INTEGER, name)
        for name in ("year", "month", "day")
    },
}
_NOW = ("current_date", "current_timestamp", "current_user")


def check_as_spark(text: str, columns: Mapping[str, str]) -> str:
    """Translate the condition of a CHECK constraint.

    Args:
        text: The condition in Hive's SQL.
        columns: The types of the table's columns, by their names in lower case.

    Returns:
        A condition in Spark's SQL that is true for the rows that Hive accepts, and false for others.
        It is never null: Hive accepts a row whose condition is unknown. A NaN in a column that the
        condition names is refused, because Hive and Spark compare it differently.

    Raises:
        UnsupportedTable: Hive and Spark may evaluate the condition differently.
    """
    parser = _Parser(text, columns, None)
    value = parser.whole()
    if value.kind not in (Kind.BOOLEAN, Kind.NULL):
        raise UnsupportedTable("The text is not a condition.")
    nan = "".join(f" AND NOT coalesce(isnan({name}), false)" for name in sorted(parser.floating))
    return f"(coalesce({value.sql}, true){nan})"


def default_as_spark(text: str, moment: Moment) -> str:
    """Translate the value of a DEFAULT constraint.

    Args:
        text: The value in Hive's SQL.
        moment: The values of CURRENT_TIMESTAMP, CURRENT_DATE and CURRENT_USER.

    Raises:
        UnsupportedTable: Hive and Spark may evaluate the value differently.
    """
    return _Parser(text, {}, moment).whole().sql


@dataclass
class _Parser:
    text: str
    columns: Mapping[str, str]
    moment: Moment | None
    floating: set[str] = field(default_factory=set)
    _depth: int = 0
    _tokens: "_Tokens" = field(init=False)

    def __post_init__(self) -> None:
        self._tokens = _Tokens(self.text)

    def whole(self) -> Value:
        """Translate the whole text."""
        value = self._or()
        if not self._tokens.done:
            raise UnsupportedTable(f"{self._tokens.pop()!r} is not supported there.")
        return value

    # The grammar, from the operators that bind least to those that bind most.

    def _or(self) -> Value:
        return self._joined("or", self._and)

    def _and(self) -> Value:
        return self._joined("and", self._not)

    def _joined(self, word: str, operand: Callable[[], Value]) -> Value:
        value = operand()
        while self._tokens.take(word):
            other = operand()
            self._require(Kind.BOOLEAN, value, other)
            value = Value(f"({value.sql} {word.upper()} {other.sql})", Kind.BOOLEAN)
        return value

    def _not(self) -> Value:
        if not (self._tokens.take("not") or self._tokens.take("!")):
            return self._predicate()
        self._depth += 1
        self._require_shallow()
        value = self._not()
        self._depth -= 1
        self._require(Kind.BOOLEAN, value)
        return Value(f"(NOT {value.sql})", Kind.BOOLEAN)

    def _predicate(self) -> Value:
        value = self._sum()
        if self._tokens.take("is"):
            negated = "NOT " if self._tokens.take("not") else ""
            if not self._tokens.take("null"):
                raise UnsupportedTable("IS takes NULL only.")
            return Value(f"({value.sql} IS {negated}NULL)", Kind.BOOLEAN)
        if self._tokens.next in _COMPARISONS:
            sign = _COMPARISONS[self._tokens.pop()]
            left, right = comparable(value, self._sum())
            return Value(f"({left} {sign} {right})", Kind.BOOLEAN)
        negated = "NOT " if self._tokens.take("not") else ""
        if self._tokens.take("between"):
            low = comparable(value, self._sum())
            if not self._tokens.take("and"):
                raise UnsupportedTable("BETWEEN lacks its AND.")
            high = comparable(value, self._sum())
            # A literal on the left is already converted for each side.
            return Value(
                f"({negated}({low[0]} >= {low[1]} AND {high[0]} <= {high[1]}))", Kind.BOOLEAN
            )
        if self._tokens.take("in"):
            self._tokens.expect("(")
            pairs = [comparable(value, self._sum())]
            while self._tokens.take(","):
                pairs.append(comparable(value, self._sum()))
            self._tokens.expect(")")
            equal = " OR ".join(f"{left} = {right}" for left, right in pairs)
            return Value(f"({negated}({equal}))", Kind.BOOLEAN)
        for word in ("like", "rlike", "regexp"):
            if self._tokens.take(word):
                return self._pattern(value, word, negated)
        if negated:
            raise UnsupportedTable("NOT is not supported there.")
        return value

    def _sum(self) -> Value:
        value = self._product()
        while self._tokens.next in ("+", "-"):
            sign = self._tokens.pop()
            value = arithmetic(value, sign, self._product())
        return value

    def _product(self) -> Value:
        value = self._signed()
        while self._tokens.next in ("*", "/", "%"):
            sign = self._tokens.pop()
            value = arithmetic(value, sign, self._signed())
        return value

    def _signed(self) -> Value:
        if not self._tokens.take("-"):
            self._tokens.take("+")
            return self._primary()
        value = self._primary()
        if value.is_literal and isinstance(value.literal, int | float | Decimal):
            return literal_value(-value.literal)
        require_kind((Kind.INTEGER, Kind.DOUBLE, Kind.FLOAT, Kind.DECIMAL), value)
        return Value(f"(- {value.sql})", value.kind)

    def _primary(self) -> Value:
        kind, text = self._tokens.kind, self._tokens.pop()
        if kind == "text":
            return literal_value(parse_text(text))
        if kind == "number":
            return literal_value(parse_number(text))
        if kind == "name":
            return self._column(text[1:-1].replace("``", "`"))
        word = text.lower()
        if word == "(":
            value = self._within()
            self._tokens.expect(")")
            return value
        if kind != "word":
            raise UnsupportedTable(f"{text!r} is not supported there.")
        if word in ("true", "false", "null"):
            return literal_value({"true": True, "false": False, "null": None}[word])
        if word in ("date", "timestamp") and self._tokens.kind == "text":
            literal = parse_text(self._tokens.pop())
            return literal_value(parse_day(literal) if word == "date" else parse_time(literal))
        if word == "case":
            return self._case()
        if word in _NOW:
            if self._tokens.take("("):
                self._tokens.expect(")")
            return self._now(word)
        if self._tokens.next == "(":
            self._tokens.pop()
            return self._cast() if word == "cast" else self._call(word)
        if word in _WORDS:
            raise UnsupportedTable(f"{text!r} is not supported there.")
        return self._column(text)

    def _within(self) -> Value:
        self._depth += 1
        self._require_shallow()
        value = self._or()
        self._depth -= 1
        return value

    def _column(self, name: str) -> Value:
        if name.lower() not in self.columns:
            raise UnsupportedTable(f"There is no column {name}.")
        type_ = schema.parse_type(self.columns[name.lower()])
        sql = _quoted(name.lower())
        while self._tokens.take("."):
            quoted, part = self._tokens.kind == "name", self._tokens.pop()
            part = part[1:-1].replace("``", "`") if quoted else part
            fields = type_.fields if isinstance(type_, schema.Struct) else ()
            found = [inner for inner in fields if inner[0].lower() == part.lower()]
            if not found:
                raise UnsupportedTable(f"{name} has no field {part}.")
            sql, type_ = f"{sql}.{_quoted(found[0][0])}", found[0][1]
        kind = kind_of(type_)
        if kind in (Kind.FLOAT, Kind.DOUBLE):
            self.floating.add(sql)
        return Value(sql, kind)

    def _case(self) -> Value:
        subject = None if self._tokens.next == "when" else self._within()
        branches, results = [], []
        while self._tokens.take("when"):
            condition = self._within()
            if subject is None:
                self._require(Kind.BOOLEAN, condition)
                chosen = condition.sql
            else:
                left, right = comparable(subject, condition)
                chosen = f"({left} = {right})"
            self._tokens.expect("then")
            results.append(self._within())
            branches.append(f"WHEN {chosen} THEN {results[-1].sql}")
        rest = ""
        if self._tokens.take("else"):
            results.append(self._within())
            rest = f" ELSE {results[-1].sql}"
        self._tokens.expect("end")
        if not branches:
            raise UnsupportedTable("CASE has no branch.")
        return Value(f"CASE {' '.join(branches)}{rest} END", one_kind(results))

    def _call(self, name: str) -> Value:
        arguments: list[Value] = []
        if not self._tokens.take(")"):
            arguments.append(self._within())
            while self._tokens.take(","):
                arguments.append(self._within())
            self._tokens.expect(")")
        given = ", ".join(value.sql for value in arguments)
        if name in _FUNCTIONS and len(arguments) == 1:
            kinds, result, spark = _FUNCTIONS[name]
            require_kind(kinds, *arguments)
            return Value(f"{spark}({given})", result)
        if name == "concat" and arguments:
            require_kind((Kind.STRING,), *arguments)
            return Value(f"concat({given})", Kind.STRING)
        if (name == "coalesce" and arguments) or (name == "nvl" and len(arguments) == 2):
            return Value(f"coalesce({given})", one_kind(arguments))
        if name == "if" and len(arguments) == 3:
            self._require(Kind.BOOLEAN, arguments[0])
            return Value(f"if({given})", one_kind(arguments[1:]))
        raise UnsupportedTable(
            f"The function {name} of {len(arguments)} arguments is not supported."
        )

    def _cast(self) -> Value:
        value = self._within()
        self._tokens.expect("as")
        words = [self._tokens.pop()]
        if self._tokens.next == "(":
            while words[-1] != ")":
                words.append(self._tokens.pop())
        self._tokens.expect(")")
        type_ = schema.parse_type("".join(words))
        if value.kind is Kind.DATE and not value.is_literal and type_ == schema.Primitive("string"):
            return Value(f"CAST({value.sql} AS STRING)", Kind.STRING)
        if not value.is_literal:
            raise UnsupportedTable(f"The cast to {type_} is not supported.")
        return literal_value(cast_literal(value.literal, type_))

    def _now(self, word: str) -> Value:
        if self.moment is None:
            raise UnsupportedTable(f"{word.upper()} differs from one statement to the next.")
        now = self.moment.now.astimezone(UTC).replace(tzinfo=None)
        values = {"current_date": now.date(), "current_timestamp": now}
        return literal_value(values.get(word, self.moment.user))

    def _pattern(self, value: Value, word: str, negated: str) -> Value:
        pattern = self._primary()
        require_kind((Kind.STRING,), value, pattern)
        if not pattern.is_literal or (word == "like" and "\\" in str(pattern.literal)):
            raise UnsupportedTable(f"{word.upper()} takes a text without escapes.")
        spark = "LIKE" if word == "like" else "RLIKE"
        return Value(f"({value.sql} {negated}{spark} {pattern.sql})", Kind.BOOLEAN)

    def _require(self, kind: Kind, *values: Value) -> None:
        require_kind((kind, Kind.NULL), *values)

    def _require_shallow(self) -> None:
        if self._depth > _DEEPEST:
            raise UnsupportedTable(f"More than {_DEEPEST} brackets are nested.")


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass
class _Tokens:
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
