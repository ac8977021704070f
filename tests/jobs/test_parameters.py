"""Parameters of jobs: names, values, JSON, and how they are shown."""

import datetime as dt
from dataclasses import replace
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.errors import InvalidJob
from hiveacid.jobs.fields import before_rendering
from hiveacid.jobs.job_json import from_json, to_json
from hiveacid.jobs.sources import QuerySource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, UpdateJob
from hiveacid.rules.merge import MatchedUpdate
from hiveacid.rules.sql_tokens import parameters_of

VALUES = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text()
    | st.dates()
    | st.datetimes(timezones=st.none() | st.just(dt.UTC))
    | st.decimals(allow_nan=False, allow_infinity=False, places=3, max_value=10**20)
)


@given(VALUES)
def test_values_survive_json(value: object) -> None:
    job = DeleteJob(target="db.t", where="a = :v", params={"v": value})
    read = from_json(to_json(job))
    assert read == job
    assert type(read.params["v"]) is type(value)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("id = :id AND name IN (:a, :b_2)", {"id", "a", "b_2"}),
        ("x = ':a' AND `:b` = 1 -- :c\n AND y = /* :d */ :e", {"e"}),
        ("CAST(x AS STRUCT<a:INT, b: STRUCT<c:STRING>>) = :v", {"v"}),
        ("CAST(x AS array<struct<a:map<int,int>>>) = :v AND a < :w", {"v", "w"}),
        ("v:a.b = 1 AND `v`:a = 2 AND f(x):a = 3 AND x::int = :y", {"y"}),
        ("a BETWEEN :low AND :high", {"low", "high"}),
        ("'not closed :a", set()),
    ],
)
def test_parameters_are_found(text: str, names: set[str]) -> None:
    assert parameters_of(text) == names


@pytest.mark.parametrize(
    ("where", "params", "message"),
    [
        ("id = :id", {}, "no value for the parameter :id"),
        ("id = :id", {"id": 1, "x": 2}, "x is not used"),
        ("id = 1", {"id": 1}, "id is not used"),
        ("id = ':id'", {"id": 1}, "id is not used"),
        ("id = :id", {"id": [1]}, "has the type list"),
        ("id = :id", {"id": float("nan")}, "finite"),
        ("id = :id", {"id": 2**63}, "64 bits"),
        ("id = :id", {"id": Decimal("NaN")}, "38 digits"),
        ("id = :id", {"id": Decimal("1E+38")}, "38 digits"),
        ("id = :id", {"id": Decimal("1E-39")}, "38 digits"),
        ("id = :id", {"id": Decimal("-1E+400000000")}, "38 digits"),
        ("id = :id", {"id": Decimal("1E-400000000")}, "38 digits"),
        ("id = :id", {"id": Decimal("0E+400000000000")}, "38 digits"),
        ("id = :id", {"id": "\ud800"}, "half of a character"),
        ("id = :id", {"1d": 1}, "not a valid name"),
        ("id = :id", {"id; --": 1}, "not a valid name"),
        ("id = :id", [("id", 1)], "must be a dict"),
    ],
)
def test_wrong_parameters_are_an_error(where: str, params: object, message: str) -> None:
    with pytest.raises(InvalidJob, match=message):
        DeleteJob(target="db.t", where=where, params=params).validate()


def test_each_text_has_the_parameters_of_its_own_object() -> None:
    job = MergeJob(
        target="db.t",
        source=QuerySource("SELECT :a AS id", params={"a": 1}),
        on="t.id = s.id",
        when=[MatchedUpdate({"x": ":b"}, "t.y > :c")],
        params={"b": "{{ params.b }}", "c": 2},
    )
    with before_rendering():
        job.validate()
    with pytest.raises(InvalidJob, match=r"source\.params.*:a"):
        InsertJob(target="db.t", source=QuerySource("SELECT :a AS id")).validate()
    update = UpdateJob(target="db.t", set={"x": "{{ y }}"}, params={"later": 1}, all_rows=True)
    with before_rendering():
        update.validate()
    with pytest.raises(InvalidJob, match="later is not used"):
        replace(update, set={"x": "'{{ y }}'"}).validate()


def test_values_are_rendered_and_the_text_is_not_changed() -> None:
    job = DeleteJob(target="db.t", where="id = :id", params={"id": "{{ id }}", "n": 1})
    rendered = job.render(lambda text: text.replace("{{ id }}", "7' OR '1'='1"))
    assert rendered.where == "id = :id"
    assert rendered.params == {"id": "7' OR '1'='1", "n": 1}


def test_values_are_not_shown() -> None:
    source = QuerySource("SELECT :a AS id", params={"a": "hidden"})
    for shown in (str, repr):
        text = shown(InsertJob(target="db.t", source=source))
        assert "SELECT :a" in text
        assert "hidden" not in text


@pytest.mark.parametrize("data", ['{"date": "x"}', '{"decimal": "x"}', '{"a": 1}', "[1]"])
def test_unknown_values_in_json_are_an_error(data: str) -> None:
    text = f'{{"job": "delete", "target": "db.t", "where": "a = :v", "params": {{"v": {data}}}}}'
    with pytest.raises(InvalidJob, match=r"params\.v"):
        from_json(text)
