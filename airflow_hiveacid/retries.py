"""Retry policy for failed tasks of ours."""

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import AirflowOptionalProviderFeatureException

from airflow_hiveacid.hooks.tasks import HiveAcidTaskConflict, HiveAcidTaskTrouble
from hiveacid.errors import ConflictError, HiveAcidError

if TYPE_CHECKING:
    from airflow.sdk import ExceptionRetryPolicy


def hive_acid_retry_policy(
    *,
    conflicts_after: timedelta = timedelta(seconds=30),
    trouble_after: timedelta = timedelta(minutes=5),
) -> "ExceptionRetryPolicy":
    """Retry soon after conflicts, later after outages, and never after permanent errors.

    Example::

        HiveAcidMergeOperator(
            task_id="merge", job=job, retries=5, retry_policy=hive_acid_retry_policy()
        )

    It also fits tasks that use HiveAcidMetastoreHook themselves. Errors that aren't ours are left
    to ``retry_delay``.

    :param conflicts_after: The delay of a retry after a concurrent writer committed first.
    :param trouble_after: The delay of a retry after the metastore, the cluster or the file system
        did not answer.
    :raises AirflowOptionalProviderFeatureException: Airflow is older than 3.3.
    """
    try:
        from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule
    except ImportError as error:
        raise AirflowOptionalProviderFeatureException(
            "hive_acid_retry_policy() needs Airflow 3.3. Before that, use retries and retry_delay: "
            "mistakes fail at once there, too."
        ) from error
    return ExceptionRetryPolicy(
        rules=[
            # First the final errors below retryable ones: the first rule that matches decides.
            RetryRule(
                exception=[*_declaring(HiveAcidError, retryable=False)],
                action=RetryAction.FAIL,
                reason="The same would fail again.",
            ),
            RetryRule(
                exception=[HiveAcidTaskConflict, ConflictError],
                retry_delay=conflicts_after,
                reason="Another writer was first.",
            ),
            RetryRule(
                exception=[HiveAcidTaskTrouble, *_declaring(HiveAcidError, retryable=True)],
                retry_delay=trouble_after,
                reason="The metastore, the cluster or the files could not be reached.",
            ),
            # Permanent failures of our tasks never reach the policy: Airflow fails them at once.
            RetryRule(
                exception=HiveAcidError,
                action=RetryAction.FAIL,
                reason="The same would fail again.",
            ),
        ]
    )


def _declaring(base: type[HiveAcidError], *, retryable: bool) -> list[type[HiveAcidError]]:
    """Return the classes below a base that themselves declare whether a retry can help."""
    classes = [
        subclass
        for subclass in base.__subclasses__()
        if vars(subclass).get("retryable") is retryable
    ]
    return classes + [
        class_
        for subclass in base.__subclasses__()
        for class_ in _declaring(subclass, retryable=retryable)
    ]
