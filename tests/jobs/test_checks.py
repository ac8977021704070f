"""Checks of written rows as parts of jobs: their forms, and what is refused before a job runs."""

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from hiveacid.errors import HiveAcidError, InvalidJob
from hiveacid.jobs import DeleteJob, InsertJob, TransactionJob, UpdateJob
from hiveacid.jobs.checks import (
    AcceptedValues,
    Balanced,
    Check,
    Fresh,
    Holds,
    InRange,
    NoRows,
    NotNull,
    Passes,
    References,
    RowCount,
    Unique,
)
from hiveacid.jobs.fields import before_rendering
from hiveacid.jobs.job import Job, accesses_of
from hiveacid.jobs.job_json import from_json, to_json
from hiveacid.jobs.sources import PathSource, QuerySource, TableSource


def job(*checks: Check) -> DeleteJob:
    return DeleteJob(target="db.t", where="id = 1", checks=checks)


@pytest.mark.parametrize(
    "check",
    [
        NotNull(columns=["id"], table="other.t"),
        NotNull(columns=[]),
        NotNull(columns=["id", "ID"]),
        NotNull(columns=["id"], severity="loud"),
        NotNull(columns=["id"], shown=11),
        RowCount(of="written"),
        RowCount(of="read", min=1),
        RowCount(min=2, max=1),
        RowCount(min=-1),
        RowCount(last=3),
        RowCount(min_ratio=0.5),
        RowCount(of="table", last=3, min_ratio=0.5),
        InRange(column="id"),
        AcceptedValues(column="id", accepted=[]),
        AcceptedValues(column="id", accepted=[1, None]),
        Holds(sql="id = :x"),
        Holds(sql="id ="),
        NoRows(sql="SELECT 1", inputs={"new_rows": TableSource("db.t")}),
        Unique(columns=["a", ""]),
        References(columns=["id"], to="other.t", to_columns=["a", "b"]),
        Fresh(column="at", within_hours=0),
        Balanced(totals={"db.t": "id"}),
        Balanced(totals={"db.t": "id", "db.u": "id"}),
        Passes(function="module.name"),
    ],
    ids=str,
)
def test_invalid_checks_are_refused(check: Check) -> None:
    with pytest.raises(HiveAcidError):
        job(check).validate()


def test_two_checks_of_a_table_have_different_names() -> None:
    twice = job(NotNull(columns=["id"]), NotNull(columns=["id"]))
    with pytest.raises(InvalidJob, match="two checks with one name"):
        twice.validate()
    job(NotNull(columns=["id"]), NotNull(columns=["id"], name="another")).validate()


def test_templates_are_checked_after_rendering() -> None:
    given = job(RowCount(min=1, table="{{ params.table }}"), Holds(sql="{{ params.sql }}"))
    with before_rendering():
        given.validate()
    rendered = given.render(
        lambda text: {"{{ params.table }}": "db.u", "{{ params.sql }}": "id >"}.get(text, text)
    )
    with pytest.raises(HiveAcidError):
        rendered.validate()


def test_tables_of_checks_are_accesses_of_the_job() -> None:
    parents = References(columns=["id"], to="Db.Parents", to_columns=["key"])
    days = NoRows(sql="SELECT 1 FROM d", inputs={"d": TableSource("db.days")})
    found = {(each.table, each.columns, each.action) for each in accesses_of(job(parents, days))}
    assert {("db.parents", ("key",), "read"), ("db.days", None, "read")} <= found


def test_checks_are_also_given_as_plain_values() -> None:
    data = {"kind": "in_range", "column": "amount", "max": {"decimal": "9.50"}, "severity": "warn"}
    job = DeleteJob(target="db.t", where="id = 1", checks=[data])
    assert job.checks == (InRange(column="amount", max=Decimal("9.50"), severity="warn"),)
    assert from_json(to_json(job)) == job
    with pytest.raises(InvalidJob, match=r"checks\[0\].kind must be one of accepted_values"):
        DeleteJob(target="db.t", where="id = 1", checks=[{"kind": "odd"}])


def read_by(job: Job) -> set[str]:
    return {each.table for each in accesses_of(job) if each.action == "read"}


def test_rows_that_a_job_did_not_bring_are_read_by_its_checks() -> None:
    """Its errors show rows, and a user who may only write must not see them."""
    source = PathSource("/landing/t", "orc")
    own, whole = NotNull(columns=["id"]), NotNull(columns=["id"], whole_table=True)
    insert = InsertJob(target="DB.t", source=source, checks=[own])
    assert read_by(insert) == set()
    assert read_by(replace(insert, checks=[own, whole])) == {"db.t"}
    assert read_by(replace(insert, checks=[RowCount(of="table", min=1)])) == {"db.t"}
    # A changed row has its other values from before.
    assert read_by(DeleteJob(target="db.u", where="id = 1", checks=[own])) == {"db.u"}
    counted = RowCount(of="deleted", max=1)
    assert read_by(DeleteJob(target="db.u", where="id = 1", checks=[counted])) == set()
    update = UpdateJob(target="db.u", set={"x": "1"}, where="id = 1")
    equal = Balanced(totals={"db.t": "x", "db.u": "x"})
    both = TransactionJob(statements=[insert, update], checks=[equal])
    assert read_by(both) == {"db.u"}
    assert read_by(replace(both, checks=[replace(equal, whole_table=True)])) == {"db.t", "db.u"}


def test_a_quarantine_is_a_second_statement_of_the_transaction() -> None:
    """Neither statement evaluates the source by itself: Spark shares equal common queries."""
    bad = [InRange(column=name, min=0, severity="quarantine") for name in ("a", "b")]
    source = QuerySource(
        "SELECT * FROM s WHERE x = :x", {"s": TableSource("db.s")}, params={"x": 1}
    )
    insert = InsertJob(
        target="db.t", source=source, checks=bad, quarantine="db.q", run_token="d/r/t/-1"
    )
    insert.validate()
    kept, others = insert.parts
    assert (kept.target, others.target, insert.tables) == ("db.t", "db.q", ("db.t", "db.q"))
    assert isinstance(kept.query, QuerySource)
    assert isinstance(others.query, QuerySource)
    assert kept.query.common == others.query.common == {"checked_source": source.sql}
    for query in (kept.query, others.query):
        query.validate()
        assert query.params.items() >= {"x": 1, "check_0_low": 0, "check_1_low": 0}.items()
    assert {access.table for access in accesses_of(insert)} >= {"db.q"}
    assert from_json(to_json(insert)) == insert


def test_a_parameter_of_the_source_with_a_name_of_the_quarantine_is_refused() -> None:
    bad = InRange(column="a", min=0, severity="quarantine")
    for name in ("check_0_low", "label_0", "quarantine_run"):
        source = QuerySource(
            f"SELECT * FROM s WHERE x = :{name}", {"s": TableSource("db.s")}, params={name: 1}
        )
        insert = InsertJob(target="db.t", source=source, checks=[bad], quarantine="db.q")
        with pytest.raises(InvalidJob, match=f"parameter '{name}', which the quarantine uses"):
            insert.validate()


@pytest.mark.parametrize(
    "changes",
    [
        {"quarantine": None},
        {"checks": []},
        {"quarantine": "DB.t"},
        {"checks": [Unique(columns=["id"], severity="quarantine")]},
        {"checks": [NotNull(columns=["id"], severity="quarantine", whole_table=True)]},
        {"by_position": True},
    ],
    ids=str,
)
def test_a_quarantine_is_for_checks_of_single_rows(changes: dict[str, Any]) -> None:
    bad = NotNull(columns=["id"], severity="quarantine")
    insert = InsertJob(target="db.t", source=TableSource("db.s"), checks=[bad], quarantine="db.q")
    insert.validate()
    with pytest.raises(InvalidJob):
        replace(insert, **changes).validate()
    with pytest.raises(InvalidJob, match="rows of an insert or a merge"):
        job(bad).validate()
