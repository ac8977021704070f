"""The features of a metastore and of the Hive beside it, with the reason for each value.

A version does not determine them: Cloudera's metastore has many calls of Hive 4, and differs from it
in others. Each feature is therefore probed, or stated by the user in a profile, or has a careful
default. Releases of Apache Hive 4 are known by their number.
"""

import re
from collections.abc import Mapping
from dataclasses import fields
from enum import StrEnum
from typing import Any, Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import UnsupportedMetastore
from hiveacid.rules.schema import ColumnMapping

AUTO_PROFILE = "auto"
# The release that Hive 3.1 and older versions state.
_OLD = "3.0"
# A vendor's release has a suffix or a fourth number.
_APACHE_4 = re.compile(r"4\.[0-2]\.\d+")


class Source(StrEnum):
    """How the value of a feature became known.

    Attributes:
        PROBED: The metastore answered so, or its release is one of Apache Hive.
        STATED: The user stated a profile.
        DEFAULT: Neither; the value is the careful choice.
    """

    PROBED = "probed"
    STATED = "stated"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a feature has its value, and how it became known."""

    source: Source
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """The features of a metastore and of its Hive.

    Attributes:
        names_conflicts: The metastore returns the latest conflicting transaction.
        has_excl_write: Locks of the type EXCL_WRITE exist, and SHARED_WRITE locks are compatible.
        keeps_case_of_partitions: Locks keep the case of partition names.
        hides_compactions: A compacted directory stays invisible until its transaction is committed.
        has_queue: Workers of other programs can claim and end requests for compactions.
        has_pools: A worker can claim the requests of one pool only.
        refuses_requests: A worker can end a request as unnecessary.
        rebalances: The queue has requests that give rows new row ids.
        filters_queue: The queue can be listed for one table, by Apache's numbers of the fields.
        takes_requests: Tables are created, and partitions listed, by requests that have options.
        checks_definitions: The metastore checks a definition without creating the table.
        returns_all_constraints: One call returns all constraints of a table.
        keeps_constraints: Constraints stay with their columns when other columns of a table change;
            None if it is not known.
        versions_definitions: Definitions and statistics carry the write id of the transaction that
            changed them.
        compares_definitions: A definition can be replaced on the condition that it is unchanged.
        has_table_fields: The later fields of a table's struct have Apache's numbers.
        has_timestamp_statistics: Statistics of timestamps have a struct of their own.
        has_managed_locations: A database has a separate directory for transactional tables.
        has_write_events: Writers can report the files that they add.
        batches_write_events: One call reports the files of several partitions.
        reads_zstd: Hive reads ORC files that are compressed by zstd; None if it is not known.
        reads_local_times: Hive reads timestamps with local time zone from ORC files.
        column_mapping: How Hive finds columns in ORC files by default; None if it is not known.
        reasons: The reason for the value of each feature, by its name.
    """

    names_conflicts: bool
    has_excl_write: bool
    keeps_case_of_partitions: bool
    hides_compactions: bool
    has_queue: bool
    has_pools: bool
    refuses_requests: bool
    rebalances: bool
    filters_queue: bool
    takes_requests: bool
    checks_definitions: bool
    returns_all_constraints: bool
    keeps_constraints: bool | None
    versions_definitions: bool
    compares_definitions: bool
    has_table_fields: bool
    has_timestamp_statistics: bool
    has_managed_locations: bool
    has_write_events: bool
    batches_write_events: bool
    reads_zstd: bool | None
    reads_local_times: bool
    column_mapping: ColumnMapping | None
    reasons: Mapping[str, Reason]

    @classmethod
    def of_release(cls, release: str, profile: str = AUTO_PROFILE) -> Self | None:
        """Return the features of a release of Apache Hive 4; None for any other one.

        Args:
            release: The release that the metastore states.
            profile: The stated profile.

        Raises:
            UnsupportedMetastore: The profile contradicts the release.
        """
        if not is_known_release(release):
            return None
        reason = f"the release is {release} of Apache Hive"
        return cls._joined(profile, dict.fromkeys(HIVE_4, reason), HIVE_4, {})

    @classmethod
    def of_probes(cls, probes: Mapping[str, bool], profile: str = AUTO_PROFILE) -> Self:
        """Return the features of a metastore that is no release of Apache Hive 4.

        Args:
            probes: The probed features; `names_conflicts` is one of them.
            profile: The stated profile.

        Raises:
            UnsupportedMetastore: The profile contradicts a probe.
        """
        defaults = _OTHERS if probes["names_conflicts"] else _LIKE_3
        return cls._joined(
            profile, dict.fromkeys(probes, "the metastore was asked"), probes, defaults
        )

    @classmethod
    def _joined(
        cls,
        profile: str,
        why: Mapping[str, str],
        probed: Mapping[str, Any],
        defaults: Mapping[str, Any],
    ) -> Self:
        stated_features = {} if profile == AUTO_PROFILE else PROFILES[profile]
        for name, value in stated_features.items():
            if probed.get(name, value) != value:
                raise UnsupportedMetastore(
                    f"The profile {profile} states {name}={value}, and the metastore shows"
                    f" {name}={probed[name]}: {why[name]}.",
                    remedy=f'State another metastore_profile, or "{AUTO_PROFILE}".',
                )
        reasons = {
            **dict.fromkeys(defaults, Reason(Source.DEFAULT, "the careful choice")),
            **dict.fromkeys(stated_features, Reason(Source.STATED, f"the profile {profile}")),
            **{name: Reason(Source.PROBED, text) for name, text in why.items()},
        }
        return cls(**{**defaults, **stated_features, **probed}, reasons=reasons)

    def values(self) -> dict[str, Any]:
        """Return the value of each feature, by its name."""
        return {name: getattr(self, name) for name in self.reasons}


def is_known_release(release: str) -> bool:
    """Whether a release, as the metastore states it, is one of Apache Hive 4."""
    return bool(_APACHE_4.fullmatch(release))


def may_name_conflicts(release: str, profile: str) -> bool:
    """Whether a metastore may have the call for conflicts, according to its release.

    Versions state their own releases since HIVE-21484, which is older than the call.
    """
    return release != _OLD or PROFILES.get(profile, {}).get("names_conflicts") is True


HIVE_4: dict[str, Any] = {
    field.name: True for field in fields(Features) if field.name != "reasons"
} | {"column_mapping": ColumnMapping.POSITION}
_HIVE_3: dict[str, Any] = dict.fromkeys(HIVE_4, False) | {"column_mapping": ColumnMapping.NAME}

# Without the call for conflicts. Vendors have Hive 3.1 with other readers, and with write events.
_LIKE_3 = {**_HIVE_3, "has_write_events": True, "column_mapping": None}
# With it. The known features of these are older than this call.
_OTHERS: dict[str, Any] = {
    **dict.fromkeys(HIVE_4, False),
    "hides_compactions": True,
    "has_write_events": True,
    "has_managed_locations": True,
    "keeps_constraints": None,
    "reads_zstd": None,
    "column_mapping": None,
}

_CDP: dict[str, Any] = {
    "names_conflicts": True,
    "has_excl_write": True,
    "hides_compactions": True,
    "takes_requests": True,
    "versions_definitions": True,
    "has_table_fields": False,
    "filters_queue": False,
    "has_managed_locations": True,
    "has_write_events": True,
    "column_mapping": ColumnMapping.POSITION,
}
_CDP_7_1: dict[str, Any] = {
    **_CDP,
    "has_pools": False,
    "rebalances": False,
    "compares_definitions": False,
    "reads_zstd": False,
}
# A feature that a profile lacks is probed, or has its default.
PROFILES: Mapping[str, Mapping[str, Any]] = {
    "hive-3.1": _HIVE_3,
    "hive-4": HIVE_4,
    "cdp-7.1.7": {
        **_CDP_7_1,
        "has_queue": False,
        "refuses_requests": False,
        "returns_all_constraints": False,
        "checks_definitions": False,
        "batches_write_events": False,
        "has_timestamp_statistics": False,
    },
    "cdp-7.1.8": {**_CDP_7_1, "has_queue": True, "returns_all_constraints": True},
    "cdp-7.1.9": {**_CDP_7_1, "has_queue": True, "returns_all_constraints": True},
    "cdp-7.3": {
        **_CDP,
        "has_queue": True,
        "has_pools": True,
        "refuses_requests": True,
        "rebalances": True,
        "returns_all_constraints": True,
        "checks_definitions": True,
        "compares_definitions": True,
        "has_timestamp_statistics": True,
        "batches_write_events": True,
        "reads_zstd": True,
    },
    "hdp-3.1": {name: value for name, value in _HIVE_3.items() if name != "column_mapping"}
    | {"has_write_events": True},
    "mr3-3.1": {**_HIVE_3, "column_mapping": ColumnMapping.POSITION},
}
