"""A task with a driver in the cluster, and Airflow's handling of it, step by step."""

import json
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_hiveacid import HiveAcidDeleteOperator
from airflow_hiveacid.operators.job import HiveAcidJobOperator
from airflow_hiveacid.triggers.application import HiveAcidApplicationTrigger
from hiveacid.jobs import DeleteJob
from tests.fakes.spark_cluster import SparkCluster

Context = dict[str, Any]


def delete(**arguments: Any) -> HiveAcidDeleteOperator:
    job = DeleteJob(target="shop.orders", where="id = 1", run_in="spark")
    options = {"deploy_mode": "cluster", "poll_seconds": 0.01} | arguments
    return HiveAcidDeleteOperator(task_id="t", job=job, **options)


def followed(cluster: SparkCluster, context: Context, number: int = 1) -> str:
    """Wait until a task waits for an application."""
    application = cluster.appears(number)
    cluster.until(lambda: context["ti"].xcoms.get("application_id") == application)
    return application


def deferred_by(operator: HiveAcidJobOperator[Any], context: Context) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as raised:
        operator.execute(context)
    return raised.value


def rebuilt(deferred: TaskDeferred, context: Context) -> HiveAcidApplicationTrigger:
    """The trigger as a triggerer gets it."""
    _, arguments = deferred.trigger.serialize()
    trigger = HiveAcidApplicationTrigger(**json.loads(json.dumps(arguments)))
    trigger.task_instance = context["ti"]
    return trigger


async def first_event(trigger: HiveAcidApplicationTrigger) -> Any:
    async for event in trigger.run():
        return event.payload
    raise AssertionError("The trigger has ended without an event.")
