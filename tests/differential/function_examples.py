"""The examples of Spark's function documentation as parts of statements, with Spark's own results."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

_REGISTRY = "org.apache.spark.sql.catalyst.analysis.FunctionRegistry"
_QUERY = re.compile(r"> (SELECT\b.*?);\s*\n", re.DOTALL)
# Their results differ from one evaluation to the next.
_UNSTABLE = re.compile(
    r"\b(?:rand|randn|random|uuid|shuffle|uniform|randstr|now|current_\w+|curdate|localtimestamp|user|"
    r"session_user|version|monotonically_increasing_id|spark_partition_id|input_file_\w+|"
    r"aes_encrypt|unix_timestamp\(\)|kll_\w+|theta_\w+|hll_\w+|approx_top_k_\w+)\b"
)
START = ((1, "a"), (2, "bb"), (3, ""), (4, None), (5, "a"), (6, "7"))
SOURCE = ((2, "x"), (3, "yy"), (6, None), (8, "8"))


@dataclass(frozen=True)
class Example:
    """An example of a function.

    Attributes:
        query: The query.
        expression: The selected expression, if the query has only one and no FROM.
    """

    query: str
    expression: str | None


@dataclass(frozen=True)
class Trial:
    """A statement on the table t, with a query of the rows that t has afterwards.

    Attributes:
        text: The statement; the table u is beside t.
        oracle: The query, over views of the same names.
    """

    text: str
    oracle: str


def examples(spark: SparkSession) -> list[Example]:
    """All examples, in the order of their functions."""
    java: Any = spark._jvm
    registry: Any = getattr(java, _REGISTRY).builtin()
    found: dict[str, Example] = {}
    names = registry.listFunction().iterator()
    infos = {}
    while names.hasNext():
        name = names.next()
        infos[str(name.funcName())] = registry.lookupFunction(name).get()
    for _, info in sorted(infos.items()):
        for query in _QUERY.findall(f"{info.getExamples()}\n"):
            if not _UNSTABLE.search(query):
                found[query] = Example(query, _expression(spark, query.removeprefix("SELECT ")))
    return [*found.values()]


def trials(known: Sequence[Example], seed: int, count: int) -> Iterator[Trial]:
    """Some statements of all examples, other ones for each seed.

    Args:
        known: The examples.
        seed: The number of the batch: batches go through the examples one after the other.
        count: The number of trials.
    """
    random = Random(f"trials {seed}")
    for at in range(seed * count, (seed + 1) * count):
        example, turn = known[at % len(known)], at // len(known)
        kinds = _KINDS if example.expression is not None else _OF_QUERIES
        make = kinds[(at + turn) % len(kinds)]
        yield make(example, random.randrange(100, 10_000_000))


def _expression(spark: SparkSession, text: str) -> str | None:
    parser: Any = spark._jsparkSession.sessionState().sqlParser()  # type: ignore[attr-defined]
    try:
        tree = parser.parseExpression(text)
    except PySparkException:
        return None
    named = tree.getClass().getSimpleName() in ("Alias", "MultiAlias", "UnresolvedStar")
    return None if named else text


def _text(example: Example) -> str:
    return f"make_valid_utf8(CAST(({example.expression}\n) AS STRING))"


def _condition(example: Example, table: str) -> str:
    return f"length(coalesce({_text(example)}, '')) % 2 = {table}.id % 2"


def _rows(example: Example) -> str:
    return f"SELECT to_json(struct(q.*)) AS j FROM ({example.query}\n) AS q"


def _set(example: Example, number: int) -> Trial:
    chosen, value = f"id % 3 = {number % 3}", _text(example)
    return Trial(
        f"UPDATE t SET s = {value} WHERE {chosen}",
        f"SELECT id, CASE WHEN {chosen} THEN {value} ELSE s END FROM t",
    )


def _update_where(example: Example, number: int) -> Trial:
    where = _condition(example, "t")
    return Trial(
        f"UPDATE t SET s = '{number}', id = id + 1 WHERE {where}",
        f"SELECT if(c, id + 1, id), if(c, '{number}', s) FROM "
        f"(SELECT *, coalesce({where}, false) AS c FROM t)",
    )


def _delete_where(example: Example, number: int) -> Trial:
    where = f"id % 4 = {number % 4} AND {_condition(example, 't')}"
    return Trial(
        f"DELETE FROM t WHERE {where}", f"SELECT * FROM t WHERE NOT coalesce({where}, false)"
    )


def _values(example: Example, number: int) -> Trial:
    rows = f"VALUES ({number}, {_text(example)}), ({number} + 1, 'beside')"
    return Trial(f"INSERT INTO t {rows}", f"SELECT * FROM t UNION ALL SELECT * FROM ({rows})")


def _on(example: Example, number: int) -> Trial:
    on, value = f"t.id = s.id AND {_condition(example, 's')}", _text(example)
    return Trial(
        f"MERGE INTO t USING u AS s ON {on} WHEN MATCHED THEN UPDATE SET s = concat(t.s, s.s) "
        f"WHEN NOT MATCHED AND {_condition(example, 's')} THEN INSERT (s, id) VALUES ({value}, s.id)",
        f"SELECT t.id, if(s.id IS NULL, t.s, concat(t.s, s.s)) FROM t LEFT JOIN u AS s ON {on} "
        f"UNION ALL SELECT s.id, {value} FROM u AS s LEFT ANTI JOIN t ON {on} "
        f"WHERE {_condition(example, 's')}",
    )


def _source(example: Example, number: int) -> Trial:
    query = f"SELECT {number}, q.j FROM ({_rows(example)}) AS q"
    return Trial(f"INSERT INTO t {query}", f"SELECT * FROM t UNION ALL {query}")


def _merge_source(example: Example, number: int) -> Trial:
    query = f"SELECT 2 AS id, max(j) AS j FROM ({_rows(example)})"
    return Trial(
        f"WITH s AS ({query}) MERGE INTO t USING s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET t.s = s.j WHEN NOT MATCHED BY SOURCE AND t.s = 'a' THEN DELETE",
        f"SELECT t.id, if(s.id IS NULL, t.s, s.j) FROM t LEFT JOIN ({query}) AS s ON t.id = s.id "
        "WHERE s.id IS NOT NULL OR NOT t.s <=> 'a'",
    )


def _subquery(example: Example, number: int) -> Trial:
    value = f"(SELECT max(j) FROM ({_rows(example)}))"
    where = f"EXISTS (SELECT 1 FROM ({_rows(example)}) WHERE length(j) > 9) OR t.id < 3"
    return Trial(
        f"UPDATE t SET (s, id) = ({value}, id + 1) WHERE {where}",
        f"SELECT if(c, id + 1, id), if(c, {value}, s) FROM (SELECT *, {where} AS c FROM t)",
    )


_OF_QUERIES = (_source, _merge_source, _subquery)
_KINDS = (_set, _update_where, _values, _on, _source, _delete_where, _merge_source, _subquery)
