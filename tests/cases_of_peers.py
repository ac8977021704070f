"""Cases that suites of other engines have for changes of rows: statements, and the rows after them.

Both engines must agree with each case, and so with each other. The statements and rows are our own.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from hiveacid.cli.main import main
from hiveacid.errors import (
    CheckFailed,
    InvalidJob,
    SqlError,
    TypeMismatch,
    UnknownColumn,
)
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.tables.scan.table_scan import TableScan

Rows = list[tuple[Any, ...]]

TABLES = {
    "t": """(id int, v string, n int);
        INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, NULL, NULL), (NULL, 'z', 5)""",
    "s": """(id int, v string, n int);
        INSERT INTO s VALUES (2, 'B', 200), (4, 'D', 400), (NULL, 'Z', 50)""",
    "twice": """(id int, v string, n int);
        INSERT INTO twice VALUES (1, 'x', 1), (1, 'y', 2)""",
    "none": "(id int, v string, n int)",
    "wide": """(n int, extra string, id int, v string);
        INSERT INTO wide VALUES (200, 'more', 2, 'B'), (400, 'more', 4, 'D')""",
    "p": """(id int, v string) PARTITIONED BY (k string);
        INSERT INTO p VALUES (1, 'a', 'x'), (2, 'b', 'x'), (3, 'c', 'y')""",
    "kinds": """(i tinyint, d decimal(5,2), f double, vc varchar(3), day date);
        INSERT INTO kinds VALUES (1, 1.50, 0.5, 'abc', DATE'2026-01-31')""",
    "strict": """(id int NOT NULL, v string DEFAULT 'dv', n int);
        INSERT INTO strict VALUES (1, 'a', 10)""",
}
ONE, TWO, THREE, NULL = (1, "a", 10), (2, "b", 20), (3, None, None), (None, "z", 5)
T: Rows = [ONE, TWO, THREE, NULL]
S: Rows = [(2, "B", 200), (4, "D", 400), (None, "Z", 50)]
P: Rows = [(1, "a", "x"), (2, "b", "x"), (3, "c", "y")]
KINDS: Rows = [(1, "1.50", 0.5, "abc", "2026-01-31")]


@dataclass(frozen=True)
class Case:
    """A statement, and its effect.

    Attributes:
        statement: The statement on TABLES.
        expected: The rows of the table after it, or the class of the error.
        table: The table whose rows are compared.
        spark: Whether it is left to Spark.
    """

    statement: str
    expected: Rows | type[Exception]
    table: str = "t"
    spark: bool = False


@dataclass(frozen=True)
class Tables:
    """The tables of a case, in a database of their own."""

    client: MetastoreClient
    database: str
    case: Case

    def create(self) -> None:
        """Create the tables that the statement names, as the worker does."""
        named = {*re.findall(r"\w+", self.case.statement.lower())}
        script = ";".join(f"CREATE TABLE {name} {TABLES[name]}" for name in TABLES if name in named)
        options = ["--run-in", "worker", "--metastore", self.client.options.uris]
        assert main(["sql", script, "--database", self.database, *options]) == 0

    def drop(self) -> None:
        """Drop them."""
        for name in self.client.get_tables(self.database):
            self.client.drop_table(TableRef(self.database, name))

    def rows(self) -> Rows:
        """The rows of the compared table, with texts for values without a short literal."""
        name = f"{self.database}.{self.case.table}"
        found = TableScan(name, self.client.options).to_arrow().to_pylist()
        return in_order(
            tuple(
                each if each is None or isinstance(each, int | float | str) else str(each)
                for each in row.values()
            )
            for row in found
        )


def in_order(rows: Iterable[tuple[Any, ...]]) -> Rows:
    """Rows in one order, nulls included."""
    return sorted(rows, key=repr)


_ALL = "WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT *"


def _merge(clauses: str, on: str = "t.id = s.id", source: str = "s") -> str:
    return f"MERGE INTO t USING {source} s ON {on} {clauses}"


CASES = {
    # Nulls and constants in ON
    "null keys match nothing": Case(_merge(_ALL), [ONE, THREE, NULL, *S]),
    "null-safe keys": Case(_merge(_ALL, "t.id <=> s.id"), [ONE, THREE, *S], spark=True),
    "not null-safe keys": Case(
        _merge("WHEN MATCHED THEN DELETE", "NOT (t.id <=> s.id) AND s.id = 4"), [], spark=True
    ),
    "both keys null": Case(
        _merge("WHEN MATCHED THEN DELETE", "t.id IS NULL AND s.id IS NULL"),
        [ONE, TWO, THREE],
        spark=True,
    ),
    "key and null": Case(_merge("WHEN MATCHED THEN DELETE", "t.id = s.id AND NULL"), T),
    "key or true": Case(_merge("WHEN MATCHED THEN DELETE", "t.id = s.id OR TRUE"), [], spark=True),
    "false only inserts": Case(_merge("WHEN NOT MATCHED THEN INSERT *", "FALSE"), [*T, *S]),
    "unequal constants only insert": Case(
        _merge("WHEN NOT MATCHED THEN INSERT *", "1 != 1"), [*T, *S]
    ),
    "equal constants pair all": Case(_merge("WHEN MATCHED THEN DELETE", "1 = 1"), []),
    "a key of an expression": Case(
        _merge("WHEN MATCHED THEN UPDATE SET n = s.n", "t.id + 1 = s.id"),
        [(1, "a", 200), TWO, (3, None, 400), NULL],
    ),
    "a condition of the target in on": Case(
        _merge("WHEN MATCHED THEN DELETE", "t.id = s.id AND t.n > 20"), T
    ),
    "a condition of the source in on": Case(_merge(_ALL, "t.id = s.id AND s.n > 200"), [*T, *S]),
    "keys by inequality": Case(
        _merge("WHEN MATCHED THEN DELETE", "t.id < s.id AND s.id = 2"),
        [TWO, THREE, NULL],
        spark=True,
    ),
    # Sources
    "an empty source": Case(_merge(_ALL, source="none"), T),
    "an empty source and its absence": Case(
        _merge("WHEN NOT MATCHED BY SOURCE THEN DELETE", source="none"), []
    ),
    "a source of the target": Case(
        "MERGE INTO t USING t s ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = s.n + 1"
        " WHEN NOT MATCHED THEN INSERT *",
        [(1, "a", 11), (2, "b", 21), THREE, NULL, NULL],
    ),
    "a source of a filtered target": Case(
        "MERGE INTO t USING (SELECT id FROM t WHERE n >= 20) s ON t.id = s.id"
        " WHEN MATCHED THEN DELETE",
        [ONE, THREE, NULL],
    ),
    "a source of values": Case(
        "MERGE INTO t USING (SELECT 1 AS id, 'new' AS v) s ON t.id = s.id"
        " WHEN MATCHED THEN UPDATE SET v = s.v",
        [(1, "new", 10), TWO, THREE, NULL],
        spark=True,
    ),
    "a source of a union": Case(
        "MERGE INTO t USING (SELECT id FROM s UNION ALL SELECT 1) s ON t.id = s.id"
        " WHEN MATCHED THEN DELETE",
        [THREE, NULL],
        spark=True,
    ),
    "extra columns of the source with a star": Case(
        _merge(_ALL, source="wide"), [ONE, THREE, NULL, *S[:2]]
    ),
    "a star with a source without a column": Case(
        _merge(_ALL, source="(SELECT id, v FROM s)"), UnknownColumn
    ),
    "a star goes by names": Case(
        _merge(_ALL, source="(SELECT n, v, id FROM wide)"), [ONE, THREE, NULL, *S[:2]]
    ),
    "an ambiguous name": Case(
        _merge("WHEN MATCHED THEN UPDATE SET n = n + 1"), InvalidJob, spark=True
    ),
    "an unknown column of the source": Case(
        _merge("WHEN MATCHED THEN UPDATE SET n = s.nothing"), UnknownColumn, spark=True
    ),
    "an unknown column of the target": Case(
        _merge("WHEN MATCHED THEN UPDATE SET nothing = s.n"), UnknownColumn
    ),
    # Several source rows for a row
    "two updates of a row": Case(
        _merge("WHEN MATCHED THEN UPDATE SET n = s.n", source="twice"), CheckFailed
    ),
    "two updates of a row, one excluded": Case(
        _merge("WHEN MATCHED AND s.n = 2 THEN UPDATE SET n = s.n", source="twice"),
        [(1, "a", 2), TWO, THREE, NULL],
    ),
    "two source rows, no clause for the row": Case(
        _merge("WHEN MATCHED AND t.n > 10 THEN UPDATE SET n = s.n", source="twice"), T
    ),
    "two inserts of a key": Case(
        _merge("WHEN NOT MATCHED THEN INSERT *", "t.id = s.id + 10", "twice"),
        [*T, (1, "x", 1), (1, "y", 2)],
    ),
    "two deletes of a row": Case(
        _merge("WHEN MATCHED THEN DELETE", source="twice"), [TWO, THREE, NULL]
    ),
    "an update and a delete of a row": Case(
        _merge(
            "WHEN MATCHED AND s.n = 1 THEN DELETE WHEN MATCHED THEN UPDATE SET n = s.n",
            source="twice",
        ),
        CheckFailed,
    ),
    # Clauses
    "the first clause wins": Case(
        _merge(
            "WHEN MATCHED AND t.n > 1 THEN UPDATE SET v = 'first'"
            " WHEN MATCHED AND t.n > 0 THEN DELETE"
        ),
        [ONE, (2, "first", 20), THREE, NULL],
    ),
    "a condition of null is not met": Case(
        _merge("WHEN MATCHED AND s.n > NULL THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'else'"),
        [ONE, (2, "else", 20), THREE, NULL],
    ),
    "inserts by conditions": Case(
        _merge(
            "WHEN NOT MATCHED AND s.id IS NULL THEN INSERT (id, v) VALUES (0, s.v)"
            " WHEN NOT MATCHED AND s.n > 400 THEN INSERT *"
        ),
        [*T, (0, "Z", None)],
    ),
    "inserts in another order": Case(
        _merge("WHEN NOT MATCHED AND s.id = 4 THEN INSERT (n, id) VALUES (s.id, s.n)"),
        [*T, (400, None, 4)],
    ),
    "rows without a source": Case(
        _merge(
            "WHEN NOT MATCHED BY SOURCE AND t.n = 10 THEN UPDATE SET v = 'left'"
            " WHEN NOT MATCHED BY SOURCE AND t.id IS NULL THEN DELETE"
        ),
        [(1, "left", 10), TWO, THREE],
    ),
    "all three kinds": Case(_merge(f"{_ALL} WHEN NOT MATCHED BY SOURCE THEN DELETE"), S),
    "a source column without a source": Case(
        _merge("WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = s.n"), UnknownColumn, spark=True
    ),
    "a target column in an insert": Case(
        _merge("WHEN NOT MATCHED THEN INSERT (id) VALUES (t.id)"), UnknownColumn, spark=True
    ),
    "a clause after one without a condition": Case(
        _merge("WHEN MATCHED THEN DELETE WHEN MATCHED THEN UPDATE SET n = 1"), SqlError
    ),
    "a merge without clauses": Case("MERGE INTO t USING s ON t.id = s.id", SqlError),
    "a column set twice": Case(_merge("WHEN MATCHED THEN UPDATE SET n = 1, N = 2"), SqlError),
    "an update of the key": Case(
        _merge("WHEN MATCHED THEN UPDATE SET id = s.id * 10"), [ONE, (20, "b", 20), THREE, NULL]
    ),
    "columns swapped": Case(
        "UPDATE t SET id = n, n = id WHERE id IS NOT NULL",
        [(10, "a", 1), (20, "b", 2), (None, None, 3), NULL],
    ),
    "names in other cases": Case(
        "MERGE INTO T USING S ON T.ID = S.Id WHEN MATCHED THEN UPDATE SET V = S.V",
        [ONE, (2, "B", 20), THREE, NULL],
    ),
    "quoted names": Case(
        "MERGE INTO `t` AS `a` USING `s` AS `b` ON `a`.`id` = `b`.`id` WHEN MATCHED THEN DELETE",
        [ONE, THREE, NULL],
    ),
    # Partitions
    "a merge that moves a row to another partition": Case(
        "MERGE INTO p USING s ON p.id = s.id WHEN MATCHED THEN UPDATE SET k = 'z'",
        [P[0], (2, "b", "z"), P[2]],
        "p",
    ),
    "an update of a partition column": Case(
        "UPDATE p SET k = 'y' WHERE id = 1", [(1, "a", "y"), *P[1:]], "p"
    ),
    "an update of a partition column to null": Case(
        "UPDATE p SET k = NULL WHERE id = 1", [(1, "a", None), *P[1:]], "p"
    ),
    "a delete of a partition": Case("DELETE FROM p WHERE k = 'x'", [P[2]], "p"),
    "a delete by a partition of another type": Case("DELETE FROM p WHERE k > 'x'", P[:2], "p"),
    "an overwritten partition": Case(
        "INSERT OVERWRITE TABLE p PARTITION (k = 'x') VALUES (9, 'new')",
        [(9, "new", "x"), P[2]],
        "p",
    ),
    "an overwritten partition without rows": Case(
        "INSERT OVERWRITE TABLE p PARTITION (k = 'x') SELECT id, v FROM none", [P[2]], "p"
    ),
    "dynamic partitions are overwritten": Case(
        "INSERT OVERWRITE TABLE p PARTITION (k) VALUES (9, 'new', 'y'), (8, 'new', 'w')",
        [*P[:2], (9, "new", "y"), (8, "new", "w")],
        "p",
    ),
    "a static partition with too many values": Case(
        "INSERT INTO p PARTITION (k = 'x') VALUES (9, 'new', 'x')", UnknownColumn, "p"
    ),
    "a list of columns without the partition column": Case(
        "INSERT INTO p (id, v) VALUES (9, 'new')", UnknownColumn, "p"
    ),
    "a merge with a condition on the partition": Case(
        "MERGE INTO p USING s ON p.id = s.id AND p.k = 'y' WHEN MATCHED THEN DELETE"
        " WHEN NOT MATCHED AND s.id = 4 THEN INSERT (k, v, id) VALUES ('n', s.v, s.id)",
        [*P, (4, "D", "n")],
        "p",
    ),
    # Updates and deletes
    "a delete of all rows": Case("DELETE FROM t WHERE TRUE", []),
    "a delete without a condition": Case("DELETE FROM t", SqlError),
    "an update without a condition": Case("UPDATE t SET n = 0", SqlError),
    "a delete of no row": Case("DELETE FROM t WHERE FALSE", T),
    "a delete by null": Case("DELETE FROM t WHERE NULL", TypeMismatch, spark=True),
    "a delete by equality with null": Case("DELETE FROM t WHERE id = NULL", T),
    "a delete by null-safe equality": Case("DELETE FROM t WHERE id <=> NULL", [ONE, TWO, THREE]),
    "a delete by a negated null": Case("DELETE FROM t WHERE NOT (n > 5)", [ONE, TWO, THREE]),
    "a delete by inequality keeps nulls": Case("DELETE FROM t WHERE id <> 1", [ONE, NULL]),
    "a delete by a list with null": Case("DELETE FROM t WHERE id IN (1, NULL)", T[1:]),
    "a delete by no list with null": Case("DELETE FROM t WHERE id NOT IN (1, NULL)", T),
    "a delete between": Case("DELETE FROM t WHERE id BETWEEN 2 AND 3", [ONE, NULL]),
    "a delete by an empty range": Case("DELETE FROM t WHERE id BETWEEN 3 AND 2", T),
    "a delete by a pattern": Case("DELETE FROM t WHERE v LIKE '_'", [THREE]),
    "a delete by a number as text": Case(
        "DELETE FROM t WHERE id = '2'", [ONE, THREE, NULL], spark=True
    ),
    "a delete by a subquery": Case(
        "DELETE FROM t WHERE id IN (SELECT id FROM s)", [ONE, THREE, NULL], spark=True
    ),
    "a delete by no subquery with null": Case(
        "DELETE FROM t WHERE id NOT IN (SELECT id FROM s)", T, spark=True
    ),
    "a delete by existence": Case(
        "DELETE FROM t WHERE NOT EXISTS (SELECT 1 FROM s WHERE s.id = t.id)", [TWO], spark=True
    ),
    "a delete by a scalar subquery": Case(
        "DELETE FROM t WHERE n < (SELECT avg(n) FROM t)", [TWO, THREE], spark=True
    ),
    "an update by a scalar subquery": Case(
        "UPDATE t SET n = (SELECT max(n) FROM s) WHERE id = 1",
        [(1, "a", 400), TWO, THREE, NULL],
        spark=True,
    ),
    "an update of all rows": Case("UPDATE t SET n = 0 WHERE TRUE", [(*row[:2], 0) for row in T]),
    "an update to null": Case("UPDATE t SET v = NULL WHERE id = 1", [(1, None, 10), *T[1:]]),
    "an update by arithmetic with null": Case(
        "UPDATE t SET n = n + id WHERE TRUE", [(1, "a", 11), (2, "b", 22), THREE, (None, "z", None)]
    ),
    "an update with an alias": Case(
        "UPDATE t AS x SET x.n = x.id WHERE x.id = 2", [ONE, (2, "b", 2), THREE, NULL]
    ),
    "an update of an unknown column": Case("UPDATE t SET nothing = 1 WHERE TRUE", UnknownColumn),
    "a condition on an unknown column": Case(
        "DELETE FROM t WHERE nothing = 1", UnknownColumn, spark=True
    ),
    "a condition that is a number": Case("DELETE FROM t WHERE id + 1", TypeMismatch, spark=True),
    "an update by a case": Case(
        "UPDATE t SET v = CASE WHEN n > 10 THEN 'big' WHEN n IS NULL THEN 'none' ELSE v END WHERE TRUE",
        [ONE, (2, "big", 20), (3, "none", None), NULL],
    ),
    "a division by zero": Case("UPDATE t SET n = id / 0 WHERE id = 1", InvalidJob, spark=True),
    "an integer that is too large": Case(
        "UPDATE t SET n = 2147483647 + id WHERE id = 1", InvalidJob, spark=True
    ),
    # Inserts
    "columns in another order": Case("INSERT INTO t (v, id) VALUES ('q', 9)", [*T, (9, "q", None)]),
    "columns in other cases": Case(
        "INSERT INTO t (N, ID, V) VALUES (1, 2, 'x')", [*T, (2, "x", 1)]
    ),
    "a column twice": Case("INSERT INTO t (id, id) VALUES (1, 2)", SqlError),
    "too few values": Case("INSERT INTO t VALUES (1, 'x')", UnknownColumn),
    "too many values": Case("INSERT INTO t VALUES (1, 'x', 2, 3)", UnknownColumn),
    "values of different lengths": Case("INSERT INTO t VALUES (1, 'x', 2), (1, 'x')", SqlError),
    "an insert of the table into itself": Case("INSERT INTO t SELECT * FROM t", [*T, *T]),
    "an overwrite with itself": Case(
        "INSERT OVERWRITE TABLE t SELECT * FROM t WHERE id > 1", [TWO, THREE]
    ),
    "an overwrite without rows": Case("INSERT OVERWRITE TABLE t SELECT * FROM none", []),
    "an insert by name": Case(
        "INSERT INTO t BY NAME SELECT 7 AS n, 8 AS id", [*T, (8, None, 7)], spark=True
    ),
    # Defaults and constraints
    "a default of an omitted column": Case(
        "INSERT INTO strict (id) VALUES (2)", [(1, "a", 10), (2, "dv", None)], "strict"
    ),
    "a default by its word": Case(
        "INSERT INTO strict VALUES (2, DEFAULT, DEFAULT)",
        [(1, "a", 10), (2, "dv", None)],
        "strict",
        spark=True,
    ),
    "an update to the default": Case(
        "UPDATE strict SET v = DEFAULT WHERE TRUE", [(1, "dv", 10)], "strict"
    ),
    "a default in a merge": Case(
        "MERGE INTO strict USING s ON strict.id = s.id"
        " WHEN NOT MATCHED AND s.id = 4 THEN INSERT (id, v) VALUES (s.id, DEFAULT)",
        [(1, "a", 10), (4, "dv", None)],
        "strict",
    ),
    "an explicit null is no default": Case(
        "INSERT INTO strict VALUES (2, NULL, NULL)", [(1, "a", 10), (2, None, None)], "strict"
    ),
    "a null in an insert": Case("INSERT INTO strict VALUES (NULL, 'x', 1)", CheckFailed, "strict"),
    "a null in an update": Case("UPDATE strict SET id = NULL WHERE TRUE", CheckFailed, "strict"),
    "a null in an update of no row": Case(
        "UPDATE strict SET id = NULL WHERE id = 9", [(1, "a", 10)], "strict"
    ),
    "a null in a merge": Case(
        "MERGE INTO strict USING s ON strict.id = s.id WHEN NOT MATCHED THEN INSERT *",
        CheckFailed,
        "strict",
    ),
    "a required column that is omitted": Case(
        "INSERT INTO strict (v) VALUES ('x')", CheckFailed, "strict"
    ),
    # Values that do not fit
    "a small integer": Case(
        "UPDATE kinds SET i = -128 WHERE TRUE", [(-128, *KINDS[0][1:])], "kinds"
    ),
    "an integer out of range": Case("UPDATE kinds SET i = 128 WHERE TRUE", TypeMismatch, "kinds"),
    "an inserted integer out of range": Case(
        "INSERT INTO kinds (i) VALUES (-129)", TypeMismatch, "kinds"
    ),
    "a decimal that is rounded": Case(
        "UPDATE kinds SET d = 1.005 WHERE TRUE", [(1, "1.01", *KINDS[0][2:])], "kinds", spark=True
    ),
    "a decimal that is rounded from minus": Case(
        "UPDATE kinds SET d = -1.005 WHERE TRUE", [(1, "-1.01", *KINDS[0][2:])], "kinds", spark=True
    ),
    "a decimal that is too large": Case(
        "UPDATE kinds SET d = 1000 WHERE TRUE", TypeMismatch, "kinds", spark=True
    ),
    "a decimal that is too large once rounded": Case(
        "UPDATE kinds SET d = 999.995 WHERE TRUE", TypeMismatch, "kinds", spark=True
    ),
    "a decimal for a double": Case(
        "UPDATE kinds SET f = 1.25 WHERE TRUE", [(1, "1.50", 1.25, *KINDS[0][3:])], "kinds"
    ),
    "a text that is too long": Case(
        "UPDATE kinds SET vc = 'abcd' WHERE TRUE", TypeMismatch, "kinds"
    ),
    "blanks beyond the length": Case(
        "UPDATE kinds SET vc = 'abc ' WHERE TRUE", TypeMismatch, "kinds"
    ),
    "a date as a text": Case(
        "UPDATE kinds SET day = '2026-02-01' WHERE TRUE", [(*KINDS[0][:4], "2026-02-01")], "kinds"
    ),
    "a date that does not exist": Case(
        "UPDATE kinds SET day = '2026-02-30' WHERE TRUE", TypeMismatch, "kinds", spark=True
    ),
    "a comparison of a date and a text": Case(
        "DELETE FROM kinds WHERE day < '2026-02-01'", [], "kinds"
    ),
    "a text that is no number": Case("UPDATE t SET n = 'x' WHERE id = 1", TypeMismatch, spark=True),
    "a boolean for an integer": Case(
        "UPDATE t SET n = TRUE WHERE id = 1", [(1, "a", 1), TWO, THREE, NULL], spark=True
    ),
}
