"""HiveAcidWorkerOperator: the base of the operators whose jobs run in the worker."""

from typing import Any

from airflow_hiveacid.operators.base import HiveAcidJobOperator, JobT
from hiveacid.errors import InvalidJob


class HiveAcidWorkerOperator(HiveAcidJobOperator[JobT]):
    """Runs one job in the worker, without Spark.

    :param deferrable: True is refused, because the operator has nothing to wait for.
    """

    def __init__(self, *, deferrable: bool | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        if deferrable:
            raise InvalidJob(
                f"{type(self).__name__} {self.task_id!r} is deferrable, but works in the worker.",
                remedy="Omit deferrable: there is no application to wait for.",
            )
        self.deferrable = deferrable
