"""Jobs that export a table to Iceberg, and compare it with an Iceberg table."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import ClassVar, Literal, get_args

from hiveacid.dataclass import dataclass
from hiveacid.errors import CheckFailed, InvalidJob
from hiveacid.jobs.fields import awaits_rendering, require_text
from hiveacid.jobs.job import READ, WRITE, Access, Job
from hiveacid.jobs.report import Report
from hiveacid.jobs.sources import ChangesSource, QuerySource
from hiveacid.jobs.write_jobs import MergeJob
from hiveacid.rules.merge import MatchedDelete, MatchedUpdate, NotMatchedInsert
from hiveacid.rules.sql_names import quoted
from hiveacid.rules.write_ids import AsOf

# Results of an export to Iceberg, and of a comparison with an Iceberg table


# The outcomes of a run.
CREATED, UPDATED, UNCHANGED = "created", "updated", "unchanged"
# The number of different partitions that an error names.
_SHOWN = 5
# The compared version of the Hive table.
MIRRORED, NEWEST, REQUESTED = "mirrored", "newest", "requested"


@dataclass(frozen=True, slots=True, kw_only=True)
class RejectedColumn:
    """A column that Iceberg cannot hold.

    Attributes:
        name: The column.
        type: Its type in Hive's words.
        reason: The reason.
    """

    name: str
    type: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergColumn:
    """A column of an Iceberg table.

    Attributes:
        id: The field id.
        name: The column.
        type: Its type in Iceberg's words, with the ids of the fields inside of it.
        partition: Whether it is a partition key.
    """

    id: int
    name: str
    type: str
    partition: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergExportReport(Report):
    """Results of one run of an IcebergExportJob.

    Attributes:
        table: The Iceberg table.
        location: Its folder.
        metadata_location: Its current metadata file, which readers can open without the catalog; None
            for the dry run of a new table.
        write_id: The version of the Hive table: the largest write id that the export saw.
        snapshot_id: The new snapshot, or the current one of an unchanged table; None for a dry run.
        outcome: "created", "updated", or, if the Iceberg table had all changes, "unchanged".
        already_done: Whether an earlier attempt of the run had created the snapshot.
        dry_run: Whether the run only planned the export.
        rows: The rows of the Iceberg table; None for a dry run.
        partitions: The partitions of the Hive table.
        source_files: The files of the Hive table that have rows.
        files: The new data files; for a dry run, the planned ones.
        files_kept: The data files that remain.
        files_removed: The data files that the new snapshot does not have.
        delete_files: The new position delete files; for a dry run, the planned ones.
        bytes: The size of the new data files; None for a dry run.
        stripes_copied: The stripes that are copied.
        bytes_copied: Their size.
        stripes_encoded: The stripes that are decoded and written again.
        bytes_encoded: Their size before.
        columns: The columns of the Iceberg table.
        rejected: The columns that Iceberg cannot hold.
    """

    job: str = "to_iceberg"
    table: str
    location: str | None = None
    metadata_location: str | None = None
    write_id: int | None = None
    snapshot_id: int | None = None
    outcome: str = CREATED
    already_done: bool = False
    dry_run: bool = False
    rows: int | None = None
    partitions: int = 0
    source_files: int = 0
    files: int = 0
    files_kept: int = 0
    files_removed: int = 0
    delete_files: int = 0
    bytes: int | None = None
    stripes_copied: int = 0
    bytes_copied: int = 0
    stripes_encoded: int = 0
    bytes_encoded: int = 0
    columns: tuple[IcebergColumn, ...] = ()
    rejected: tuple[RejectedColumn, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparedPartition:
    """A partition with different rows in both tables.

    Attributes:
        partition: Its name; None for a table without partitions.
        hive_rows: The rows of the Hive table.
        iceberg_rows: The rows of the Iceberg table.
        hive_hash: The sum of the hashes of the rows of the Hive table, in hexadecimal; None without
            rows.
        iceberg_hash: The same for the Iceberg table.
    """

    partition: str | None = None
    hive_rows: int = 0
    iceberg_rows: int = 0
    hive_hash: str | None = None
    iceberg_hash: str | None = None

    def __str__(self) -> str:
        name = "the table" if self.partition is None else self.partition
        if self.hive_rows != self.iceberg_rows:
            return f"{name} ({self.iceberg_rows} instead of {self.hive_rows} rows)"
        return f"{name} (other values)"


@dataclass(frozen=True, slots=True, kw_only=True)
class IcebergCompareReport(Report):
    """Result of a comparison of a Hive table with an Iceberg table.

    Attributes:
        table: The Iceberg table.
        equal: Whether both tables have the same rows.
        version: The compared version of the Hive table: "mirrored" for that of the mirror, "newest",
            or "requested".
        write_id: The number of this version.
        snapshot_id: The compared snapshot of the Iceberg table; None if the table has no snapshot.
        hive_rows: The rows of the Hive table.
        iceberg_rows: The rows of the Iceberg table.
        partitions: The number of partitions with rows; 1 for a table without partitions.
        different: The partitions with different rows.
    """

    job: str = "compare_iceberg"
    table: str
    equal: bool
    version: str = MIRRORED
    write_id: int | None = None
    snapshot_id: int | None = None
    hive_rows: int = 0
    iceberg_rows: int = 0
    partitions: int = 0
    different: tuple[ComparedPartition, ...] = ()

    def require_equal(self) -> None:
        """Refuse different tables.

        Raises:
            CheckFailed: They differ; the message names some of the partitions.
        """
        if self.equal:
            return
        partition_list = ", ".join(map(str, self.different[:_SHOWN]))
        unlisted_count = len(self.different) - _SHOWN
        count_text = f", and {unlisted_count} more" if unlisted_count > 0 else ""
        raise CheckFailed(
            f"{self.table} (snapshot {self.snapshot_id}) differs from {self.target} (version"
            f" {self.write_id}) in {len(self.different)} of {self.partitions} partitions, with"
            f" {self.iceberg_rows} instead of {self.hive_rows} rows: {partition_list}{count_text}.",
            remedy="If only the mirror has written the Iceberg table, drop it, and run the mirror,"
            " which copies all rows. Otherwise look for the program that has changed these partitions.",
        )


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
        is_named = not self.catalog_options
        catalog = self.catalog if is_named else address or f"{self.catalog}?"
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
            decoded rows, for engines that read only Parquet, or copied pages of a Parquet table. If
            None, it is the format of the existing table, and for a new one that of the Hive table.
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
    scheme, separator, remainder = address.partition("?")[0].rpartition("://")
    host, slash, path = remainder.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"


def _is_location(warehouse: str) -> bool:
    """Return whether a warehouse is a folder, and not the name of a warehouse of a REST catalog."""
    return ":/" in warehouse or warehouse.startswith("/")


def mirror_job(
    table: str, target: str, keys: Sequence[str], *, start_version: str = "0"
) -> MergeJob:
    """Return the merge that applies the changes of a table to a copy of it.

    Example::

        HiveAcidChangesOperator(
            task_id="mirror",
            consumer="mirror",
            job=mirror_job("shop.orders", "archive.orders", ["id"]),
        )

    It is a merge by the keys, in which null equals null::

        >>> mirror_job("shop.orders", "archive.orders", ["id"]).on
        '`t`.`id` <=> `s`.`id`'

    Args:
        table: The followed table, "database.table".
        target: The copy, with the same columns.
        keys: The columns that identify its rows; null is a value like any other.
        start_version: The version that the copy initially contains; "0" for an empty copy.
    """
    if not keys:
        raise InvalidJob("keys is empty: they identify the changed row of the copy.")
    changes = ChangesSource(table, after=start_version, net=True, keys=tuple(keys))
    return MergeJob(
        target=target,
        source=QuerySource(
            "SELECT * FROM changed WHERE _change_type <> 'update_before'", {"changed": changes}
        ),
        on=" AND ".join(f"{quoted('t', key)} <=> {quoted('s', key)}" for key in keys),
        when=(
            MatchedDelete(condition="s._change_type = 'delete'"),
            MatchedUpdate(),
            NotMatchedInsert(condition="s._change_type <> 'delete'"),
        ),
    )
