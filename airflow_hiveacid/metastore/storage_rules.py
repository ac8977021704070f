"""Rules for stored files: a partition's own definition takes precedence over the table's."""

from airflow_hiveacid.acid.bucket_layout import BucketColumn, BucketLayout
from airflow_hiveacid.acid.schema import TableKind
from airflow_hiveacid.errors import TypeMismatch, UnsupportedTable
from airflow_hiveacid.metastore.catalog import HivePartition, HiveTable
from airflow_hiveacid.metastore.formats import StorageFormat


def clustering_columns(table: HiveTable, partition: HivePartition | None = None) -> tuple[str, ...]:
    """Return the columns that distribute the rows, in lower case; empty without buckets.

    Args:
        table: The table.
        partition: The partition; omitted for a table without partitions.
    """
    storage = table if partition is None else partition
    if storage.num_buckets <= 0:
        return ()
    return tuple(name.lower() for name in storage.bucket_columns)


def layout_of(table: HiveTable, partition: HivePartition | None = None) -> BucketLayout | None:
    """Return the distribution of new rows over files, if the table has buckets.

    Hive keeps the version of the hash function in the properties of the table alone.

    Args:
        table: The table.
        partition: The partition; omitted for the table itself, or a new partition.

    Raises:
        TypeMismatch: A clustering column is not a column of the table.
        UnsupportedTable: The version of the hash function is unknown.
    """
    if not (names := clustering_columns(table, partition)):
        return None
    known = {
        column.name.lower(): BucketColumn(position, column.name.lower(), column.type.lower())
        for position, column in enumerate(table.columns)
    }
    for name in names:
        if name not in known:
            where = "" if partition is None else f"The partition {partition.name} of "
            raise TypeMismatch(
                f"{where}{table.ref.full_name} is clustered by {name}, which the table lacks."
            )
    count = (table if partition is None else partition).num_buckets
    return BucketLayout(tuple(known[name] for name in names), count, table.bucketing_version)


def require_orc(table: HiveTable, partition: HivePartition | None) -> None:
    """Reject a partition of a full ACID table whose files are not ORC.

    Hive refuses to change the format of such a table; other clients of the metastore may not.

    Raises:
        UnsupportedTable: The partition has another format, or an unknown one.
    """
    if partition is None or table.kind is not TableKind.FULL_ACID:
        return
    name = f"The partition {partition.name} of {table.ref.full_name}"
    form = StorageFormat.of(partition.serde, name)
    if form is not StorageFormat.ORC:
        raise UnsupportedTable(
            f"{name} has the format {form.name}. Files of full ACID tables are ORC files.",
            remedy="Set the input format, the output format and the SerDe of the partition to"
            " those of the table.",
        )


def require_unsorted(table: HiveTable, partition: HivePartition | None) -> None:
    """Reject a partition that requires sorted rows inside its buckets.

    Raises:
        UnsupportedTable: The partition is sorted.
    """
    if partition is not None and partition.sort_columns:
        raise UnsupportedTable(
            f"The partition {partition.name} of {table.ref.full_name} is sorted by"
            f" {', '.join(partition.sort_columns)}; rows of ACID tables are in the order of their"
            " row ids.",
            remedy="Remove SORTED BY from the definition of the partition.",
        )
