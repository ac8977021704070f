"""HiveAcidCompactionNeededSensor: waits for compactions that the policy requires."""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_hiveacid.acid.compaction_policy import Budget, CompactionPolicy
from airflow_hiveacid.hooks.template_fields import rendered_setting
from airflow_hiveacid.jobs.field_checks import is_template
from airflow_hiveacid.sensors.base import HiveAcidCompactionSensor


class HiveAcidCompactionNeededSensor(HiveAcidCompactionSensor):
    """Waits until a partition is worth compacting by the whole policy.

    Example::

        HiveAcidCompactionNeededSensor(
            task_id="needed",
            table="sales.*",
            policy=CompactionPolicy(major_after_hours=168, quiet_hours="22:00-05:00"),
            budget=Budget(max_partitions=50),
        )

    Both may be mappings instead, whose values are templates. For the ones that are numbers the DAG
    needs ``render_template_as_native_obj=True``.

    The parameters below come on top of those of HiveAcidCompactionSensor.

    :param policy: When a partition is worth compacting. (templated)
    :param budget: How much is returned at once; the most useful comes first. (templated)
    """

    template_fields: Sequence[str] = (*HiveAcidCompactionSensor.template_fields, "policy", "budget")

    def __init__(
        self,
        *,
        policy: CompactionPolicy | Mapping[str, Any] | None = None,
        budget: Budget | Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.policy = CompactionPolicy() if policy is None else policy
        self.budget = Budget() if budget is None else budget
        for given, validated in ((self.policy, self._policy), (self.budget, self._budget)):
            # Values of mappings may become numbers when they are rendered, as native objects.
            if not isinstance(given, Mapping) and not is_template(given):
                validated()

    def _policy(self) -> CompactionPolicy:
        return rendered_setting(CompactionPolicy, self.policy, "policy")

    def _budget(self) -> Budget:
        return rendered_setting(Budget, self.budget, "budget")
