"""Expressions in Hive's SQL with the same meaning in Spark's: those of CHECK and DEFAULT.

The metastore stores such an expression as the text that its author wrote. Its tree is written again
for Spark with every bracket and every literal explicit, so that no setting of a session changes its
meaning. Expressions that Hive and Spark may evaluate differently are refused: functions other than a
few, conversions between kinds of values, arithmetic on decimals.
"""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from datetime import UTC
from decimal import Decimal
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.errors import ParseError
from sqlglot.tokenizer_core import Token, TokenType

from hiveacid.dataclass import dataclass
from hiveacid.errors import SqlError, UnsupportedTable
from hiveacid.parser.statement import HiveAcidSql
from hiveacid.rules import schema
from hiveacid.rules.constraints import Moment
from hiveacid.rules.hive_values import (
    Kind,
    Value,
    arithmetic,
    cast_literal,
    comparable,
    kind_of,
    literal_value,
    one_kind,
    parse_literal,
    require_kind,
)
from hiveacid.rules.sql_names import quoted, unquoted

_TOKEN = re.compile(
    r"""
    (?P<space> \s++ )
    | (?P<string> (?:(?i:date|timestamp)\s*+)? (?:'(?:[^'\\]|\\.)*+' | "(?:[^"\\]|\\.)*+") )
    | (?P<identifier> `(?:[^`]|``)++` )
    | (?P<number> (?a:(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?)(?:BD|[YSLD])?+(?!\w) )
    | (?P<parameter> :[A-Za-z_]\w*+ )
    | (?P<type> (?i:as)\s++[A-Za-z_]\w*+(?:\s*+\([^()]*+\))?+ )
    | (?P<var> [A-Za-z_]\w*+ )
    | (?!--|/\*) (?P<sign> <=> | <= | >= | <> | != | == | [-+*/%=<>!(),.] )
    """,
    re.VERBOSE | re.DOTALL,
)
# Words that are column names only in quotes.
_WORDS = frozenset(
    [
        *("and", "or", "not", "between", "in", "like", "rlike", "regexp", "is", "as"),
        *("null", "true", "false", "case", "when", "then", "else", "end"),
    ]
)
_KINDS = {
    **HiveAcidSql.Tokenizer.SINGLE_TOKENS,
    **HiveAcidSql.Tokenizer.KEYWORDS,
    # Unlike NOT, it is no part of NOT IN.
    "!": TokenType.TILDE,
}
# Words that sqlglot tolerates behind others.
_NO_NEIGHBORS = frozenset(
    [
        (TokenType.NOT, "is"),
        *((TokenType.COMMA, sign) for sign in ",)"),
        (TokenType.L_PAREN, ","),
    ]
)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod)
_COMPARISONS = (exp.EQ, exp.NEQ, exp.NullSafeEQ, exp.LT, exp.LTE, exp.GT, exp.GTE)
_SIGNS: Mapping[type[exp.Expr], str] = dict(
    zip(
        (*_ARITHMETIC, *_COMPARISONS),
        ("+", "-", "*", "/", "%", "=", "<>", "<=>", "<", "<=", ">", ">="),
        strict=True,
    )
)
_PREDICATES = (exp.Is, exp.Between, exp.In, exp.Like, exp.RegexpLike, *_COMPARISONS)
_NOW = ("current_date", "current_timestamp", "current_user")
# The kinds of the argument, and the kind of the result.
_FUNCTIONS: dict[str, tuple[frozenset[Kind], Kind]] = {
    **dict.fromkeys(
        ("upper", "lower", "trim", "ltrim", "rtrim"), (frozenset({Kind.STRING}), Kind.STRING)
    ),
    "length": (frozenset({Kind.STRING}), Kind.INTEGER),
    **dict.fromkeys(
        ("year", "month", "day"), (frozenset({Kind.DATE, Kind.TIMESTAMP}), Kind.INTEGER)
    ),
}
_ALIASES = {"ucase": "upper", "lcase": "lower", "nvl": "coalesce"}
_CONDITION = (Kind.BOOLEAN, Kind.NULL)
_DEEPEST = 40
# Each takes some kilobytes of memory.
_MOST_WORDS = 100_000
# No column has a name that begins so.
PARAMETER = "\0"


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
    translation = _Translation(columns, None)
    value = translation.of(expression_tree(text))
    if value.kind not in _CONDITION:
        raise UnsupportedTable("The text is not a condition.")
    nan = "".join(f" AND NOT coalesce(isnan({x}), false)" for x in sorted(translation.floating))
    return f"(coalesce({value.sql}, true){nan})"


def default_as_spark(text: str, moment: Moment) -> str:
    """Translate the value of a DEFAULT constraint.

    Args:
        text: The value in Hive's SQL.
        moment: The values of CURRENT_TIMESTAMP, CURRENT_DATE and CURRENT_USER.

    Raises:
        UnsupportedTable: Hive and Spark may evaluate the value differently.
    """
    return _Translation({}, moment).of(expression_tree(text)).sql


class _Not(exp.Not):
    """NOT before a condition, and not that of NOT IN."""


class _Plus(exp.Neg):
    """The sign that changes nothing."""


class _Parser(HiveAcidSql.Parser):
    """Keeps what the trees of sqlglot leave out: a sign, and the place of a NOT."""

    FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {}
    NO_PAREN_FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {"CASE": lambda self: self._parse_case()}
    UNARY_PARSERS: ClassVar[dict[TokenType, Any]] = {
        TokenType.NOT: lambda self: self.expression(_Not(this=self._parse_equality())),
        TokenType.TILDE: lambda self: self.expression(_Not(this=self._parse_equality())),
        TokenType.DASH: lambda self: self.expression(exp.Neg(this=self._parse_unary())),
        TokenType.PLUS: lambda self: self.expression(_Plus(this=self._parse_unary())),
    }


def expression_tree(text: str, params: Collection[str] = ()) -> exp.Expr:
    """Parse an expression, of which every word has a place in the tree.

    Args:
        text: The expression.
        params: The names of its parameters. In the tree they are columns whose names begin with
            PARAMETER.

    Raises:
        UnsupportedTable: A part of it is not supported.
    """
    tokens = _tokens(text, params)
    if len(tokens) > _MOST_WORDS:
        raise UnsupportedTable(f"It has more than {_MOST_WORDS:,} words.")
    try:
        trees = _Parser(dialect=HiveAcidSql()).parse_into(exp.Condition, tokens, text)
    except ParseError as error:
        raise UnsupportedTable("It is not an expression.") from error
    except (SqlError, RecursionError) as error:
        raise UnsupportedTable("It is nested too deeply.") from error
    tree = trees[0] if trees else None
    # sqlglot does not mind missing words, as the AND in BETWEEN 1 AND 2.
    if tree is None or sum(map(_own_words, tree.walk())) != len(tokens):
        raise UnsupportedTable("A word of it is missing, or not supported there.")
    return tree


def _tokens(text: str, params: Collection[str]) -> list[Token]:
    """Split a text, without words of its own in sqlglot: literals stay as they are written.

    The type of a cast becomes the second argument of a function.
    """
    tokens: list[Token] = []
    place = 0
    while place < len(text):
        if (match := _TOKEN.match(text, place)) is None:
            raise UnsupportedTable(f"{text[place:][:20]!r} cannot be parsed.")
        kind, word, place = match.lastgroup or "", match.group(), match.end()
        previous = tokens[-1].token_type if tokens else None
        if kind == "identifier":
            tokens.append(Token(TokenType.IDENTIFIER, unquoted(word)))
        elif kind == "parameter":
            if word[1:] not in params:
                raise UnsupportedTable(f"The parameter {word} has no value.")
            tokens.append(Token(TokenType.IDENTIFIER, PARAMETER + word[1:]))
        elif kind == "type":
            tokens += [Token(TokenType.COMMA, ","), Token(TokenType.RAW_STRING, word[2:])]
        elif previous is TokenType.DOT and kind in ("var", "number"):
            tokens.append(Token(TokenType.VAR, word))
        elif kind == "sign" or word.lower() in _WORDS:
            if (previous, word.lower()) in _NO_NEIGHBORS:
                raise UnsupportedTable(f"{word!r} is not supported there.")
            tokens.append(Token(_KINDS[word.upper()], word))
        elif kind != "space":
            tokens.append(Token(TokenType[kind.upper()], word))
    return tokens


def _own_words(node: exp.Expr) -> int:
    """Return the number of words of an expression without those of its parts."""
    match node:
        case exp.Column():
            return len(node.parts) - 1
        case exp.In() | exp.Anonymous():
            return 2 + max(len(node.expressions), 1)
        case exp.Case():
            return 2 + (node.args.get("default") is not None)
        case exp.If() | exp.Paren() | exp.Between():
            return 2
    return 1 + bool(node.args.get("negate"))


@dataclass
class _Translation:
    columns: Mapping[str, str]
    moment: Moment | None
    floating: set[str] = field(default_factory=set)
    _depth: int = 0

    def of(self, node: exp.Expr) -> Value:
        """Translate an expression."""
        # Long chains of operators are as deep as they are long.
        chain: list[exp.Expr] = []
        while isinstance(node, (exp.And, exp.Or, *_ARITHMETIC)):
            chain.append(node)
            node = node.this
        is_operand = chain and isinstance(chain[-1], _ARITHMETIC)
        value = self._operand(node) if is_operand else self._part(node)
        for operation in reversed(chain):
            if isinstance(operation, _ARITHMETIC):
                value = arithmetic(
                    value, _SIGNS[type(operation)], self._operand(operation.expression)
                )
                continue
            operand = self.of(operation.expression)
            require_kind(_CONDITION, value, operand)
            word = "AND" if isinstance(operation, exp.And) else "OR"
            value = Value(f"({value.sql} {word} {operand.sql})", Kind.BOOLEAN)
        return value

    def _operand(self, node: exp.Expr) -> Value:
        if isinstance(node, (exp.And, exp.Or, exp.Not, *_PREDICATES)):
            raise UnsupportedTable("A condition without brackets is not supported there.")
        return self.of(node)

    def _within(self, node: exp.Expr) -> Value:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UnsupportedTable(f"More than {_DEEPEST} brackets are nested.")
        value = self.of(node)
        self._depth -= 1
        return value

    def _part(self, node: exp.Expr) -> Value:
        match node:
            case exp.Literal():
                return literal_value(parse_literal(node.name))
            case exp.Boolean() | exp.Null():
                return literal_value(node.args.get("this"))
            case exp.Column() | exp.Dot():
                return self._column(node)
            case exp.Paren():
                return self._within(node.this)
            case exp.Case():
                return self._case(node)
            case exp.Anonymous(this=str(name)):
                return self._call(name.lower(), node.expressions)
            case exp.Neg():
                return self._signed(node)
            case _Not():
                value = self._within(node.this)
                require_kind(_CONDITION, value)
                return Value(f"(NOT {value.sql})", Kind.BOOLEAN)
            case exp.Not():
                return Value(f"({self._predicate(node.this, 'NOT ')})", Kind.BOOLEAN)
        negated = "NOT " if node.args.get("negate") else ""
        return Value(f"({self._predicate(node, negated)})", Kind.BOOLEAN)

    def _predicate(self, node: exp.Expr, negated: str) -> str:
        if not isinstance(node, _PREDICATES):
            raise UnsupportedTable(f"{type(node).__name__} is not supported there.")
        value = self._operand(node.this)
        match node:
            case exp.Is(expression=exp.Null()):
                return f"{value.sql} IS {negated}NULL"
            case exp.Between():
                low = comparable(value, self._operand(node.args["low"]))
                high = comparable(value, self._operand(node.args["high"]))
                # A literal on the left is already converted for each side.
                return f"{negated}({low[0]} >= {low[1]} AND {high[0]} <= {high[1]})"
            case exp.In(expressions=[_, *_]):
                pairs = [
                    comparable(value, self._operand(expression)) for expression in node.expressions
                ]
                equal = " OR ".join(f"{left_operand} = {right}" for left_operand, right in pairs)
                return f"{negated}({equal})"
            case exp.Like() | exp.RegexpLike():
                word = "LIKE" if isinstance(node, exp.Like) else "RLIKE"
                pattern = self._operand(node.expression)
                require_kind((Kind.STRING,), value, pattern)
                if not pattern.is_literal or (word == "LIKE" and "\\" in str(pattern.literal)):
                    raise UnsupportedTable(f"{word} takes a text without escapes.")
                return f"{value.sql} {negated}{word} {pattern.sql}"
        if isinstance(node, exp.Is | exp.In):
            raise UnsupportedTable("IS takes NULL only, and IN a list of values.")
        left_operand, right = comparable(value, self._operand(node.expression))
        return f"{left_operand} {_SIGNS[type(node)]} {right}"

    def _signed(self, node: exp.Neg) -> Value:
        if isinstance(node.this, exp.Neg):
            raise UnsupportedTable("Two signs are not supported.")
        value = self._operand(node.this)
        if isinstance(node, _Plus):
            return value
        if value.is_literal and isinstance(value.literal, int | float | Decimal):
            return literal_value(-value.literal)
        require_kind((Kind.INTEGER, Kind.DOUBLE, Kind.FLOAT, Kind.DECIMAL), value)
        return Value(f"(- {value.sql})", value.kind)

    def _column(self, node: exp.Column | exp.Dot) -> Value:
        if any(type(part) not in (exp.Column, exp.Dot, exp.Identifier) for part in node.walk()):
            raise UnsupportedTable("A point is not supported there.")
        name, *path = [part.name for part in node.parts]
        word = "" if node.parts[0].args.get("quoted") else name.lower()
        if word in _NOW and not path:
            return self._now(word)
        if name.lower() not in self.columns or word in (*_WORDS, *_NOW):
            raise UnsupportedTable(f"There is no column {name}.")
        type_ = schema.parse_type(self.columns[name.lower()])
        sql = quoted(name.lower())
        for part in path:
            fields = type_.fields if isinstance(type_, schema.Struct) else ()
            matches = [inner for inner in fields if inner[0].lower() == part.lower()]
            if not matches:
                raise UnsupportedTable(f"{name} has no field {part}.")
            sql, type_ = f"{sql}.{quoted(matches[0][0])}", matches[0][1]
        kind = kind_of(type_)
        if kind in (Kind.FLOAT, Kind.DOUBLE):
            self.floating.add(sql)
        return Value(sql, kind)

    def _case(self, node: exp.Case) -> Value:
        subject = None if node.this is None else self._within(node.this)
        branches, results = "", []
        for branch in node.args["ifs"]:
            condition = self._within(branch.this)
            if subject is None:
                require_kind(_CONDITION, condition)
                test = condition.sql
            else:
                left_operand, right = comparable(subject, condition)
                test = f"({left_operand} = {right})"
            results.append(self._within(branch.args["true"]))
            branches += f" WHEN {test} THEN {results[-1].sql}"
        if not results:
            raise UnsupportedTable("CASE has no branch.")
        if (default := node.args.get("default")) is not None:
            results.append(self._within(default))
            branches += f" ELSE {results[-1].sql}"
        return Value(f"CASE{branches} END", one_kind(results))

    def _call(self, name: str, arguments: Sequence[exp.Expr]) -> Value:
        if name == "cast" and len(arguments) == 2 and isinstance(arguments[1], exp.RawString):
            return self._cast(self._within(arguments[0]), re.sub(r"\s", "", arguments[1].name))
        values = [self._within(argument) for argument in arguments]
        match name, len(values):
            case (("current_date" | "current_timestamp" | "current_user"), 0):
                return self._now(name)
            case _, 1 if _ALIASES.get(name, name) in _FUNCTIONS:
                kinds, kind = _FUNCTIONS[_ALIASES.get(name, name)]
                require_kind(kinds, *values)
            case "concat", count if count:
                require_kind((Kind.STRING,), *values)
                kind = Kind.STRING
            case ("coalesce", count) | ("nvl", 2 as count) if count:
                kind = one_kind(values)
            case "if", 3:
                require_kind(_CONDITION, values[0])
                kind = one_kind(values[1:])
            case _, count:
                raise UnsupportedTable(
                    f"The function {name} of {count} arguments is not supported."
                )
        return Value(
            f"{_ALIASES.get(name, name)}({', '.join(value.sql for value in values)})", kind
        )

    def _cast(self, value: Value, type_text: str) -> Value:
        type_ = schema.parse_type(type_text)
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
