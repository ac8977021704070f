"""Syntax and functions that a stored view may use.

A user who may create a view may write any text into the metastore, and a reader of the view lets
Spark run that text with the rights of the job. Allow lists therefore define the syntax; all other
syntax is refused, even if it is harmless.
"""

import re

from sqlglot import exp

from airflow_hiveacid.sql.statement import SqlStatement

# Names and values are checked one by one below.
_SYNTAX = frozenset(
    {
        exp.Add, exp.Alias, exp.Aliases, exp.And, exp.Anonymous, exp.Between, exp.BitwiseAnd,
        exp.BitwiseNot, exp.BitwiseOr, exp.BitwiseXor, exp.Boolean, exp.Bracket, exp.Case, exp.Cast,
        exp.Cluster, exp.Column, exp.Concat, exp.CTE, exp.Cube, exp.DataType, exp.DataTypeParam,
        exp.Distinct, exp.Distribute, exp.Div, exp.Dot, exp.DPipe, exp.EQ, exp.Escape, exp.Except,
        exp.Exists, exp.Extract, exp.Filter, exp.From, exp.Group, exp.GroupingSets, exp.GT, exp.GTE,
        exp.Having, exp.Identifier, exp.If, exp.IgnoreNulls, exp.In, exp.IntDiv, exp.Intersect,
        exp.Interval, exp.Is, exp.Join, exp.Lambda, exp.Lateral, exp.Like, exp.Limit, exp.Literal,
        exp.LT, exp.LTE, exp.Mod, exp.Mul, exp.Neg, exp.NEQ, exp.Not, exp.Null, exp.NullSafeEQ,
        exp.Offset, exp.Or, exp.Order, exp.Ordered, exp.Overlay, exp.Paren, exp.RegexpLike,
        exp.RespectNulls, exp.Rollup, exp.Select, exp.Sort, exp.Star, exp.StrPosition, exp.Sub,
        exp.Subquery, exp.Substring, exp.Table, exp.TableAlias, exp.Transform, exp.Trim, exp.TryCast,
        exp.Tuple, exp.Union, exp.Values, exp.Var, exp.Where, exp.Window, exp.WindowSpec, exp.With,
        exp.WithinGroup,
    }
)  # fmt: skip
# Spark has each of them built in; they run nothing, read only their arguments, and return the same
# for the same row. Functions of the time return the same throughout a query.
_FUNCTIONS_TEXT = """
  abs acos acosh add_months aggregate any any_value approx_count_distinct approx_percentile array
  array_agg array_append array_compact array_contains array_distinct array_except array_insert
  array_intersect array_join array_max array_min array_position array_prepend array_remove
  array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii asin asinh atan
  atan2 atanh avg base64 bigint bin binary bit_and bit_count bit_length bit_or bit_xor bool_and
  bool_or boolean bround btrim cardinality cbrt ceil ceiling char char_length character_length chr
  coalesce collect_list collect_set concat concat_ws contains conv corr cos cosh cot count
  count_if covar_pop covar_samp crc32 cume_dist current_date current_timestamp date date_add
  date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd datediff day
  dayname dayofmonth dayofweek dayofyear decimal decode degrees dense_rank double e element_at elt
  encode endswith equal_null every exists exp explode explode_outer expm1 factorial filter
  find_in_set first first_value flatten float floor forall format_number format_string from_json
  from_unixtime from_utc_timestamp get get_json_object getbit greatest grouping grouping_id hash
  hex histogram_numeric hour hypot if ifnull initcap inline inline_outer instr int isnan isnotnull
  isnull json_array_length json_object_keys json_tuple kurtosis lag last last_day last_value lcase
  lead least left len length levenshtein ln locate log log10 log1p log2 lower lpad ltrim make_date
  make_timestamp map map_concat map_contains_key map_entries map_filter map_from_arrays
  map_from_entries map_keys map_values map_zip_with mask max max_by md5 mean median min min_by
  minute mod mode month monthname months_between named_struct nanvl negative next_day now
  nth_value ntile nullif nvl nvl2 octet_length parse_url percent_rank percentile percentile_approx
  percentile_cont percentile_disc pi pmod posexplode posexplode_outer positive pow power printf
  quarter radians rank reduce regexp_count regexp_extract regexp_extract_all regexp_instr
  regexp_like regexp_replace regexp_substr regr_avgx regr_avgy regr_count regr_intercept regr_r2
  regr_slope regr_sxx regr_sxy regr_syy repeat replace reverse right rint round row_number rpad
  rtrim second sentences sequence sha sha1 sha2 shiftleft shiftright shiftrightunsigned sign
  signum sin sinh size skewness slice smallint some sort_array soundex space split split_part sqrt
  stack startswith std stddev stddev_pop stddev_samp str_to_map string string_agg listagg struct
  substr substring_index sum tan tanh timestamp tinyint to_char to_date to_json to_number
  to_timestamp to_unix_timestamp to_utc_timestamp transform transform_keys transform_values
  translate trunc try_add try_avg try_divide try_element_at try_multiply try_subtract try_sum
  try_to_number try_to_timestamp ucase unbase64 unhex unix_date unix_timestamp upper url_decode
  url_encode var_pop var_samp variance weekday weekofyear width_bucket xxhash64 year zip_with
"""
FUNCTIONS = frozenset(_FUNCTIONS_TEXT.split())
_TYPES = frozenset(
    {
        "ARRAY", "BIGINT", "BINARY", "BOOLEAN", "CHAR", "DATE", "DECIMAL", "DOUBLE", "FLOAT", "INT",
        "INTERVAL", "MAP", "SMALLINT", "STRUCT", "TEXT", "TIMESTAMP", "TIMESTAMPLTZ",
        "TIMESTAMPNTZ", "TIMESTAMPTZ", "TINYINT", "VARBINARY", "VARCHAR",
    }
)  # fmt: skip
_NUMBER = re.compile(r"[0-9]*\.?[0-9]*(?:[eE][+-]?[0-9]+)?")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_UNIT = re.compile(
    "(?:(?:year|month|week|day|hour|minute|second|(?:milli|micro|nano)second)s?)?", re.IGNORECASE
)
_WORD = re.compile(r"[A-Za-z_]+")
# Positions of functions that produce rows, as opposed to functions on values.
_TABLE_PARTS = ("this", "db", "alias", "joins", "laterals")


def check_view(statement: SqlStatement, tree: exp.Expr) -> None:
    """Refuse a query with syntax that is not on the lists.

    Args:
        statement: The query; for the places in errors.
        tree: The syntax tree of the query.

    Raises:
        SqlError: Some syntax is not on the lists; the message names it.
    """
    for node in tree.walk():
        if type(node) not in _SYNTAX:
            _refuse(statement, node, f"{type(node).key.upper()} is not allowed in a view.")
        match node:
            case exp.Anonymous() | exp.Transform():
                _check_function(statement, node)
            case exp.Dot() if isinstance(node.expression, exp.Func):
                _refuse(statement, node, "A function of a database is not allowed in a view.")
            case exp.Lateral() if not (node.args.get("view") and isinstance(node.this, exp.Func)):
                _refuse(
                    statement, node, "LATERAL is not allowed in a view without VIEW and a call."
                )
            case exp.Lateral() if not _NAME.fullmatch(node.alias):
                # It is written without quotes.
                _refuse(statement, node, f"The name {node.alias!r} is not allowed in a view.")
            case exp.Interval() if not _UNIT.fullmatch(node.text("unit")):
                _refuse(statement, node, f"{node.text('unit')!r} is no unit of time.")
            case exp.Table():
                statement.only(node, _TABLE_PARTS, "A table in a view")
                if not isinstance(node.this, exp.Identifier) or node.catalog:
                    _refuse(statement, node, "A view reads tables by their names only.")
            case exp.DataType() if not (
                isinstance(node.this, exp.DType) and node.this.value in _TYPES
            ):
                _refuse(statement, node, f"The type {node.this} is not allowed in a view.")
            case exp.Literal() if not node.is_string and not _NUMBER.fullmatch(node.name):
                _refuse(statement, node, f"{node.name!r} is not a number.")
            case exp.Var() if not _WORD.fullmatch(node.name):
                _refuse(statement, node, f"{node.name!r} is not allowed in a view.")


def unambiguous(tree: exp.Expr) -> exp.Expr:
    """Leave no word in a tree that Spark could take for another one than we do.

    Hints go: they name another engine's ways. Every name gets quotes, but those of functions lose
    theirs; the tree is changed, and returned.
    """
    for node in list(tree.walk()):
        match node:
            case exp.Select():
                node.set("hint", None)
            case exp.Anonymous(this=exp.Identifier() as name):
                node.set("this", name.name)
            case exp.Identifier() if not _is_time(node):
                node.set("quoted", True)
    return tree


def _is_time(name: exp.Identifier) -> bool:
    """Whether a name is a time function that is written without brackets."""
    column = name.parent
    lonely = isinstance(column, exp.Column) and not column.table
    return lonely and name.name.lower() in ("current_date", "current_timestamp")


def _check_function(statement: SqlStatement, node: exp.Expr) -> None:
    name = str(node.this) if isinstance(node, exp.Anonymous) else "transform"
    if name.lower() not in FUNCTIONS:
        _refuse(
            statement,
            node,
            f"The function {name} is not allowed in a view.",
            "Read the tables of the view by a query of your own, which may call any function.",
        )


def _refuse(statement: SqlStatement, node: exp.Expr, what: str, remedy: str = "") -> None:
    statement.refuse(node, what, remedy)
