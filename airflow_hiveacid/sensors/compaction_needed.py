"""HiveAcidCompactionNeededSensor: waits for compactions that the policy requires."""

from collections.abc import Mapping, Sequence
from typing import Any

from airflow_hiveacid.acid.compaction_policy import Budget, CompactionPolicy
from airflow_hiveacid.jobs import codec
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
        for given in (self.policy, self.budget):
            if not isinstance(given, Mapping):
                given.validate()

    def _policy(self) -> CompactionPolicy:
        if not isinstance(self.policy, Mapping):
            return self.policy
        policy: CompactionPolicy = codec.decode(CompactionPolicy, dict(self.policy), "policy")
        policy.validate()
        return policy

    def _budget(self) -> Budget:
        if not isinstance(self.budget, Mapping):
            return self.budget
        budget: Budget = codec.decode(Budget, dict(self.budget), "budget")
        budget.validate()
        return budget
