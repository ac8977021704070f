"""The partitions that a condition selects without Spark, for locks and for EXPLAIN."""

from datetime import date

import pytest

from hiveacid.parser.partition_conditions import (
    KeyScope,
    selected_partitions,
)

KEYS = {"day": "date", "n": "int", "s": "string"}
PARTITIONS = {
    "a": "day=2026-01-01/n=1/s=x",
    "b": "day=2026-01-02/n=02/s=2",
    "c": "day=2026-1-2/n=__HIVE_DEFAULT_PARTITION__/s=02",
}
LETTERS = {name: letter for letter, name in PARTITIONS.items()}
SCOPE = KeyScope("t", KEYS, ["id", "v", "st"])


def selected(condition: str | None, scope: KeyScope = SCOPE) -> tuple[str, bool]:
    found = selected_partitions(condition, scope, [*LETTERS])
    return "".join(LETTERS[name] for name in found.names), found.certain


@pytest.mark.parametrize(
    ("condition", "left", "certain"),
    [
        (None, "abc", True),
        ("id = 7", "abc", True),
        # Spark reads the name of the partition c as another day than we do.
        ("day = '2026-01-01'", "ac", False),
        ("t.day = DATE '2026-01-01' AND id > 1", "ac", False),
        ("(day = '2026-01-01') AND (id = 1 OR id = 2)", "ac", False),
        ("(day = '2026-01-02' AND id > 1) AND n = 2", "b", False),
        ("n = 2 AND day = '2026-01-02'", "b", True),
        ("s = 'x' OR n = 2", "ab", True),
        ("s = 'x' OR id = 2", "abc", True),
        ("NOT s = 'x'", "bc", True),
        ("NOT n = 1", "b", True),
        ("s IN ('2', '02')", "bc", True),
        ("s NOT IN ('2', '02')", "a", True),
        ("n IN (1, NULL)", "a", True),
        ("n NOT IN (1, NULL)", "", True),
        ("n BETWEEN 2 AND 3", "b", True),
        ("n NOT BETWEEN 2 AND 3", "a", True),
        ("n >= 2", "b", True),
        ("2 > n", "a", True),
        ("n > -5 AND s < '1'", "", True),
        ("s >= '02' AND s < 'x'", "bc", True),
        ("n IS NULL", "c", True),
        ("n IS NOT NULL", "ab", True),
        ("n <=> NULL", "c", True),
        ("n <=> 2", "b", True),
        ("day IN (SELECT day FROM u)", "abc", True),
        ("DAY = '2026'", "abc", False),
        ("2 = n", "b", True),
        ("n = '2'", "b", True),
        ("n = 2.0", "abc", False),
        ("n = -2", "", True),
        ("n = 1 + 1", "abc", False),
        ("n = NULL", "", True),
        ("s = 'x'", "a", True),
        ("s = 2", "abc", False),
        ("s = current_date", "abc", False),
        ("s = upper('X')", "abc", False),
        ("other.day = '2026-01-01'", "abc", True),
        ("s = 2.0", "abc", False),
        ("s = 'a' 'x'", "abc", False),
        ("s = DATE '2026-01-01'", "abc", False),
        ("s IN ('x', 2)", "abc", False),
        ("source.t.n = 1", "abc", True),
        ("st.n = 1", "abc", True),
        ("t.n.field = 1", "abc", True),
        ("n = day", "abc", False),
        ("id >>> 2 = 1", "abc", True),
        ("v = X 'F0' AND s = 'x'", "a", True),
        ("id >>>> 2 = 1 AND s = 'x'", "abc", False),
        ("(" * 50 + "n = 1" + ")" * 50, "abc", False),
        (" AND ".join(["id > 1"] * 2000 + ["s = 'x'"]), "a", True),
        (" OR ".join(["n = 7"] * 2000 + ["s = 'x'"]), "a", True),
    ],
)
def test_only_what_cannot_be_is_ruled_out(condition: str | None, left: str, certain: bool) -> None:
    assert selected(condition) == (left, certain)


def test_parameters_have_values() -> None:
    for value, left in ((2, "b"), ("2", "b"), (None, ""), (True, "abc"), (2.0, "abc")):
        scope = KeyScope("t", KEYS, params={"p": value})
        assert selected("n = :p", scope)[0] == left
    day = KeyScope("t", KEYS, params={"p": date(2026, 1, 2)})
    assert selected("n IS NOT NULL AND day = :p", day) == ("b", True)


def test_a_column_without_a_table_may_be_of_the_source() -> None:
    for condition, left in (("n = 1", "abc"), ("t.n = 1", "a")):
        assert selected(condition, KeyScope("t", KEYS, qualified=True))[0] == left
