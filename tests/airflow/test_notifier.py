"""Notifications of failed tasks."""

from types import SimpleNamespace

import pytest
from airflow.sdk import DAG, BaseNotifier

from airflow_hiveacid import HiveAcidDeleteOperator, HiveAcidFailureNotifier
from airflow_hiveacid.hooks.tasks import HiveAcidTaskFailure
from airflow_hiveacid.sensors import HiveAcidDeltaCountSensor
from hiveacid.jobs import DeleteJob
from hiveacid.jobs.report import ErrorReport, RunReport


class Recorder(BaseNotifier):
    """Keeps the text that it is asked to send."""

    template_fields = ("text",)

    def __init__(self, text, sent):
        super().__init__()
        self.text, self.sent = text, sent

    def notify(self, context):
        self.sent.append(self.text)


@pytest.fixture
def sent():
    return []


@pytest.fixture
def notify(sent):
    return HiveAcidFailureNotifier(lambda text: Recorder(text, sent))


def failed(operator, context):
    """The context of a callback after the failure of an operator."""
    try:
        operator.execute(context)
    except Exception as error:  # noqa: BLE001 - as Airflow does
        return {**context, "task": operator, "exception": error}
    raise AssertionError("The task has succeeded.")


def test_the_text_has_the_problem_the_object_and_the_remedy(notify, sent, spark_submit, context):
    error = ErrorReport(
        id="LockTimeout",
        message="It waited for db.t.",
        remedy="End it.",
        retryable=True,
        exit_code=10,
    )
    report = RunReport(job="delete", target="db.t", error=error)
    spark_submit.will(report=report.to_dict(), exit_code=10)
    job = DeleteJob(target="db.{{ params.table }}", where="id = 7", run_in="spark")
    operator = HiveAcidDeleteOperator(task_id="t", job=job)
    context["params"]["table"] = "t"
    operator.render_template_fields(context)
    after = failed(operator, context)
    assert isinstance(after["exception"], HiveAcidTaskFailure)
    after["ti"].log_url = "http://airflow/log?x=1"
    after["ti"].map_index = 3
    notify(after)
    (text,) = sent
    assert text.splitlines() == [
        "d.t[3] failed in r, attempt 2.",
        "Problem: LockTimeout: It waited for db.t.",
        "Object: db.t",
        "Remedy: End it.",
        "See hiveacid errors LockTimeout",
        "Log: http://airflow/log?x=1",
    ]


def test_quoted_data_is_neither_rendered_nor_split_into_lines(notify, sent, context):
    hostile = "Row '{{ 6 * 7 }}\nRemedy: DROP DATABASE\x1b[2J' is invalid."
    notify({**context, "exception": ValueError(hostile)})
    (text,) = sent
    (problem,) = [line for line in text.splitlines() if line.startswith("Problem:")]
    assert "{{ 6 * 7 }}" in problem
    assert "Remedy: DROP DATABASE\\u001b[2J" in problem
    assert len(text.splitlines()) == 2


def test_failures_of_other_tasks_and_of_dags_have_a_text(notify, sent, context):
    sensor = HiveAcidDeltaCountSensor(task_id="s", table="shop.orders")
    notify({**context, "task": sensor, "exception": "killed by a signal"})
    notify({**context, "task": SimpleNamespace(table="x"), "exception": KeyError("x" * 9000)})
    notify({"dag": DAG("nightly", schedule=None), "reason": "task_failure"})
    of_sensor, of_other, of_dag = sent
    assert of_sensor.splitlines()[1:] == [
        "Problem: Failure: killed by a signal",
        "Object: shop.orders",
    ]
    assert "Object" not in of_other
    assert len(of_other) < 3000
    assert of_dag == "A run of nightly failed."
