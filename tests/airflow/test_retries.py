"""The decisions of the retry policy for every error."""

from datetime import timedelta

import pytest
from airflow.providers.common.compat.sdk import (
    AirflowOptionalProviderFeatureException,
    AirflowSkipException,
)

from airflow_hiveacid.hooks.tasks import HiveAcidTaskRefused, task_failure
from airflow_hiveacid.retries import hive_acid_retry_policy
from hiveacid import errors
from hiveacid.jobs.write_jobs import skipping_empty_sources

try:
    from airflow.sdk import RetryAction
except ImportError:
    RetryAction = None

SOON, LATER = timedelta(seconds=3), timedelta(hours=3)
ERRORS = [
    error
    for error in vars(errors).values()
    if isinstance(error, type) and issubclass(error, errors.HiveAcidError)
]
needs_policies = pytest.mark.skipif(RetryAction is None, reason="needs Airflow 3.3")


def decision(exception):
    policy = hive_acid_retry_policy(conflicts_after=SOON, trouble_after=LATER)
    return policy.evaluate(exception, try_number=1, max_tries=3)


def due(error):
    """Return the time of the next attempt, by the tree of errors."""
    if not error.retryable:
        return None
    return SOON if issubclass(error, errors.ConflictError) else LATER


@needs_policies
@pytest.mark.parametrize("error", ERRORS)
def test_every_error_of_a_hook_is_tried_again_soon_later_or_never(error):
    decided = decision(error("It happened."))
    assert decided.retry_delay == due(error)
    assert decided.action is (RetryAction.RETRY if error.retryable else RetryAction.FAIL)


@needs_policies
@pytest.mark.parametrize("error", ERRORS)
def test_every_error_of_our_tasks_is_tried_again_soon_later_or_never(error):
    failure = task_failure(error("It happened."))
    if due(error) is None:
        # Airflow fails the task without asking any policy.
        assert isinstance(failure, HiveAcidTaskRefused)
    else:
        assert (decision(failure).action, decision(failure).retry_delay) == (
            RetryAction.RETRY,
            due(error),
        )


def test_a_task_whose_job_skips_an_empty_source_is_skipped():
    with pytest.raises(errors.EmptySource) as empty, skipping_empty_sources("skip"):
        raise errors.EmptySource("There are no rows.")
    assert isinstance(task_failure(empty.value), AirflowSkipException)


@needs_policies
def test_foreign_errors_are_left_to_the_task():
    assert decision(OSError("disk")).action is RetryAction.DEFAULT


@needs_policies
def test_the_policy_survives_the_serialization_of_its_dag():
    from airflow.sdk import ExceptionRetryPolicy

    policy = hive_acid_retry_policy()
    again = ExceptionRetryPolicy.deserialize(policy.serialize())
    assert again.serialize() == policy.serialize()
    assert again.evaluate(errors.LockTimeout("x"), 1, 3) == policy.evaluate(
        errors.LockTimeout("x"), 1, 3
    )


@pytest.mark.skipif(RetryAction is not None, reason="is about Airflow before 3.3")
def test_an_older_airflow_gets_an_alternative():
    with pytest.raises(
        AirflowOptionalProviderFeatureException, match="use retries and retry_delay"
    ):
        hive_acid_retry_policy()
