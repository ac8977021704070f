"""The conditions that the sensors wait for; triggers have separate tests."""

import json
from datetime import timedelta
from types import SimpleNamespace

import pytest
from airflow.providers.common.compat.sdk import (
    AirflowFailException,
    AirflowSkipException,
    TaskDeferred,
)
from airflow.sdk import DAG

try:
    from airflow.sdk.exceptions import AirflowRescheduleException
except ImportError:  # Before Airflow 3.3.
    from airflow.exceptions import AirflowRescheduleException

from airflow_hiveacid import Budget, CompactionPolicy
from airflow_hiveacid.hooks.tasks import (
    HiveAcidTaskRefused,
    HiveAcidTaskTrouble,
    task_failure,
)
from airflow_hiveacid.sensors import (
    HiveAcidCompactionNeededSensor,
    HiveAcidDeltaCountSensor,
    HiveAcidDeltaSizeSensor,
    HiveAcidTrinoMismatchSensor,
)
from hiveacid.errors import (
    InvalidJob,
    MetastoreUnreachable,
    NoTicket,
    StorageUnreachable,
    UnsupportedMetastore,
)
from hiveacid.jobs.maintenance_jobs import parse_needs
from hiveacid.jobs.report import ErrorReport
from hiveacid.rules.names import Delta
from hiveacid.upkeep.compaction_poll import CompactionPoll

SENSORS = [
    HiveAcidCompactionNeededSensor,
    HiveAcidDeltaCountSensor,
    HiveAcidDeltaSizeSensor,
    HiveAcidTrinoMismatchSensor,
]

pytestmark = pytest.mark.usefixtures("metastore_connection")


def large_insert(orders):
    """Insert a delta of a fifth of the base."""
    (orders.root / orders.insert() / "bucket_00000").write_bytes(b"r" * 2000)


def test_the_count_of_deltas_is_what_one_sensor_waits_for(orders):
    sensor = HiveAcidDeltaCountSensor(task_id="t", table="shop.orders", max_deltas=2)
    for _ in range(2):
        large_insert(orders)
        assert not sensor.poke({})
    orders.insert()
    poked = sensor.poke({})
    assert poked.is_done
    ((need,),) = poked.xcom_value
    assert (need["table"], need["partition"], need["type"]) == ("shop.orders", None, "minor")
    assert (need["deltas"], need["delta_bytes"], need["base_bytes"]) == (3, 4007, 10_000)
    assert need["delta_ratio"] == 0.4007
    assert "3 deltas (limit 2)" in need["reason"]


def test_the_size_of_deltas_is_what_another_waits_for(orders):
    sensor = HiveAcidDeltaSizeSensor(task_id="t", table="shop.orders", max_ratio=0.1)
    for _ in range(12):
        orders.insert()
    assert not sensor.poke({})
    large_insert(orders)
    ((need,),) = sensor.poke({}).xcom_value
    assert (need["type"], need["deltas"]) == ("major", 13)
    assert "(limit 10 %)" in need["reason"]


def test_one_sensor_waits_for_directories_that_trino_misreads(orders):
    sensor = HiveAcidTrinoMismatchSensor(task_id="t", table="shop.orders")
    for _ in range(12):
        large_insert(orders)
    assert not sensor.poke({})
    write_id = int(orders.insert().split("_")[1])
    deletes = orders.root / orders.make(Delta(write_id - 1, write_id - 1, 1, is_delete=True).name)
    (deletes / "bucket_00000").rename(deletes / "bucket_00000_0")
    ((need,),) = sensor.poke({}).xcom_value
    assert need["type"] == "minor"
    assert f"Trino shows rows that {deletes.name} deletes" in need["reason"]


@pytest.mark.parametrize("more", [{"max_deltas": 1}, {"max_delta_ratio": 0.1}])
def test_either_is_enough_for_the_whole_policy(more, orders):
    strict = {"max_deltas": 100, "max_delta_ratio": 1.0}
    policy = CompactionPolicy(**strict | more)
    sensor = HiveAcidCompactionNeededSensor(task_id="t", table="shop.*", policy=policy)
    orders.insert()
    assert not sensor.poke({})
    large_insert(orders)
    assert sensor.poke({}).is_done


def test_results_can_be_mapped(orders):
    large_insert(orders)
    grouped = HiveAcidCompactionNeededSensor(task_id="t", table="shop.orders").poke({}).xcom_value
    assert json.loads(json.dumps(grouped)) == grouped
    assert parse_needs(grouped[0])[0].table == "shop.orders"
    each = HiveAcidCompactionNeededSensor(
        task_id="t", table="shop.orders", expand_by="partition"
    ).poke({})
    assert [each.xcom_value] == grouped


def test_the_log_contains_the_reasons(orders, capsys):
    sensor = HiveAcidDeltaCountSensor(task_id="t", table="shop.orders", max_deltas=1)
    orders.insert()
    sensor.poke({})
    assert "shop.orders needs none: 1 delta (limit 1)" in capsys.readouterr().out
    orders.insert()
    sensor.poke({})
    reason = "2 deltas (limit 1)"
    assert f"shop.orders needs a minor compaction: {reason}" in capsys.readouterr().out


def test_a_table_that_is_not_written_is_not_listed_again(orders):
    sensor = HiveAcidDeltaCountSensor(task_id="t", table="shop.orders", max_deltas=1)
    first = orders.insert()
    assert not sensor.poke({})
    # No write id has moved: only who lists the table again can see this.
    write_id = int(first.split("_")[1])
    orders.make(Delta(write_id, write_id, 1).name)
    assert not sensor.poke({})


class Store:
    """Airflow 3.3's memory of a task, which outlives its processes."""

    def __init__(self):
        self.values = {}

    def get(self, key, default=None):
        return self.values.get(key, default)

    def set(self, key, value):
        self.values[key] = json.loads(json.dumps(value))


def test_a_rescheduled_sensor_remembers_in_airflow(orders, capsys):
    context = {"task_state_store": Store()}

    def poke_in_a_new_process():
        return HiveAcidDeltaCountSensor(
            task_id="t", table="shop.*", max_deltas=1, mode="reschedule"
        ).poke(context)

    write_id = int(orders.insert().split("_")[1])
    assert not poke_in_a_new_process()
    orders.make(Delta(write_id, write_id, 1).name)
    assert not poke_in_a_new_process()
    assert "Not written since the last survey, or empty: 1 table." in capsys.readouterr().out
    orders.insert()
    for _ in range(2):
        assert poke_in_a_new_process().is_done


class Away:
    """A metastore that is not there for a while, and a clock."""

    def __init__(self, monkeypatch):
        self.monkeypatch = monkeypatch
        self.now = 1_800_000_000.0
        monkeypatch.setattr("airflow_hiveacid.hooks.patience.time.time", lambda: self.now)
        self.really = CompactionPoll.survey

    def go(self, error=MetastoreUnreachable):
        def survey(poll, *_):
            raise error("It is away.")

        self.monkeypatch.setattr(CompactionPoll, "survey", survey)

    def come(self):
        self.monkeypatch.setattr(CompactionPoll, "survey", self.really)


def test_a_short_absence_of_the_metastore_is_a_warning_and_a_long_one_a_failure(
    orders, monkeypatch, capsys
):
    away = Away(monkeypatch)
    sensor = HiveAcidDeltaCountSensor(task_id="t", table="shop.orders", max_deltas=1)
    for _ in range(2):  # After an outage, the full limit applies again.
        away.go()
        for _ in range(10):
            assert not sensor.poke({}).is_done
            away.now += 59
        assert "It is away. Check the metastore uri" in capsys.readouterr().out
        away.come()
        assert not sensor.poke({})
    away.go()
    assert not sensor.poke({}).is_done
    away.now += 600
    with pytest.raises(HiveAcidTaskTrouble, match="It is away"):
        sensor.poke({})


@pytest.mark.parametrize("error", [NoTicket, StorageUnreachable])
def test_an_expired_ticket_is_tolerated_until_a_possible_renewal(error, orders, monkeypatch):
    away = Away(monkeypatch)
    away.go(error)
    sensor = HiveAcidDeltaCountSensor(task_id="t", table="shop.orders", max_deltas=1)
    assert not sensor.poke({}).is_done
    away.now += 600
    with pytest.raises(HiveAcidTaskTrouble, match="It is away"):
        sensor.poke({})


def test_permanent_errors_fail_at_once(orders, monkeypatch):
    away = Away(monkeypatch)
    away.go(UnsupportedMetastore)
    sensor = HiveAcidDeltaCountSensor(task_id="t", table="shop.orders")
    with pytest.raises(AirflowFailException, match="It is away"):
        sensor.poke({})
    away.go()
    impatient = HiveAcidDeltaCountSensor(
        task_id="t", table="shop.orders", metastore_patience=timedelta(0)
    )
    with pytest.raises(HiveAcidTaskTrouble):
        impatient.poke({})


def test_a_rescheduled_sensor_remembers_since_when_the_metastore_is_away(orders, monkeypatch):
    away = Away(monkeypatch)
    away.go()
    context = {"task_state_store": Store()}

    def poke_in_a_new_process(context):
        return HiveAcidDeltaCountSensor(task_id="t", table="shop.orders", mode="reschedule").poke(
            context
        )

    assert not poke_in_a_new_process(context).is_done
    away.now += 599
    assert not poke_in_a_new_process(context).is_done
    away.now += 2
    with pytest.raises(HiveAcidTaskTrouble):
        poke_in_a_new_process(context)
    # The next attempt has all of its patience.
    assert not poke_in_a_new_process(context).is_done
    with pytest.raises(HiveAcidTaskTrouble):
        poke_in_a_new_process({})


def test_rescheduling_frees_the_worker(orders):
    sensor = HiveAcidDeltaCountSensor(task_id="t", table="shop.orders", mode="reschedule")
    with pytest.raises(AirflowRescheduleException):
        sensor.execute({"ti": FirstTry()})


class FirstTry:
    def get_first_reschedule_date(self, context):
        return None


def test_poking_returns_what_was_found(orders):
    large_insert(orders)
    sensor = HiveAcidDeltaSizeSensor(task_id="t", table="shop.orders", deferrable=False)
    assert [[need["table"] for need in group] for group in sensor.execute({})] == [["shop.orders"]]


def test_a_deferrable_sensor_looks_before_it_defers(orders):
    large_insert(orders)
    sensor = HiveAcidDeltaSizeSensor(task_id="t", table="shop.orders", deferrable=True)
    assert [[need["table"] for need in group] for group in sensor.execute({})] == [["shop.orders"]]


def test_it_defers_to_a_trigger_that_knows_all_but_no_secret(orders):
    sensor = HiveAcidCompactionNeededSensor(
        task_id="t",
        table="shop.orders",
        partitions=None,
        policy=CompactionPolicy(max_deltas=7),
        budget=Budget(max_partitions=3),
        deferrable=True,
        poke_interval=11,
        timeout=600,
    )
    with pytest.raises(TaskDeferred) as deferred:
        sensor.execute({})
    _, kwargs = deferred.value.trigger.serialize()
    assert deferred.value.timeout.total_seconds() == 600
    assert kwargs["condition"]["policy"]["max_deltas"] == 7
    assert Budget(**kwargs["condition"]["budget"]) == Budget(max_partitions=3)
    assert (kwargs["metastore_conn_id"], kwargs["poke_interval"]) == ("hive_acid_default", 11)
    assert "s3cret" not in json.dumps(kwargs)
    complete = getattr(sensor, deferred.value.method_name)
    need = {"table": "shop.orders", "type": "minor"}
    assert complete({}, {"status": "found", "found": [need]}) == [[need]]


@pytest.mark.parametrize(
    ("retryable", "failure"), [(True, HiveAcidTaskTrouble), (False, AirflowFailException)]
)
def test_errors_of_the_trigger_fail_the_task(retryable, failure):
    sensor = HiveAcidDeltaCountSensor(task_id="t", table="shop.orders")
    error = {"id": "MetastoreError", "message": "It is gone.", "retryable": retryable}
    event = {"status": "error", "error": error}
    with pytest.raises(failure, match="It is gone"):
        sensor.execute_complete({}, event)


def test_a_short_outage_of_the_metastore_is_not_an_empty_result():
    sensor = HiveAcidDeltaCountSensor(task_id="t", table="shop.orders", soft_fail=True)
    error = {"id": "MetastoreUnreachable", "message": "It is away.", "retryable": True}
    event = {"status": "error", "error": error}
    with pytest.raises(HiveAcidTaskTrouble, match="It is away"):
        sensor.resume_execution("execute_complete", {"event": event}, {})


@pytest.mark.parametrize(
    ("flags", "outcome"),
    [
        ({}, HiveAcidTaskRefused),
        ({"soft_fail": True}, HiveAcidTaskRefused),
        ({"never_fail": True}, AirflowSkipException),
    ],
)
def test_only_never_fail_skips_a_refused_task(monkeypatch, flags, outcome):
    refused = {"id": "TableNotFound", "message": "It is gone.", "retryable": False}

    def poke(sensor, context):
        raise task_failure(ErrorReport(**refused))

    monkeypatch.setattr(HiveAcidDeltaCountSensor, "poke", poke)
    sensor = HiveAcidDeltaCountSensor(task_id="t", table="shop.orders", **flags)
    with pytest.raises(outcome):
        sensor.execute({})
    event = {"status": "error", "error": refused}
    with pytest.raises(outcome):
        sensor.resume_execution("execute_complete", {"event": event}, {})


@pytest.mark.parametrize("mode", ["poke", "reschedule"])
def test_soft_fail_skips_a_task_whose_time_is_over(monkeypatch, mode):
    monkeypatch.setattr(HiveAcidDeltaCountSensor, "poke", lambda *_: False)
    sensor = HiveAcidDeltaCountSensor(
        task_id="t", table="shop.orders", soft_fail=True, timeout=0, mode=mode
    )
    ti = SimpleNamespace(get_first_reschedule_date=lambda _: None)
    with pytest.raises(AirflowSkipException, match="timed out"):
        sensor.execute({"ti": ti})


def test_the_table_and_the_policy_are_templates():
    with DAG("native", render_template_as_native_obj=True):
        sensor = HiveAcidCompactionNeededSensor(
            task_id="t",
            table="{{ params.table }}",
            partitions=["d={{ params.day }}"],
            policy={
                "max_deltas": "{{ params.most }}",
                "quiet_hours": "{{ params.quiet }}",
                "major_after_hours": "{{ params.hours }}",
            },
            budget={"max_bytes": "{{ params.bytes }}"},
        )
    params = {
        "table": "shop.*",
        "day": "2026-11-20",
        "most": 4,
        "quiet": "22:00-05:00",
        "hours": 1.5,
        "bytes": None,
    }
    sensor.render_template_fields({"params": params})
    assert (sensor.table, sensor.partitions) == ("shop.*", ["d=2026-11-20"])
    assert sensor._policy() == CompactionPolicy(
        max_deltas=4, quiet_hours="22:00-05:00", major_after_hours=1.5
    )
    assert sensor._budget() == Budget()


@pytest.mark.parametrize(
    ("sensor", "options", "message"),
    [
        *((sensor, {"table": "orders"}, "'orders' is not the name") for sensor in SENSORS),
        *((sensor, {"table": ""}, "table must be a non-empty text") for sensor in SENSORS),
        *(
            (sensor, {"partitions": "d=1"}, "partitions must be a list, not 'd=1'")
            for sensor in SENSORS
        ),
        (HiveAcidDeltaCountSensor, {"partitions": []}, "partitions is empty"),
        (HiveAcidDeltaCountSensor, {"partitions": ["1"]}, r"partitions\[0\]"),
        (HiveAcidDeltaCountSensor, {"max_deltas": -1}, "max_deltas"),
        (HiveAcidDeltaSizeSensor, {"max_ratio": -0.1}, "max_delta_ratio"),
        (HiveAcidDeltaSizeSensor, {"measure": "files"}, "measure"),
        (
            HiveAcidCompactionNeededSensor,
            {"policy": CompactionPolicy(quiet_hours="at night")},
            "quiet_hours",
        ),
        (HiveAcidDeltaCountSensor, {"expand_by": "type"}, "expand_by"),
        (HiveAcidCompactionNeededSensor, {"budget": Budget(max_bytes=0)}, "max_bytes"),
    ],
)
def test_invalid_values_fail_at_parse_time(sensor, options, message):
    with pytest.raises(InvalidJob, match=message):
        sensor(task_id="t", **{"table": "shop.orders"} | options)


@pytest.mark.parametrize("deferrable", [False, True])
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metastore_conn_id": "unknown"}, "no metastore connection 'unknown'"),
        ({"table": "shop.gone"}, "shop.gone does not exist"),
        ({"table": "gone.*"}, "gone does not exist"),
    ],
)
def test_impossible_conditions_fail_without_retries(options, message, deferrable):
    options = {"table": "shop.orders"} | options
    sensor = HiveAcidDeltaCountSensor(task_id="t", deferrable=deferrable, **options)
    with pytest.raises(AirflowFailException, match=message):
        sensor.execute({})
