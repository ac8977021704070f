"""What a sensor found: a partition that is worth compacting, as it travels between tasks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from airflow_hiveacid.acid.compaction_decision import Decision
from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.jobs import codec


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionNeed:
    """A partition, or a table without partitions, that is worth compacting.

    Attributes:
        table: "database.table".
        partition: The name of the partition; None when the table has none.
        type: "minor" or "major".
        reason: Why, in a sentence.
        deltas: How many directories of deltas there are.
        delta_bytes: Their size.
        delta_rows: Their rows and delete events; None when they were not counted.
        base_bytes: The size of the base; 0 when there is none.
        base_rows: Its rows; None when they were not counted.
        delta_ratio: The size of the deltas as a share of the base's; None when there is none.
        bytes: What the compaction will read.
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
        """What a decision calls for; None when that is nothing."""
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
        """The need as plain values, fit for JSON and XCom."""
        return codec.to_record(self)


def parse_needs(data: object) -> list[CompactionNeed]:
    """Read one need, or a list of needs of one table, as to_dict of any version made them.

    Raises:
        InvalidJob: It is something else, or of several tables.
    """
    listed = [data] if isinstance(data, Mapping) else data
    if not isinstance(listed, Sequence) or isinstance(listed, str) or not listed:
        raise InvalidJob(
            f"need must be what a sensor found, not {data!r}.",
            remedy="Pass one element of a compaction sensor's output, or a list of such.",
        )
    needs: list[CompactionNeed] = [
        codec.from_record(CompactionNeed, need, f"need[{index}]")
        for index, need in enumerate(listed)
    ]
    if tables := sorted({need.table for need in needs} - {needs[0].table}):
        raise InvalidJob(
            f"need has partitions of {needs[0].table} and of {tables[0]}.",
            remedy="Group what the sensor found by table, as compaction_groups does.",
        )
    return needs


def partitions_of(needs: Sequence[CompactionNeed]) -> list[str] | None:
    """The partitions that are named; None is a table without partitions."""
    return [need.partition for need in needs if need.partition is not None] or None


def compaction_groups(needs: Sequence[Mapping[str, Any]]) -> list[list[dict[str, Any]]]:
    """Put together what one Spark application can compact, since starting one takes time.

    Each group is of one table and type, for ``.expand(need=...)`` of HiveAcidCompactOperator.

    Example::

        >>> days = [{"table": "a.t", "type": "minor", "partition": f"d={n}"} for n in (1, 2)]
        >>> [len(group) for group in compaction_groups([*days, {"table": "a.u", "type": "minor"}])]
        [2, 1]

    Args:
        needs: Needs of any tables, the most useful first, as ``compaction_needs`` of
            HiveAcidMetastoreHook and the payloads of HiveAcidCompactionEventTrigger have them.
    """
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for need in needs:
        groups.setdefault((need["table"], need["type"]), []).append(dict(need))
    return list(groups.values())
