"""Random queries, each run directly by Spark and through a view with the same text."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from random import Random

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession

from hiveacid.errors import HiveAcidError, TypeMismatch
from hiveacid.jobs.sources import ChangesSource, TableSource
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.spark.read.table_reader import RowQuery
from hiveacid.spark.session import in_session, scan_session
from hiveacid.spark.statements.insert import new_columns
from hiveacid.spark.statements.source import SourceFrame
from tests.differential.mutations import Statements
from tests.stored_views import store_view

TABLES = {
    "t": """
        SELECT a, b, c, d, ts, n, l, m, s FROM VALUES
        (1, true, 'a', DATE '2026-01-31', TIMESTAMP '2026-03-01 00:30:00', 5L, array(1, 2),
         map('k', 1), named_struct('f', 1, 'g', 'x')),
        (2, false, 'bb', DATE '2024-02-29', TIMESTAMP '2026-03-02 12:00:00', -1L, array(),
         map(), named_struct('f', 2, 'g', NULL)),
        (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL) AS r(a, b, c, d, ts, n, l, m, s)
    """,
    "u": "SELECT a, b FROM VALUES (1, 10), (2, NULL), (2, 20) AS r(a, b)",
    "v": "SELECT a, b FROM VALUES (2, 10), (4, 1) AS r(a, b)",
}
# Values by their types: numbers, texts, dates, timestamps, conditions, and intervals. In braces is the type
# of a value inside.
_VALUES: Mapping[str, Sequence[str]] = {
    "n": (
        *("t.a", "t.n", "t.l[0]", "t.m['k']", "t.s.f", "`t`.`a`", "a", "n", "1", "-1", "-128Y", "1.5BD"),
        *("2.5e0D", "-9223372036854775808L", "+'5'", "-1::string::int", "1L", "t.a::string::int", "-{n}"),
        *("try_add({n}, {n})", "{n} - ({n} - 1)", "{n} * 2 - 1", "{n} % 7 DIV 2", "coalesce({n}, {n})"),
        *("CASE WHEN {b} THEN {n} ELSE {n} END", "CASE {n} WHEN 1 THEN 2 END", "if({b}, {n}, 0)"),
        *("datediff(DAY, {d}, {d})", "datediff({d}, t.d)", "length({s})", "extract(DAY FROM {d})"),
        *("position('a' IN {s})", "array({n}, {n})[0]", "named_struct('f', {n}).f", "1 >> 1", "- -1"),
        *("transform(array({n}), x -> x)[0]", "(SELECT max(u.b) FROM u WHERE u.a = t.a)", "nullif({n}, 1)"),
        *("sum(t.a) OVER (PARTITION BY t.b ORDER BY t.a)", "first({n}) OVER (ORDER BY t.a)", "try_cast({s} AS int)"),
        *("count(*) OVER (ORDER BY ts RANGE BETWEEN {i} PRECEDING AND CURRENT ROW)", "pmod({n}, 3)"),
    ),
    "s": (
        *("t.c", "t.s.g", "c", "'x'", "X '4142'::string", "hex(X'4142')", "hex(X '4142')", "r'a\\b'"),
        *("'it\\'s'", '"say \'x\'"', "'/* no */ -- x'", "-1::string", "'\\u0041\\\\'", "'${env:HOME}'"),
        *("{s} || {s}", "CAST({n} AS string)", "{n}::string", "-{n}::string", "{d}::string", "{t}::string"),
        *("{i}::string", "trim(BOTH 'x' FROM {s})", "substring({s} FROM 1 FOR 2)", "upper({s})", "typeof({n})"),
        *("overlay({s} PLACING 'x' FROM 1)", "concat_ws('-', {s}, {s})", "typeof({t} - {i})", "typeof({i})"),
        *("element_at(split({s}, 'b'), 1)", "typeof(-128Y)", "typeof(1.5BD)", "typeof(+'5')", "{b}::string"),
        *("decode(X '4142', 'UTF-8')", "date_format({t}, 'yyyy')", "CASE WHEN {b} THEN {s} END"),
    ),
    "d": ("t.d", "DATE'2026-01-31'", "dateadd(DAY, 1, {d})", "{d} - 1", "date_add({d}, 1)", "CAST({t} AS date)"),
    "t": (
        *("t.ts", "ts", "TIMESTAMP '2026-03-01 12:00:00'", "{t} - {i}", "{t} + {i}", "{t} - {i} * 2", "{t} - -{i}"),
        *("timestampadd(HOUR, 2, {t})", "dateadd(DAY, 1, {t})", "dateadd(HOUR, 1, {t})", "{i} + {t}", "{d} + {i}"),
    ),
    "b": (
        *("t.b", "true", "{n} = {n}", "{n} IN (1, {n})", "{n} BETWEEN {n} AND 5", "{s} IS DISTINCT FROM {s}"),
        *("{n} <=> {n}", "NOT {n} = {n}", "{s} LIKE 'a%'", "{s} LIKE ANY ('a', 'b')", "{s} RLIKE 'a'", "{s} = c"),
        *("{s} ILIKE 'A'", "{d} < {d}", "{t} >= {t}", "{b} OR {b} AND {b}", "t.a IN (SELECT u.a FROM u)"),
        *("EXISTS (SELECT 1 FROM u WHERE u.a = t.a)", "{s} LIKE 'a!%' ESCAPE '!'", "{n} IS NOT NULL", "{t} < {d}"),
    ),
    "i": (
        *("INTERVAL 1 DAY 12 HOURS", "INTERVAL 1 WEEK", "INTERVAL 2 HOURS", "INTERVAL '1 2' DAY TO HOUR"),
        *("INTERVAL '2' DAY", "INTERVAL 1 DAY 2 HOURS 3 MINUTES", "INTERVAL '3 DAYS 1 HOUR'"),
    ),
}  # fmt: skip
_TAILS = (
    *("", "WHERE {b}", "WHERE {b} AND {b}", "ORDER BY 1 DESC NULLS LAST", "LIMIT 10", "-- the end"),
    *("WHERE t.ts - {i} < TIMESTAMP '2026-02-28 12:30:00'", "WHERE t.a = /* one */ 1", "SORT BY 1"),
)  # fmt: skip
_FROM = (
    *("t", "t AS t", "{db}.t", "t t", "{db}.`t` AS t", "(SELECT * FROM t) AS t", "T", "t /* u */"),
    *("t CROSS JOIN (SELECT max(b) AS z FROM v)", "t LATERAL VIEW OUTER explode(l) e AS x"),
)  # fmt: skip
_WHOLE = (
    *("SELECT a, count(*) AS n, sum({n}) FROM t GROUP BY a, n HAVING count(*) > 0", "SELECT 1"),
    *("WITH c AS (SELECT {n} AS x FROM t), d AS (SELECT * FROM c) SELECT d.x FROM d CROSS JOIN c",),
    *("WITH t AS (SELECT * FROM t WHERE a > 1) SELECT {s} FROM t", "SELECT * FROM u NATURAL JOIN v"),
    *("SELECT b, max(c) FILTER (WHERE a > 1) FROM t GROUP BY ROLLUP (b)", "SELECT * EXCEPT (l, m) FROM t"),
    *("SELECT u.a, u.a, {db}.u.b AS a FROM {db}.u", "SELECT DISTINCT a, b FROM u UNION SELECT b, a FROM v"),
    *("SELECT * FROM VALUES (1, 'x'), (2, NULL) AS w(p, q)", "SELECT u.*, v.b FROM u JOIN v ON u.b = v.b"),
    *("SELECT /*+ BROADCAST(u) */ u.a FROM u JOIN {db}.v ON u.a = v.a ORDER BY u.b", "SELECT t.* FROM t"),
    *("FROM t SELECT {s} WHERE a < 3", "(SELECT a FROM u) INTERSECT (SELECT a FROM v)", "SELECT a b FROM u AS t"),
    *("SELECT u.a, v.b FROM u LEFT JOIN v USING (a) WHERE u.b > 1", "SELECT a FROM u EXCEPT SELECT a FROM v"),
)  # fmt: skip
_SLOT = re.compile("{([nsdtbi])}")


class Queries:
    """Makes random queries on the tables, and mutations of them."""

    def __init__(self, seed: int, database: str) -> None:
        self._random = Random(f"queries {seed}")
        self._database = database
        self._statements = Statements(seed)

    def valid(self) -> Iterator[str]:
        """Queries without end; Spark runs most of them."""
        while True:
            yield self._query().replace("{db}", self._database)

    def mutated(self, query: str) -> str:
        """Change a query at a random place, or at two."""
        return self._statements.mutated(query)

    def _query(self) -> str:
        if self._random.random() < 0.25:
            return self._filled(self._random.choice(_WHOLE))
        columns = ", ".join(self._value(self._random.choice("nnssdtb")) for _ in range(2))
        tail = self._filled(self._random.choice(_TAILS))
        return f"SELECT {columns} FROM {self._random.choice(_FROM)} {tail}"

    def _value(self, kind: str, depth: int = 2) -> str:
        forms = [form for form in _VALUES[kind] if depth or not _SLOT.search(form)]
        return self._filled(self._random.choice(forms), depth - 1)

    def _filled(self, form: str, depth: int = 1) -> str:
        return _SLOT.sub(lambda slot: self._value(slot[1], depth), form)


class Views:
    """Tables of a metastore, and a Spark with temporary views of the same rows.

    Args:
        spark: The session.
        client: The metastore.
        database: An empty database.

    Attributes:
        outcomes: The numbers of queries by their outcome: "equal", "refused", or "invalid", which are
            those that Spark does not run either.
        refusals: The errors of refused queries.
    """

    def __init__(self, spark: SparkSession, client: MetastoreClient, database: str) -> None:
        self.outcomes: Counter[str] = Counter()
        self.refusals: dict[str, str] = {}
        self._spark, self._client = spark, client
        self._view = TableRef(database, "stored")
        self._direct = scan_session(spark)
        self._rows = {}
        for name, query in TABLES.items():
            self._rows[name] = rows = self._direct.sql(query)
            rows.createOrReplaceTempView(name)
            ref = TableRef(database, name)
            client.create_table(HiveTable.new(ref, new_columns(ref, rows.schema)))

    def difference(self, query: str) -> str | None:
        """Count the outcome of a query; describe the difference between a view and Spark."""
        expected = None
        columns: Sequence[HiveColumn] = (HiveColumn("c", "string"),)
        with suppress(PySparkException, Py4JError):
            query, frame, columns = self._readable(query)
            expected = Counter(map(_text, frame.collect()))
        try:
            found = Counter(map(_text, self._through_view(query, columns).collect()))
        except HiveAcidError as error:
            outcome = "invalid" if expected is None else "refused"
            self.outcomes[outcome] += 1
            if outcome == "refused":
                self.refusals[query] = str(error)
            return f"not one line: {error}" if "\n" in error.what else None
        except (PySparkException, Py4JError) as error:
            problem = str(error).splitlines()[0]
            self.outcomes["invalid"] += expected is None
            return None if expected is None else f"the view fails: {problem}"
        if expected is None:
            return f"only the view has rows: {found}"
        self.outcomes["equal"] += 1
        return None if found == expected else f"view:  {found}\n    Spark: {expected}"

    def _readable(self, query: str) -> tuple[str, DataFrame, Sequence[HiveColumn]]:
        """Return a query with types of Hive, its rows as Spark computes them, and its columns."""
        frame = self._direct.sql(self._without_database(query))
        try:
            found = new_columns(
                self._view, frame.toDF(*[f"c{at}" for at in range(len(frame.columns))]).schema
            )
        except TypeMismatch:
            query = f"SELECT to_json(struct(*)) AS c FROM ({query}\n) AS q"
            frame = self._direct.sql(self._without_database(query))
            found = (HiveColumn("c", "string"),)
        return query, frame, found

    def _without_database(self, query: str) -> str:
        # Temporary views have none.
        return re.sub(rf"\b{self._view.database}\s*\.\s*", "", query)

    def _through_view(self, query: str, columns: Sequence[HiveColumn]) -> DataFrame:
        store_view(self._client, self._view, query, columns)
        try:
            source = TableSource(self._view.full_name)
            return SourceFrame(self._spark, self._client, source).frame(_Rows(self._rows))
        finally:
            self._client.drop_table(self._view)


class _Rows:
    """Reads the tables as frames that are there already."""

    def __init__(self, rows: Mapping[str, DataFrame]) -> None:
        self._rows = rows

    def confirmed(self, table: HiveTable) -> HiveTable:
        return table

    def rows(self, spark: SparkSession, table: HiveTable, query: RowQuery) -> DataFrame:
        return in_session(self._rows[table.ref.name], spark)

    def changes(self, spark: SparkSession, table: HiveTable, source: ChangesSource) -> DataFrame:
        raise AssertionError("no view reads changes")


def _text(row: Row) -> str:
    return str(tuple(row))
