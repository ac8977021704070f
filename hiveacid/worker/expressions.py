"""Conditions and values whose results equal those of Spark, evaluated by Arrow.

An expression is compiled before the transaction begins: it is evaluated here only if each part of it
is in the table ``SUBSET``. All others have another place, which is Spark; the reason names the part.
A value that is out of range, such as an overflow, needs Spark, too: Spark does not evaluate every part
for every row, and only it knows whether the statement fails.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from datetime import date, datetime, time
from decimal import Decimal as Number
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc
from sqlglot import exp

from hiveacid.dataclass import dataclass
from hiveacid.errors import SparkNeeded, UnsupportedTable
from hiveacid.jobs.fields import Parameters
from hiveacid.parser.hive_expression import PARAMETER, expression_tree
from hiveacid.plan.scope import NamedTable, named_column
from hiveacid.rules.hive_values import parse_day, parse_literal, parse_time
from hiveacid.rules.schema import Char, Decimal, HiveType, Primitive, Varchar, parse_type
from hiveacid.tables.scan.times import TIMESTAMP, as_unit

INTEGERS = {"tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64()}
_WIDTHS = list(INTEGERS)
_SIGNED_PARAMETER = re.compile("-:[A-Za-z_]")
_SUFFIXES = {"Y": "tinyint", "S": "smallint", "L": "bigint"}
# The digits of integers as decimals.
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
_MOST_DIGITS = 38
# Spark rounds when it changes the sign of a number with more.
_MOST_DIGITS_WITH_SIGN = 34
# Longer patterns are too large for Arrow's regular expressions.
_LONGEST_PATTERN = 1000
# All integers up to here are doubles, too.
_EXACT_AS_DOUBLE = 1 << 53
_BOOLEAN, _STRING, _DATE = Primitive("boolean"), Primitive("string"), Primitive("date")
_INT, _BIGINT, _DOUBLE = Primitive("int"), Primitive("bigint"), Primitive("double")
_FLOAT, _TIMESTAMP, _VOID = Primitive("float"), Primitive("timestamp"), Primitive("void")
_COMPARISONS: Mapping[type[exp.Expr], str] = {
    exp.EQ: "equal",
    exp.NEQ: "not_equal",
    exp.LT: "less",
    exp.LTE: "less_equal",
    exp.GT: "greater",
    exp.GTE: "greater_equal",
}
_ARITHMETIC: Mapping[type[exp.Expr], Callable[[Any, Any], Any]] = {
    exp.Add: pc.add_checked,
    exp.Sub: pc.subtract_checked,
    exp.Mul: pc.multiply_checked,
    exp.Mod: lambda one, other: pc.subtract(one, pc.multiply(pc.divide_checked(one, other), other)),
}
# Conditions that are operands of another one only within brackets: parsers disagree about others.
_CONDITIONS: tuple[type[exp.Expr], ...] = (
    *(exp.And, exp.Or, exp.Not, exp.Is, exp.Between, exp.In, exp.Like, exp.NullSafeEQ),
    *_COMPARISONS,
)
_TRIMS = {"trim": pc.utf8_trim, "ltrim": pc.utf8_ltrim, "rtrim": pc.utf8_rtrim}
_PARTS_OF_DAYS = {"year": pc.year, "month": pc.month, "day": pc.day}
# The parts of SQL that are evaluated here, for the documentation.
SUBSET: Mapping[str, str] = {
    "columns": "of all types but char, binary, timestamps with a zone, and nested ones; texts in"
    " UTF-8",
    "values of columns": "of the same type, or converted as by CAST; integers and decimals that fit;"
    " decimals and bigint to doubles, decimals to floats; texts of the form 2026-01-31 or"
    " 2026-01-31 12:30:00 to dates and timestamps; texts to varchar",
    "literals": "numbers, texts, booleans, NULL, DATE '…' and TIMESTAMP '…' since 1582-10-15, and"
    " parameters",
    "= <> < <= > >= <=>": "of texts, dates, timestamps, booleans, floats, and doubles; of integers and"
    " decimals, whose common type has up to 38 digits; integers up to int, floats, and literal numbers"
    " with doubles; a literal text of the form 2026-01-31 or 2026-01-31 12:30:00 with a date or a"
    " timestamp; a literal date with a timestamp",
    "AND OR NOT, IS NULL, BETWEEN": "of those",
    "IN": "a list of those, but not of floats and doubles",
    "LIKE": "with a literal pattern without escapes, of up to 1000 characters",
    "%": "of integers",
    "+ - *": "of integers; of floats; of doubles with doubles, integers up to int, floats, and literal"
    " numbers; of decimals with decimals and integers, with results of up to 38 digits",
    "- and abs": "of numbers, decimals of up to 34 digits",
    "isnan": "of floats and doubles",
    "CASE, IF, COALESCE, NVL, IFNULL": "of values of types that can be compared",
    "concat, concat_ws, length, trim, ltrim, rtrim": "of texts; concat_ws with a literal separator",
    "year, month, day": "of columns of dates and timestamps",
    "date_add, date_sub": "of a date, and an integer up to int",
    "CAST": "between integers; to decimals and doubles that hold all values of the type; of NULL; of"
    " literal numbers to doubles; of literal texts and dates to dates and timestamps",
}


ONE_ROW = pa.table({"#": pa.array([0])})
# The values of an expression for the rows of a table: an array, or a scalar for all rows.
Values = Any


@dataclass(frozen=True)
class Expression:
    """A compiled expression.

    Attributes:
        type: The type of its values; void for NULL.
        of: Evaluates it for the rows of a table.
        literal: Its value, if it is a literal.
        is_literal: Whether it is one.
    """

    type: HiveType
    of: Callable[[pa.Table], Values]
    literal: object = None
    is_literal: bool = False

    def values(self, rows: pa.Table) -> pa.ChunkedArray:
        """Evaluate the expression, also a literal, as a column.

        Raises:
            SparkNeeded: A value is out of range.
        """
        try:
            with _not_too_deep():
                outcome = self.of(rows)
        except pa.ArrowException as error:
            raise SparkNeeded(f"an expression with a value out of range ({error})") from error
        if isinstance(outcome, pa.Scalar):
            return pa.chunked_array([pa.repeat(outcome, rows.num_rows)])
        if len(outcome) != rows.num_rows:
            raise SparkNeeded(f"an expression with {len(outcome)} values for {rows.num_rows} rows")
        return pa.chunked_array([outcome]) if isinstance(outcome, pa.Array) else outcome

    def holds(self, rows: pa.Table) -> Any:
        """Return a mask of the rows for which a condition is true; null is not."""
        return pc.fill_null(self.values(rows), False)


@dataclass(frozen=True)
class Scope:
    """The names that an expression can use.

    Attributes:
        columns: By alias in lower case: the types of columns by their names in lower case. The
            column ``c`` of the alias ``t`` is ``t.c`` in the rows.
        params: The values of parameters.
    """

    columns: Mapping[str, Mapping[str, HiveType]]
    params: Parameters = field(default_factory=dict)

    def column(self, parts: Sequence[str]) -> tuple[str, HiveType]:
        """Resolve a name.

        Raises:
            SparkNeeded: Only one column may have the name, without fields; Spark reports all others.
        """
        tables = [NamedTable(alias, alias, types) for alias, types in self.columns.items()]
        column = named_column(parts, tables)
        if column is None or column.fields:
            raise SparkNeeded(f"the name {'.'.join(parts)}")
        return f"{column.side}.{column.name}", self.columns[column.side][column.name]


def with_alias(alias: str, rows: pa.Table) -> pa.Table:
    """Return rows with the names that expressions use."""
    return rows.rename_columns([f"{alias}.{name.lower()}" for name in rows.column_names])


def compiled(text: str, scope: Scope) -> Expression:
    """Compile an expression.

    Raises:
        SparkNeeded: A part of it is not in the subset.
    """
    return of_tree(tree_of(text, scope), scope)


def tree_of(text: str, scope: Scope) -> exp.Expr:
    """Parse an expression; see ``compiled``."""
    if _SIGNED_PARAMETER.search(text):
        raise SparkNeeded("a minus sign directly before a parameter")
    try:
        return expression_tree(text, scope.params)
    except UnsupportedTable as error:
        raise SparkNeeded(error.what.rstrip(".")) from error


def of_tree(tree: exp.Expr, scope: Scope) -> Expression:
    """Compile a part of an expression; see ``compiled``."""
    with _not_too_deep():
        return _Compiler(scope).of(tree)


@contextmanager
def _not_too_deep() -> Iterator[None]:
    try:
        yield
    except RecursionError as error:
        raise SparkNeeded("an expression that is nested too deeply") from error


def owners_of(tree: exp.Expr, scope: Scope) -> set[str]:
    """Return the aliases of the tables whose columns an expression names."""
    return {
        scope.column([part.name for part in node.parts])[0].partition(".")[0]
        for node in tree.find_all(exp.Column)
        if not node.parts[0].name.startswith(PARAMETER)
    }


def bare_column(tree: exp.Expr, scope: Scope) -> tuple[str, HiveType] | None:
    """Return the name in the rows and the type, if an expression is only a column."""
    tree = tree.unnest()
    if not isinstance(tree, exp.Column) or tree.parts[0].name.startswith(PARAMETER):
        return None
    return scope.column([part.name for part in tree.parts])


def hive_type(kind: pa.DataType) -> HiveType:
    """Return the type of the values of a column of Arrow.

    Raises:
        SparkNeeded: Values of the type are not evaluated here.
    """
    for name, of in INTEGERS.items():
        if kind == of:
            return Primitive(name)
    types = {
        pa.bool_(): _BOOLEAN,
        pa.float32(): _FLOAT,
        pa.float64(): _DOUBLE,
        pa.date32(): _DATE,
        pa.timestamp("us"): _TIMESTAMP,
        pa.string(): _STRING,
        pa.large_string(): _STRING,
        pa.null(): _VOID,
    }
    if kind in types:
        return types[kind]
    if pa.types.is_decimal128(kind) and kind.scale >= 0:
        return Decimal(kind.precision, kind.scale)
    raise SparkNeeded(f"the type {kind}")


def condition(source: str | exp.Expr, scope: Scope) -> Expression:
    """Compile a condition, as a text or a tree; see ``compiled``."""
    expression = of_tree(tree_of(source, scope) if isinstance(source, str) else source, scope)
    if expression.type != _BOOLEAN:
        raise SparkNeeded(f"a condition of the type {expression.type}")
    return expression


def may_fail(tree: exp.Expr) -> bool:
    """Whether a value of an expression may be out of range."""
    kinds = (*_ARITHMETIC, exp.Neg)
    return any(
        isinstance(node, kinds)
        or (isinstance(node, exp.Anonymous) and node.name.lower() in ("abs", "cast"))
        for node in tree.walk()
    )


def literal(value: object) -> Expression:
    """Return a literal with the type that Spark gives it."""
    type_: HiveType
    match value:
        case None:
            type_ = _VOID
        case bool():
            type_ = _BOOLEAN
        case int() if -(1 << 31) <= value < 1 << 31:
            type_ = _INT
        case int() if -(1 << 63) <= value < 1 << 63:
            type_ = _BIGINT
        case Number():
            _, digits, exponent = value.as_tuple()
            if not isinstance(exponent, int) or not -_MOST_DIGITS <= exponent <= 0:
                raise SparkNeeded(f"the number {value}")
            type_ = Decimal(max(len(digits), -exponent), -exponent)
            if type_.precision > _MOST_DIGITS:
                raise SparkNeeded(f"the number {value}")
        case float():
            type_ = _DOUBLE
        case str():
            type_ = _STRING
        case datetime() if value.tzinfo is None:
            type_ = _TIMESTAMP
        case date() if not isinstance(value, datetime):
            type_ = _DATE
        case _:
            raise SparkNeeded(f"the literal {value!r}")
    try:
        scalar = pa.scalar(value, arrow_type(type_))
    except UnicodeEncodeError as error:
        raise SparkNeeded("a text with half of a character") from error
    return Expression(type_, lambda _: scalar, value, is_literal=True)


def arrow_type(type_: HiveType) -> pa.DataType:
    """Return the type of Arrow for values of a type.

    Raises:
        SparkNeeded: Values of the type are not evaluated here.
    """
    match type_:
        case Primitive(name) if name in INTEGERS:
            return INTEGERS[name]
        case Primitive("boolean"):
            return pa.bool_()
        case Primitive("float"):
            return pa.float32()
        case Primitive("double"):
            return pa.float64()
        case Primitive("date"):
            return pa.date32()
        case Primitive("timestamp"):
            return pa.timestamp("us")
        case Primitive("string") | Varchar():
            return pa.string()
        case Primitive("void"):
            return pa.null()
        case Decimal(precision, scale):
            return pa.decimal128(precision, scale)
    raise SparkNeeded(f"the type {type_}")


@dataclass
class _Compiler:
    scope: Scope
    _columns: int = 0

    def of(self, node: exp.Expr) -> Expression:
        """Compile a part."""
        columns = self._columns
        part = self._part(node)
        if part.is_literal or self._columns > columns:
            return part
        # Spark may evaluate a constant even if there are no rows.
        scalar = part.values(ONE_ROW)[0]
        return replace(part, of=lambda _: scalar)

    def _part(self, node: exp.Expr) -> Expression:
        match node:
            case exp.And() | exp.Or():
                return self._connected(node)
            case exp.Paren():
                return self.of(node.this)
            case exp.Literal():
                return _written(node)
            case exp.Boolean() | exp.Null():
                return literal(node.args.get("this"))
            case exp.Column() | exp.Dot():
                return self._column(node)
            case exp.Neg():
                return self._signed(node)
            case exp.Not():
                return self._negated(self.of(node.this))
            case exp.Case():
                return self._case(node)
            case exp.Anonymous(this=str(name)):
                return self._call(name.lower(), node.expressions)
        if type(node) in _ARITHMETIC:
            return self._arithmetic(node)
        expression = self._predicate(node)
        return self._negated(expression) if node.args.get("negate") else expression

    def _operand(self, node: exp.Expr) -> Expression:
        if isinstance(node, _CONDITIONS):
            raise SparkNeeded("a condition without brackets as an operand")
        return self.of(node)

    def _connected(self, node: exp.Expr) -> Expression:
        parts: list[Expression] = []
        kind = type(node)
        while isinstance(node, kind):
            parts.append(as_condition(self.of(node.expression)))
            node = node.this
        parts.append(as_condition(self.of(node)))
        return _joined(pc.and_kleene if kind is exp.And else pc.or_kleene, parts[::-1])

    def _negated(self, part: Expression) -> Expression:
        part = as_condition(part)
        return Expression(_BOOLEAN, lambda rows: pc.invert(part.of(rows)))

    def _column(self, node: exp.Column | exp.Dot) -> Expression:
        if any(type(part) not in (exp.Column, exp.Dot, exp.Identifier) for part in node.walk()):
            raise SparkNeeded("a point")
        if not all(part.args.get("quoted") or part.name.isascii() for part in node.parts):
            raise SparkNeeded("a name with other letters without quotes")
        parts = [part.name for part in node.parts]
        if parts[0].startswith(PARAMETER):
            return literal(self.scope.params[parts[0].removeprefix(PARAMETER)])
        name, type_ = self.scope.column(parts)
        self._columns += 1
        # Spark compares and returns char values with blanks.
        if isinstance(type_, Char):
            raise SparkNeeded(f"the type {type_}")
        kind = arrow_type(type_)
        visible_type = _STRING if isinstance(type_, Varchar) else type_

        def values(rows: pa.Table) -> Values:
            column = rows.column(name)
            if column.type == TIMESTAMP:
                # Spark sees no nanoseconds.
                parts = [as_unit(chunk, "us") for chunk in column.chunks]
                return pa.chunked_array(parts, kind)
            if kind == pa.string():
                require_utf8(column)
            return column if column.type == kind else column.cast(kind)

        return Expression(visible_type, values)

    def _signed(self, node: exp.Neg) -> Expression:
        if type(node) is not exp.Neg:
            raise SparkNeeded("the sign +")
        if isinstance(node.this, exp.Literal):
            return _written(node.this, negative=True)
        part = self._operand(node.this)
        _require_sign(part)
        return Expression(part.type, lambda rows: pc.negate_checked(part.of(rows)))

    def _arithmetic(self, node: exp.Expr) -> Expression:
        first, right = self._operand(node.this), self._operand(node.expression)
        first, right = as_type_of(first, right), as_type_of(right, first)
        compute = _ARITHMETIC[type(node)]
        types = {first.type, right.type}
        if isinstance(node, exp.Mod) and not all(str(type_) in INTEGERS for type_ in types):
            raise SparkNeeded(f"a remainder of {' and '.join(sorted(map(str, types)))}")
        if any(isinstance(type_, Decimal) for type_ in types):
            return _decimal_arithmetic(node, compute, first, right)
        if _DOUBLE in types:
            wide = common_type(first.type, right.type)
        elif types == {_FLOAT}:
            wide = _FLOAT
        elif all(str(type_) in INTEGERS for type_ in types):
            wide = max(types, key=lambda type_: _WIDTHS.index(str(type_)))
        else:
            raise SparkNeeded(f"arithmetic on {' and '.join(sorted(map(str, types)))}")
        for part in (first, right):
            require_number(part)
        first, right = widened(first, wide), widened(right, wide)
        return Expression(wide, lambda rows: compute(first.of(rows), right.of(rows)))

    def _predicate(self, node: exp.Expr) -> Expression:
        match node:
            case exp.Is(expression=exp.Null()):
                part = self._operand(node.this)
                return Expression(_BOOLEAN, lambda rows: pc.is_null(part.of(rows)))
            case exp.Between():
                value = self._operand(node.this)
                low = _compared("greater_equal", value, self._operand(node.args["low"]))
                high = _compared("less_equal", value, self._operand(node.args["high"]))
                return Expression(_BOOLEAN, lambda rows: pc.and_kleene(low.of(rows), high.of(rows)))
            case exp.In(expressions=[_, *_]):
                return self._in(node)
            case exp.Like():
                return self._like(node)
        if type(node) not in (exp.NullSafeEQ, *_COMPARISONS):
            raise SparkNeeded(type(node).__name__)
        first, right = self._operand(node.this), self._operand(node.expression)
        if type(node) in _COMPARISONS:
            return _compared(_COMPARISONS[type(node)], first, right)
        equal = _compared("equal", first, right)

        def same(rows: pa.Table) -> Values:
            nulls = pc.and_(pc.is_null(first.of(rows)), pc.is_null(right.of(rows)))
            return pc.or_(pc.fill_null(equal.of(rows), False), nulls)

        return Expression(_BOOLEAN, same)

    def _in(self, node: exp.In) -> Expression:
        value = self._operand(node.this)
        choices = [as_type_of(self.of(expression), value) for expression in node.expressions]
        # Spark converts all of them to one type first; many doubles are looked up by their bits.
        wide = reduce(common_type, [choice.type for choice in choices], value.type)
        if wide in (_FLOAT, _DOUBLE):
            raise SparkNeeded(f"IN with values of the type {wide}")
        literals = [choice for choice in choices if choice.is_literal]
        parts = [_compared("equal", value, choice) for choice in choices if not choice.is_literal]
        parts += [_looked_up(value, literals, wide)] if literals else []
        return _joined(pc.or_kleene, parts)

    def _like(self, node: exp.Like) -> Expression:
        value, pattern = self._operand(node.this), self._operand(node.expression)
        text = pattern.literal
        if (
            value.type != _STRING
            or not isinstance(text, str)
            or "\\" in text
            or len(text) > _LONGEST_PATTERN
        ):
            raise SparkNeeded("LIKE with such a pattern")
        return Expression(_BOOLEAN, lambda rows: pc.match_like(value.of(rows), text))

    def _case(self, node: exp.Case) -> Expression:
        subject = None if node.this is None else self.of(node.this)
        conditions, results = [], []
        for branch in node.args["ifs"]:
            test = self.of(branch.this)
            conditions.append(test if subject is None else _compared("equal", subject, test))
            results.append(self.of(branch.args["true"]))
        default = node.args.get("default")
        results.append(literal(None) if default is None else self.of(default))
        return _chosen(conditions, results)

    def _call(self, name: str, arguments: Sequence[exp.Expr]) -> Expression:
        if name == "cast" and len(arguments) == 2 and isinstance(arguments[1], exp.RawString):
            return cast(self.of(arguments[0]), _named_type(arguments[1].name))
        parts = [self.of(each) for each in arguments]
        match name, parts:
            case ("coalesce", [_, *_]) | (("nvl" | "ifnull"), [_, _]):
                wide = common_types(parts)
                casts = [widened(part, wide) for part in parts]
                return Expression(
                    wide, lambda rows: pc.coalesce(*[value.of(rows) for value in casts])
                )
            case "if", [first, second, third]:
                return _chosen([first], [second, third])
            case "concat", [_, *_] if {part.type for part in parts} == {_STRING}:
                return Expression(
                    _STRING,
                    lambda rows: pc.binary_join_element_wise(*[p.of(rows) for p in parts], ""),
                )
            case "concat_ws", [mark, _, *_] if {part.type for part in parts} == {_STRING}:
                if isinstance(mark.literal, str):
                    return _joined_texts(mark.literal, parts[1:])
            case "length", [argument] if argument.type == _STRING:
                return Expression(_INT, lambda rows: pc.utf8_length(argument.of(rows)))
            case _, [argument] if name in _TRIMS and argument.type == _STRING:
                return Expression(_STRING, lambda rows: _TRIMS[name](argument.of(rows), " "))
            case "isnan", [argument] if argument.type in (_FLOAT, _DOUBLE):
                return Expression(
                    _BOOLEAN,
                    lambda rows: pc.coalesce(pc.is_nan(argument.of(rows)), pa.scalar(False)),
                )
            case "abs", [argument]:
                _require_sign(argument)
                return Expression(argument.type, lambda rows: pc.abs_checked(argument.of(rows)))
            # Other dates may be in years that Arrow does not count.
            case _, [argument] if name in _PARTS_OF_DAYS and isinstance(arguments[0], exp.Column):
                if argument.type in (_DATE, _TIMESTAMP):
                    return Expression(_INT, lambda rows: _part_of_day(name, argument.of(rows)))
            case (("date_add" | "date_sub"), [day, number]) if day.type == _DATE:
                if str(number.type) in _WIDTHS[:3]:
                    number = widened(number, _INT)
                    # Java's integers overflow here, even in ANSI mode.
                    move = pc.add if name == "date_add" else pc.subtract
                    return Expression(
                        _DATE,
                        lambda rows: move(day.of(rows).cast(pa.int32()), number.of(rows)).cast(
                            pa.date32()
                        ),
                    )
        raise SparkNeeded(f"{name}()")


_MICROS_OF_A_DAY = 86_400_000_000
_OF_1970 = date(1970, 1, 1).toordinal()
_LEAST, _MOST = (day.toordinal() - _OF_1970 for day in (date.min, date.max))


def days_of(values: Values) -> np.ndarray[Any, Any]:
    """Return the days of dates and timestamps since 1970, and 0 for null."""
    if isinstance(values, pa.Scalar):
        values = pa.repeat(values, 1)
    if pa.types.is_timestamp(values.type):
        return np.asarray(pc.fill_null(values.cast(pa.int64()), 0)) // _MICROS_OF_A_DAY
    return np.asarray(pc.fill_null(values.cast(pa.int32()), 0))


def _part_of_day(name: str, values: Values) -> Values:
    days = days_of(values)
    # Arrow counts years in 16 bits.
    if np.any((days < _LEAST) | (days > _MOST)):
        raise SparkNeeded("a day before the year 1 or after 9999")
    return _PARTS_OF_DAYS[name](values).cast(pa.int32())


def _joined_texts(mark: str, parts: Sequence[Expression]) -> Expression:
    """Join texts without the nulls, each behind a mark, and drop the first mark."""

    def values(rows: pa.Table) -> Values:
        marked = [
            pc.coalesce(pc.binary_join_element_wise(mark, part.of(rows), ""), "") for part in parts
        ]
        return pc.utf8_slice_codeunits(pc.binary_join_element_wise(*marked, ""), len(mark))

    return Expression(_STRING, values)


def require_utf8(texts: pa.ChunkedArray) -> None:
    """Make sure that texts are UTF-8: Arrow and Spark find different letters in other bytes.

    Raises:
        SparkNeeded: They are not.
    """
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid as error:
        raise SparkNeeded("a text that is not UTF-8") from error


def _written(node: exp.Literal, *, negative: bool = False) -> Expression:
    """Return a literal as it is written, with the type of its suffix."""
    try:
        value = parse_literal(node.name)
    except UnsupportedTable as error:
        raise SparkNeeded(error.what.rstrip(".")) from error
    if negative:
        if not isinstance(value, int | float | Number):
            raise SparkNeeded("the sign of a text")
        value = -value
    expression = literal(value)
    suffix = _SUFFIXES.get(node.name[-1])
    return (
        expression
        if suffix is None
        else replace(widened(expression, Primitive(suffix)), literal=value)
    )


def _named_type(text: str) -> HiveType:
    try:
        type_ = parse_type(text)
    except UnsupportedTable as error:
        raise SparkNeeded(f"the type{text}") from error
    # The synonyms of Hive and Spark differ.
    if str(type_) != "".join(text.lower().split()) or isinstance(type_, Char | Varchar):
        raise SparkNeeded(f"the type{text}")
    return type_


def _joined(join: Callable[[Any, Any], Any], parts: Sequence[Expression]) -> Expression:
    # One after the other: their results together may be larger than the rows.
    return Expression(_BOOLEAN, lambda rows: reduce(join, (part.of(rows) for part in parts)))


def as_condition(part: Expression) -> Expression:
    """Return a condition as booleans; NULL is one, too.

    Raises:
        SparkNeeded: The expression is no condition.
    """
    if part.type not in (_BOOLEAN, _VOID):
        raise SparkNeeded(f"a condition of the type {part.type}")
    return widened(part, _BOOLEAN)


def require_number(part: Expression) -> None:
    """Make sure that values are numbers.

    Raises:
        SparkNeeded: They are not, and Spark may convert them.
    """
    if str(part.type) not in (*INTEGERS, "float", "double") and not isinstance(part.type, Decimal):
        raise SparkNeeded(f"arithmetic on {part.type}")


def _require_sign(part: Expression) -> None:
    require_number(part)
    if isinstance(part.type, Decimal) and part.type.precision > _MOST_DIGITS_WITH_SIGN:
        raise SparkNeeded(f"the sign of a {part.type}")


def _decimal_arithmetic(
    node: exp.Expr, compute: Callable[[Any, Any], Any], first: Expression, right: Expression
) -> Expression:
    types = []
    for part in (first, right):
        type_ = _as_decimal(part.type)
        if type_ is None:
            raise SparkNeeded(f"arithmetic on {first.type} and {right.type}")
        # Spark counts the digits of a literal, but not of a tinyint.
        if part.is_literal and isinstance(part.literal, int) and str(part.type) != "tinyint":
            type_ = Decimal(len(str(abs(part.literal))), 0)
        types.append(type_)
    first_type, second_type = types
    if isinstance(node, exp.Mul):
        digits, scale = (
            first_type.precision + second_type.precision + 1,
            first_type.scale + second_type.scale,
        )
    else:
        scale = max(first_type.scale, second_type.scale)
        digits = (
            max(first_type.precision - first_type.scale, second_type.precision - second_type.scale)
            + scale
            + 1
        )
    if digits > _MOST_DIGITS:
        raise SparkNeeded(f"a decimal of {digits} digits")
    first, right = widened(first, first_type), widened(right, second_type)
    return Expression(Decimal(digits, scale), lambda rows: compute(first.of(rows), right.of(rows)))


def cast(part: Expression, wide: HiveType) -> Expression:
    """Convert values to another type.

    Raises:
        SparkNeeded: The conversion is not evaluated here.
    """
    part = as_type_of(part, Expression(wide, part.of))
    integers = {str(part.type), str(wide)} <= set(INTEGERS)
    if not integers and not is_wider(wide, part.type):
        raise SparkNeeded(f"a cast of {part.type} to {wide}")
    # It is no literal whose type Spark chooses by its value.
    return replace(widened(part, wide), literal=None, is_literal=False)


def _compared(sign: str, left: Expression, right: Expression) -> Expression:
    left, right = as_type_of(left, right), as_type_of(right, left)
    wide = common_type(left.type, right.type)
    if wide == _VOID:
        return Expression(_BOOLEAN, lambda _: pa.scalar(None, pa.bool_()))
    left, right = widened(left, wide), widened(right, wide)
    function = getattr(pc, sign)
    if wide not in (_FLOAT, _DOUBLE):
        return Expression(_BOOLEAN, lambda rows: function(left.of(rows), right.of(rows)))

    def values(rows: pa.Table) -> Values:
        # To Spark, NaN equals itself and is the largest number. Both zeros are equal to Arrow, too.
        first_values, second_values = left.of(rows), right.of(rows)
        first, second = pc.is_nan(first_values), pc.is_nan(second_values)
        equal = pc.or_(pc.equal(first_values, second_values), pc.and_(first, second))
        is_less = pc.or_(pc.less(first_values, second_values), pc.and_(pc.invert(first), second))
        return {
            "equal": lambda: equal,
            "not_equal": lambda: pc.invert(equal),
            "less": lambda: is_less,
            "less_equal": lambda: pc.or_(is_less, equal),
            "greater": lambda: pc.invert(pc.or_(is_less, equal)),
            "greater_equal": lambda: pc.invert(is_less),
        }[sign]()

    return Expression(_BOOLEAN, values)


def _looked_up(value: Expression, choices: Sequence[Expression], wide: HiveType) -> Expression:
    """Compare values with literals, however many these are, in one step."""
    literals = array_of(choices, wide).drop_null()
    has_null, value = len(literals) < len(choices), widened(value, wide)

    def values(rows: pa.Table) -> Values:
        operand = value.of(rows)
        is_listed = pc.is_in(operand, value_set=literals)
        is_unclear = (
            pc.or_(pc.is_null(operand), pc.invert(is_listed)) if has_null else pc.is_null(operand)
        )
        return pc.if_else(is_unclear, pa.scalar(None, pa.bool_()), is_listed)

    return Expression(_BOOLEAN, values)


def array_of(literals: Sequence[Expression], wide: HiveType) -> pa.Array:
    """Return literals as an array of a type that has an equal value for each of them."""
    parts = []
    for type_ in dict.fromkeys(literal.type for literal in literals):
        numbers = [literal.literal for literal in literals if literal.type == type_]
        array = pa.array(numbers, arrow_type(type_))
        literals_of_type = Expression(type_, lambda rows: rows.column(0).chunk(0))
        parts.append(widened(literals_of_type, wide).of(pa.table([array], [""])))
    return pa.concat_arrays(parts)


def of_one_form(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values of which equal ones have equal bits: floats have two zeros, and many NaN."""
    if not pa.types.is_floating(values.type):
        return values
    nan = pa.scalar(float("nan"), values.type)
    return pc.if_else(pc.is_nan(values), nan, pc.add(values, pa.scalar(0.0, values.type)))


def as_type_of(value: Expression, partner: Expression) -> Expression:
    """Convert a literal to the type of the value that it is combined with, as Spark does."""
    text, to = value.literal, partner.type
    try:
        if isinstance(text, str) and to in (_DATE, _TIMESTAMP):
            return literal(parse_day(text) if to == _DATE else parse_time(text))
    except UnsupportedTable as error:
        raise SparkNeeded(f"{text!r} as a {to}") from error
    if value.type == _DATE and isinstance(text, date) and to == _TIMESTAMP:
        return literal(datetime.combine(text, time()))
    if to == _DOUBLE and (
        isinstance(text, Number)
        or (value.type == _BIGINT and isinstance(text, int) and abs(text) <= _EXACT_AS_DOUBLE)
    ):
        return literal(float(text))
    return value


def common_type(first: HiveType, second: HiveType) -> HiveType:
    """Return the type that Spark compares values of two types in.

    Raises:
        SparkNeeded: The conversion is not evaluated here.
    """
    if first == second or second == _VOID:
        return first
    if first == _VOID:
        return second
    names = {str(first), str(second)}
    if names <= set(INTEGERS):
        return max(first, second, key=lambda type_: _WIDTHS.index(str(type_)))
    if names == {"float", "double"} or names <= {*_WIDTHS[:3], "double"}:
        return _DOUBLE
    scaled = [_as_decimal(type_) for type_ in (first, second)]
    if all(scaled):
        scale = max(decimal.scale for decimal in scaled if decimal)
        digits = max(decimal.precision - decimal.scale for decimal in scaled if decimal) + scale
        if digits <= _MOST_DIGITS:
            return Decimal(digits, scale)
    raise SparkNeeded(f"a comparison of {first} with {second}")


def _as_decimal(type_: HiveType) -> Decimal | None:
    if isinstance(type_, Decimal):
        return type_
    digits = _DIGITS.get(str(type_))
    return None if digits is None else Decimal(digits, 0)


def common_types(parts: Sequence[Expression]) -> HiveType:
    """Return the type that Spark converts values of several types to.

    Raises:
        SparkNeeded: The conversion is not evaluated here.
    """
    return reduce(common_type, [part.type for part in parts])


def _chosen(conditions: Sequence[Expression], results: Sequence[Expression]) -> Expression:
    if any(condition.type != _BOOLEAN for condition in conditions):
        raise SparkNeeded("a condition of another type")
    wide = common_types(results)
    casts = [widened(result, wide) for result in results]

    def values(rows: pa.Table) -> Values:
        value: Values = casts[-1].values(rows)
        for test, result in zip(reversed(conditions), reversed(casts[:-1]), strict=True):
            value = pc.if_else(test.holds(rows), result.values(rows), value)
        return value

    return Expression(wide, values)


def is_wider(wide: HiveType, type_: HiveType) -> bool:
    """Whether a type has an equal value for each of another type."""
    try:
        return common_type(wide, type_) == wide != _VOID
    except SparkNeeded:
        return False


def widened(part: Expression, wide: HiveType) -> Expression:
    """Convert values to a type that has an equal value for each of them."""
    if part.type == wide:
        return part
    kind = arrow_type(wide)
    if str(part.type) in INTEGERS and isinstance(wide, Decimal):
        # Arrow wants room for all digits of the type, and not of the values.
        return replace(
            part,
            type=wide,
            of=lambda rows: pc.cast(pc.cast(part.of(rows), pa.decimal128(_MOST_DIGITS, 0)), kind),
        )
    return replace(part, type=wide, of=lambda rows: pc.cast(part.of(rows), kind))
