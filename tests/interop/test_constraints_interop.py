"""Constraints and default values: each statement has the outcome in Hive that it has here."""

from dataclasses import replace

import pytest

from hiveacid.errors import CheckFailed
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.parser.script import to_script
from hiveacid.spark.run import run
from tests.interop.engines import EngineError

pytestmark = [pytest.mark.interop, pytest.mark.timeout(1800)]

COLUMNS = """(
    id int NOT NULL ENABLE,
    v string DEFAULT 'dflt',
    k int CHECK (k > 0) ENABLE,
    d date DEFAULT CAST('2020-01-02' AS date),
    CHECK (k < 100 OR length(v) = 1)
)"""
# With "{t}" for the table.
STATEMENTS = [
    "INSERT INTO {t} VALUES (NULL, 'x', 1, NULL)",
    "INSERT INTO {t} VALUES (1, 'x', -7, NULL)",
    "INSERT INTO {t} VALUES (1, 'x', NULL, NULL), (2, NULL, 500, NULL)",
    "INSERT INTO {t} VALUES (3, 'xx', 500, NULL)",
    "INSERT INTO {t} VALUES (3, 'x', 500, NULL)",
    "INSERT INTO {t} (id) VALUES (4)",
    "INSERT INTO {t} (k, id) SELECT 5, 5",
    "INSERT INTO {t} (v) VALUES ('a')",
    "INSERT INTO {t} VALUES (6, DEFAULT, 6, DEFAULT), (7, 'own', DEFAULT, DATE '2021-03-04')",
    "INSERT INTO {t} (id, v) VALUES (8, DEFAULT)",
    "UPDATE {t} SET k = -1 WHERE id = 4",
    "UPDATE {t} SET id = NULL WHERE id = 4",
    "UPDATE {t} SET v = DEFAULT, k = DEFAULT WHERE id = 1",
    "UPDATE {t} SET v = 'long' WHERE id = 3",
    "MERGE INTO {t} t USING {s} s ON t.id = s.id WHEN MATCHED THEN UPDATE SET k = s.k",
    "MERGE INTO {t} t USING {s} s ON t.id = s.id"
    " WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'm', s.k, NULL)",
    "MERGE INTO {t} t USING {s} s ON t.id = s.id"
    " WHEN NOT MATCHED AND s.k > 0 THEN INSERT (id, k) VALUES (s.id, s.k)",
    "MERGE INTO {t} t USING {s} s ON t.id = s.id AND s.k > 0"
    " WHEN MATCHED THEN UPDATE SET v = DEFAULT, k = s.k",
    "MERGE INTO {t} t USING {s} s ON t.id = s.id AND s.k > 0"
    " WHEN NOT MATCHED AND s.id > 50 THEN INSERT VALUES (s.id, DEFAULT, NULL, DEFAULT)",
    "INSERT OVERWRITE TABLE {t} SELECT NULL, 'x', 1, NULL",
    "INSERT OVERWRITE TABLE {t} SELECT id, v, k, d FROM {t} WHERE id > 2",
]


@pytest.fixture(scope="module")
def ours(spark, hive):
    def run_here(text):
        options = MetastoreOptions(uris=hive.metastore_uri)
        run(spark, replace(to_script(text), metastore=options))

    return run_here


@pytest.fixture(scope="module")
def source(hive):
    hive.sql(
        "CREATE TABLE default.cs (id int, k int) STORED AS ORC"
        " TBLPROPERTIES ('transactional' = 'true')"
    )
    hive.sql("INSERT INTO default.cs VALUES (1, 11), (4, -4), (60, 60), (61, -61)")
    return "default.cs"


def outcome(run_statement, statement, refusal):
    """Return whether a statement is refused because of a constraint."""
    try:
        run_statement(statement)
    except refusal as error:
        text = str(error)
        assert "constraint violated" in text or "refuses the row" in text, text
        return "refused"
    return "done"


@pytest.mark.parametrize("creator", ["hive", "ours"])
def test_every_statement_has_the_outcome_that_it_has_in_hive(hive, ours, source, creator):
    theirs, here = f"default.c_theirs_{creator}", f"default.c_here_{creator}"
    for name in (theirs, here):
        create = f"CREATE TABLE {name} {COLUMNS} STORED AS ORC"
        if creator == "hive":
            hive.sql(f"{create} TBLPROPERTIES ('transactional' = 'true')")
        else:
            ours(create)
    for statement in STATEMENTS:
        in_hive = outcome(hive.sql, statement.format(t=theirs, s=source), EngineError)
        with_us = outcome(ours, statement.format(t=here, s=source), CheckFailed)
        assert with_us == in_hive, statement
        rows = {name: sorted(hive.sql(f"SELECT * FROM {name}")) for name in (theirs, here)}
        assert rows[here] == rows[theirs], statement
    # Hive takes the answer from the constraint, which is true.
    assert hive.sql(f"SELECT count(*) FROM {here} WHERE id IS NULL") == [("0",)]
    found = hive.sql(f"SELECT count(*), count(id), count(v) FROM {here}")
    assert found == hive.sql(f"SELECT count(*), count(id), count(v) FROM {theirs}")


def test_a_constraint_that_hive_declares_later_is_enforced_for_updates_of_old_rows(hive, ours):
    for name in ("default.late_theirs", "default.late_here"):
        hive.sql(
            f"CREATE TABLE {name} (id int, w int) STORED AS ORC"
            " TBLPROPERTIES ('transactional' = 'true')"
        )
        hive.sql(f"INSERT INTO {name} VALUES (NULL, 1), (2, 2)")
        hive.sql(f"ALTER TABLE {name} CHANGE COLUMN id id int NOT NULL ENABLE NOVALIDATE")
    for statement in ("UPDATE {t} SET w = 5 WHERE w = 1", "UPDATE {t} SET w = 7 WHERE w = 2"):
        in_hive = outcome(hive.sql, statement.format(t="default.late_theirs"), EngineError)
        with_us = outcome(ours, statement.format(t="default.late_here"), CheckFailed)
        assert with_us == in_hive, statement
    rows = [sorted(hive.sql(f"SELECT w FROM default.late_{name}")) for name in ("here", "theirs")]
    assert rows[0] == rows[1]


@pytest.mark.parametrize(
    ("type_", "condition", "value"),
    [
        ("double", "x = x", "CAST('NaN' AS double)"),
        ("char(3)", "x > 'a'", "'a\\t'"),
        ("string", "x > 0", "'NaN'"),
    ],
)
def test_hive_contradicts_itself_about_conditions_that_are_refused_here(
    hive, type_, condition, value
):
    word, _, _ = type_.partition("(")
    name = f"default.both_{word}"
    create = (
        f"CREATE TABLE {{}} (x {type_}{{}}) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    hive.sql(create.format(name, ""))
    hive.sql(create.format(f"{name}_checked", f", CHECK ({condition})"))
    hive.sql(f"INSERT INTO {name} SELECT {value}")
    accepted = outcome(hive.sql, f"INSERT INTO {name}_checked SELECT * FROM {name}", EngineError)
    found = hive.sql(f"SELECT count(*) FROM {name} WHERE {condition}")
    assert (accepted == "done") != (found == [("1",)])


def test_blanks_behind_a_char_count_in_hive_if_the_inserted_value_is_a_string(hive):
    hive.sql(
        "CREATE TABLE default.blanks (c char(3), CHECK (c = 'a')) STORED AS ORC"
        " TBLPROPERTIES ('transactional' = 'true')"
    )
    for value, wanted in (("CAST('a ' AS char(3))", "done"), ("'a '", "refused")):
        statement = f"INSERT INTO default.blanks SELECT {value}"
        assert outcome(hive.sql, statement, EngineError) == wanted
