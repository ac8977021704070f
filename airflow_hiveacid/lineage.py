"""What OpenLineage learns of our jobs, where its provider is installed."""

from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow.sdk import Context


def with_parent_job(conf: Mapping[str, str] | None, context: "Context") -> dict[str, str]:
    """Tell OpenLineage's listener in Spark, should there be one, of which task it is a part.

    :param conf: Spark configuration. What it says of a parent job already is kept.
    :param context: The context of the running task.
    """
    properties = dict(conf or {})
    if not is_wanted():
        return properties
    from airflow.providers.common.compat.openlineage.utils.spark import (
        inject_parent_job_information_into_spark_properties,
    )

    told: dict[str, str] = inject_parent_job_information_into_spark_properties(properties, context)
    return told


def is_wanted() -> bool:
    """Whether OpenLineage's provider is installed and switched on."""
    if find_spec("airflow.providers.openlineage") is None:
        return False
    return not import_module("airflow.providers.openlineage.conf").is_disabled()
