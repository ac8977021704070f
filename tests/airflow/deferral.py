"""What Airflow does with a task that is deferred, step by step."""

import json
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import TaskDeferred

from airflow_hiveacid.operators.spark import HiveAcidSparkOperator
from airflow_hiveacid.triggers.application import HiveAcidApplicationTrigger

Context = dict[str, Any]


def deferred_by(operator: HiveAcidSparkOperator[Any], context: Context) -> TaskDeferred:
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
