"""Conditions and values whose results equal those of Spark, evaluated by Arrow.

An expression is compiled before the transaction begins: it is evaluated here only if each part of it
is in the table ``SUBSET``. All others have another place, which is Spark; the reason names the part.
A value that is out of range, such as an overflow, needs Spark, too: Spark does not evaluate every part
for every row, and only it knows whether the statement fails.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import date, datetime, time
from decimal import Decimal as Number
from functools import reduce
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc
from sqlglot import exp

from hiveacid.errors import SparkNeeded, UnsupportedTable
from hiveacid.jobs.fields import Parameters
from hiveacid.parser.hive_expression import PARAMETER, expression_tree
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
                found = self.of(rows)
        except pa.ArrowException as error:
            raise SparkNeeded(f"an expression with a value out of range ({error})") from error
        if isinstance(found, pa.Scalar):
            return pa.chunked_array([pa.repeat(found, rows.num_rows)])
        if len(found) != rows.num_rows:
            raise SparkNeeded(f"an expression with {len(found)} values for {rows.num_rows} rows")
        return pa.chunked_array([found]) if isinstance(found, pa.Array) else found

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
        names = [part.lower() for part in parts]
        if len(names) == 2 and names[0] in self.columns:
            found = [(names[0], names[1])] if names[1] in self.columns[names[0]] else []
        elif len(names) == 1:
            found = [(alias, names[0]) for alias, own in self.columns.items() if names[0] in own]
        else:
            found = []
        if len(found) != 1:
            raise SparkNeeded(f"the name {'.'.join(parts)}")
        ((alias, name),) = found
        return f"{alias}.{name}", self.columns[alias][name]


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
    known = {
        pa.bool_(): _BOOLEAN,
        pa.float32(): _FLOAT,
        pa.float64(): _DOUBLE,
        pa.date32(): _DATE,
        pa.timestamp("us"): _TIMESTAMP,
        pa.string(): _STRING,
        pa.large_string(): _STRING,
        pa.null(): _VOID,
    }
    if kind in known:
        return known[kind]
    if pa.types.is_decimal128(kind) and kind.scale >= 0:
        return Decimal(kind.precision, kind.scale)
    raise SparkNeeded(f"the type {kind}")


def condition(given: str | exp.Expr, scope: Scope) -> Expression:
    """Compile a condition, as a text or a tree; see ``compiled``."""
    found = of_tree(tree_of(given, scope) if isinstance(given, str) else given, scope)
    if found.type != _BOOLEAN:
        raise SparkNeeded(f"a condition of the type {found.type}")
    return found


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
        found = self._predicate(node)
        return self._negated(found) if node.args.get("negate") else found

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
        if any(type(each) not in (exp.Column, exp.Dot, exp.Identifier) for each in node.walk()):
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
        shown = _STRING if isinstance(type_, Varchar) else type_

        def values(rows: pa.Table) -> Values:
            column = rows.column(name)
            if column.type == TIMESTAMP:
                # Spark sees no nanoseconds.
                parts = [as_unit(chunk, "us") for chunk in column.chunks]
                return pa.chunked_array(parts, kind)
            if kind == pa.string():
                require_utf8(column)
            return column if column.type == kind else column.cast(kind)

        return Expression(shown, values)

    def _signed(self, node: exp.Neg) -> Expression:
        if type(node) is not exp.Neg:
            raise SparkNeeded("the sign +")
        if isinstance(node.this, exp.Literal):
            return _written(node.this, negative=True)
        part = self._operand(node.this)
        _require_sign(part)
        return Expression(part.type, lambda rows: pc.negate_checked(part.of(rows)))

    def _arithmetic(self, node: exp.Expr) -> Expression:
        left, right = self._operand(node.this), self._operand(node.expression)
        left, right = as_type_of(left, right), as_type_of(right, left)
        compute = _ARITHMETIC[type(node)]
        types = {left.type, right.type}
        if isinstance(node, exp.Mod) and not all(str(each) in INTEGERS for each in types):
            raise SparkNeeded(f"a remainder of {' and '.join(sorted(map(str, types)))}")
        if any(isinstance(each, Decimal) for each in types):
            return _decimal_arithmetic(node, compute, left, right)
        if _DOUBLE in types:
            wide = common_type(left.type, right.type)
        elif types == {_FLOAT}:
            wide = _FLOAT
        elif all(str(each) in INTEGERS for each in types):
            wide = max(types, key=lambda each: _WIDTHS.index(str(each)))
        else:
            raise SparkNeeded(f"arithmetic on {' and '.join(sorted(map(str, types)))}")
        for part in (left, right):
            require_number(part)
        left, right = widened(left, wide), widened(right, wide)
        return Expression(wide, lambda rows: compute(left.of(rows), right.of(rows)))

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
        left, right = self._operand(node.this), self._operand(node.expression)
        if type(node) in _COMPARISONS:
            return _compared(_COMPARISONS[type(node)], left, right)
        equal = _compared("equal", left, right)

        def same(rows: pa.Table) -> Values:
            nulls = pc.and_(pc.is_null(left.of(rows)), pc.is_null(right.of(rows)))
            return pc.or_(pc.fill_null(equal.of(rows), False), nulls)

        return Expression(_BOOLEAN, same)

    def _in(self, node: exp.In) -> Expression:
        value = self._operand(node.this)
        choices = [as_type_of(self.of(each), value) for each in node.expressions]
        # Spark converts all of them to one type first; many doubles are looked up by their bits.
        wide = reduce(common_type, [each.type for each in choices], value.type)
        if wide in (_FLOAT, _DOUBLE):
            raise SparkNeeded(f"IN with values of the type {wide}")
        known = [each for each in choices if each.is_literal]
        parts = [_compared("equal", value, each) for each in choices if not each.is_literal]
        parts += [_looked_up(value, known, wide)] if known else []
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
            met = self.of(branch.this)
            conditions.append(met if subject is None else _compared("equal", subject, met))
            results.append(self.of(branch.args["true"]))
        default = node.args.get("default")
        results.append(literal(None) if default is None else self.of(default))
        return _chosen(conditions, results)

    def _call(self, name: str, given: Sequence[exp.Expr]) -> Expression:
        if name == "cast" and len(given) == 2 and isinstance(given[1], exp.RawString):
            return cast(self.of(given[0]), _named_type(given[1].name))
        parts = [self.of(each) for each in given]
        match name, parts:
            case ("coalesce", [_, *_]) | (("nvl" | "ifnull"), [_, _]):
                wide = common_types(parts)
                casts = [widened(part, wide) for part in parts]
                return Expression(
                    wide, lambda rows: pc.coalesce(*[each.of(rows) for each in casts])
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
            case "length", [one] if one.type == _STRING:
                return Expression(_INT, lambda rows: pc.utf8_length(one.of(rows)))
            case _, [one] if name in _TRIMS and one.type == _STRING:
                return Expression(_STRING, lambda rows: _TRIMS[name](one.of(rows), " "))
            case "isnan", [one] if one.type in (_FLOAT, _DOUBLE):
                return Expression(
                    _BOOLEAN, lambda rows: pc.coalesce(pc.is_nan(one.of(rows)), pa.scalar(False))
                )
            case "abs", [one]:
                _require_sign(one)
                return Expression(one.type, lambda rows: pc.abs_checked(one.of(rows)))
            # Other dates may be in years that Arrow does not count.
            case _, [one] if name in _PARTS_OF_DAYS and isinstance(given[0], exp.Column):
                if one.type in (_DATE, _TIMESTAMP):
                    return Expression(_INT, lambda rows: _part_of_day(name, one.of(rows)))
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
    found = literal(value)
    suffix = _SUFFIXES.get(node.name[-1])
    return found if suffix is None else replace(widened(found, Primitive(suffix)), literal=value)


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
    node: exp.Expr, compute: Callable[[Any, Any], Any], left: Expression, right: Expression
) -> Expression:
    types = []
    for part in (left, right):
        type_ = _as_decimal(part.type)
        if type_ is None:
            raise SparkNeeded(f"arithmetic on {left.type} and {right.type}")
        # Spark counts the digits of a literal, but not of a tinyint.
        if part.is_literal and isinstance(part.literal, int) and str(part.type) != "tinyint":
            type_ = Decimal(len(str(abs(part.literal))), 0)
        types.append(type_)
    one, other = types
    if isinstance(node, exp.Mul):
        digits, scale = one.precision + other.precision + 1, one.scale + other.scale
    else:
        scale = max(one.scale, other.scale)
        digits = max(one.precision - one.scale, other.precision - other.scale) + scale + 1
    if digits > _MOST_DIGITS:
        raise SparkNeeded(f"a decimal of {digits} digits")
    left, right = widened(left, one), widened(right, other)
    return Expression(Decimal(digits, scale), lambda rows: compute(left.of(rows), right.of(rows)))


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
        # To Spark, NaN equals itself and is the largest number.
        one, other = left.of(rows), right.of(rows)
        first, second = pc.is_nan(one), pc.is_nan(other)
        equal = pc.or_(pc.equal(one, other), pc.and_(first, second))
        less = pc.or_(pc.less(one, other), pc.and_(pc.invert(first), second))
        return {
            "equal": lambda: equal,
            "not_equal": lambda: pc.invert(equal),
            "less": lambda: less,
            "less_equal": lambda: pc.or_(less, equal),
            "greater": lambda: pc.invert(pc.or_(less, equal)),
            "greater_equal": lambda: pc.invert(less),
        }[sign]()

    return Expression(_BOOLEAN, values)


def _looked_up(value: Expression, choices: Sequence[Expression], wide: HiveType) -> Expression:
    """Compare values with literals, however many these are, in one step."""
    found = array_of(choices, wide).drop_null()
    has_null, value = len(found) < len(choices), widened(value, wide)

    def values(rows: pa.Table) -> Values:
        own = value.of(rows)
        known = pc.is_in(own, value_set=found)
        unknown = pc.or_(pc.is_null(own), pc.invert(known)) if has_null else pc.is_null(own)
        return pc.if_else(unknown, pa.scalar(None, pa.bool_()), known)

    return Expression(_BOOLEAN, values)


def array_of(literals: Sequence[Expression], wide: HiveType) -> pa.Array:
    """Return literals as an array of a type that has an equal value for each of them."""
    parts = []
    for type_ in dict.fromkeys(each.type for each in literals):
        same = [each.literal for each in literals if each.type == type_]
        array = pa.array(same, arrow_type(type_))
        own = Expression(type_, lambda rows: rows.column(0).chunk(0))
        parts.append(widened(own, wide).of(pa.table([array], [""])))
    return pa.concat_arrays(parts)


def of_one_form(values: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return values of which equal ones have equal bits: floats have two zeros, and many NaN."""
    if not pa.types.is_floating(values.type):
        return values
    nan = pa.scalar(float("nan"), values.type)
    return pc.if_else(pc.is_nan(values), nan, pc.add(values, pa.scalar(0.0, values.type)))


def as_type_of(value: Expression, other: Expression) -> Expression:
    """Convert a literal to the type of the value that it is combined with, as Spark does."""
    found, to = value.literal, other.type
    try:
        if isinstance(found, str) and to in (_DATE, _TIMESTAMP):
            return literal(parse_day(found) if to == _DATE else parse_time(found))
    except UnsupportedTable as error:
        raise SparkNeeded(f"{found!r} as a {to}") from error
    if value.type == _DATE and isinstance(found, date) and to == _TIMESTAMP:
        return literal(datetime.combine(found, time()))
    if to == _DOUBLE and (
        isinstance(found, Number)
        or (value.type == _BIGINT and isinstance(found, int) and abs(found) <= _EXACT_AS_DOUBLE)
    ):
        return literal(float(found))
    return value


def common_type(one: HiveType, other: HiveType) -> HiveType:
    """Return the type that Spark compares values of two types in.

    Raises:
        SparkNeeded: The conversion is not evaluated here.
    """
    if one == other or other == _VOID:
        return one
    if one == _VOID:
        return other
    names = {str(one), str(other)}
    if names <= set(INTEGERS):
        return max(one, other, key=lambda each: _WIDTHS.index(str(each)))
    if names == {"float", "double"} or names <= {*_WIDTHS[:3], "double"}:
        return _DOUBLE
    scaled = [_as_decimal(each) for each in (one, other)]
    if all(scaled):
        scale = max(each.scale for each in scaled if each)
        digits = max(each.precision - each.scale for each in scaled if each) + scale
        if digits <= _MOST_DIGITS:
            return Decimal(digits, scale)
    raise SparkNeeded(f"a comparison of {one} with {other}")


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
    if any(each.type != _BOOLEAN for each in conditions):
        raise SparkNeeded("a condition of another type")
    wide = common_types(results)
    casts = [widened(each, wide) for each in results]

    def values(rows: pa.Table) -> Values:
        value: Values = casts[-1].values(rows)
        for met, result in zip(reversed(conditions), reversed(casts[:-1]), strict=True):
            value = pc.if_else(met.holds(rows), result.values(rows), value)
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
