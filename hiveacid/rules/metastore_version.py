"""Generations of the Hive Metastore, as labels in messages."""

from enum import IntEnum

# A setting of the metastore that this package starts, which has no other instances.
BUNDLED = "hiveacid.bundled"


class MetastoreVersion(IntEnum):
    """A generation of the Hive Metastore; its behaviour depends on its features instead."""

    HMS3 = 3
    HMS4 = 4
