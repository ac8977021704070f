"""Partition that a sensor found worth compacting, as passed between tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from hiveacid.errors import InvalidJob
from hiveacid.jobs import codec
from hiveacid.rules.compaction_decision import Decision


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionNeed:
    """Partition, or table without partitions, that is worth compacting.

    Attributes:
        table: "database.table".
        partition: The name of the partition; None for a table without partitions.
        type: "minor" or "major".
        reason: The reason in a sentence.
        deltas: The number of delta directories.
        delta_bytes: Their size.
        delta_rows: Their rows and delete events; None if they were not counted.
        base_bytes: The size of the base; 0 without a base.
        base_rows: Its rows; None if they were not counted.
        delta_ratio: The size of the deltas as a share of the base's; None without a base.
        bytes: The size of the input of the compaction.
    """

    table: str
    partition: str | None
    type: str
    reason: str
    deltas: int
    delta_bytes: int
    delta_rows: int | None = None
    base_bytes: int
    base_rows: int | None = None
    delta_ratio: float | None = None
    bytes: int

    @classmethod
    def of(cls, decision: Decision) -> Self | None:
        """Return the compaction that a decision requires; None without one."""
        if decision.type is None:
            return None
        size = decision.size
        ratio = size.delta_bytes / size.base_bytes if size.base_bytes else None
        return cls(
            table=size.table,
            partition=size.partition,
            type=decision.type.value,
            reason=decision.reason,
            deltas=len(size.deltas),
            delta_bytes=size.delta_bytes,
            delta_rows=size.delta_rows,
            base_bytes=size.base_bytes,
            base_rows=size.base_rows,
            delta_ratio=None if ratio is None else round(ratio, 4),
            bytes=decision.bytes,
        )

    @property
    def name(self) -> str:
        """The table and the partition in one text."""
        return self.table if self.partition is None else f"{self.table}/{self.partition}"

    def to_dict(self) -> dict[str, Any]:
        """Return the need as plain values for JSON and XCom."""
        return codec.to_record(self)


def parse_needs(data: object) -> list[CompactionNeed]:
    """Parse one need, or a list of needs of one table, as made by to_dict of any version.

    Raises:
        InvalidJob: The data has another form, or the needs are of several tables.
    """
    listed = [data] if isinstance(data, Mapping) else data
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
        raise InvalidJob(
            f"need must be the result of a sensor, not {data!r}.",
            remedy="Pass one element of a compaction sensor's output, or a list of such.",
        )
    needs: list[CompactionNeed] = [
        codec.from_record(CompactionNeed, need, f"need[{index}]")
        for index, need in enumerate(listed)
    ]
    if tables := sorted({need.table for need in needs} - {needs[0].table}):
        raise InvalidJob(
            f"need has partitions of {needs[0].table} and of {tables[0]}.",
            remedy="Group the result of the sensor by table, as compaction_groups does.",
        )
    return needs


def partitions_of(needs: Sequence[CompactionNeed]) -> list[str] | None:
    """Return the partitions of some needs; None for a table without partitions."""
    return [need.partition for need in needs if need.partition is not None] or None


def compaction_groups(needs: Sequence[Mapping[str, Any]]) -> list[list[dict[str, Any]]]:
    """Group needs for one Spark application each, since starting one takes time.

    All needs of a group have one table and type, for ``.expand(need=...)`` of
    HiveAcidCompactOperator.

    Example::

        >>> days = [{"table": "a.t", "type": "minor", "partition": f"d={n}"} for n in (1, 2)]
        >>> [len(group) for group in compaction_groups([*days, {"table": "a.u", "type": "minor"}])]
        [2, 1]

    Args:
        needs: Needs of any tables, the most useful first, as ``compaction_needs`` of
            HiveAcidMetastoreHook returns them and HiveAcidCompactionEventTrigger sends them.
    """
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for need in needs:
        groups.setdefault((need["table"], need["type"]), []).append(dict(need))
    return list(groups.values())
