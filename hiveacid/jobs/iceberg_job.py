"""Jobs that export a table to Iceberg, and compare it with an Iceberg table."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from hiveacid.errors import InvalidJob
from hiveacid.jobs.field_checks import awaits_rendering, require_text
from hiveacid.jobs.job import READ, WRITE, Access, Job
from hiveacid.jobs.reports.iceberg_report import (
    IcebergCompareReport,
    IcebergExportReport,
)
from hiveacid.jobs.reports.report import Report
from hiveacid.rules.as_of import AsOf

# Options and properties with the names of classes.
_CODE = ("-impl", ".impl")

IcebergFileFormat = Literal["orc", "parquet"]
IcebergDeletes = Literal["apply", "positions"]
_URI, _WAREHOUSE = "uri", "warehouse"
_SQLITE = re.compile(r"sqlite(?:\+[a-z0-9]+)?:///(?!:memory:)(?:file:)?([^?]+)")


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergJob(Job):
    """Base of the jobs on a Hive table and an Iceberg table.

    Attributes:
        table: The Iceberg table, "namespace.table".
        catalog: The name of its catalog. The settings of pyiceberg, like the file .pyiceberg.yaml,
            may configure a catalog of this name.
        catalog_options: Options of the catalog, as pyiceberg names them: ``{"type": "rest", "uri": "..."}``.
            Without a type and a uri it is the metastore of the Hive table. The option ``locations``
            lists folders, besides the warehouse, with files of its tables.
    """

    table: str
    catalog: str = "default"
    catalog_options: Mapping[str, str] = field(default_factory=dict, repr=False)

    action: ClassVar[str] = READ

    @property
    def subject(self) -> str:
        """The Iceberg table, as the authorizer knows it.

        It names the catalog by its address if the job has one, since a job can give any name to any
        catalog.
        """
        uri, warehouse = (self.catalog_options.get(name, "") for name in (_URI, _WAREHOUSE))
        address = "#".join(filter(None, (_without_user(uri), _without_user(warehouse))))
        named = not self.catalog_options
        catalog = self.catalog if named else address or f"{self.catalog}?"
        return f"iceberg:{catalog}.{self.table}".lower()

    @property
    def paths_read(self) -> tuple[str, ...]:
        """The folder of the Iceberg table, and its catalog in SQLite, if the job determines them."""
        warehouse = self.catalog_options.get(_WAREHOUSE, "")
        folder = f"{warehouse.rstrip('/')}/{'/'.join(self.table.split('.'))}"
        database = sqlite_location(self.catalog_options.get(_URI, ""))
        return (*([folder] if _is_location(warehouse) else []), *([database] if database else []))

    def own_accesses(self) -> Iterator[Access]:
        """Yield the access to the Hive table, which is read, and to the Iceberg table."""
        yield Access(self.target.lower(), None, READ)
        yield Access(self.subject, None, self.action)

    def _validate_own(self) -> None:
        require_text(self.table, "table")
        require_text(self.catalog, "catalog")
        if not awaits_rendering(self.table) and not all(self.table.split(".")[-2:]):
            raise InvalidJob(f"table {self.table!r} has an empty name.")
        if not awaits_rendering(self.table) and "." not in self.table:
            raise InvalidJob(
                f"table {self.table!r} has no namespace.", remedy=f"Write sales.{self.table}."
            )
        self._require_texts("catalog_options", self.catalog_options)

    @staticmethod
    def _require_texts(name: str, mapping: Mapping[str, str]) -> None:
        for key, value in mapping.items():
            if key.endswith(_CODE):
                raise InvalidJob(
                    f"{name}[{key!r}] names code, which no catalog and no table may choose.",
                    remedy="Omit it.",
                )
            if not isinstance(value, str):
                raise InvalidJob(f"{name}[{key!r}] must be a text, not {type(value).__name__}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergCompareJob(IcebergJob):
    """Compare a Hive table with its Iceberg table by counts and hashes, without Spark.

    Attributes:
        table: The Iceberg table, "namespace.table".
        catalog: The name of its catalog; see IcebergExportJob.
        catalog_options: Options of the catalog, as pyiceberg names them.
        as_of_write_id: The version of the Hive table; by default that of the mirror, or the newest if
            the Iceberg table is no mirror or was changed by another program.
    """

    tag: ClassVar[str] = "compare_iceberg"
    report: ClassVar[type[Report]] = IcebergCompareReport
    done: ClassVar[str] = "compared"

    as_of_write_id: int | None = None

    def _validate_own(self) -> None:
        IcebergJob._validate_own(self)
        AsOf.of(self.as_of_write_id, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergExportJob(IcebergJob):
    """Mirror a transactional ORC table in an Iceberg table by copying stripes, without Spark.

    The first run creates the Iceberg table, of format version 2, together with all rows. Each further
    run adds the changes since then as one snapshot. The Hive table stays as it is, apart from a note in
    its folder, and shares no file with the Iceberg table.

    Attributes:
        table: The Iceberg table, "namespace.table".
        catalog: The name of its catalog. The settings of pyiceberg, like the file .pyiceberg.yaml,
            may configure a catalog of this name.
        catalog_options: Options of the catalog, as pyiceberg names them: ``{"type": "rest", "uri": "..."}``.
            Without a type and a uri it is the metastore of the Hive table. The option ``locations``
            lists folders, besides the warehouse, with files of its tables.
        format: The format of the data files. ORC files are copies of stripes. Parquet files contain
            decoded rows, for engines that read only Parquet. If None, it is the format of the
            existing table, and ORC for a new one.
        deletes: How deletes are carried out. "apply" writes data files without deleted rows, and
            replaces the data files of a mirror with newly deleted rows. "positions" keeps deleted rows
            in the data files, and writes their positions to delete files, so that the cost of a run
            depends only on the changes.
        location: The folder of the new table; if None, the catalog chooses one.
        properties: More properties of the new table.
        dry_run: Only report the files to write, the schema, and the columns that Iceberg cannot
            hold.
    """

    tag: ClassVar[str] = "to_iceberg"
    action: ClassVar[str] = WRITE
    report: ClassVar[type[Report]] = IcebergExportReport
    done: ClassVar[str] = "exported"

    format: IcebergFileFormat | None = None
    deletes: IcebergDeletes = "apply"
    location: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    dry_run: bool = False

    @property
    def paths_written(self) -> tuple[str, ...]:
        """The folder of the new table."""
        return (self.location,) if self.location else ()

    @property
    def tables(self) -> tuple[str, ...]:
        """The new table, which identifies the run together with the Hive table."""
        return (f"{self.catalog}.{self.table} of {self.target}",)

    def _validate_own(self) -> None:
        IcebergJob._validate_own(self)
        if self.format is not None and self.format not in get_args(IcebergFileFormat):
            formats = " or ".join(get_args(IcebergFileFormat))
            raise InvalidJob(f"format must be {formats}, not {self.format!r}.")
        if self.deletes not in get_args(IcebergDeletes):
            choices = " or ".join(get_args(IcebergDeletes))
            raise InvalidJob(f"deletes must be {choices}, not {self.deletes!r}.")
        if self.location is not None:
            require_text(self.location, "location")
        self._require_texts("properties", self.properties)
        if str(self.properties.get("format-version", "2")) != "2":
            raise InvalidJob("properties: the export writes tables of format version 2 only.")


def sqlite_location(uri: str) -> str | None:
    """Return the location of a database of SQLite; None for other databases, and in memory."""
    match = _SQLITE.match(uri)
    return match and f"file:{os.path.abspath(match[1])}"


def _without_user(address: str) -> str:
    """Return an address without a user, a password, or parameters, which may be secrets."""
    scheme, separator, rest = address.partition("?")[0].rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


def _is_location(warehouse: str) -> bool:
    """Return whether a warehouse is a folder, and not the name of a warehouse of a REST catalog."""
    return ":/" in warehouse or warehouse.startswith("/")
