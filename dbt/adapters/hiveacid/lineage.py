"""The command ``dbt-ol-hiveacid``: OpenLineage's ``dbt-ol`` for projects with this adapter."""

import sys
from collections.abc import Mapping
from typing import Any

from dbt.adapters.hiveacid.credentials import HiveAcidCredentials

from hiveacid.metastore.endpoint import Endpoint


def main() -> int:
    """Run ``dbt-ol``, and return the exit code of dbt."""
    try:
        from openlineage.common.provider.dbt.processor import Adapter, DbtArtifactProcessor
        from openlineage.dbt import main as dbt_ol
    except ImportError as error:
        print(
            f"{error}. Install the packages for lineage: pip install 'dbt-hiveacid[openlineage]'.",
            file=sys.stderr,
        )
        return 2

    def extract_adapter_type(processor: DbtArtifactProcessor, profile: Mapping[str, Any]) -> None:
        # It names the dialect of the queries.
        processor.adapter_type = Adapter.SPARK

    # dbt-ol has a closed list of adapters: none can be registered.
    DbtArtifactProcessor.extract_adapter_type = extract_adapter_type
    DbtArtifactProcessor.extract_namespace = lambda processor, profile: namespace(profile)
    return int(dbt_ol() or 0)


def namespace(profile: Mapping[str, Any]) -> str:
    """Return the namespace of tables, which the lineage of Airflow's tasks has, too.

    Args:
        profile: The output of profiles.yml.
    """
    metastore = profile.get("metastore")
    if isinstance(metastore, Mapping):
        # OpenLineage fills in templates when a value is read.
        metastore = {key: metastore[key] for key in metastore}
    options = HiveAcidCredentials(schema=profile["schema"], metastore=metastore).options()
    return f"hive://{Endpoint.parse(options.uris)[0]}"
