"""Table properties that users may set, and their valid values."""

import re
from collections.abc import Mapping, Sequence

from hiveacid.errors import InvalidJob
from hiveacid.jobs.fields import awaits_rendering, require_text
from hiveacid.rules.cleaning import CONSUMER_RETENTION, PARTITIONS_DROPPED, RETENTION
from hiveacid.rules.compaction_policy import THRESHOLD
from hiveacid.rules.compaction_rank import READS_PROPERTY, reads_per_day
from hiveacid.rules.schema import ColumnMapping
from hiveacid.rules.texts import did_you_mean, parse_duration

COLUMN_MAPPING = "hiveacid.column_mapping"
# The property that makes Hive map the columns of Parquet files by position.
PARQUET_BY_POSITION = "parquet.column.index.access"
# The compression of the ORC files, for all engines but Trino, whose session has one.
ORC_COMPRESS = "orc.compress"
# The properties that decide which values readers find in the files of a table. Hive also passes the
# properties of a table to its SerDe.
FILE_PROPERTIES = frozenset(
    {
        COLUMN_MAPPING,
        PARQUET_BY_POSITION,
        "bucketing_version",
        "skip.header.line.count",
        "skip.footer.line.count",
        "serialization.format",
        "serialization.encoding",
        "serialization.null.format",
        "serialization.last.column.takes.rest",
        "hive.serialization.extend.nesting.levels",
        "field.delim",
        "collection.delim",
        "colelction.delim",
        "mapkey.delim",
        "escape.delim",
        "textinputformat.record.delimiter",
        "timestamp.formats",
        "separatorChar",
        "quoteChar",
        "escapeChar",
        "ignore.malformed.json",
    }
)
# The run that created the table.
RUN_PROPERTY = "hiveacid.run_token"
_OWN_PREFIX = "hiveacid."
# The treatment of nanoseconds, which Spark cannot hold, by readers.
NANOSECONDS = "hiveacid.nanoseconds"
TRUNCATE, REFUSE = "truncate", "refuse"
_CHOICES: Mapping[str, Sequence[str]] = {
    COLUMN_MAPPING: [*ColumnMapping],
    NANOSECONDS: [TRUNCATE, REFUSE],
}
# The properties of Hive and of ORC whose invalid values no engine reports before it writes or compacts,
# each with the values that it may have, and what they are.
_NUMBER, _TRUTH = (r"\d+", "a whole number"), ("true|false", "true or false")
_OF_OTHERS: Mapping[str, tuple[str, str]] = {
    ORC_COMPRESS: (
        "none|zlib|snappy|lzo|lz4|zstd|brotli",
        "NONE, ZLIB, SNAPPY, LZ4, ZSTD, or another codec of ORC",
    ),
    "orc.compress.size": _NUMBER,
    "orc.stripe.size": _NUMBER,
    "orc.block.size": _NUMBER,
    "orc.row.index.stride": _NUMBER,
    "orc.create.index": _TRUTH,
    "orc.block.padding": _TRUTH,
    "orc.bloom.filter.fpp": (r"0?\.\d+", "a share like 0.05"),
    "no_auto_compaction": _TRUTH,
    "NO_AUTO_COMPACTION": _TRUTH,
    f"{THRESHOLD}num.threshold": _NUMBER,
    f"{THRESHOLD}pct.threshold": (r"\d*\.?\d+", "a share like 0.1"),
}
_SETTABLE = (RETENTION, CONSUMER_RETENTION, READS_PROPERTY, *_CHOICES)
_STATISTICS = "Engines keep their statistics in it."
_OURS = "This package stores its own state in it."
_KIND = "A transactional table stays one of its kind."
_RESERVED = {
    "transactional": _KIND,
    "transactional_properties": _KIND,
    "external": _KIND,
    "translated_to_external": _KIND,
    "external.table.purge": _KIND,
    "bucketing_version": "New tables have the value 2, and rows that are there are distributed by it.",
    "column_stats_accurate": _STATISTICS,
    "numfiles": _STATISTICS,
    "numfileserasurecoded": _STATISTICS,
    "numpartitions": _STATISTICS,
    "numrows": _STATISTICS,
    "rawdatasize": _STATISTICS,
    "totalsize": _STATISTICS,
    "transient_lastddltime": "The metastore keeps the time of the last change in it.",
    RUN_PROPERTY: _OURS,
    PARTITIONS_DROPPED: _OURS,
}


def free_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the properties of a table that users may set and unset."""
    return {name: value for name, value in properties.items() if _why_reserved(name) is None}


def require_settable(properties: Mapping[str, str | None]) -> None:
    """Require properties that users may change, and valid values for those of known meaning.

    Args:
        properties: The new values; None unsets a property.

    Raises:
        InvalidJob: A property is reserved or unknown, or its value is invalid.
    """
    for name, value in properties.items():
        require_text(name, "a property")
        if (reason := _why_reserved(name)) is not None:
            raise InvalidJob(f"The property {name!r} cannot be changed. {reason}")
        if value is None or awaits_rendering(value):
            continue
        if name.startswith(_OWN_PREFIX):
            _require_valid(name, value)
        elif name in _OF_OTHERS:
            pattern, description = _OF_OTHERS[name]
            if re.fullmatch(pattern, value, re.IGNORECASE | re.ASCII) is None:
                raise _invalid(name, value, description)


def _invalid(name: str, value: str, description: str) -> InvalidJob:
    return InvalidJob(
        f"The property {name!r} cannot be {value[:100]!r}.", remedy=f"Set it to {description}."
    )


def _require_valid(name: str, value: str) -> None:
    if name not in _SETTABLE:
        raise InvalidJob(
            f"The property {name!r} is unknown.",
            remedy=did_you_mean(name, _SETTABLE) or f"Known are {', '.join(_SETTABLE)}.",
        )
    choices = _CHOICES.get(name)
    if name == READS_PROPERTY:
        if reads_per_day({name: value}) is None:
            raise _invalid(name, value, "the number of reads in a day, like 24")
    elif choices is None:
        parse_duration(value, name)
    elif value.strip().lower() not in choices:
        raise _invalid(name, value, " or ".join(choices))


def _why_reserved(name: str) -> str | None:
    return _RESERVED.get(name.lower())
