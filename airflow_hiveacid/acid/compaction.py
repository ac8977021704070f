"""What a compaction replaces, and by what."""

from enum import StrEnum


class CompactionType(StrEnum):
    """The kinds of compaction, by the names that HiveQL gives them."""

    MINOR = "minor"
    MAJOR = "major"
