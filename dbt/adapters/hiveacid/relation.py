"""Relations of a metastore."""

import re

from dbt.adapters.contracts.relation import ComponentName
from dbt.adapters.spark.relation import SparkRelation
from dbt_common.exceptions import DbtRuntimeError

from hiveacid.dataclass import dataclass
from hiveacid.rules.sql_names import quoted, unquoted


@dataclass(frozen=True, eq=False, repr=False)
class HiveAcidRelation(SparkRelation):
    """A table or view; its name has no case, like all names of the metastore."""

    def render(self) -> str:
        """Return the name as SQL, in which it is not quoted.

        Raises:
            DbtRuntimeError: It is no plain name, so that it would be read as other SQL.
        """
        for name in (self.schema, self.identifier):
            if name and not re.fullmatch(r"\w+", unquoted(str(name))):
                raise DbtRuntimeError(
                    f"{name!r} is not the name of a table: it has other characters than letters,"
                    " digits and underscores."
                )
        return str(super().render())

    def quoted(self, identifier: str) -> str:
        """Return a part of the name in quotes."""
        return quoted(identifier)

    def _is_exactish_match(self, field: ComponentName, value: str) -> bool:
        return bool(self.path.get_lowered_part(field) == value.lower())
