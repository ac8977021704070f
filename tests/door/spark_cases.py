"""What the suites of Apache Spark say about MERGE, UPDATE, and DELETE, as data.

The facts are those of `MergeIntoTableSuiteBase`, `UpdateTableSuiteBase`, `DeleteFromTableSuiteBase`, and of the
suites that extend them: rows, statements, and the rows or the error after each. Names and texts are our own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Rows = Sequence[tuple[Any, ...]]

# Conditions of errors.
REFUSED, INVALID, CHECK = "SQL_ERROR", "INVALID_JOB", "CHECK_FAILED"


@dataclass(frozen=True)
class Case:
    """A table, and statements on it.

    Attributes:
        steps: Statements, with the rows of the table after each, or with the condition of its error.
        rows: The rows to begin with, as those of `VALUES`.
        columns: The columns of the files.
        key: The partition key.
        views: Temporary views of the session, by names.
        differs: Why the steps are not those of Spark's suite; empty if they are.
    """

    steps: Sequence[tuple[str, Rows | str]]
    rows: str = ""
    columns: str = "pk int NOT NULL, pay int"
    key: str = "dep string"
    views: Mapping[str, str] = field(default_factory=dict)
    differs: str = ""


NO_WHERE = "a change of all rows needs the condition TRUE"
NO_FIELDS = "one field of a struct cannot be changed; the whole struct can"
NO_ADDED_DEFAULT = "an added column has no default value, as in Hive; that of a new table has one"
NO_NESTED_CHECK = "a field of a struct has no NOT NULL, as in Hive"
NO_BLANKS = f"a char has no blanks at its end, as in Hive; {NO_FIELDS}"
ONE_CHANGE = "a row may match several rows of the source of which one changes it"
RANDOM = "a random condition of a statement or a clause is evaluated once for a row, not refused"
# Tests of Spark that no case stands for.
LEFT_OUT = {
    "plans, scans, and joins of a statement": "are those of Spark's own tables; their rows are here",
    "a cached view of a frame": "a frame keeps its snapshot, a view of SQL does not: see the test",
    "columns of row ids that may be null": "the ids of rows are those of Hive",
    "WITH SCHEMA EVOLUTION": "a merge adds columns by the option of its job, not by its text",
    "metrics of a merge": "are those of the report",
}

# pk, pay, dep
TWO = "(1, 100, 'hr'), (2, 200, 'it')"
THREE = "(1, 100, 'hr'), (2, 200, 'it'), (3, 300, 'hr')"
FIVE = "(1, 100, 'hr'), (2, 200, 'it'), (3, 300, 'hr'), (4, 400, 'hr'), (5, 500, 'hr')"
HR_AND_IT = "(1, 100, 'hr'), (2, 200, 'hr'), (3, 300, 'hr'), (4, 400, 'it'), (5, 500, 'it')"
# pk, id, dep
EQUAL = "(1, 1, 'hr'), (2, 2, 'it'), (3, 3, 'hr')"
UNKNOWN = "(1, 1, 'hr'), (2, 2, 'hw'), (3, NULL, 'hr')"
IDS = "pk int NOT NULL, id int"
STAFF = {"source": "VALUES (1, 100, 'hr'), (2, 200, 'fin'), (3, 300, 'hr') AS v(pk, pay, dep)"}
STAFF_IN_TARGET = [(1, 100, "hr"), (2, 200, "fin"), (3, 300, "hr")]
DEPS = "VALUES ('it'), ('hr') AS v(value)"
NEGATIVE = {"ids": "VALUES (-1), (-2), (NULL) AS v(value)", "deps": DEPS}
ON = "MERGE INTO {t} t USING source s ON t.pk = s.pk"


def keys(*values: int) -> Mapping[str, str]:
    """A source that has only keys."""
    return {"source": f"VALUES {', '.join(f'({value})' for value in values)} AS v(pk)"}


def staff(rows: str, columns: str = "pk, pay, dep") -> Mapping[str, str]:
    """A source of rows."""
    return {"source": f"VALUES {rows} AS v({columns})"}


DELETES = {
    "an added column with a default": Case(
        [("ALTER TABLE {t} ADD COLUMN note string DEFAULT 'old'", REFUSED)],
        TWO,
        differs=NO_ADDED_DEFAULT,
    ),
    "a default": Case(
        [
            ("INSERT INTO {t} (pk, dep) VALUES (2, 'hr'), (3, 'it')",
             [(1, "given", "hr"), (2, "old", "hr"), (3, "old", "it")]),
            ("DELETE FROM {t} WHERE pk IN (2, 5)", [(1, "given", "hr"), (3, "old", "it")]),
        ],
        "(1, 'given', 'hr')",
        "pk int NOT NULL, note string DEFAULT 'old'",
    ),
    "a check": Case(
        [
            ("DELETE FROM {t} WHERE pk < 2", [(2, 4, "eng"), (3, 6, "eng")]),
            ("DELETE FROM {t} WHERE pk >= 3", [(2, 4, "eng")]),
            ("UPDATE {t} SET pk = 0 WHERE pk = 2", CHECK),
        ],
        "(1, 2, 'hr'), (2, 4, 'eng'), (3, 6, 'eng')",
        "pk int NOT NULL, id int, CONSTRAINT positive CHECK (pk > 0)",
    ),
    "an explanation": Case(
        [("EXPLAIN DELETE FROM {t} WHERE id <= 10", [(1, 1, "hr")])], "(1, 1, 'hr')", IDS
    ),
    "no rows": Case([("DELETE FROM {t} WHERE id <= 1", [])], columns=IDS),
    "a condition": Case(
        [("DELETE FROM {t} WHERE id <= 1", [(2, 2, "it"), (3, 3, "hr")])], EQUAL, IDS
    ),
    "an alias": Case(
        [("DELETE FROM {t} AS t WHERE t.id <= 1 OR t.dep = 'hr'", [(2, 2, "it")])], EQUAL, IDS
    ),
    "IN": Case(
        [("DELETE FROM {t} WHERE id IN (1, null)", [(2, 2, "hw"), (3, None, "hr")])], UNKNOWN, IDS
    ),
    "NOT IN": Case(
        [
            ("DELETE FROM {t} WHERE id NOT IN (null, 1)",
             [(1, 1, "hr"), (2, 2, "hw"), (3, None, "hr")]),
            ("DELETE FROM {t} WHERE id NOT IN (1, 10)", [(1, 1, "hr"), (3, None, "hr")]),
        ],
        UNKNOWN,
        IDS,
    ),
    "fields": Case(
        [
            ("DELETE FROM {t} WHERE s.c1 = id + 2", [(2, 2, (2, "b"), "it")]),
            ("DELETE FROM {t} t WHERE t.s.c1 = id", []),
        ],
        "(1, 1, named_struct('c1', 3, 'c2', 'a'), 'hr'), (2, 2, named_struct('c1', 2, 'c2', 'b'), 'it')",
        f"{IDS}, s struct<c1: int, c2: string>",
    ),
    "IN with queries": Case(
        [
            ("DELETE FROM {t} WHERE id IN (SELECT * FROM ids) AND dep IN (SELECT * FROM deps)",
             [(2, 2, "hw"), (3, None, "hr")]),
            ("INSERT INTO {t} VALUES (4, 1, 'hr'), (5, -1, 'hr')",
             [(2, 2, "hw"), (3, None, "hr"), (4, 1, "hr"), (5, -1, "hr")]),
            ("DELETE FROM {t} WHERE id IS NULL OR id IN (SELECT value + 2 FROM ids)",
             [(4, 1, "hr"), (5, -1, "hr")]),
            ("INSERT INTO {t} VALUES (6, NULL, 'hr'), (7, 2, 'hr')",
             [(4, 1, "hr"), (5, -1, "hr"), (6, None, "hr"), (7, 2, "hr")]),
            ("DELETE FROM {t} WHERE id IN (SELECT value + 2 FROM ids) AND dep = 'hr'",
             [(4, 1, "hr"), (5, -1, "hr"), (6, None, "hr")]),
        ],
        UNKNOWN,
        IDS,
        views={"ids": "VALUES (0), (1), (NULL) AS v(value)", "deps": DEPS},
    ),
    "IN with several columns": Case(
        [("DELETE FROM {t} WHERE (id, dep) IN (SELECT * FROM pairs)",
          [(2, 2, "hw"), (3, None, "hr")])],
        UNKNOWN,
        IDS,
        views={"pairs": "VALUES (NULL, 'hr'), (1, 'hr') AS v(id, dep)"},
    ),
    "NOT IN with queries": Case(
        [
            ("DELETE FROM {t} WHERE id NOT IN (SELECT * FROM ids)",
             [(1, 1, "hr"), (2, 2, "hw"), (3, None, "hr")]),
            ("DELETE FROM {t} WHERE id NOT IN (SELECT * FROM ids WHERE value IS NOT NULL)",
             [(3, None, "hr")]),
            ("INSERT INTO {t} VALUES (4, 1, 'hr'), (5, 2, 'hw'), (6, NULL, 'hr')",
             [(3, None, "hr"), (4, 1, "hr"), (5, 2, "hw"), (6, None, "hr")]),
            ("DELETE FROM {t} WHERE id NOT IN (SELECT * FROM ids) OR dep IN ('it', 'hr')",
             [(5, 2, "hw")]),
            # The first FROM is the name of the column.
            ("DELETE FROM {t} WHERE id NOT IN (SELECT * FROM ids WHERE value IS NOT NULL)"
             " AND EXISTS (SELECT 1 FROM FROM deps WHERE dep = deps.value)", [(5, 2, "hw")]),
            ("DELETE FROM {t} t WHERE t.id NOT IN (SELECT * FROM ids WHERE value IS NOT NULL)"
             " OR EXISTS (SELECT 1 FROM FROM deps WHERE t.dep = deps.value)", []),
        ],
        UNKNOWN,
        IDS,
        views=NEGATIVE,
    ),
    "EXISTS": Case(
        [
            ("DELETE FROM {t} t WHERE EXISTS (SELECT 1 FROM ids d WHERE t.id = d.value)",
             [(1, 1, "hr"), (2, 2, "hw"), (3, None, "hr")]),
            ("DELETE FROM {t} t WHERE EXISTS (SELECT 1 FROM ids d WHERE t.id = d.value + 2)",
             [(2, 2, "hw"), (3, None, "hr")]),
            ("DELETE FROM {t} t WHERE EXISTS (SELECT 1 FROM ids d WHERE t.id = d.value)"
             " OR t.id IS NULL", [(2, 2, "hw")]),
            ("DELETE FROM {t} t WHERE EXISTS (SELECT 1 FROM ids d WHERE t.id = d.value)"
             " AND EXISTS (SELECT 1 FROM deps e WHERE t.dep = e.value)", [(2, 2, "hw")]),
        ],
        UNKNOWN,
        IDS,
        views=NEGATIVE,
    ),
    "NOT EXISTS": Case(
        [
            ("DELETE FROM {t} t WHERE NOT EXISTS (SELECT 1 FROM ids d WHERE t.id = d.value + 2)"
             " AND NOT EXISTS (SELECT 1 FROM deps e WHERE t.dep = e.value)",
             [(1, 1, "hr"), (3, None, "hr")]),
            ("DELETE FROM {t} t WHERE NOT EXISTS (SELECT 1 FROM ids d WHERE t.id = d.value + 2)",
             [(1, 1, "hr")]),
            ("DELETE FROM {t} t WHERE NOT EXISTS (SELECT 1 FROM ids d WHERE t.id = d.value + 2)"
             " OR t.id = 1", []),
        ],
        UNKNOWN,
        IDS,
        views=NEGATIVE,
    ),
    "a scalar query": Case(
        [("DELETE FROM {t} t WHERE id <= (SELECT min(value) FROM ids)",
          [(2, 2, "hw"), (3, None, "hr")])],
        UNKNOWN,
        IDS,
        views={"ids": "VALUES (1), (100), (NULL) AS v(value)"},
    ),
    "no condition": Case(
        [("DELETE FROM {t}", REFUSED), ("DELETE FROM {t} WHERE TRUE", [])],
        "(1, 1, 100), (2, 2, 200), (3, 3, 100)",
        IDS,
        "dep int",
        differs=NO_WHERE,
    ),
    "whole partitions": Case(
        [("DELETE FROM {t} WHERE dep = 100", [(2, 2, 200)])],
        "(1, 1, 100), (2, 2, 200), (3, 3, 100)",
        IDS,
        "dep int",
    ),
    "alternatives": Case(
        [("DELETE FROM {t} WHERE dep = 100 OR dep < 200", [(2, 2, 200)])],
        "(1, 1, 100), (2, 2, 200), (3, 3, 100)",
        IDS,
        "dep int",
    ),
    "a partition and a query": Case(
        [("DELETE FROM {t} WHERE dep = 100 AND id IN (SELECT * FROM ids)",
          [(2, 2, 200), (3, 3, 100)])],
        "(1, 1, 100), (2, 2, 200), (3, 3, 100)",
        IDS,
        "dep int",
        {"ids": "VALUES (1), (100), (NULL) AS v(value)"},
    ),
    "a recursive query": Case(
        [("WITH RECURSIVE s(pk) AS (SELECT 1 UNION ALL SELECT pk + 1 FROM s WHERE pk < 5)"
          " DELETE FROM {t} WHERE pk IN (SELECT pk FROM s)", [(8,), (9,)])],
        "(1), (9), (8), (4)",
        "pk int",
        "",
    ),
}  # fmt: skip

CHANGED_UNKNOWN = [(1, 1, "bad"), (2, 2, "hw"), (3, None, "hr")]
NESTED = "pk int NOT NULL, s struct<c1: int, c2: struct<a: array<int>, m: map<string, string>>>"
NESTED_ROW = (
    "(1, named_struct('c1', 2, 'c2', named_struct('a', array(1, 2), 'm', map('a', 'b'))), 'hr')"
)
NEW_STRUCT = "named_struct('c1', 1, 'c2', named_struct('a', array(1), 'm', null))"
PADDED = "pk int NOT NULL, s struct<c: char(3), v: varchar(5)>"
PADDED_ROWS = ", ".join(
    f"({pk}, named_struct('c', '{text}', 'v', '{text}'), '{dep}')"
    for pk, text, dep in ((1, "aaa", "hr"), (2, "bbb", "it"), (3, "ccc", "hr"))
)

UPDATES = {
    "a default": Case(
        [
            ("UPDATE {t} SET note = DEFAULT WHERE pk IN (2, 8, 11)",
             [(1, "own", "hr"), (2, "new", "it"), (3, None, "hr")]),
        ],
        "(1, 'own', 'hr'), (2, 'other', 'it'), (3, NULL, 'hr')",
        "pk int NOT NULL, note string DEFAULT 'new'",
    ),
    "a default of another type": Case(
        [("UPDATE {t} SET id = DEFAULT WHERE dep = 'hr'", [(1, 42, "hr"), (2, 2, "it"), (3, 42, "hr")])],
        EQUAL,
        "pk int NOT NULL, id int DEFAULT 42",
    ),
    "a changed default": Case(
        [("ALTER TABLE {t} ALTER COLUMN pay SET DEFAULT 1", REFUSED)],
        TWO,
        differs=NO_ADDED_DEFAULT,
    ),
    "an explanation": Case(
        [("EXPLAIN UPDATE {t} SET dep = 'bad' WHERE pk = 1", [(1, 1, "hr")])], "(1, 1, 'hr')"
    ),
    "no rows": Case([("UPDATE {t} SET dep = 'bad' WHERE pay <= 1", [])]),
    "a condition": Case(
        [("UPDATE {t} SET dep = 'bad' WHERE pay <= 100",
          [(1, 100, "bad"), (2, 200, "it"), (3, 300, "hr")])],
        THREE,
    ),
    "an alias": Case(
        [("UPDATE {t} AS t SET t.pay = -1 WHERE t.pay <= 100 OR t.dep = 'hr'",
          [(1, -1, "hr"), (2, 200, "it"), (3, -1, "hr")])],
        THREE,
    ),
    "another order": Case(
        [("UPDATE {t} SET `c2` = c2 - 2, c1 = `c1` - 1 WHERE pk <=> 1",
          [(1, 10, 109, "hr"), (2, 22, 222, "hr")])],
        "(1, 11, 111, 'hr'), (2, 22, 222, 'hr')",
        "pk int NOT NULL, c1 int, c2 int",
    ),
    "no such rows": Case(
        [("UPDATE {t} SET pay = -1 WHERE pay > 1000",
          [(1, 100, "hr"), (2, 200, "hw"), (3, None, "hr")])],
        "(1, 100, 'hr'), (2, 200, 'hw'), (3, NULL, 'hr')",
    ),
    "no condition": Case(
        [
            ("UPDATE {t} SET pay = -1", REFUSED),
            ("UPDATE {t} SET pay = -1 WHERE TRUE", [(1, -1, "hr"), (2, -1, "it"), (3, -1, "hr")]),
        ],
        THREE,
        differs=NO_WHERE,
    ),
    "unknown keys": Case(
        [
            ("UPDATE {t} SET pay = -1 WHERE dep = NULL",
             [(1, 100, None), (2, 200, "hr"), (3, 300, "hw")]),
            ("UPDATE {t} SET pay = -1 WHERE dep <=> NULL",
             [(1, -1, None), (2, 200, "hr"), (3, 300, "hw")]),
        ],
        "(1, 100, NULL), (2, 200, 'hr'), (3, 300, 'hw')",
    ),
    "unknown values": Case(
        [
            ("UPDATE {t} SET dep = 'bad' WHERE pay = NULL",
             [(1, None, "hr"), (2, 200, "hr"), (3, 300, "hw")]),
            ("UPDATE {t} SET dep = 'bad' WHERE pay <=> NULL",
             [(1, None, "bad"), (2, 200, "hr"), (3, 300, "hw")]),
        ],
        "(1, NULL, 'hr'), (2, 200, 'hr'), (3, 300, 'hw')",
    ),
    "IN and NOT IN": Case(
        [
            ("UPDATE {t} SET pay = -1 WHERE pay IN (100, null)",
             [(1, -1, "hr"), (2, 200, "hw"), (3, None, "hr")]),
            ("UPDATE {t} SET pay = -1 WHERE pay NOT IN (null, 1)",
             [(1, -1, "hr"), (2, 200, "hw"), (3, None, "hr")]),
            ("UPDATE {t} SET pay = 100 WHERE pay NOT IN (1, 10)",
             [(1, 100, "hr"), (2, 100, "hw"), (3, None, "hr")]),
        ],
        "(1, 100, 'hr'), (2, 200, 'hw'), (3, NULL, 'hr')",
    ),
    "fields": Case(
        [
            ("UPDATE {t} SET s.c1 = -1, s.c2.m = map('k', 'v'), s.c2.a = array(-1) WHERE TRUE", REFUSED),
            ("UPDATE {t} SET s.c1 = NULL, s.c2 = NULL WHERE pk = 1", REFUSED),
            (f"UPDATE {{t}} SET s = {NEW_STRUCT} WHERE TRUE", [(1, (1, ([1], None)), "hr")]),
            ("UPDATE {t} SET s = named_struct('c1', NULL, 'c2', NULL) WHERE pk = 1",
             [(1, (None, None), "hr")]),
            ("UPDATE {t} SET s = named_struct('c1', -1, 'c2',"
             " named_struct('a', array(-1), 'm', map('k', 'v'))) WHERE TRUE",
             [(1, (-1, ([-1], {"k": "v"})), "hr")]),
        ],
        NESTED_ROW,
        NESTED,
        differs=NO_FIELDS,
    ),
    "fields of no struct": Case(
        [
            ("UPDATE {t} SET s.n1 = -1 WHERE pk = 1", REFUSED),
            ("UPDATE {t} SET s = named_struct('n1', -1, 'n2', s.n2) WHERE pk = 1",
             [(1, (-1, None), "hr")]),
        ],
        "(1, NULL, 'hr')",
        "pk int NOT NULL, s struct<n1: int, n2: int>",
        differs=NO_FIELDS,
    ),
    "a condition on fields": Case(
        [("UPDATE {t} SET pay = -1 WHERE s.c1 = pay + 200",
          [(1, -1, (300, "a"), "hr"), (2, 200, (200, "b"), "it")])],
        "(1, 100, named_struct('c1', 300, 'c2', 'a'), 'hr'),"
        " (2, 200, named_struct('c1', 200, 'c2', 'b'), 'it')",
        "pk int NOT NULL, pay int, s struct<c1: int, c2: string>",
    ),
    "IN with queries": Case(
        [
            ("UPDATE {t} SET dep = 'bad' WHERE id IN (SELECT * FROM ids)"
             " AND dep IN (SELECT * FROM deps)", CHANGED_UNKNOWN),
            ("UPDATE {t} SET dep = 'bad' WHERE id IS NULL OR id IN (SELECT value + 2 FROM ids)",
             [(1, 1, "bad"), (2, 2, "bad"), (3, None, "bad")]),
        ],
        UNKNOWN,
        IDS,
        views={"ids": "VALUES (0), (1), (NULL) AS v(value)", "deps": DEPS},
    ),
    "IN with several columns": Case(
        [("UPDATE {t} SET dep = 'bad' WHERE (id, dep) IN (SELECT * FROM pairs)", CHANGED_UNKNOWN)],
        UNKNOWN,
        IDS,
        views={"pairs": "VALUES (NULL, 'hr'), (1, 'hr') AS v(id, dep)"},
    ),
    "NOT IN with queries": Case(
        [
            ("UPDATE {t} SET dep = 'bad' WHERE id NOT IN (SELECT * FROM ids)",
             [(1, 1, "hr"), (2, 2, "hw"), (3, None, "hr")]),
            ("UPDATE {t} SET dep = 'bad' WHERE id NOT IN (SELECT * FROM ids WHERE value IS NOT NULL)",
             [(1, 1, "bad"), (2, 2, "bad"), (3, None, "hr")]),
            ("UPDATE {t} SET dep = 'hr' WHERE id NOT IN (SELECT * FROM ids) OR dep IN ('it', 'bad')",
             [(1, 1, "hr"), (2, 2, "hr"), (3, None, "hr")]),
        ],
        UNKNOWN,
        IDS,
        views=NEGATIVE,
    ),
    "EXISTS": Case(
        [
            ("UPDATE {t} t SET dep = 'bad' WHERE EXISTS (SELECT 1 FROM ids d WHERE t.id = d.value)",
             [(1, 1, "hr"), (2, 2, "hw"), (3, None, "hr")]),
            ("UPDATE {t} t SET dep = 'bad'"
             " WHERE EXISTS (SELECT 1 FROM ids d WHERE t.id = d.value + 2)", CHANGED_UNKNOWN),
            ("UPDATE {t} t SET dep = 'bad'"
             " WHERE EXISTS (SELECT 1 FROM ids d WHERE t.id = d.value) OR t.id IS NULL",
             [(1, 1, "bad"), (2, 2, "hw"), (3, None, "bad")]),
            ("UPDATE {t} t SET dep = 'bad' WHERE EXISTS (SELECT 1 FROM ids d WHERE t.id = d.value)"
             " AND EXISTS (SELECT 1 FROM deps e WHERE t.dep = e.value)",
             [(1, 1, "bad"), (2, 2, "hw"), (3, None, "bad")]),
        ],
        UNKNOWN,
        IDS,
        views=NEGATIVE,
    ),
    "NOT EXISTS": Case(
        [
            ("UPDATE {t} t SET dep = 'bad'"
             " WHERE NOT EXISTS (SELECT 1 FROM ids d WHERE t.id = d.value + 2)"
             " AND NOT EXISTS (SELECT 1 FROM deps e WHERE t.dep = e.value)",
             [(1, 1, "hr"), (2, 2, "bad"), (3, None, "hr")]),
            ("UPDATE {t} t SET dep = 'bad'"
             " WHERE NOT EXISTS (SELECT 1 FROM ids d WHERE t.id = d.value + 2)",
             [(1, 1, "hr"), (2, 2, "bad"), (3, None, "bad")]),
            ("UPDATE {t} t SET dep = 'bad'"
             " WHERE NOT EXISTS (SELECT 1 FROM ids d WHERE t.id = d.value + 2) OR t.id = 1",
             [(1, 1, "bad"), (2, 2, "bad"), (3, None, "bad")]),
        ],
        UNKNOWN,
        IDS,
        views=NEGATIVE,
    ),
    "a scalar query": Case(
        [("UPDATE {t} t SET dep = 'bad' WHERE id <= (SELECT min(value) FROM ids)", CHANGED_UNKNOWN)],
        UNKNOWN,
        IDS,
        views={"ids": "VALUES (1), (100), (NULL) AS v(value)"},
    ),
    "random values": Case(
        [("UPDATE {t} SET value = 2 + floor(rand()) WHERE id <= 2",
          [(1, 1, 2.0, "hr"), (2, 2, 2.0, "it"), (3, 3, 1.0, "hr")])],
        "(1, 1, 1.0, 'hr'), (2, 2, 1.0, 'it'), (3, 3, 1.0, 'hr')",
        "pk int NOT NULL, id int, value double",
    ),
    "a random condition": Case(
        [("UPDATE {t} SET dep = 'bad' WHERE id <= 1 AND rand() < 2",
          [(1, 1, "bad"), (2, 2, "it"), (3, 3, "hr")])],
        EQUAL,
        IDS,
        differs=RANDOM,
    ),
    "texts of fixed lengths": Case(
        [
            ("UPDATE {t} SET s.c = 'x', s.v = 'y' WHERE dep = 'hr'", REFUSED),
            ("UPDATE {t} SET s = named_struct('c', 'x', 'v', 'y') WHERE dep = 'hr'",
             [(1, ("x", "y"), "hr"), (2, ("bbb", "bbb"), "it"), (3, ("x", "y"), "hr")]),
        ],
        PADDED_ROWS,
        PADDED,
        differs=NO_BLANKS,
    ),
    "a required value": Case(
        [("UPDATE {t} SET pk = NULL WHERE pk = 1", CHECK)], TWO, differs=NO_NESTED_CHECK
    ),
    "another primary key": Case(
        [("UPDATE {t} SET pk = 10 WHERE id = 1", [(2, 2, "it"), (3, 3, "hr"), (10, 1, "hr")])],
        EQUAL,
        IDS,
    ),
    "columns that are not read": Case(
        [("UPDATE {t} SET pay = -1, id = -1, dep = 'bad' WHERE pk = 1",
          [(1, -1, -1, "bad"), (2, 2, 200, "it"), (3, 3, 300, "hr")])],
        "(1, 1, 100, 'hr'), (2, 2, 200, 'it'), (3, 3, 300, 'hr')",
        f"{IDS}, pay int",
    ),
}  # fmt: skip

# pk, id, pay, dep
WIDE = "pk int NOT NULL, id int, pay int"
NO_ID = "(1, NULL, 100, 'hr'), (2, 2, 200, 'it')"
NO_ID_ROWS = [(1, None, 100, "hr"), (2, 2, 200, "it")]
# pk, pay, country, dep
COUNTRY = "pk int NOT NULL, pay int, country string"
COUNTRIES = "(1, 100, 'uk', 'hr'), (2, 200, 'us', 'it')"
COUNTRY_SOURCE = staff(
    "(1, 100, 'fr', 'sw'), (2, 200, 'in', 'fin'), (3, 300, 'cn', 'sw')", "pk, pay, country, dep"
)
LATER_COUNTRY_SOURCE = staff("(2, 200, 'in', 'fin'), (3, 300, 'cn', 'sw')", "pk, pay, country, dep")
TWICE = staff("(1, 101, 'sup'), (1, 102, 'sup'), (2, 201, 'sup')")
GAP = "(1, 100, 'hr'), (6, 600, 'it')"
MANY = {"source": "SELECT CAST(id AS int) AS pk, CAST(id * 100 AS int) AS pay, 'sup' AS dep"
        " FROM range(1, 1001)"}  # fmt: skip
ALL_TWICE = "MERGE INTO {t} t USING (SELECT * FROM source UNION ALL SELECT * FROM source) AS s"

MERGES = {
    "defaults": Case(
        [(f"{ON} WHEN MATCHED THEN UPDATE SET id = DEFAULT"
          " WHEN NOT MATCHED THEN INSERT (pk, id, dep) VALUES (s.pk, DEFAULT, 'new')"
          " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET id = DEFAULT",
          [(1, 42, "hr"), (2, 42, "it"), (3, 42, "hr"), (4, 42, "new")])],
        EQUAL,
        "pk int NOT NULL, id int DEFAULT 42",
        views=keys(1, 2, 4),
    ),
    "a column that is left out": Case(
        [(f"{ON} WHEN MATCHED THEN UPDATE SET t.pay = s.pay, t.note = DEFAULT"
          " WHEN NOT MATCHED THEN INSERT (pk, pay, dep) VALUES (s.pk, DEFAULT, s.dep)"
          " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET pay = DEFAULT",
          [(1, 100, "old", "hr"), (2, -1, "a", "hr"), (4, -1, "old", "hr")])],
        "(1, 5, 'a', 'hr'), (2, 5, 'a', 'hr')",
        "pk int NOT NULL, pay int DEFAULT -1, note string DEFAULT 'old'",
        views=staff("(1, 100, 'hr'), (4, 400, 'hr')"),
    ),
    "no partitions": Case(
        [("MERGE INTO {t} t USING (select * from source) s ON t.pk = s.pk"
          " WHEN MATCHED THEN UPDATE SET t.pay = s.pay WHEN NOT MATCHED THEN INSERT *",
          STAFF_IN_TARGET)],
        columns="pk int NOT NULL, pay int, dep string",
        key="",
        views=STAFF,
    ),
    "no rows": Case([(f"{ON} WHEN NOT MATCHED THEN INSERT *", STAFF_IN_TARGET)], views=STAFF),
    "no rows, with a condition": Case(
        [(f"{ON} WHEN NOT MATCHED AND s.pk >= 2 THEN INSERT *", STAFF_IN_TARGET[1:])], views=STAFF
    ),
    "a condition of an update": Case(
        [(f"{ON} WHEN MATCHED AND s.pk = 2 THEN UPDATE SET *", [(1, 100, "hr"), (2, 200, "fin")])],
        TWO,
        views=staff("(1, 100, 'sw'), (2, 200, 'fin'), (3, 300, 'sw')"),
    ),
    "a condition of a delete": Case(
        [(f"{ON} WHEN MATCHED AND t.pay = 200 THEN DELETE", [(1, 100, "hr")])],
        TWO,
        views=keys(1, 2, 3),
    ),
    "the key of unmatched rows": Case(
        [(f"{ON} WHEN MATCHED THEN UPDATE SET t.pay = -1"
          " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET t.pk = -1",
          [(-1, 200, "it"), (1, -1, "hr")])],
        TWO,
        views=staff("(1, 100, 'sw'), (5, 500, 'fin')"),
    ),
    "the key of matched rows": Case(
        [(f"{ON} WHEN MATCHED THEN UPDATE SET t.pk = -1"
          " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET t.pay = -1",
          [(-1, 100, "hr"), (2, -1, "it")])],
        TWO,
        views=staff("(1, 100, 'sw'), (5, 500, 'fin')"),
    ),
    "all clauses": Case(
        [(f"{ON} WHEN MATCHED THEN UPDATE SET t.pay = t.pay + 1"
          " WHEN NOT MATCHED THEN INSERT (pk, pay, dep) VALUES (s.pk, 0, 'new')"
          " WHEN NOT MATCHED BY SOURCE THEN DELETE",
          [(3, 301, "hr"), (4, 401, "hr"), (5, 501, "hr"), (6, 0, "new")])],
        FIVE,
        views=keys(3, 4, 5, 6),
    ),
    "all clauses with stars": Case(
        [(f"{ON} WHEN MATCHED AND t.pk = 1 THEN UPDATE SET *"
          " WHEN NOT MATCHED AND s.pk = 4 THEN INSERT *"
          " WHEN NOT MATCHED BY SOURCE AND t.pk = t.pay / 100 THEN DELETE",
          [(1, 101, "sup"), (2, 200, "it"), (4, 401, "sup")])],
        "(1, 100, 'hr'), (2, 200, 'it'), (3, 300, 'it')",
        views=staff("(1, 101, 'sup'), (2, 201, 'sup'), (4, 401, 'sup'), (5, 501, 'sup')"),
    ),
    "all clauses with conditions": Case(
        [(f"{ON} WHEN MATCHED AND t.pk = 4 THEN UPDATE SET t.pay = t.pay + 1"
          " WHEN NOT MATCHED AND pk = 6 THEN INSERT (pk, pay, dep) VALUES (s.pk, 0, 'new')"
          " WHEN NOT MATCHED BY SOURCE AND pay = 100 THEN DELETE",
          [(2, 200, "it"), (3, 300, "hr"), (4, 401, "hr"), (5, 500, "hr"), (6, 0, "new")])],
        FIVE,
        views=keys(3, 4, 5, 6, 7),
    ),
    "only a delete of unmatched rows": Case(
        [(f"{ON} WHEN NOT MATCHED BY SOURCE THEN DELETE", [(1, 100, "hr"), (2, 200, "it")])],
        THREE,
        views=keys(1, 2),
    ),
    "only an update of unmatched rows": Case(
        [(f"{ON} WHEN NOT MATCHED BY SOURCE AND pay = 100 THEN UPDATE SET pay = -1",
          [(1, -1, "hr"), (2, 200, "it"), (3, 300, "hr")])],
        THREE,
        views=keys(2),
    ),
    "matched and unmatched rows": Case(
        [(f"{ON} WHEN MATCHED THEN DELETE"
          " WHEN NOT MATCHED BY SOURCE AND pay = 100 THEN UPDATE SET pay = -1",
          [(1, -1, "hr"), (3, 300, "hr")])],
        THREE,
        views=keys(2),
    ),
    "new and unmatched rows": Case(
        [(f"{ON} WHEN NOT MATCHED THEN INSERT (pk, pay, dep) VALUES (pk, -1, 'new')"
          " WHEN NOT MATCHED BY SOURCE THEN DELETE",
          [(2, 200, "it"), (3, 300, "hr"), (4, -1, "new")])],
        THREE,
        views=keys(2, 3, 4),
    ),
    "several clauses of unmatched rows": Case(
        [(f"{ON} WHEN NOT MATCHED BY SOURCE AND pay = 100 THEN UPDATE SET pay = pay + 1"
          " WHEN NOT MATCHED BY SOURCE AND pay = 300 THEN DELETE",
          [(1, 101, "hr"), (2, 200, "it")])],
        THREE,
        views=keys(5, 6, 7),
    ),
    "a condition that is unknown": Case(
        [("MERGE INTO {t} t USING source s ON t.id = s.id AND t.id < 3"
          " WHEN MATCHED THEN UPDATE SET *",
          [(1, None, 100, "hr"), (2, 2, 201, "sup"), (3, 3, 300, "hr")])],
        f"{NO_ID}, (3, 3, 300, 'hr')",
        WIDE,
        views=staff("(2, 2, 201, 'sup'), (1, 1, 101, 'sup'), (3, 3, 301, 'sup')", "pk, id, pay, dep"),
    ),
    "a named query": Case(
        [("WITH cte1 AS (SELECT pk + 1 as pk, pay, dep FROM source)"
          " MERGE INTO {t} AS t USING cte1 AS s ON t.pk = s.pk WHEN MATCHED THEN UPDATE SET *",
          [(1, 101, "sup"), (2, 200, "it")])],
        TWO,
        views=staff("(0, 101, 'sup'), (2, 301, 'sup')"),
    ),
    "a query": Case(
        [("MERGE INTO {t} AS t USING (SELECT * FROM source WHERE pk = 2 UNION ALL"
          " SELECT * FROM source WHERE pk = 1 OR pk = 6) AS s ON t.pk = s.pk"
          " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
          [(1, 101, "sup"), (2, 201, "sup"), (6, 601, "sup")])],
        GAP,
        views=staff("(2, 201, 'sup'), (1, 101, 'sup'), (3, 301, 'sup'), (6, 601, 'sup')"),
    ),
    "two matches with a condition": Case(
        [(f"{ON} WHEN MATCHED AND s.pay = 101 THEN DELETE", [(6, 600, "it")])],
        GAP,
        views=TWICE,
        differs=ONE_CHANGE,
    ),
    "two matches of a delete": Case(
        [(f"{ON} WHEN MATCHED THEN DELETE", [(6, 600, "it")])], GAP, views=TWICE
    ),
    "two matches without a clause": Case(
        [(f"{ON} WHEN NOT MATCHED THEN INSERT *",
          [(1, 100, "hr"), (2, 201, "sup"), (6, 600, "it")])],
        GAP,
        views=TWICE,
    ),
    "a large source": Case(
        [
            (f"{ALL_TWICE} ON t.pk = s.pk WHEN MATCHED THEN UPDATE SET *", CHECK),
            (f"{ALL_TWICE} ON t.pk > s.pk WHEN MATCHED THEN UPDATE SET *", CHECK),
            (f"{ALL_TWICE} ON t.pk > s.pk WHEN MATCHED THEN UPDATE SET *"
             " WHEN NOT MATCHED THEN INSERT *", CHECK),
            (f"{ON} WHEN MATCHED THEN UPDATE SET *", [(1, 100, "sup"), (2, 200, "sup")]),
        ],
        TWO,
        views=MANY,
    ),
    "itself": Case(
        [("MERGE INTO {t} t USING {t} s ON t.pk = s.pk"
          " WHEN MATCHED AND t.pay = 100 THEN UPDATE SET pay = t.pay + 1"
          " WHEN NOT MATCHED THEN INSERT *",
          [(1, 101, "hr"), (2, 200, "it"), (3, 300, "hr")])],
        THREE,
    ),
    "a query of itself": Case(
        [("MERGE INTO {t} t USING (SELECT pk FROM {t} r JOIN ids ON r.pk = ids.value) s"
          " ON t.pk = s.pk WHEN MATCHED AND t.pay = 100 THEN UPDATE SET pay = t.pay + 1"
          " WHEN NOT MATCHED THEN INSERT (dep, pay, pk) VALUES ('new', 300, 1)",
          [(1, 101, "hr"), (2, 200, "it"), (3, 300, "hr")])],
        THREE,
        views={"ids": "VALUES (1), (2) AS v(value)"},
    ),
    "more columns": Case(
        [(f"{ON} WHEN MATCHED THEN UPDATE SET pay = s.pay + 1"
          " WHEN NOT MATCHED THEN INSERT (pk, pay, dep) VALUES (s.pk, s.pay, s.dep)"
          " WHEN NOT MATCHED BY SOURCE THEN DELETE",
          [(1, 102, "hr"), (2, 202, "it"), (4, 401, "sup")])],
        THREE,
        views=staff("(1, 'x', 101, 'sup'), (2, 'x', 201, 'sup'), (4, 'x', 401, 'sup')", "pk, more, pay, dep"),
    ),
    "unknown values on both sides": Case(
        [("MERGE INTO {t} t USING source s ON t.id = s.id"
          " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
          [*NO_ID_ROWS, (5, None, 501, "sup"), (6, 6, 601, "sup")])],
        NO_ID,
        WIDE,
        views=staff("(5, NULL, 501, 'sup'), (6, 6, 601, 'sup')", "pk, id, pay, dep"),
    ),
    "equal unknown values": Case(
        [("MERGE INTO {t} t USING source s ON t.id <=> s.id"
          " WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
          [(2, 2, 200, "it"), (5, None, 501, "sup"), (6, 6, 601, "sup")])],
        NO_ID,
        WIDE,
        views=staff("(5, NULL, 501, 'sup'), (6, 6, 601, 'sup')", "pk, id, pay, dep"),
    ),
    "NULL as a condition": Case(
        [("MERGE INTO {t} t USING source s ON t.id = s.id AND NULL"
          " WHEN MATCHED THEN UPDATE SET pay = s.pay WHEN NOT MATCHED THEN INSERT *",
          [*NO_ID_ROWS, (5, None, 501, "sup"), (6, 2, 201, "sup")])],
        NO_ID,
        WIDE,
        views=staff("(5, NULL, 501, 'sup'), (6, 2, 201, 'sup')", "pk, id, pay, dep"),
    ),
    "NULL as a condition of clauses": Case(
        [(f"{ON} WHEN MATCHED AND NULL THEN UPDATE SET pay = s.pay"
          " WHEN NOT MATCHED AND NULL THEN INSERT *"
          " WHEN NOT MATCHED BY SOURCE AND NULL THEN DELETE",
          [(1, 100, "hr"), (2, 200, "it")])],
        TWO,
        views=staff("(1, 101, 'sup'), (3, 301, 'sup')"),
    ),
    "the first clause": Case(
        [(f"{ON} WHEN MATCHED AND t.pk = 1 THEN UPDATE SET pay = t.pay + 5"
          " WHEN MATCHED AND t.pay = 100 THEN UPDATE SET pay = t.pay + 2"
          " WHEN NOT MATCHED BY SOURCE AND t.pk = 2 THEN UPDATE SET pay = pay - 1"
          " WHEN NOT MATCHED BY SOURCE AND t.pay = 200 THEN DELETE",
          [(1, 105, "hr"), (2, 199, "it")])],
        TWO,
        views=staff("(1, 101, 'sup'), (3, 301, 'sup')"),
    ),
    "another order": Case(
        [(f"{ON} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *",
          [(1, 101, "sup"), (2, 200, "it"), (3, 301, "sup")])],
        TWO,
        views=staff("('sup', 1, 101), ('sup', 3, 301)", "dep, pk, pay"),
    ),
    "fields of matched rows": Case(
        [
            (f"{ON} WHEN MATCHED THEN UPDATE SET s.c1 = -1, s.c2.m = map('k', 'v')", REFUSED),
            ("MERGE INTO {t} t USING source src ON t.pk = src.pk WHEN MATCHED THEN"
             " UPDATE SET s.c1 = NULL, s.c2 = NULL", REFUSED),
            (f"MERGE INTO {{t}} t USING source src ON t.pk = src.pk WHEN MATCHED THEN UPDATE SET s = {NEW_STRUCT}",
             [(1, (1, ([1], None)), "hr")]),
        ],
        NESTED_ROW,
        NESTED,
        views=keys(1, 3),
        differs=NO_FIELDS,
    ),
    "fields of unmatched rows": Case(
        [
            ("MERGE INTO {t} t USING source src ON t.pk = src.pk WHEN NOT MATCHED BY SOURCE THEN"
             " UPDATE SET s.c1 = -1, s.c2.m = map('k', 'v'), s.c2.a = array(-1)", REFUSED),
            ("MERGE INTO {t} t USING source src ON t.pk = src.pk WHEN NOT MATCHED BY SOURCE THEN"
             f" UPDATE SET s = {NEW_STRUCT}", [(1, (1, ([1], None)), "hr")]),
        ],
        NESTED_ROW,
        NESTED,
        views=keys(2, 4),
        differs=NO_FIELDS,
    ),
    "texts of fixed lengths": Case(
        [(f"{ON} WHEN MATCHED THEN UPDATE SET s = named_struct('c', 'x1', 'v', 'x2')"
          " WHEN NOT MATCHED BY SOURCE THEN UPDATE SET s = named_struct('c', 'y1', 'v', 'y2')",
          [(1, ("x1", "x2"), "hr"), (2, ("x1", "x2"), "it"), (3, ("y1", "y2"), "hr")])],
        PADDED_ROWS,
        PADDED,
        views=keys(1, 2, 4),
        differs=NO_BLANKS,
    ),
    "required values": Case(
        [
            (f"{ON} WHEN MATCHED THEN UPDATE SET pk = NULL", CHECK),
            (f"{ON} WHEN NOT MATCHED BY SOURCE THEN UPDATE SET pk = NULL", CHECK),
            (f"{ON} WHEN NOT MATCHED THEN INSERT (pk, pay, dep) VALUES (NULL, s.pk, 'bad')", CHECK),
        ],
        THREE,
        views=keys(1, 4),
        differs=NO_NESTED_CHECK,
    ),
    "conditions of ON": Case(
        [(f"{ON} AND {condition} WHEN MATCHED THEN UPDATE SET *", error)
         for condition, error in (
             ("s.pk < rand()", INVALID),
             ("max(s.pk) < 10", INVALID),
             ("s.pk IN (SELECT pk FROM {t})", REFUSED),
             ("t.pk < rand()", INVALID),
             ("max(t.pk) < 10", INVALID),
             ("t.pk IN (SELECT pk FROM {t})", REFUSED),
         )],
        TWO,
        views=STAFF,
    ),
    "conditions of clauses": Case(
        [(f"{ON} WHEN {kind} AND {condition} THEN {action}", error)
         for condition, error in (
             ("s.pk < rand()", [(1, 100, "hr"), (2, 200, "it")]),
             ("max(s.pk) < 10", INVALID),
             ("s.pk IN (SELECT pk FROM {t})", REFUSED),
         )
         for kind, action in (("MATCHED", "UPDATE SET *"), ("MATCHED", "DELETE"), ("NOT MATCHED", "INSERT *"))],
        TWO,
        views=STAFF,
        differs=RANDOM,
    ),
    "conditions of unmatched rows": Case(
        [(f"{ON} WHEN NOT MATCHED BY SOURCE AND {condition} THEN {action}", error)
         for condition, error in (
             ("t.pk < rand()", [(1, 100, "hr"), (2, 200, "it")]),
             ("max(t.pk) < 10", INVALID),
             ("t.pk IN (SELECT pk FROM {t})", REFUSED),
         )
         for action in ("UPDATE SET t.pk = -1", "DELETE")],
        TWO,
        views=STAFF,
        differs=RANDOM,
    ),
    "a partition and new rows": Case(
        [(f"{ON} AND t.DeP IN ('hr', 'it') WHEN MATCHED THEN UPDATE SET t.pay = t.pay + 1"
          " WHEN NOT MATCHED THEN INSERT (pk, pay, dep) VALUES (s.pk, 0, 'hr')",
          [(1, 101, "hr"), (2, 201, "hr"), (3, 301, "hr"), (4, 400, "it"), (5, 500, "it"), (6, 0, "hr")])],
        HR_AND_IT,
        views=keys(1, 2, 3, 6),
    ),
    "a partition, a value, and new rows": Case(
        [(f"{ON} AND t.dep IN ('hr', 'it') AND t.pay != -1"
          " WHEN MATCHED THEN UPDATE SET t.pay = t.pay + 1"
          " WHEN NOT MATCHED THEN INSERT (pk, pay, dep) VALUES (s.pk, 0, 'hr')",
          [(1, 101, "hr"), (2, 201, "hr"), (3, 301, "hr"), (4, 400, "it"), (5, 500, "it"), (6, 0, "hr")])],
        HR_AND_IT,
        views=keys(1, 2, 3, 6),
    ),
    "a partition and unmatched rows": Case(
        [(f"{ON} AND DeP IN ('hr', 'it') WHEN MATCHED THEN UPDATE SET t.pay = t.pay + 1"
          " WHEN NOT MATCHED THEN INSERT (pk, pay, dep) VALUES (s.pk, 0, 'hr')"
          " WHEN NOT MATCHED BY SOURCE THEN DELETE",
          [(1, 101, "hr"), (2, 201, "hr"), (3, 301, "hr"), (6, 0, "hr")])],
        HR_AND_IT,
        views=keys(1, 2, 3, 6),
    ),
    "columns of an update": Case(
        [(f"{ON} WHEN MATCHED AND t.pay = 200 THEN UPDATE SET *",
          [(1, 100, "uk", "hr"), (2, 200, "in", "fin")])],
        COUNTRIES,
        COUNTRY,
        views=COUNTRY_SOURCE,
    ),
    "columns of a delete": Case(
        [(f"{ON} WHEN MATCHED AND t.pay = 200 THEN DELETE", [(1, 100, "uk", "hr")])],
        COUNTRIES,
        COUNTRY,
        views=keys(1, 2, 3),
    ),
    "columns of an insert": Case(
        [(f"{ON} WHEN NOT MATCHED THEN INSERT *",
          [(1, 100, "uk", "hr"), (2, 200, "us", "it"), (3, 300, "cn", "sw")])],
        COUNTRIES,
        COUNTRY,
        views=COUNTRY_SOURCE,
    ),
    "columns of unmatched rows": Case(
        [
            (f"{ON} WHEN NOT MATCHED BY SOURCE AND pay = 100 THEN UPDATE SET country = 'bad', dep = 'bad'",
             [(1, 100, "bad", "bad"), (2, 200, "us", "it")]),
            (f"{ON} WHEN NOT MATCHED BY SOURCE AND pay = 100 THEN DELETE", [(2, 200, "us", "it")]),
        ],
        COUNTRIES,
        COUNTRY,
        views=LATER_COUNTRY_SOURCE,
    ),
    "columns of all clauses": Case(
        [(f"{ON} WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"
          " WHEN NOT MATCHED BY SOURCE AND pay = 100 THEN DELETE",
          [(2, 200, "in", "fin"), (3, 300, "cn", "sw")])],
        COUNTRIES,
        COUNTRY,
        views=LATER_COUNTRY_SOURCE,
    ),
}  # fmt: skip

CASES = {
    f"{kind} with {name}": case
    for kind, cases in (("delete", DELETES), ("update", UPDATES), ("merge", MERGES))
    for name, case in cases.items()
}
