"""Relations of a metastore."""

from dataclasses import dataclass

from dbt.adapters.contracts.relation import ComponentName
from dbt.adapters.spark.relation import SparkRelation


@dataclass(frozen=True, eq=False, repr=False)
class HiveAcidRelation(SparkRelation):
    """A table or view; its name has no case, like all names of the metastore."""

    def _is_exactish_match(self, field: ComponentName, value: str) -> bool:
        return bool(self.path.get_lowered_part(field) == value.lower())
