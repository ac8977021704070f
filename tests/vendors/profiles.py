"""Differences between vendors' metastores and the Apache metastore that the proxy stands before.

Facts without a source in code are pessimistic: a call that perhaps exists is unknown. A proxy only
changes messages: the metastore behind it keeps the case of partitions in locks, and the constraints of
columns, which a vendor's perhaps does not.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from tests.vendors.declarations import APACHE, Struct, structs


class Certainty(StrEnum):
    """The evidence for a difference."""

    CODE = "read in code"
    DOCUMENTED = "the vendor's documentation"
    INFERRED = "inferred"
    UNKNOWN = "nothing found, so the worse case"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One difference.

    Attributes:
        source: Where the fact is from.
        certainty: Its evidence.
        unknown: Calls that the server does not know.
        structs: The server's declarations of structs, by number, with required fields.
        enums: The highest values that the server knows of enums; others are unset fields.
        ignored: Properties of environment contexts that the server ignores.
        answers: Texts that the server returns from calls, whatever their arguments.
    """

    source: str
    certainty: Certainty
    unknown: tuple[str, ...] = ()
    structs: Mapping[str, Struct] = field(default_factory=dict)
    enums: Mapping[str, int] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    answers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Profile:
    """A vendor's metastore.

    Attributes:
        name: Its name, which is also that of the stated profile in the options of a client, if any.
        apache: The version of the Apache metastore behind the proxy.
        rules: All differences from it.
        reads_zstd: Whether its Hive reads ORC files that are compressed by zstd.
        is_stated: Whether users can state it.
    """

    name: str
    apache: str
    rules: tuple[Rule, ...]
    reads_zstd: bool
    is_stated: bool = True

    def lacks(self, name: str) -> bool:
        """Return whether the server has no such call, or ignores a field or a property.

        Args:
            name: The name, of a field with its struct: "CompactionRequest.poolName".
        """
        struct, _, field = name.partition(".")
        if struct in self.structs:
            return all(known.name != field for known in self.structs[struct].fields)
        return name in self.unknown or name in self.ignored

    @property
    def unknown(self) -> frozenset[str]:
        """All unknown calls."""
        return frozenset(call for rule in self.rules for call in rule.unknown)

    @property
    def structs(self) -> dict[str, Struct]:
        """All different declarations."""
        return {name: each for rule in self.rules for name, each in rule.structs.items()}

    @property
    def enums(self) -> dict[str, int]:
        """All limited enums."""
        return {name: highest for rule in self.rules for name, highest in rule.enums.items()}

    @property
    def ignored(self) -> frozenset[str]:
        """All ignored properties."""
        return frozenset(name for rule in self.rules for name in rule.ignored)

    @property
    def answers(self) -> dict[str, str]:
        """All answers that are always the same."""
        return {call: text for rule in self.rules for call, text in rule.answers.items()}


def _until(**last: int) -> dict[str, Struct]:
    return {name: APACHE[name].until(number) for name, number in last.items()}


_COMPARES = ("expected_parameter_key", "expected_parameter_value")
_THRIFT = "hive_metastore.thrift in difin/hive"
# Between the schema of 7.2.15, which 7.1.9 has, and that of 7.2.17.
_ORDER = "schema scripts cdh.upgrade.order.*, difin/hive@04b8ca26"

_SHIFTED_TABLE = Rule(
    source=f"{_THRIFT} @748054c6 to @2205a4bf",
    certainty=Certainty.CODE,
    structs={"Table": APACHE["Table"].shifted(22)},
)
_OLD_STATISTICS = Rule(
    source=f"{_THRIFT} @748054c6, @01dbac82; an engine: trinodb/trino-hive-apache#43",
    certainty=Certainty.CODE,
    structs={
        "ColumnStatisticsData": APACHE["ColumnStatisticsData"].until(7),
        "ColumnStatistics": APACHE["ColumnStatistics"].until(4, required=("engine",)),
        "SetPartitionsStatsRequest": APACHE["SetPartitionsStatsRequest"].until(
            5, required=("engine",)
        ),
    },
)
_OLD_TYPES = Rule(
    source=f"{_THRIFT} @748054c6, @01dbac82",
    certainty=Certainty.CODE,
    enums={"TxnType": 4, "CompactionType": 2},
)
_NO_POOLS = Rule(
    source=f"{_THRIFT} @01dbac82; CQ_POOL_NAME follows 7.2.15: {_ORDER}",
    certainty=Certainty.INFERRED,
    structs={
        **_until(
            CompactionRequest=8,
            CompactionResponse=3,
            ShowCompactRequest=0,
            ShowCompactResponseElement=18,
            CompactionInfoStruct=15,
        ),
        "FindNextCompactRequest": APACHE["FindNextCompactRequest"].until(
            2, required=("workerId", "workerVersion")
        ),
    },
)
_NO_MIN_HISTORY = Rule(
    source=f"MIN_HISTORY_WRITE_ID and HIVE-27186 follow 7.2.16: {_ORDER}",
    certainty=Certainty.INFERRED,
    unknown=("add_write_ids_to_min_history", "get_properties"),
)
_OLD_CALLS = Rule(
    source=f"{_THRIFT} @748054c6 declares none of them",
    certainty=Certainty.CODE,
    unknown=(
        "find_next_compact2",
        "mark_refused",
        "get_all_table_constraints",
        "add_write_notification_log_in_batch",
    ),
)
_NO_TRIAL = Rule(
    source="no source",
    certainty=Certainty.UNKNOWN,
    unknown=("translate_table_dryrun",),
)


def _compares_nothing(source: str, certainty: Certainty) -> Rule:
    return Rule(source=source, certainty=certainty, ignored=_COMPARES)


def _release(text: str) -> Rule:
    # HIVE-21484 returns the release since 2019; nobody has reported CDP's answer.
    return Rule(source="HIVE-21484", certainty=Certainty.INFERRED, answers={"getVersion": text})


_CDP_7_1_7 = Profile(
    "cdp-7.1.7",
    "4.0.1",
    (
        _release("3.1.3000.7.1.7.0-551"),
        _SHIFTED_TABLE,
        _OLD_STATISTICS,
        _OLD_TYPES,
        _NO_POOLS,
        Rule(
            source=f"{_THRIFT} @748054c6",
            certainty=Certainty.CODE,
            structs=_until(CompactionRequest=6, ShowCompactResponseElement=15),
        ),
        _NO_MIN_HISTORY,
        _OLD_CALLS,
        _NO_TRIAL,
        _compares_nothing("7.1.7 is of 2021, HIVE-26882 of 2023", Certainty.INFERRED),
    ),
    reads_zstd=False,
)
_CDP_7_1_9 = Profile(
    "cdp-7.1.9",
    "4.0.1",
    (
        _release("3.1.3000.7.1.9.14-2"),
        _SHIFTED_TABLE,
        _OLD_STATISTICS,
        _OLD_TYPES,
        _NO_POOLS,
        _NO_MIN_HISTORY,
        Rule(
            source="no source",
            certainty=Certainty.UNKNOWN,
            unknown=("mark_refused", "add_write_notification_log_in_batch"),
        ),
        _NO_TRIAL,
        _compares_nothing("no source", Certainty.UNKNOWN),
    ),
    # Its Spark does not (NVIDIA/spark-rapids#6056); nothing is known of its Hive.
    reads_zstd=False,
)
_CDP_7_3 = Profile(
    "cdp-7.3",
    "4.0.1",
    (
        _release("3.1.3000.7.3.1.600-337"),
        _SHIFTED_TABLE,
        Rule(
            source=f"{_THRIFT} @2205a4bf",
            certainty=Certainty.CODE,
            structs=structs(
                ShowCompactRequest="""1:string poolName, 2:string order, 3:i64 id, 4:string dbName,
                5:string tbName, 6:string partName, 7:CompactionType type, 8:string state,
                9:i64 limit"""
            ),
        ),
    ),
    reads_zstd=True,
)
_MASTER = Profile(
    "apache-2020-12",
    "4.0.1",
    (
        Rule(
            source="kgyrtkirk/hive@d9778b9ca0",
            certainty=Certainty.CODE,
            answers={"getVersion": "4.0.0-SNAPSHOT"},
        ),
        Rule(
            source="kgyrtkirk/hive@d9778b9ca0: no pools, no HIVE-24880",
            certainty=Certainty.INFERRED,
            unknown=_OLD_CALLS.unknown,
            structs=_until(
                CompactionRequest=6,
                CompactionResponse=3,
                ShowCompactRequest=0,
                ShowCompactResponseElement=15,
                CompactionInfoStruct=15,
            ),
            enums=_OLD_TYPES.enums,
        ),
        _NO_MIN_HISTORY,
        _compares_nothing("HIVE-26882 is of 2023", Certainty.INFERRED),
    ),
    reads_zstd=False,
    is_stated=False,
)
# Its metastore answers like Apache's; its Hive maps columns by position (mr3project/hive-mr3@a2102cdb4a).
_MR3 = Profile("mr3-3.1", "3.1.3", (), reads_zstd=False)

PROFILES = {profile.name: profile for profile in (_CDP_7_1_7, _CDP_7_1_9, _CDP_7_3, _MASTER, _MR3)}
