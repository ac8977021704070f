"""The values of template fields: those that are known while a DAG is parsed, and rendered ones."""

from typing import Any

import pytest
from airflow.sdk import DAG

from airflow_hiveacid.hooks.task_failures import HiveAcidTaskRefused
from airflow_hiveacid.sensors import HiveAcidDeltaCountSensor


@pytest.mark.parametrize(
    ("native", "rendered", "message"),
    [
        (False, ["p=1"], r"partitions must be a list, not \"\['p=1'\]\""),
        (True, "p=1", "partitions must be a list, not 'p=1'"),
        (True, [], "partitions is empty"),
        (True, [1], r"partitions\[0\] must be a non-empty text"),
    ],
)
@pytest.mark.parametrize("deferrable", [False, True])
def test_a_sensor_refuses_rendered_partitions_that_are_no_list_of_names(
    native: bool, rendered: Any, message: str, deferrable: bool, context: dict[str, Any]
) -> None:
    with DAG("d", schedule=None, render_template_as_native_obj=native):
        sensor = HiveAcidDeltaCountSensor(
            task_id="t",
            table="shop.days",
            partitions="{{ params.partitions }}",
            deferrable=deferrable,
        )
    sensor.render_template_fields({**context, "params": {"partitions": rendered}})
    with pytest.raises(HiveAcidTaskRefused, match=message):
        sensor.execute(context)
