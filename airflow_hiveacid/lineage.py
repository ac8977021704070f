"""What OpenLineage learns of our jobs, where its provider is installed."""

import logging
from collections.abc import Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_hiveacid.acid.errors import HiveAcidError
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.assets import asset_of, to_openlineage
from airflow_hiveacid.column_lineage import SOURCE, TARGET, column_origins
from airflow_hiveacid.jobs.options import (
    InsertJob,
    Job,
    MergeJob,
    MetastoreOptions,
    PathSource,
    QuerySource,
    TableSource,
)

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import Dataset, OutputDataset
    from airflow.sdk import Context

    from airflow_hiveacid.metastore.catalog import HiveTable

log = logging.getLogger(__name__)


def with_parent_job(conf: Mapping[str, str] | None, context: "Context") -> dict[str, str]:
    """Tell OpenLineage's listener in Spark, should there be one, of which task it is a part.

    :param conf: Spark configuration. What it says of a parent job already is kept.
    :param context: The context of the running task.
    """
    properties = dict(conf or {})
    if find_spec("airflow.providers.openlineage") is None:
        return properties
    if import_module("airflow.providers.openlineage.conf").is_disabled():
        return properties
    from airflow.providers.common.compat.openlineage.utils.spark import (
        inject_parent_job_information_into_spark_properties,
    )

    told: dict[str, str] = inject_parent_job_information_into_spark_properties(properties, context)
    return told


def lineage_of(job: Job, report: Mapping[str, Any] | None) -> Any:
    """Describe what a job reads and writes, as the OperatorLineage of OpenLineage's provider.

    :param job: The job, with its metastore.
    :param report: What it has done; None when it has failed.
    """
    from airflow.providers.common.compat.openlineage.facet import SQLJobFacet

    assert job.metastore is not None
    source = job.source if isinstance(job, InsertJob | MergeJob) else None
    named: dict[str, TableSource | PathSource] = {}
    if isinstance(source, QuerySource):
        named = {name.lower(): each for name, each in source.inputs.items()}
    elif source is not None:
        named = {SOURCE: source}
    tables = _look_up(
        job.metastore,
        {job.target, *(each.name for each in named.values() if isinstance(each, TableSource))},
    )
    inputs = {name: _input(each, job.metastore, tables) for name, each in named.items()}
    return import_module("airflow.providers.openlineage.extractors").OperatorLineage(
        inputs=list(inputs.values()),
        outputs=[_output(job, report, inputs, tables)],
        job_facets={"sql": SQLJobFacet(query=source.sql)}
        if isinstance(source, QuerySource)
        else {},
    )


def _look_up(metastore: MetastoreOptions, names: set[str]) -> "dict[str, HiveTable]":
    """Those of the tables that the metastore tells of; a lineage without schemas is one, too."""
    # Thrift is heavy, and DAG files import this module.
    from airflow_hiveacid.metastore.client import MetastoreClient

    tables = {}
    try:
        with MetastoreClient(metastore) as client:
            for name in names:
                tables[name] = client.get_table(TableRef.parse(name))
    except HiveAcidError as error:
        log.warning("The lineage lacks the columns of tables: %s", error)
    return tables


def _input(
    source: TableSource | PathSource, metastore: MetastoreOptions, tables: "Mapping[str, HiveTable]"
) -> "Dataset":
    from airflow.providers.common.compat.openlineage.facet import InputDataset

    if isinstance(source, TableSource):
        named = to_openlineage(asset_of(source.name, metastore.uris), None)
        facets = _table_facets(tables.get(source.name))
        return InputDataset(namespace=named.namespace, name=named.name, facets=facets)
    namespace, name = _place(source.path)
    return InputDataset(namespace=namespace, name=name)


def _output(
    job: Job,
    report: Mapping[str, Any] | None,
    inputs: "Mapping[str, Dataset]",
    tables: "Mapping[str, HiveTable]",
) -> "OutputDataset":
    from airflow.providers.common.compat.openlineage.facet import (
        ColumnLineageDatasetFacet,
        Fields,
        InputField,
        OutputDataset,
        OutputStatisticsOutputDatasetFacet,
    )

    assert job.metastore is not None
    named = to_openlineage(asset_of(job.target, job.metastore.uris), None)
    table = tables.get(job.target)
    facets = _table_facets(table)
    if table is not None:
        columns = [column.name for column in (*table.columns, *table.partition_keys)]
        datasets = {**inputs, TARGET: named}
        fields = {
            column: Fields(
                inputFields=[
                    InputField(datasets[name].namespace, datasets[name].name, field)
                    for name, field in origins
                    if name in datasets
                ]
            )
            for column, origins in column_origins(job, columns).items()
        }
        if fields:
            facets["columnLineage"] = ColumnLineageDatasetFacet(fields=fields)
    statistics: dict[str, Any] = {}
    if report is not None:
        statistics["outputStatistics"] = OutputStatisticsOutputDatasetFacet(**_written(report))
    return OutputDataset(
        namespace=named.namespace, name=named.name, facets=facets, outputFacets=statistics
    )


def _table_facets(table: "HiveTable | None") -> dict[str, Any]:
    from airflow.providers.common.compat.openlineage.facet import (
        Identifier,
        SchemaDatasetFacet,
        SchemaDatasetFacetFields,
        SymlinksDatasetFacet,
    )

    if table is None:
        return {}
    columns = [
        SchemaDatasetFacetFields(name=column.name, type=column.type)
        for column in (*table.columns, *table.partition_keys)
    ]
    facets: dict[str, Any] = {"schema": SchemaDatasetFacet(fields=columns)}
    if table.location:
        namespace, name = _place(table.location)
        location = Identifier(namespace=namespace, name=name, type="LOCATION")
        facets["symlinks"] = SymlinksDatasetFacet(identifiers=[location])
    return facets


def _place(path: str) -> tuple[str, str]:
    """Namespace and name of a path, as OpenLineage spells them."""
    uri = urlsplit(path)
    if not uri.netloc:
        return "file", uri.path
    if uri.scheme in ("s3", "s3a", "s3n"):
        return f"s3://{uri.netloc}", uri.path.strip("/")
    return f"{uri.scheme}://{uri.netloc}", uri.path


def _written(report: Mapping[str, Any]) -> dict[str, Any]:
    if report["job"] == "compact":
        done = report["partitions"]
        return {
            "rowCount": sum(each["rows"] for each in done),
            "size": sum(each["bytes_written"] for each in done),
        }
    if report["job"] == "clean":
        return {"rowCount": 0, "size": 0}
    return {
        "rowCount": report["rows_inserted"] + report["rows_updated"],
        "size": report["bytes"],
        "fileCount": report["files"],
    }
