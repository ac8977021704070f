"""The adapter: relations and columns from the metastore, definitions and runs for the macros."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from dbt.adapters.base import AdapterConfig, available
from dbt.adapters.base.impl import ConstraintSupport
from dbt.adapters.base.relation import BaseRelation
from dbt.adapters.capability import Capability, CapabilityDict, CapabilitySupport, Support
from dbt.adapters.contracts.relation import RelationType
from dbt.adapters.hiveacid.columns import HiveAcidColumn, type_of_metastore, type_of_query
from dbt.adapters.hiveacid.connections import ROWS, Handle, HiveAcidConnectionManager
from dbt.adapters.hiveacid.definitions import (
    DEFINITION,
    RUN,
    Definition,
    ModelColumn,
    column_name,
    text,
)
from dbt.adapters.hiveacid.relation import HiveAcidRelation
from dbt.adapters.hiveacid.runs import retried_folder, run_of_invocation, run_token
from dbt.adapters.spark.impl import SparkAdapter
from dbt_common.contracts.constraints import ConstraintType
from dbt_common.contracts.metadata import CatalogTable, ColumnMetadata, StatsItem, TableMetadata
from dbt_common.exceptions import DbtRuntimeError
from dbt_common.invocation import get_invocation_id

from hiveacid.dataclass import dataclass
from hiveacid.metastore.catalog import ROW_COUNT, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import projected_tables
from hiveacid.metastore.txn.owner import Snapshot
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.rules.sql_names import quoted
from hiveacid.tables.definitions.tables import find_table
from hiveacid.upkeep.table_detail import table_detail

if TYPE_CHECKING:
    import agate


@dataclass
class HiveAcidConfig(AdapterConfig):
    """The settings of a model that dbt does not know by itself.

    Attributes:
        partition_by: The partition keys.
        clustered_by: The columns that distribute rows over buckets.
        buckets: The number of buckets.
        file_format: orc, parquet, textfile, or jsonfile.
        insert_only: Make the table insert-only, not full ACID.
        location_root: The folder of the table's folder.
        tblproperties: Properties of the table.
    """

    partition_by: list[str] | str | None = None
    clustered_by: list[str] | str | None = None
    buckets: int | None = None
    file_format: str = "orc"
    insert_only: bool = False
    location_root: str | None = None
    tblproperties: dict[str, str] | None = None


class HiveAcidAdapter(SparkAdapter):
    """The adapter for Hive ACID tables."""

    Column = HiveAcidColumn
    Relation = HiveAcidRelation
    ConnectionManager = HiveAcidConnectionManager
    AdapterSpecificConfigs = HiveAcidConfig
    _capabilities = CapabilityDict(
        {
            Capability.GetCatalogForSingleRelation: CapabilitySupport(support=Support.Full),
            Capability.MicrobatchConcurrency: CapabilitySupport(support=Support.Unsupported),
        }
    )
    CONSTRAINT_SUPPORT: ClassVar[dict[Any, Any]] = {
        ConstraintType.check: ConstraintSupport.ENFORCED,
        ConstraintType.not_null: ConstraintSupport.ENFORCED,
        ConstraintType.unique: ConstraintSupport.NOT_ENFORCED,
        ConstraintType.primary_key: ConstraintSupport.NOT_ENFORCED,
        ConstraintType.foreign_key: ConstraintSupport.NOT_ENFORCED,
    }

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._retried = retried_folder()

    @property
    def _handle(self) -> Handle:
        handle = self.connections.get_thread_connection().handle
        assert isinstance(handle, Handle)
        return handle

    # Relations and columns, which only the metastore knows: if it does not answer, dbt stops, since
    # a relation that looks missing would be created again.

    def list_relations_without_caching(self, schema_relation: BaseRelation) -> list[BaseRelation]:
        """List the tables and views of a database; none if the database is missing."""
        client = self._handle.client
        schema = str(schema_relation.schema).lower()
        with self.connections.exception_handler(f"list {schema}"):
            if schema not in client.get_databases():
                return []
            names = client.get_tables(schema)
            found = projected_tables(client, schema, names, ("tableName", "tableType"))
        return [
            self.Relation.create(
                schema=schema,
                identifier=each.tableName,
                type=RelationType.View if each.tableType == "VIRTUAL_VIEW" else RelationType.Table,
            )
            for each in found
        ]

    def get_columns_in_relation(self, relation: BaseRelation) -> list[HiveAcidColumn]:
        """Return the columns of a table or view, the partition keys last; none if it is missing."""
        if not relation.include_policy.schema:
            schema = self._handle.spark.table(str(relation.identifier)).schema
            # In lower case, like those of the metastore, with which dbt compares them.
            return [
                HiveAcidColumn(each.name.lower(), type_of_query(each.dataType))
                for each in schema.fields
            ]
        found = self._find(relation)
        if found is None:
            return []
        columns = (*found.columns, *found.partition_keys)
        with self.connections.exception_handler(f"describe {relation}"):
            types = [type_of_metastore(each.type) for each in columns]
        return [
            HiveAcidColumn(
                table_database=None,
                table_schema=found.ref.database,
                table_name=found.ref.name,
                table_type=str(relation.type),
                table_owner=found.owner,
                column=each.name,
                column_index=place + 1,
                dtype=types[place],
            )
            for place, each in enumerate(columns)
        ]

    def _find(self, relation: BaseRelation) -> HiveTable | None:
        ref = TableRef(str(relation.schema).lower(), str(relation.identifier).lower())
        with self.connections.exception_handler(f"describe {relation}"):
            return find_table(self._handle.client, ref)

    def _get_columns_for_catalog(self, relation: BaseRelation) -> Iterable[dict[str, Any]]:
        table = self._find(relation)
        if table is None:
            return
        comments = {each.name: each.comment for each in (*table.columns, *table.partition_keys)}
        with self.connections.exception_handler(f"describe {relation}"):
            statistics = _statistics(self._handle.client, table)
        for column in self.get_columns_in_relation(relation):
            described = column.to_column_dict()
            name = described.pop("column")
            yield {
                **described,
                **statistics,
                "column_name": name,
                "column_type": described.pop("dtype"),
                "column_comment": comments.get(name),
                "table_comment": table.parameters.get("comment"),
                "table_database": None,
            }

    @available
    def get_catalog_for_single_relation(self, relation: BaseRelation) -> CatalogTable | None:
        """Return the entry of the catalog for a table or view; None if it is missing."""
        rows = [*self._get_columns_for_catalog(relation)]
        if not rows:
            return None
        first = rows[0]
        entries = {
            key.split(":")[1]: StatsItem(
                id=key.split(":")[1],
                label=first[f"stats:{key.split(':')[1]}:label"],
                value=value,
                include=True,
                description=first[f"stats:{key.split(':')[1]}:description"],
            )
            for key, value in first.items()
            if key.startswith("stats:") and key.endswith(":value")
        }
        columns = {
            row["column_name"]: ColumnMetadata(
                type=row["column_type"],
                index=row["column_index"],
                name=row["column_name"],
                comment=row["column_comment"],
            )
            for row in rows
        }
        metadata = TableMetadata(
            type=first["table_type"],
            schema=first["table_schema"],
            name=first["table_name"],
            comment=first["table_comment"],
            owner=first["table_owner"],
        )
        return CatalogTable(metadata=metadata, columns=columns, stats=entries)

    def check_schema_exists(self, database: str, schema: str) -> bool:
        """Whether a database exists."""
        with self.connections.exception_handler("show databases"):
            return schema.lower() in self._handle.client.get_databases()

    def quote(self, identifier: str) -> str:
        """Return a name as SQL.

        Args:
            identifier: The name.
        """
        return quoted(str(identifier))

    # Definitions

    @available.parse(lambda *_, **__: "")
    def added_columns(self, columns: list[HiveAcidColumn]) -> str:
        """Return columns as ALTER TABLE adds them.

        Args:
            columns: The columns.
        """
        return ", ".join(f"{column_name(each.name)} {each.data_type}" for each in columns)

    @available.parse(lambda *_, **__: "")
    def create_table_sql(
        self, relation: BaseRelation, model: dict[str, Any], columns: list[HiveAcidColumn]
    ) -> str:
        """Return CREATE TABLE for a model.

        Args:
            relation: The name of the table.
            model: The model, with its configuration.
            columns: The columns of its query.
        """
        return self._definition(model, columns).statement(relation.render(), self._token(model))

    @available.parse(lambda *_, **__: False)
    def has_definition(
        self, relation: BaseRelation, model: dict[str, Any], columns: list[HiveAcidColumn]
    ) -> bool:
        """Whether a table was created with the present definition of a model.

        Args:
            relation: The table.
            model: The model.
            columns: The columns of its query.
        """
        table = self._find(relation)
        if table is None or table.is_view:
            return False
        wanted = self._definition(model, columns)
        names = [each.name.lower() for each in (*table.columns, *table.partition_keys)]
        return table.parameters.get(DEFINITION) == wanted.digest and names == wanted.names

    @available.parse(lambda self, relation: relation)
    def new_relation(self, relation: BaseRelation) -> BaseRelation:
        """Return the name of the table that is to replace another one.

        It belongs to one invocation: no other one, and no other attempt of this run, can publish the
        table before it has all of its rows.

        Args:
            relation: The table to replace.
        """
        return self._beside(relation, "new")

    @available.parse(lambda self, relation: relation)
    def old_relation(self, relation: BaseRelation) -> BaseRelation:
        """Return the name of a table while another relation takes its place.

        It belongs to one invocation, too: no other one can drop the table before it is replaced.

        Args:
            relation: The table.
        """
        return self._beside(relation, "old")

    @available.parse(lambda *_, **__: [])
    def leftovers(self, relation: BaseRelation, kind: str = "new|old") -> list[BaseRelation]:
        """List the relations that killed runs have left beside a table, the earliest first.

        A concurrent run whose new table is dropped fails, and publishes nothing. Its old table is
        not in a list that is made while the table exists, unless it was replaced.

        Args:
            relation: The table.
            kind: "new": relations that were to replace it; "old": tables that were to be replaced.
        """
        beside = rf"{re.escape(str(relation.identifier).lower())}__dbt_({kind})_[0-9a-f]{{8}}"
        with self.connections.exception_handler(f"list {relation.schema}"):
            names = self._handle.client.get_tables(str(relation.schema).lower())
        found = []
        for name in names:
            each = self._named(relation, name)
            if re.fullmatch(beside, name) and (table := self._find(each)) is not None:
                type_ = RelationType.View if table.is_view else RelationType.Table
                found.append((table.identity.created, table.identity.id or 0, name, type_))
        return [self._named(relation, name, type_) for *_, name, type_ in sorted(found)]

    @available.parse_none
    def give_back(self, relation: BaseRelation) -> BaseRelation | None:
        """Rename a table back to which a killed run has given another name, and return it, if any.

        Args:
            relation: The name.
        """
        if self._find(relation) is not None or not (olds := self.leftovers(relation, "old")):
            return None
        table = self._named(relation, str(relation.identifier))
        # An earlier one was replaced.
        self.rename_relation(olds[-1], table)
        return table

    @available.parse(lambda *_, **__: "")
    def state_of(self, relation: BaseRelation) -> str:
        """Return a text that differs after each write to a table, and for a table made again.

        Args:
            relation: The table.
        """
        table = self._find(relation)
        if table is None or table.kind is TableKind.NOT_ACID:
            return ""
        with self.connections.exception_handler(f"describe {relation}"):
            seen = Snapshot.take(self._handle.client, [table.ref]).write_ids[table.ref.full_name]
        return f"{table.identity.text} {replace(seen, table=None).format()}"

    @available.parse_none
    def put_aside(self, relation: BaseRelation, seen: str) -> None:
        """Give a table another name, unless others have written to it meanwhile.

        Nobody writes to the table under its other name, so the comparison afterwards is final.

        Args:
            relation: The table.
            seen: Its state before the query for its new rows.
        """
        old = self.old_relation(relation)
        self.rename_relation(relation, old)
        unchanged = False
        try:
            unchanged = self.state_of(old) == seen
        finally:
            if not unchanged:
                self.rename_relation(old, relation)
        if not unchanged:
            raise DbtRuntimeError(
                f"Others have written to {relation}, or replaced it, after the query for its new"
                " rows had begun. Their rows are kept: run the model again."
            )

    def _beside(self, relation: BaseRelation, kind: str) -> BaseRelation:
        invocation = str(get_invocation_id())[:8]
        return self._named(relation, f"{relation.identifier}__dbt_{kind}_{invocation}")

    def _named(
        self, relation: BaseRelation, name: str, type_: RelationType = RelationType.Table
    ) -> BaseRelation:
        return relation.incorporate(path={"identifier": name}, type=type_)

    def valid_incremental_strategies(self) -> list[str]:
        """Return the names of the strategies."""
        return ["append", "merge", "delete+insert", "insert_overwrite", "microbatch"]

    def _definition(self, model: dict[str, Any], columns: list[HiveAcidColumn]) -> Definition:
        config = model["config"]
        contract = (config.get("contract") or {}).get("enforced", False)
        declared = {name.lower(): each for name, each in (model.get("columns") or {}).items()}
        persisted = config.get("persist_docs") or {}
        if contract:
            places = [*declared]
            columns = sorted(columns, key=lambda each: places.index(each.name.lower()))
        made = []
        for column in columns:
            known = declared.get(column.name.lower(), {})
            constraints = [
                self.process_parsed_constraint(
                    self._parse_column_constraint(each), self.render_column_constraint
                )
                for each in (known.get("constraints") or () if contract else ())
            ]
            comment = known.get("description") or "" if persisted.get("columns") else ""
            made.append(
                ModelColumn(
                    column.name,
                    known["data_type"] if contract and known.get("data_type") else column.dtype,
                    tuple(each for each in constraints if each),
                    comment,
                )
            )
        of_table = (
            self.render_raw_model_constraints(model.get("constraints") or []) if contract else []
        )
        comment = model.get("description") or "" if persisted.get("relation") else ""
        return Definition(made, of_table, config, comment)

    @available.parse(lambda *_, **__: [])
    def comment_statements(self, relation: BaseRelation, model: dict[str, Any]) -> list[str]:
        """Return the statements that give a table the comments of a model that differ.

        Args:
            relation: The table.
            model: The model, whose configuration selects the comments.
        """
        table = self._find(relation)
        persisted = model["config"].get("persist_docs") or {}
        if table is None:
            return []
        statements = []
        comment = (model.get("description") or "") if persisted.get("relation") else ""
        if comment and table.parameters.get("comment") != comment:
            statements.append(f"COMMENT ON TABLE {relation.render()} IS {text(comment)}")
        if persisted.get("columns"):
            declared = {
                name.lower(): each.get("description") or ""
                for name, each in (model.get("columns") or {}).items()
            }
            for column in (*table.columns, *table.partition_keys):
                comment = declared.get(column.name.lower(), "")
                if comment and column.comment != comment:
                    statements.append(
                        f"COMMENT ON COLUMN {relation.render()}.{quoted(column.name)} IS"
                        f" {text(comment)}"
                    )
        return statements

    # Runs

    @available.parse_none
    def name_next_statement(self, model: dict[str, Any]) -> None:
        """Let the next statement be applied once for each run.

        Args:
            model: The model that it applies.
        """
        self._handle.name_next(self._token(model))

    @available.parse(lambda *_, **__: False)
    def was_created_by_run(self, relation: BaseRelation, model: dict[str, Any]) -> bool:
        """Whether an earlier attempt of the run has created a table with all of its rows.

        Args:
            relation: The table.
            model: The model.
        """
        table = self._find(relation)
        return table is not None and table.parameters.get(RUN) == self._token(model)

    def _token(self, model: Mapping[str, Any]) -> str:
        config: Any = self.config
        run = config.credentials.once_per
        if not run:
            target = Path(config.project_target_path)
            retried = self._retried
            folder = None if retried is None else Path(config.project_root, retried or target)
            run = run_of_invocation(target, folder)
        return run_token(config.project_name, run, dict(model))

    # Seeds

    @available.parse(lambda *_, **__: "")
    def create_seed_view(self, rows: "agate.Table") -> str:
        """Make the rows of a seed a temporary view of texts, and return its name.

        Args:
            rows: The rows.
        """
        from pyspark.sql.types import StringType, StructField, StructType

        spark = self._handle.spark
        schema = StructType([StructField(name, StringType()) for name in rows.column_names])
        texts = [tuple(None if each is None else str(each) for each in row) for row in rows.rows]
        spark.createDataFrame(texts, schema).createOrReplaceTempView(ROWS)
        return ROWS

    # Models in Python

    @available.parse(lambda *_, **__: "")
    def create_python_view(self, code: str) -> str:
        """Run a model in Python in this process, and return the name of a view of its rows.

        Args:
            code: The compiled model, which defines ``model`` and ``dbtObj``.
        """
        handle = self._handle
        with self.connections.exception_handler(code):
            handle.run_python(code)
        return ROWS

    def debug_query(self) -> None:
        """Ask the metastore and Spark something, for ``dbt debug``."""
        self.execute("show databases")
        self.execute("select 1 as id")


def _statistics(client: MetastoreClient, table: HiveTable) -> dict[str, Any]:
    """The size of a table now, and its number of rows if ANALYZE TABLE has stored it."""
    if table.kind is TableKind.NOT_ACID:
        return {}
    detail = table_detail(client, table.ref)
    found = {"bytes": ("Size", detail.bytes, "the files that a reader opens, in bytes")}
    found["files"] = ("Files", detail.files, "the files that a reader opens")
    if (rows := table.parameters.get(ROW_COUNT, "")).isdigit() and int(rows):
        found["rows"] = ("Rows", int(rows), "as of the last ANALYZE TABLE")
    return {
        f"stats:{key}:{name}": value
        for key, (label, number, description) in found.items()
        for name, value in (
            *(("label", label), ("value", number)),
            *(("description", description), ("include", True)),
        )
    }
