"""Data intervals without length: templates and functions that would select no rows."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from airflow.exceptions import AirflowFailException
from airflow.sdk import DAG, task
from airflow.sdk.execution_time import macros

from airflow_hiveacid import (
    ChangesSource,
    HiveAcidDeleteOperator,
    HiveAcidInsertOperator,
    HiveAcidSqlOperator,
    QuerySource,
)
from airflow_hiveacid.hooks.template_fields import is_empty_interval
from hiveacid.jobs import DeleteJob, InsertJob

MIDNIGHT = datetime(2026, 1, 2, tzinfo=UTC)
EMPTY: Any = {
    "data_interval_start": MIDNIGHT,
    "data_interval_end": MIDNIGHT,
    "logical_date": MIDNIGHT,
    "macros": macros,
}
DAY: Any = {**EMPTY, "data_interval_end": MIDNIGHT + timedelta(days=1)}
START, END = "{{ data_interval_start }}", "{{ data_interval_end }}"


def delete(where: str, **params: str) -> Any:
    return HiveAcidDeleteOperator(
        task_id="t", job=DeleteJob(target="db.t", where=where, params=params)
    )


def sql(text: str, **parameters: str) -> Any:
    return HiveAcidSqlOperator(task_id="t", sql=text, parameters=parameters)


def insert(source: Any) -> Any:
    return HiveAcidInsertOperator(task_id="t", job=InsertJob(target="db.t", source=source))


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("sql", lambda: sql(f"DELETE FROM db.t WHERE a >= '{START}' AND a < '{END}'")),
        (
            "sql",
            lambda: sql(
                "DELETE FROM db.t WHERE a >= '{{data_interval_start|ds}}' "
                "AND a < '{% if 1 %}{{ data_interval_end | ds }}{% endif %}'"
            ),
        ),
        (
            "parameters",
            lambda: sql("DELETE FROM db.t WHERE a >= :b AND a < :e", b=START, e=END),
        ),
        ("job", lambda: delete(f"a >= '{START}' AND a < '{END}'")),
        ("job", lambda: delete("a >= :b AND a < :e", b=START, e=END)),
        (
            "job",
            lambda: delete(
                "a >= {{ data_interval_start.int_timestamp }} AND a < {{ data_interval_end.int_timestamp }}"
            ),
        ),
        ("job", lambda: insert(ChangesSource("db.s", after=START, up_to=END))),
        ("job", lambda: insert(QuerySource(f"SELECT 1 WHERE '{START}' < '{END}'"))),
    ],
)
def test_both_ends_of_an_empty_interval_are_refused(field: str, make: Any) -> None:
    with DAG("d"):
        operator = make()
    with pytest.raises(AirflowFailException) as failed:
        operator.render_template_fields(EMPTY)
    assert str(failed.value).startswith(
        f"InvalidJob: {field} of {type(operator).__name__} 't' selects an empty data interval, and so "
        "no rows: data_interval_start and data_interval_end of this run are both 2026-01-02 00:00"
    )
    assert "CronDataIntervalTimetable('@daily', timezone='UTC')" in str(failed.value)
    make().render_template_fields(DAY)


@pytest.mark.parametrize(
    "make",
    [
        lambda: delete("day = '{{ data_interval_start | ds }}'"),
        lambda: delete(
            "a < '{{ data_interval_end }}' AND a >= '{{ data_interval_end - macros.timedelta(days=1) }}'"
        ),
        lambda: delete(
            "a >= '{{ data_interval_start - macros.timedelta(days=1) }}' AND a < '{{ data_interval_end }}'"
        ),
        # Texts, and no templates.
        lambda: delete("data_interval_start < data_interval_end"),
    ],
)
def test_templates_that_select_rows_of_an_empty_interval_are_accepted(make: Any) -> None:
    with DAG("d"):
        make().render_template_fields(EMPTY)


def test_an_interval_that_a_run_does_not_have_is_not_empty() -> None:
    """Runs of partitions and of assets have neither end."""
    context: Any = {"run_id": "r"}
    assert not is_empty_interval(context)


@pytest.mark.parametrize(("context", "warned"), [(EMPTY, True), (DAY, False)])
def test_a_function_of_both_ends_of_an_empty_interval_is_called_with_a_warning(
    context: Any, warned: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    with DAG("d"):

        @task.hive_acid_insert(target="db.t")
        def load(data_interval_start: Any = None, data_interval_end: Any = None) -> str:
            return f"SELECT '{data_interval_start}' < '{data_interval_end}'"

        operator = load().operator
    assert operator.call_function(dict(context)).startswith("SELECT '2026-01-02")
    assert ("The data interval of this run is empty" in capsys.readouterr().out) is warned
