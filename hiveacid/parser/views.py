"""Queries of stored views, as sources of jobs."""

import re
from collections.abc import Sequence
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from hiveacid.errors import SqlError
from hiveacid.jobs.sources import QuerySource
from hiveacid.parser.relations import Inputs, is_of_metastore, subqueries
from hiveacid.parser.statement import TANGLED, UNTANGLE, Edit, SqlStatement
from hiveacid.parser.words import Words, separated
from hiveacid.rules.sql_names import quoted

# Functions that a stored view may call, and the tables that it may read.
#
# A user who may create a view may write any text into the metastore, and a reader of the view lets
# Spark run that text with the rights of the job. The engine therefore checks what Spark's parser
# has read; these checks of the same rules need no Spark, and their errors contain the position.


# Spark has each of them built in; they run nothing, read only their arguments, and return the same
# for the same row. Functions of the time return the same throughout a query.
_FUNCTIONS_TEXT = """
  abs acos acosh add_months aggregate any any_value approx_count_distinct approx_percentile
  array array_agg array_append array_compact array_contains array_distinct array_except
  array_insert array_intersect array_join array_max array_min array_position array_prepend
  array_remove array_repeat array_size array_sort array_union arrays_overlap arrays_zip ascii
  asin asinh atan atan2 atanh avg base64 bigint bin binary bit_and bit_count bit_length bit_or
  bit_xor bool_and bool_or boolean bround btrim cardinality cbrt ceil ceiling char char_length
  character_length chr coalesce collect_list collect_set concat concat_ws contains conv corr cos
  cosh cot count count_if covar_pop covar_samp crc32 cume_dist current_date current_timestamp
  date date_add date_diff date_format date_from_unix_date date_part date_sub date_trunc dateadd
  datediff day dayname dayofmonth dayofweek dayofyear decimal decode degrees dense_rank double e
  element_at elt encode endswith equal_null every exists exp explode explode_outer expm1
  factorial filter find_in_set first first_value flatten float floor forall format_number
  format_string from_json from_unixtime from_utc_timestamp get get_json_object getbit greatest
  grouping grouping_id hash hex histogram_numeric hour hypot if ifnull initcap inline
  inline_outer instr int isnan isnotnull isnull json_array_length json_object_keys json_tuple
  kurtosis lag last last_day last_value lcase lead least left len length levenshtein ln locate
  log log10 log1p log2 lower lpad ltrim make_date make_timestamp map map_concat map_contains_key
  map_entries map_filter map_from_arrays map_from_entries map_keys map_values map_zip_with mask
  max max_by md5 mean median min min_by minute mod mode month monthname months_between
  named_struct nanvl negative next_day now nth_value ntile nullif nvl nvl2 octet_length
  parse_url percent_rank percentile percentile_approx percentile_cont percentile_disc pi pmod
  posexplode posexplode_outer positive pow power printf quarter radians rank reduce regexp_count
  regexp_extract regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr
  regr_avgx regr_avgy regr_count regr_intercept regr_r2 regr_slope regr_sxx regr_sxy regr_syy
  repeat replace reverse right rint round row_number rpad rtrim second sentences sequence sha
  sha1 sha2 shiftleft shiftright shiftrightunsigned sign signum sin sinh size skewness slice
  smallint some sort_array soundex space split split_part sqrt stack startswith std stddev
  stddev_pop stddev_samp str_to_map string string_agg listagg struct substr substring_index sum
  tan tanh timestamp tinyint to_char to_date to_json to_number to_timestamp to_unix_timestamp
  to_utc_timestamp transform transform_keys transform_values translate trunc try_add try_avg
  try_divide try_element_at try_multiply try_subtract try_sum try_to_number try_to_timestamp
  typeof ucase unbase64 unhex unix_date unix_timestamp upper url_decode url_encode var_pop
  var_samp variance weekday weekofyear width_bucket xxhash64 year zip_with
"""
FUNCTIONS = frozenset(_FUNCTIONS_TEXT.split())
# Those with a syntax of their own in Spark are none of its functions.
_CALLED = FUNCTIONS | {"timestampadd", "timestampdiff"}
# The parts of a table in a view; versions and samples of it are others.
_TABLE_PARTS = ("this", "db", "alias", "joins", "laterals")


def check_view(statement: SqlStatement, tree: exp.Expr) -> None:
    """Refuse a query that calls other functions, or reads something else than a table.

    Args:
        statement: The query; for the places in errors.
        tree: The syntax tree of the query.

    Raises:
        SqlError: The query contains something that is invalid in a view; the message names it.
    """
    for node in tree.walk():
        match node:
            case exp.Anonymous() if node.name.lower() not in _CALLED:
                statement.refuse(
                    node,
                    f"The function {node.name} is not allowed in a view.",
                    "Read the tables of the view by a query of your own, which may call any function.",
                )
            case exp.Dot() if isinstance(node.expression, exp.Func):
                statement.refuse(node, "A function of a database is not allowed in a view.")
            case exp.Table():
                statement.only(node, _TABLE_PARTS, "A table in a view")
                is_function = not isinstance(node.this, exp.Identifier)
                if is_function or (node.db and not is_of_metastore(node)):
                    statement.refuse(node, "A view reads tables by their names only.")


# Giving the columns that a query returns other names


# Words and signs behind the columns of a SELECT.
_AFTER_COLUMNS = (
    *("FROM", "WHERE", "GROUP BY", "HAVING", "LATERAL", "WINDOW", "ORDER BY", "SORT BY", "LIMIT"),
    *("CLUSTER BY", "DISTRIBUTE BY", "OFFSET", "UNION", "EXCEPT", "MINUS", "INTERSECT", ")", ";"),
)


def with_names(sql: str, names: Sequence[str | None]) -> str | None:
    """Return a query with renamed columns; None if its columns are unknown.

    Args:
        sql: The query.
        names: The new names, in order; None for a column that keeps its name.
    """
    try:
        statement = SqlStatement.of(sql, "")
        # It gives its names to all queries of a UNION.
        first = _first(statement.parse())
        words = Words(statement)
        while words.take("("):
            pass
        words.until("SELECT")
        words.expect("SELECT")
        items = separated(words.until(*_AFTER_COLUMNS))
    except (SqlError, RecursionError):
        return None
    if not isinstance(first, exp.Select) or not (
        len(first.expressions) == len(items) == len(names)
    ):
        return None
    edits = []
    for column, item, name in zip(first.expressions, items, names, strict=True):
        if name is None:
            continue
        alias = column.args.get("alias") if isinstance(column, exp.Alias) else None
        if column.is_star or isinstance(column, exp.Aliases) or not _is_in(column, item):
            return None
        end = item[-1].end + 1
        edit = Edit(end, end, f" AS {quoted(name)}")
        if isinstance(alias, exp.Identifier):
            edit = Edit(alias.meta["start"], alias.meta["end"] + 1, quoted(name))
        edits.append(edit)
    return statement.slice(statement.tokens, edits)


def with_names_of_hive(statement: SqlStatement, tree: exp.Expr) -> str:
    """Return the query of a view, with the names that Hive gives to columns without a name.

    For a view with a list of columns, Hive stores a query on a subquery, and calls the second column of it
    `_c1` if it has no name of its own.

    Args:
        statement: The query.
        tree: Its syntax tree.
    """
    text = statement.slice(statement.tokens)
    outer = tree.expressions if isinstance(tree, exp.Select) else []
    column_names = {_column_name(node.unalias()) for node in outer} - {""}
    inner = next(subqueries(statement, statement.tokens), None) if column_names else None
    if not inner:
        return text
    query = statement.slice(inner)
    first = _first(SqlStatement.of(query, "").parse())
    columns = first.expressions if isinstance(first, exp.Select) else []
    output_names = {column.output_name for column in columns}
    places = (f"_c{index}" for index in range(len(columns)))
    names = [name if name in column_names - output_names else None for name in places]
    start = inner[0].start - statement.tokens[0].start
    renamed_query = with_names(query, names) or query
    return text[:start] + renamed_query + text[start + len(query) :]


def _column_name(node: exp.Expr) -> str:
    """Return the name of a column that Hive may have given; else nothing."""
    is_named = isinstance(node, exp.Column) and re.fullmatch(r"_c\d+", node.name)
    return node.name if is_named else ""


def _is_in(column: exp.Expr, item: Sequence[Token]) -> bool:
    starts = [node.meta["start"] for node in column.walk() if "start" in node.meta]
    return bool(item) and all(item[0].start <= start <= item[-1].end for start in starts)


def _first(query: exp.Expr) -> exp.Expr:
    """Return the first of the queries that a UNION or brackets connect."""
    while isinstance(query, exp.SetOperation | exp.Subquery):
        query = query.this
    return query


def view_query(text: str, database: str, view: str) -> QuerySource:
    """Return the query of a view, with the tables that it reads as its inputs.

    Spark receives the text of the author. Only the tables are replaced, and hints, which are for
    another engine, are blanked.

    Args:
        text: The text stored in the metastore.
        database: The database of tables that are named without one.
        view: The view's name.

    Raises:
        SqlError: The text cannot be parsed, or contains something that is invalid in a view.
    """
    try:
        statement = _without_hints(SqlStatement.of(text, database))
        tree = statement.parse()
        if not isinstance(tree, exp.Query):
            statement.refuse(None, "The text is not a query.")
        check_view(statement, tree)
        renamed_query = with_names_of_hive(statement, tree)
        if renamed_query != statement.slice(statement.tokens):
            statement = SqlStatement.of(renamed_query, database)
            tree = statement.parse()
        # Separate from the names that the query on the view defines.
        return Inputs(statement, tree, f"_{view}_").query(statement.tokens)
    except RecursionError:
        raise SqlError(f"The query of the view {view} {TANGLED}", remedy=UNTANGLE) from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # The parser trips over some texts, and lets others pass that lack a part.
        raise SqlError(f"The query of the view {view} cannot be read.") from error
    except SqlError as error:
        raise SqlError(f"The query of the view {view} cannot be read. {error}") from error


def _without_hints(statement: SqlStatement) -> SqlStatement:
    text = statement.text
    for token in statement.tokens:
        if token.token_type is TokenType.HINT:
            start, end = token.start, token.end + 1
            text = text[:start] + re.sub(r"\S", " ", text[start:end]) + text[end:]
    words = [token for token in statement.tokens if token.token_type is not TokenType.HINT]
    return replace(statement, text=text, tokens=words)
