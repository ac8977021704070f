"""Random statements with every optional clause of Spark's grammar, and mutations of them."""

from collections.abc import Iterator, Sequence
from random import Random

from hiveacid.parser.statement import tokens_of

EXPRESSIONS = (
    *("1", "s.b", "t.a + 1", "upper(t.c)", "NULL", "CASE WHEN t.a > 1 THEN 'x' ELSE t.c END"),
    *("'it\\'s'", '"WHEN"', "r'a\\b'", "X'1F'", "1.5BD", "- -1", "DATE'2026-01-31'"),
    *("transform(array(1, 2), x -> x + t.a)[0]", "named_struct('f', 1).f", "m['k']", "t.a::string"),
    *("INTERVAL 1 DAY 12 HOURS", "CAST(t.a AS DECIMAL(10, 2))", "extract(YEAR FROM t.d)"),
    *("trim(BOTH 'x' FROM t.c)", "position('a' IN t.c)", "substring(t.c FROM 2 FOR 1)"),
)
CONDITIONS = (
    *("t.a = 1", "t.a = s.b AND t.c IS NOT NULL", "t.a BETWEEN 1 AND 2 OR NOT t.b", "a IN (1, 2)"),
    *("t.c LIKE 'a!%' ESCAPE '!'", "t.a IS DISTINCT FROM 2", "t.c RLIKE 'x' AND (t.a > 1)", "true"),
    *(
        "t.a <=> NULL",
        "t.c LIKE ANY ('a', 'b')",
        "t.a NOT IN (1, NULL)",
        "CASE t.a WHEN 1 THEN b END",
    ),
)
QUERIES = (
    "SELECT 1, 'x'",
    "SELECT u.a, u.b AS z FROM u AS u WHERE u.a > 1 ORDER BY u.a DESC NULLS LAST LIMIT 3 OFFSET 1",
    "VALUES (1, 'x'), (2, NULL)",
    "SELECT DISTINCT a FROM u AS u JOIN v AS v USING (a) LEFT JOIN u AS w ON w.a = v.b",
    "SELECT a, count(*) FILTER (WHERE b > 1) FROM u AS u GROUP BY a HAVING count(*) > 1",
    "SELECT a, row_number() OVER (PARTITION BY b ORDER BY a) FROM u AS u UNION ALL SELECT 1, 2",
    "SELECT * EXCEPT (a) FROM u AS u LATERAL VIEW explode(array(1)) e AS x",
    "WITH c AS (SELECT 1 AS a) SELECT * FROM c AS d",
    "(SELECT a FROM u AS u) INTERSECT (SELECT b FROM v AS v)",
    "SELECT a FROM u AS u TABLESAMPLE (10 PERCENT) REPEATABLE (7) WINDOW w AS (ORDER BY a)",
)
# Clauses of other databases, and of Spark in other statements.
FOREIGN = (
    *("QUALIFY row_number() OVER (ORDER BY a) = 1", "RETURNING *", "RETURNING a INTO x", "TOP (5)"),
    *(
        "OUTPUT inserted.*",
        "WITH (TABLOCK)",
        "OPTION (RECOMPILE)",
        "LIMIT 1",
        "ORDER BY a",
        "OFFSET 1",
    ),
    *(
        "FETCH FIRST 1 ROWS ONLY",
        "PARTITION (p = 1)",
        "AS x (c1, c2)",
        "AS x",
        "x",
        "FINAL",
        "ONLY",
    ),
    *(
        "@v1",
        "VERSION AS OF 3",
        "TIMESTAMP AS OF '2026-01-01'",
        "FOR UPDATE",
        "(+)",
        "COLLATE UTF8",
    ),
    *(
        "WITH SCHEMA EVOLUTION",
        "* EXCEPT (a)",
        "EXCEPT (a)",
        "REPLACE WHERE a = 1",
        "ZORDER BY (a)",
    ),
    *(
        "LOG ERRORS",
        "DELETE WHERE b = 1",
        "CONNECT BY PRIOR a = b",
        "SAMPLE (10)",
        "AT (OFFSET => 1)",
    ),
    *(
        "ON CONFLICT DO NOTHING",
        "ON DUPLICATE KEY UPDATE a = 1",
        "IGNORE",
        "CROSS APPLY f(x)",
        "LATERAL",
    ),
    *(
        "IF NOT EXISTS",
        "IF EXISTS",
        "DEFAULT VALUES",
        "BY NAME",
        "OVERWRITE",
        "BY SOURCE",
        "BY TARGET",
    ),
    *(
        "WHERE t.a = 1",
        "AND t.a = 2",
        "WHEN MATCHED THEN DELETE",
        "THEN INSERT *",
        "UPDATE SET *",
        "*",
    ),
    *(
        "USING (a)",
        "CASCADE",
        "AT TIME ZONE 'UTC'",
        "BETWEEN SYMMETRIC 2 AND 1",
        "IGNORE NULLS",
        ", 1",
    ),
    *(
        "TABLESAMPLE (1 ROWS) REPEATABLE (7)",
        "OPTIONS (a = 1)",
        "WITH (a = 1)",
        "DISTINCT",
        "=",
    ),
    *(
        "ILIKE ALL ('a')",
        "::int",
        "NATURAL",
        "INTO",
        "TABLE",
        "(",
        ")",
        "NOT",
        ".",
        ",",
        "0x1F",
        "= 1",
    ),
    *(
        "PIVOT (sum(a) FOR b IN (1))",
        "CLUSTER BY (a)",
        "DISTRIBUTE BY a",
        "JOIN v ON true",
        "ASC",
        "|>",
    ),
)


class Statements:
    """Makes random statements that Spark reads, and mutations that it may or may not read."""

    def __init__(self, seed: int) -> None:
        self._random = Random(f"mutations {seed}")

    def valid(self) -> Iterator[str]:
        """Statements without end."""
        makers = (self._delete, self._update, self._merge, self._insert)
        while True:
            yield self._random.choice(makers)()

    def mutated(self, text: str) -> str:
        """Change a statement at a random place, or at two."""
        words = _words(text)
        for _ in range(self._random.choice((1, 1, 2))):
            at = self._random.randrange(len(words))
            match self._random.randrange(6):
                case 0:
                    del words[at]
                case 1:
                    words.insert(at, words[at])
                case 2:
                    other = self._random.randrange(len(words))
                    words[at], words[other] = words[other], words[at]
                case _:
                    words.insert(at + 1, self._random.choice(FOREIGN))
            words = words or ["DELETE"]
        return " ".join(words)

    def _maybe(self, text: str, chance: float = 0.5) -> str:
        return text if self._random.random() < chance else ""

    def _one(self, texts: Sequence[str]) -> str:
        return self._random.choice(texts)

    def _target(self) -> str:
        return self._one(("t", "db.t", "t t", "db.`t` AS t", "t AS T"))

    def _set(self) -> str:
        names = self._random.sample(["a", "t.b", "`c`"], self._random.randint(1, 3))
        return "SET " + ", ".join(f"{name} = {self._one(EXPRESSIONS)}" for name in names)

    def _where(self) -> str:
        return self._maybe(f"WHERE {self._one(CONDITIONS)}", 0.8)

    def _delete(self) -> str:
        return f"DELETE FROM {self._target()} {self._where()}"

    def _update(self) -> str:
        return f"UPDATE {self._target()} {self._set()} {self._where()}"

    def _and(self) -> str:
        return self._maybe(f"AND {self._one(CONDITIONS)}")

    def _merge(self) -> str:
        source = self._one(("u AS s", "u s", f"({self._one(QUERIES)}) AS s"))
        clauses = []
        for _ in range(self._random.randint(0, 2)):
            action = self._one(("DELETE", "UPDATE SET *", f"UPDATE {self._set()}"))
            clauses.append(f"WHEN MATCHED AND {self._one(CONDITIONS)} THEN {action}")
        for _ in range(self._random.randint(0, 2)):
            names, values = "(a, `c`)", f"({self._one(EXPRESSIONS)}, {self._one(EXPRESSIONS)})"
            action = self._one(("INSERT *", f"INSERT {names} VALUES {values}"))
            by = self._maybe("BY TARGET")
            clauses.append(f"WHEN NOT MATCHED {by} AND {self._one(CONDITIONS)} THEN {action}")
        if not clauses or self._maybe("x", 0.3):
            action = self._one(("DELETE", f"UPDATE {self._set()}"))
            clauses.append(f"WHEN NOT MATCHED BY SOURCE {self._and()} THEN {action}")
        on = self._one(CONDITIONS)
        return f"MERGE INTO {self._target()} USING {source} ON {on} {' '.join(clauses)}"

    def _insert(self) -> str:
        kind = self._one(("INTO", "INTO TABLE", "OVERWRITE", "OVERWRITE TABLE"))
        partition = self._maybe(self._one(("PARTITION (p = 'x')", "PARTITION (p = 1, q)")), 0.3)
        columns = self._maybe(self._one(("(a, `c`)", "BY NAME")), 0.3)
        query = self._one((*QUERIES, "TABLE u"))
        return f"INSERT {kind} {self._one(('t', 'db.t'))} {partition} {columns} {query}"


def _words(text: str) -> list[str]:
    return [text[token.start : token.end + 1] for token in tokens_of(text)]
