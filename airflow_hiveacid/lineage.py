"""Lineage of our jobs for OpenLineage, if its provider is installed."""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from airflow_hiveacid.assets import table_asset, to_openlineage
from hiveacid.errors import HiveAcidError, without_secrets
from hiveacid.jobs.export_job import ExportChangesJob
from hiveacid.jobs.job import Job
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.report import by_table
from hiveacid.jobs.sources import ChangesSource, PathSource, TableSource
from hiveacid.rules.names import TableRef

if TYPE_CHECKING:
    from airflow.providers.common.compat.openlineage.facet import Dataset, OutputDataset
    from airflow.sdk import Context

    from hiveacid.metastore.catalog import HiveTable

log = logging.getLogger(__name__)

# Sources that have an identity outside of the job.
_Named = TableSource | ChangesSource | PathSource


def with_parent_job(conf: Mapping[str, str] | None, context: "Context") -> dict[str, str]:
    """Set the parent task for OpenLineage's listener in Spark, if present.

    :param conf: Spark configuration. Its existing settings of a parent job are kept.
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

    with_parent: dict[str, str] = inject_parent_job_information_into_spark_properties(
        properties, context
    )
    return with_parent


def lineage_of(job: Job, report: Mapping[str, Any] | None) -> Any:
    """Describe a job's reads and writes as the OperatorLineage of OpenLineage's provider.

    :param job: The job, with its metastore.
    :param report: Its report; None if it has failed.
    """
    from airflow.providers.common.compat.openlineage.facet import SQLJobFacet

    statements = [(statement, _sources(statement)) for statement in job.parts]
    sources_of_statements = [source for _, sources in statements for source in sources.values()]
    tables = _look_up(
        job.connection,
        {statement.target for statement, _ in statements}
        | {source.name for source in sources_of_statements if not isinstance(source, PathSource)},
    )
    reports = [] if report is None else _reports(report)
    inputs: dict[str, Dataset] = {}
    changes_by_target: dict[str, list[tuple[Job, dict[str, Dataset]]]] = {}
    files: list[Dataset] = []
    for statement, sources in statements:
        for source in sources.values():
            key = _key(source)
            if key not in inputs:
                inputs[key] = _input(source, job.connection, tables)
        read = {name: inputs[_key(source)] for name, source in sources.items()}
        if isinstance(statement, ExportChangesJob):
            exported = PathSource(statement.path, statement.format)
            files.append(_input(exported, job.connection, tables))
        else:
            changes_by_target.setdefault(statement.target, []).append((statement, read))
    for target, facets in _quality(reports).items():
        # In OpenLineage, the quality of data is a facet of inputs.
        dataset = inputs.setdefault(target, _input(TableSource(target), job.connection, tables))
        dataset.inputFacets = {**(dataset.inputFacets or {}), **facets}  # type: ignore[attr-defined]
    statement_queries = [statement.query for statement, _ in statements]
    queries = [query.text for query in statement_queries if query is not None]
    return import_module("airflow.providers.openlineage.extractors").OperatorLineage(
        inputs=list(inputs.values()),
        outputs=[
            _output(
                target,
                job.connection,
                changes,
                [run_report for run_report in reports if run_report["target"] == target],
                tables,
            )
            for target, changes in changes_by_target.items()
        ]
        + files,
        job_facets={"sql": SQLJobFacet(query=";\n".join(queries))} if queries else {},
    )


def _reports(report: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the results, table by table."""
    parts = report.get("statements")
    if parts is None:
        return by_table(report)
    return [table for part in parts for table in by_table(part["run"] or part["compaction"])]


def _quality(reports: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the results of checks as facets, by the names of the tables."""
    results_by_table: dict[str, dict[str, Mapping[str, Any]]] = defaultdict(dict)
    for report in reports:
        for result in report.get("checks") or ():
            results_by_table[result["table"]][result["check"]] = result
    if not results_by_table:
        return {}
    facet = import_module("openlineage.client.facet_v2").data_quality_assertions_dataset
    return {
        table: {
            "dataQualityAssertions": facet.DataQualityAssertionsDatasetFacet(
                assertions=[
                    facet.Assertion(assertion=check, success=result["passed"])
                    for check, result in results.items()
                ]
            )
        }
        for table, results in results_by_table.items()
    }


def _sources(job: Job) -> dict[str, _Named]:
    """The tables and files that a job reads, by their names in its expressions."""
    # A batch of a stream has no name outside of the job.
    return {
        name.lower(): source
        for name, source in job.inputs_read.items()
        if isinstance(source, _Named)
    }


def _key(source: _Named) -> str:
    return source.path if isinstance(source, PathSource) else source.name


def _look_up(metastore: MetastoreOptions, names: set[str]) -> "dict[str, HiveTable]":
    """Return the tables that the metastore describes; a lineage without schemas is valid, too."""
    # Thrift is heavy, and DAG files import this module.
    from hiveacid.metastore.client import MetastoreClient

    tables = {}
    try:
        with MetastoreClient(metastore) as client:
            for name in names:
                tables[name] = client.get_table(TableRef.parse(name))
    except HiveAcidError as error:
        log.warning("The lineage lacks the columns of tables: %s", error)
    return tables


def _input(
    source: _Named, metastore: MetastoreOptions, tables: "Mapping[str, HiveTable]"
) -> "Dataset":
    from airflow.providers.common.compat.openlineage.facet import InputDataset

    if not isinstance(source, PathSource):
        dataset = to_openlineage(table_asset(source.name, metastore.uris), None)
        facets = _table_facets(tables.get(source.name))
        return InputDataset(namespace=dataset.namespace, name=dataset.name, facets=facets)
    namespace, name = _dataset_name(source.path)
    return InputDataset(namespace=namespace, name=name)


def _output(
    target: str,
    metastore: MetastoreOptions,
    changes: "Sequence[tuple[Job, Mapping[str, Dataset]]]",
    reports: Sequence[Mapping[str, Any]],
    tables: "Mapping[str, HiveTable]",
) -> "OutputDataset":
    from airflow.providers.common.compat.openlineage.facet import (
        ColumnLineageDatasetFacet,
        Fields,
        InputField,
        OutputDataset,
        OutputStatisticsOutputDatasetFacet,
    )

    dataset = to_openlineage(table_asset(target, metastore.uris), None)
    table = tables.get(target)
    facets = _table_facets(table)
    if table is not None:
        # It is heavy, and DAG files import this module.
        from airflow_hiveacid.column_origins import TARGET, column_origins

        fields: dict[str, list[InputField]] = {}
        for job, inputs in changes:
            datasets = {**inputs, TARGET: dataset}
            for column, origins in column_origins(job, table).items():
                read = fields.setdefault(column, [])
                for name, field in origins:
                    if name in datasets:
                        origin = InputField(datasets[name].namespace, datasets[name].name, field)
                        read += [] if origin in read else [origin]
        if fields:
            facets["columnLineage"] = ColumnLineageDatasetFacet(
                fields={column: Fields(inputFields=read) for column, read in fields.items()}
            )
    statistics: dict[str, Any] = {}
    if reports:
        statistics["outputStatistics"] = OutputStatisticsOutputDatasetFacet(**_written(reports))
    return OutputDataset(
        namespace=dataset.namespace, name=dataset.name, facets=facets, outputFacets=statistics
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
        namespace, name = _dataset_name(table.location)
        location = Identifier(namespace=namespace, name=name, type="LOCATION")
        facets["symlinks"] = SymlinksDatasetFacet(identifiers=[location])
    return facets


def _dataset_name(path: str) -> tuple[str, str]:
    """Namespace and name of a path, as OpenLineage spells them."""
    uri = urlsplit(without_secrets(path))
    if not uri.netloc:
        return "file", uri.path
    if uri.scheme in ("s3", "s3a", "s3n"):
        return f"s3://{uri.netloc}", uri.path.strip("/")
    return f"{uri.scheme}://{uri.netloc}", uri.path


def _written(reports: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    figures = [_figures(report) for report in reports]
    return {key: sum(figure.get(key, 0) for figure in figures) for key in figures[0]}


def _figures(report: Mapping[str, Any]) -> dict[str, Any]:
    if report["job"] == "compact":
        partitions = report["partitions"]
        return {
            "rowCount": sum(partition["rows"] for partition in partitions),
            "size": sum(partition["bytes_written"] for partition in partitions),
        }
    if report["job"] == "clean":
        return {"rowCount": 0, "size": 0}
    return {
        "rowCount": report["rows_inserted"] + report["rows_updated"],
        "size": report["bytes"],
        "fileCount": report["files"],
    }
