"""ALTER TABLE ... ADD and DROP PARTITION, and MSCK REPAIR TABLE, as one job."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

from hiveacid.errors import InvalidJob
from hiveacid.jobs.definitions.ddl_jobs import CatalogJob
from hiveacid.jobs.field_checks import require_choice, require_text
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.rules.locks import LockType
from hiveacid.rules.partition_filter import OPERATORS, KeyComparison

PartitionAction = Literal["add", "drop", "repair"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionsJob(CatalogJob):
    """Add or drop partitions of a transactional table, or register folders without files.

    Attributes:
        action: "add", "drop" with all rows and files, or "repair".
        partitions: The PARTITION clauses. "add" takes ``=`` and all keys; "drop" takes each partition
            that meets all comparisons of one clause; "repair" takes no clause.
        lenient: "add" accepts partitions that exist, and "drop" clauses that match no partition.
    """

    tag: ClassVar[str] = "partitions"
    done: ClassVar[str] = "no partition changed"

    action: PartitionAction | str
    partitions: Sequence[Sequence[KeyComparison]] = ()
    lenient: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "partitions", tuple(tuple(each) for each in self.partitions))

    @property
    def form_to_repeat(self) -> str | None:
        """The form that accepts existing partitions, or missing ones."""
        if self.action == "repair":
            return ""
        accepts = "IF NOT EXISTS" if self.action == "add" else "IF EXISTS"
        return None if self.lenient else f"ALTER TABLE … {self.action.upper()} {accepts} PARTITION"

    def is_undone_by(self, later: Job) -> bool:
        """Whether it drops partitions, and a later statement writes rows of the table."""
        if self.action != "drop" or isinstance(later, CatalogJob | CompactJob):
            return False
        return self.target.lower() in map(str.lower, later.tables)

    @property
    def definition_lock(self) -> LockType:
        """Readers and writers may continue unless partitions are dropped."""
        return LockType.EXCLUSIVE if self.action == "drop" else LockType.SHARED_READ

    def _validate_own(self) -> None:
        require_choice(self.action, get_args(PartitionAction), "action")
        if (self.action == "repair") == bool(self.partitions):
            raise InvalidJob("partitions belongs to the actions add and drop, and to no other.")
        for clause in self.partitions:
            if not clause:
                raise InvalidJob("A clause of partitions has no comparison.")
            for each in clause:
                require_text(each.key, "partitions: a key")
                require_choice(each.operator, list(OPERATORS), "partitions: an operator")
