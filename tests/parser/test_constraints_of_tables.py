"""CREATE TABLE with constraints, and the keyword DEFAULT."""

import pytest

from hiveacid.errors import SqlError
from hiveacid.jobs.definition_jobs import ColumnSpec, CreateTableJob
from hiveacid.jobs.job_json import from_json, to_json
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.jobs.write_jobs import InsertJob, MergeJob, UpdateJob
from hiveacid.parser.script import to_jobs
from hiveacid.rules.constraints import Check, Default, Key, NotNull
from hiveacid.rules.merge import MatchedUpdate, NotMatchedInsert

ID = ColumnSpec("id", "int")
DISABLED = {"enabled": False, "rely": False}
CONSTRAINTS = {
    "id int NOT NULL": [NotNull(column="id")],
    "`ID` int not null enable novalidate rely": [NotNull(column="id")],
    "id int NOT NULL NOT ENFORCED": [NotNull(column="id", **DISABLED)],
    "id int NOT NULL DISABLE RELY": [NotNull(column="id", enabled=False)],
    "id int CONSTRAINT Nn NOT NULL NORELY": [NotNull(column="id", name="nn", rely=False)],
    "id int DEFAULT 5": [Default(column="id", value="5")],
    "id int DEFAULT cast(-5 AS int) ENABLE NOT NULL": [
        Default(column="id", value="cast(-5 AS int)"),
        NotNull(column="id"),
    ],
    "id int CHECK (id > 0 AND (id < 5)) ENABLE": [
        Check(column="id", expression="id > 0 AND (id < 5)")
    ],
    "id int, CHECK (id >> 0 = 1), CONSTRAINT c CHECK (id < 5) DISABLE": None,
    "id int, CONSTRAINT c CHECK (id < 5) DISABLE, CHECK (id > 1)": [
        Check(expression="id < 5", name="c", **DISABLED),
        Check(expression="id > 1"),
    ],
    "id int PRIMARY KEY DISABLE NOVALIDATE RELY": [Key(type="primary", columns=["id"], rely=True)],
    "id int, CONSTRAINT u UNIQUE (id) DISABLE NOVALIDATE": [
        Key(type="unique", columns=["id"], name="u")
    ],
    "id int, FOREIGN KEY (id) REFERENCES o (x) DISABLE NOVALIDATE": [
        Key(
            type="foreign",
            columns=["id"],
            references="db.o",
            referenced_columns=["x"],
        )
    ],
    "id int, CONSTRAINT f FOREIGN KEY (id) REFERENCES d2.o (x) DISABLE NOVALIDATE RELY": [
        Key(
            type="foreign",
            columns=["id"],
            name="f",
            rely=True,
            references="d2.o",
            referenced_columns=["x"],
        )
    ],
}


@pytest.mark.parametrize("text", [text for text, given in CONSTRAINTS.items() if given])
def test_constraints_are_declared_with_a_table(text: str) -> None:
    (job,) = to_jobs(f"CREATE TABLE IF NOT EXISTS t ({text}) STORED AS ORC", "db")
    expected = CreateTableJob(
        target="db.t", columns=[ID], if_not_exists=True, constraints=CONSTRAINTS[text]
    )
    assert job == expected
    assert from_json(to_json(job)) == job


def test_types_comments_and_texts_stay_what_they_are() -> None:
    (job,) = to_jobs(
        """CREATE TABLE db.t (
            id int NOT NULL COMMENT 'NOT NULL, DEFAULT 5',
            m map<string,struct<dflt:int,c:array<decimal(5,2)>>> NOT NULL,
            s string DEFAULT 'a, ) ENABLE' COMMENT 'x', `check` int
        ) PARTITIONED BY (p string)"""
    )
    assert job == CreateTableJob(
        target="db.t",
        columns=[
            ColumnSpec("id", "int", "NOT NULL, DEFAULT 5"),
            ColumnSpec("m", "map<string,struct<dflt:int,c:array<decimal(5,2)>>>"),
            ColumnSpec("s", "string", "x"),
            ColumnSpec("check", "int"),
        ],
        partition_keys=[ColumnSpec("p", "string")],
        constraints=[
            NotNull(column="id"),
            NotNull(column="m"),
            Default(column="s", value="'a, ) ENABLE'"),
        ],
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id int NOT NULL VALIDATE", "VALIDATE is not supported"),
        ("id int PRIMARY KEY ENABLE", "no enabled keys"),
        ("id int DEFAULT", "DEFAULT needs a value"),
        ("id int CHECK ()", "CHECK needs a condition"),
        ("id int NOT NULL sometimes", "Expected a constraint before 'SOMETIMES'"),
        ("id int, CHECK (my_udf(id))", "my_udf"),
        ("id int, CHECK (z > 1)", "no column z"),
        ("id int, CONSTRAINT x", "Expected a constraint"),
    ],
)
def test_constraints_that_hive_would_refuse(text: str, message: str) -> None:
    with pytest.raises(SqlError, match=message):
        to_jobs(f"CREATE TABLE db.t ({text})")


def test_default_in_values_is_distinguished_by_further_columns() -> None:
    jobs = to_jobs(
        "INSERT INTO db.t VALUES (1, DEFAULT, default), (2, 'b', `default`);"
        "INSERT INTO db.t (id, v) VALUES (1, DEFAULT); INSERT INTO db.t VALUES (1, 'default')"
    )
    assert jobs == (
        InsertJob(
            target="db.t",
            source=QuerySource(
                "VALUES (1, NULL, NULL, TRUE, TRUE), (2, 'b', `default`, FALSE, FALSE)"
            ),
            by_position=True,
            defaults=(1, 2),
        ),
        InsertJob(
            target="db.t",
            source=QuerySource("VALUES (1, NULL, TRUE)"),
            by_position=True,
            columns=("id", "v"),
            defaults=(1,),
        ),
        InsertJob(target="db.t", source=QuerySource("VALUES (1, 'default')"), by_position=True),
    )
    assert from_json(to_json(jobs[0])) == jobs[0]


def test_default_in_changes_is_a_value_of_its_own() -> None:
    jobs = to_jobs(
        "UPDATE db.t SET v = DEFAULT WHERE id = 1;"
        "MERGE INTO db.t USING db.s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = DEFAULT"
        " WHEN NOT MATCHED THEN INSERT VALUES (s.id, DEFAULT)"
    )
    update, merge = jobs
    assert isinstance(update, UpdateJob)
    assert isinstance(merge, MergeJob)
    assert [value.upper() for value in update.set.values()] == ["DEFAULT"]
    assert merge.source == TableSource("db.s")
    matched, not_matched = merge.when
    assert isinstance(matched, MatchedUpdate)
    assert isinstance(not_matched, NotMatchedInsert)
    assert [value.upper() for value in (matched.set or {}).values()] == ["DEFAULT"]
    assert list(not_matched.row or ()) == ["s.id", "DEFAULT"]
