"""Generations of the Hive Metastore, and the features of each of them."""

from enum import IntEnum

# A setting of the metastore that this package starts, which has no other instances.
BUNDLED = "hiveacid.bundled"


class MetastoreVersion(IntEnum):
    """A generation of the Hive Metastore; its properties name the differences that matter."""

    HMS3 = 3
    HMS4 = 4

    @property
    def has_queue(self) -> bool:
        """Whether compactions are requested, observed, and cleaned by a queue of the metastore."""
        return self is self.HMS4

    @property
    def hides_compactions(self) -> bool:
        """Whether a compacted directory stays invisible until its transaction is committed."""
        return self is self.HMS4

    @property
    def names_conflicts(self) -> bool:
        """Whether the metastore returns the latest conflicting transaction."""
        return self is self.HMS4

    @property
    def keeps_case_of_partitions(self) -> bool:
        """Whether locks keep the case of partition names."""
        return self is self.HMS4

    @property
    def returns_all_constraints(self) -> bool:
        """Whether one call returns all constraints of a table."""
        return self is self.HMS4

    @property
    def takes_requests(self) -> bool:
        """Whether tables are created, and partitions listed, by requests that have options."""
        return self is self.HMS4

    @property
    def versions_definitions(self) -> bool:
        """Whether definitions and statistics carry the write id of the transaction that changed them."""
        return self is self.HMS4

    @property
    def keeps_constraints(self) -> bool:
        """Whether constraints stay with their columns when other columns of a table change."""
        return self is self.HMS4

    @property
    def has_managed_locations(self) -> bool:
        """Whether a database has a separate directory for transactional tables."""
        return self is self.HMS4

    @property
    def maps_columns_by_position(self) -> bool:
        """Whether Hive of this version finds columns in ORC files by position by default."""
        return self is self.HMS4

    @property
    def reads_zstd(self) -> bool:
        """Whether Hive of this version reads ORC files that are compressed by zstd."""
        return self is self.HMS4

    @property
    def reads_local_times(self) -> bool:
        """Whether Hive of this version reads timestamps with local time zone from ORC files."""
        return self is self.HMS4
