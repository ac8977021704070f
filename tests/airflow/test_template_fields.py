"""The values of template fields: those that are known while a DAG is parsed, and rendered ones."""

from dataclasses import dataclass
from datetime import date
from typing import Any

import pytest
from airflow.sdk import DAG, XComArg, task

import airflow_hiveacid
from airflow_hiveacid import (
    BatchSource,
    Budget,
    ChangesSource,
    CompactionPolicy,
    HiveAcidAnalyzeOperator,
    HiveAcidChangesOperator,
    HiveAcidCleanOperator,
    HiveAcidCompactOperator,
    HiveAcidCompareIcebergOperator,
    HiveAcidDeleteOperator,
    HiveAcidDiscardOperator,
    HiveAcidEraseOperator,
    HiveAcidInsertOperator,
    HiveAcidMaintainOperator,
    HiveAcidMergeOperator,
    HiveAcidPublishOperator,
    HiveAcidRestoreOperator,
    HiveAcidSqlOperator,
    HiveAcidStageOperator,
    HiveAcidStreamOperator,
    HiveAcidToIcebergOperator,
    HiveAcidTransactionOperator,
    HiveAcidUpdateOperator,
    MatchedUpdate,
    StreamSource,
    TableSource,
    WorkerLimits,
    sensors,
)
from airflow_hiveacid.hooks.tasks import HiveAcidTaskRefused
from airflow_hiveacid.hooks.template_fields import NamedTemplateFields
from airflow_hiveacid.operators.job import HiveAcidJobOperator
from hiveacid.errors import InvalidJob
from hiveacid.jobs import (
    AnalyzeJob,
    CleanJob,
    CompactJob,
    DeleteJob,
    DiscardJob,
    EraseJob,
    IcebergCompareJob,
    IcebergExportJob,
    InsertJob,
    MergeJob,
    PublishJob,
    RestoreJob,
    StreamJob,
    TransactionJob,
    UpdateJob,
)

T, S = "shop.days", TableSource("shop.feed")
INSERT = InsertJob(target=T, source=S)
STREAM = StreamJob(
    name="days",
    source=StreamSource("json", {"path": "/feed"}, "id int"),
    statements=[InsertJob(target=T, source=BatchSource())],
    checkpoint="/checkpoints/days",
)
MERGE = MergeJob(target=T, source=S, on="t.id = s.id", when=[MatchedUpdate()])
ERASE = EraseJob(request="r1", keys=S, columns={T: "id"}, folder="file:/erasures")
STAGED = f"{T}/{'0' * 64}_7"
# Each class with its required arguments.
CLASSES: dict[type[NamedTemplateFields], dict[str, Any]] = {
    HiveAcidAnalyzeOperator: {"job": AnalyzeJob(target=T)},
    HiveAcidChangesOperator: {
        "consumer": "audit",
        "job": InsertJob(target=T, source=ChangesSource("shop.feed", after="0")),
    },
    HiveAcidCleanOperator: {"job": CleanJob(target=T)},
    HiveAcidCompactOperator: {"job": CompactJob(target=T)},
    HiveAcidCompareIcebergOperator: {"job": IcebergCompareJob(target=T, table="lake.days")},
    HiveAcidDeleteOperator: {"job": DeleteJob(target=T, where="id = 1")},
    HiveAcidDiscardOperator: {
        "staged": STAGED,
        "job": DiscardJob(target=T, staged=STAGED.rpartition("/")[2]),
    },
    HiveAcidEraseOperator: {"job": ERASE},
    HiveAcidInsertOperator: {"job": INSERT},
    HiveAcidMaintainOperator: {"tables": "shop.*"},
    HiveAcidMergeOperator: {"job": MERGE},
    HiveAcidPublishOperator: {
        "staged": STAGED,
        "job": PublishJob(target=T, staged=STAGED.rpartition("/")[2]),
    },
    HiveAcidRestoreOperator: {"job": RestoreJob(target=T, as_of="3")},
    HiveAcidSqlOperator: {"sql": f"DELETE FROM {T} WHERE id = :id", "parameters": {"id": 7}},
    HiveAcidStageOperator: {"job": INSERT},
    HiveAcidStreamOperator: {"job": STREAM},
    HiveAcidToIcebergOperator: {"job": IcebergExportJob(target=T, table="lake.days")},
    HiveAcidTransactionOperator: {"job": TransactionJob(statements=(INSERT, MERGE))},
    HiveAcidUpdateOperator: {"job": UpdateJob(target=T, set={"a": "1"}, where="id = 1")},
    sensors.HiveAcidCompactionNeededSensor: {"table": T},
    sensors.HiveAcidDeltaCountSensor: {"table": T},
    sensors.HiveAcidDeltaSizeSensor: {"table": T},
    sensors.HiveAcidErasedSensor: {"request": "r1", "folder": "file:/erasures"},
    sensors.HiveAcidMirrorFreshSensor: {"target": T, "table": "lake.days"},
    sensors.HiveAcidNewDataSensor: {"table": T, "consumer": "audit"},
    sensors.HiveAcidTrinoMismatchSensor: {"table": T},
}
# A value of each field but the job.
LITERALS: dict[str, Any] = {
    "apply_again": "20261102",
    "after": "0",
    "budget": Budget(max_partitions=1),
    "catalog": "default",
    "catalog_conn_id": "lake",
    "conf": {"spark.a": "1"},
    "consumer": "2026",
    "database": "shop",
    "env_vars": {"A": "1"},
    "folder": "file:/erasures",
    "jars": "a.jar",
    "metastore_conn_id": "hms",
    "need": {"table": T},
    "once_per": "20261101",
    "packages": "a:b:1.10",
    "parameters": {"id": 7},
    "partitions": ["p=1"],
    "policy": CompactionPolicy(max_deltas=3),
    "properties_file": "a.conf",
    "request": "20261101",
    "staged": {"target": T},
    "sql": f"DELETE FROM {T} WHERE id = :id",
    "table": "lake.days",
    "tables": ["shop.*"],
    "target": T,
    "version": 7,
    "worker": WorkerLimits(max_copied_bytes=1),
}
TEMPLATE = "{{ params.value }}"
# What a text may be mistaken for, in a field of each form.
TEXTS = [20261101, date(2026, 11, 1), "007", "1.10", "'a'", "True"]
FORMS = [(HiveAcidDeleteOperator, "properties_file"), (HiveAcidDeleteOperator, "conf")]


def fields_of(class_: type[NamedTemplateFields]) -> list[str]:
    """The template fields but the job, and those of which another one decides."""
    # The consumer determines the changes that are applied once.
    others = ("once_per", "apply_again") if class_ is HiveAcidChangesOperator else ()
    return [field for field in class_.template_fields if field not in ("job", *others)]


def text_fields_of(class_: type[NamedTemplateFields]) -> list[str]:
    return [field for field in fields_of(class_) if field in class_.text_fields]


@dataclass
class Output:
    """The output of a task that has run, as Airflow resolves it."""

    value: Any

    def resolve(self, context: Any) -> Any:
        return self.value


def make(class_: type[NamedTemplateFields], **more: Any) -> Any:
    return class_(**{"task_id": "t"} | CLASSES[class_] | more)


def rendered(class_: type[NamedTemplateFields], field: str, given: Any, value: Any = None) -> Any:
    """The value of a field in a task of a DAG whose templates are native objects."""
    with DAG("d", schedule=None, render_template_as_native_obj=True):
        operator = make(class_, **{field: given})
    operator.render_template_fields({"params": {"value": value}})
    return getattr(operator, field)


def like_a_literal(field: str, value: Any) -> Any:
    """Put a text in the place of the texts of a field."""
    literal = LITERALS[field]
    return dict.fromkeys(literal, value) if isinstance(literal, dict) else value


def test_every_operator_and_sensor_is_covered() -> None:
    public = [
        getattr(module, name) for module in (airflow_hiveacid, sensors) for name in module.__all__
    ]
    found = {
        each for each in public if isinstance(each, type) and issubclass(each, NamedTemplateFields)
    }
    assert found == set(CLASSES)


def test_every_job_is_run_by_one_class() -> None:
    for class_ in CLASSES.keys() - {HiveAcidMaintainOperator}:
        if not class_.__module__.startswith("airflow_hiveacid.sensors"):
            assert class_._run is HiveAcidJobOperator._run  # type: ignore[attr-defined]


@pytest.mark.parametrize("class_", CLASSES)
def test_a_literal_is_unchanged(class_: type[NamedTemplateFields]) -> None:
    for field in fields_of(class_):
        given = LITERALS[field]
        assert rendered(class_, field, given) == given, field


@pytest.mark.parametrize("class_", CLASSES)
def test_a_field_takes_the_output_of_another_task(class_: type[NamedTemplateFields]) -> None:
    for field in fields_of(class_):
        with DAG("d", schedule=None):

            @task
            def other() -> Any: ...

            output: XComArg = other()
            operator = make(class_, **{field: output})
            assert operator.upstream_task_ids == {"other"}, field
            literal = LITERALS[field]
            if isinstance(literal, dict):
                make(class_, **{"task_id": "u", field: dict.fromkeys(literal, output)})
            if isinstance(literal, list):
                make(class_, **{"task_id": "u", field: [output]})


@pytest.mark.parametrize("class_", CLASSES)
def test_a_job_is_an_object(class_: type[NamedTemplateFields]) -> None:
    if "job" not in class_.template_fields:
        return
    with pytest.raises(InvalidJob, match="was given a Output"):
        make(class_, job=Output(None))


def check_that_a_text_stays(class_: type[NamedTemplateFields], field: str, value: Any) -> None:
    expected = like_a_literal(field, str(value))
    assert rendered(class_, field, like_a_literal(field, TEMPLATE), value) == expected, field
    assert rendered(class_, field, Output(like_a_literal(field, value))) == expected, field


@pytest.mark.parametrize("class_", CLASSES)
def test_texts_stay_texts_in_a_dag_of_native_objects(class_: type[NamedTemplateFields]) -> None:
    for field in text_fields_of(class_):
        check_that_a_text_stays(class_, field, 20261101)


@pytest.mark.parametrize("value", TEXTS)
def test_a_text_of_any_form_stays_a_text(value: Any) -> None:
    for class_, field in FORMS:
        assert field in text_fields_of(class_)
        check_that_a_text_stays(class_, field, value)


@pytest.mark.parametrize("class_", CLASSES)
def test_the_output_of_a_task_is_no_template(class_: type[NamedTemplateFields]) -> None:
    for field in text_fields_of(class_):
        given = like_a_literal(field, TEMPLATE)
        assert rendered(class_, field, Output(given), "secret") == given, field


@pytest.mark.parametrize("class_", CLASSES)
def test_other_fields_become_native_objects(class_: type[NamedTemplateFields]) -> None:
    for field in sorted({*fields_of(class_)} - {*text_fields_of(class_)}):
        for value in (7, date(2026, 11, 1), ["a"], {"a": 1}):
            assert rendered(class_, field, TEMPLATE, value) == value, field
            assert rendered(class_, field, Output(value)) == value, field


@pytest.mark.parametrize("class_", CLASSES)
def test_none_is_not_the_default(class_: type[NamedTemplateFields]) -> None:
    for field in fields_of(class_):
        with pytest.raises(HiveAcidTaskRefused, match=f"{field} of {class_.__name__} 't' is None"):
            rendered(class_, field, Output(None))


def test_none_within_a_field_is_a_value() -> None:
    given = {"id": "{{ none }}", "name": None}
    expected = {"id": None, "name": None}
    assert rendered(HiveAcidSqlOperator, "parameters", Output(given)) == given
    with DAG("d", schedule=None, render_template_as_native_obj=True):
        operator = HiveAcidSqlOperator(
            task_id="t", sql=f"DELETE FROM {T} WHERE id = :id OR a = :name", parameters=given
        )
    operator.render_template_fields({})
    assert operator.parameters == expected


@pytest.mark.parametrize(
    ("class_", "field", "value", "message"),
    [
        (HiveAcidDeleteOperator, "conf", ["a"], "conf must be a dict"),
        (HiveAcidDeleteOperator, "env_vars", ["a"], "env_vars must be a dict"),
        (HiveAcidSqlOperator, "parameters", ["a"], "parameters must be a dict"),
        (HiveAcidSqlOperator, "sql", "", "sql must be a non-empty text"),
        (HiveAcidMaintainOperator, "tables", 7, "tables must be a list"),
        (HiveAcidMaintainOperator, "tables", [], "tables is empty"),
        (HiveAcidMaintainOperator, "policy", "a", "policy must be a CompactionPolicy or a dict"),
        (HiveAcidMaintainOperator, "budget", {"most": 1}, "budget"),
        (HiveAcidMaintainOperator, "worker", 7, "worker must be a WorkerLimits or a dict"),
        (HiveAcidCleanOperator, "need", [], "need must be the result of a sensor"),
        (HiveAcidCompactOperator, "need", "a", "need must be the result of a sensor"),
        (HiveAcidChangesOperator, "consumer", "a b", "no name of a consumer"),
        (sensors.HiveAcidCompactionNeededSensor, "policy", 7, "policy must be a CompactionPolicy"),
        (sensors.HiveAcidCompactionNeededSensor, "budget", [1], "budget must be a Budget"),
        (sensors.HiveAcidMirrorFreshSensor, "version", ["a"], "version of"),
        (sensors.HiveAcidNewDataSensor, "after", "x", "time of a version"),
    ],
)
def test_the_output_of_a_task_is_checked_before_its_use(
    class_: type[NamedTemplateFields],
    field: str,
    value: Any,
    message: str,
    small_tables: Any,
    spark_submit: Any,
    context: dict[str, Any],
) -> None:
    operator = make(class_, **{field: Output(value)})
    operator.render_template_fields(context)
    with pytest.raises(HiveAcidTaskRefused, match=message):
        operator.execute(context)


@pytest.mark.parametrize(
    ("native", "partitions", "message"),
    [
        (False, ["p=1"], r"partitions must be a list, not \"\['p=1'\]\""),
        (True, "p=1", "partitions must be a list, not 'p=1'"),
        (True, [], "partitions is empty"),
        (True, [1], r"partitions\[0\] must be a non-empty text"),
    ],
)
@pytest.mark.parametrize("deferrable", [False, True])
def test_a_sensor_refuses_rendered_partitions_that_are_no_list_of_names(
    native: bool, partitions: Any, message: str, deferrable: bool, context: dict[str, Any]
) -> None:
    with DAG("d", schedule=None, render_template_as_native_obj=native):
        sensor = sensors.HiveAcidDeltaCountSensor(
            task_id="t", table="shop.days", partitions=TEMPLATE, deferrable=deferrable
        )
    sensor.render_template_fields({**context, "params": {"value": partitions}})
    with pytest.raises(HiveAcidTaskRefused, match=message):
        sensor.execute(context)
