"""CREATE and ALTER VIEW as a job."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal, get_args

from hiveacid.errors import InvalidJob
from hiveacid.jobs.definitions.ddl_jobs import ColumnSpec
from hiveacid.jobs.field_checks import (
    awaits_rendering,
    freeze,
    require_choice,
    require_table,
    require_text,
)
from hiveacid.jobs.job import READ, Access, ScriptedJob
from hiveacid.rules.names import TableRef

ViewMode = Literal["create", "create_if_missing", "replace", "alter"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateViewJob(ScriptedJob):
    """Create a view, or change the query of a view. Spark determines the types of its columns.

    Attributes:
        text: The query as its author wrote it.
        expanded: The query with the database of each table.
        reads: The tables and views that the query names, "database.table".
        mode: "create"; "create_if_missing", which keeps a view that exists; "replace", which replaces
            it; or "alter", which requires one.
        columns: Other names for the columns of the query.
        column_comments: The comments of columns, by their names in lower case.
        comment: The comment of the view.
    """

    tag: ClassVar[str] = "create_view"
    done: ClassVar[str] = "created"
    creates: ClassVar[bool] = True
    effect: ClassVar[str] = "creates or replaces the view"

    text: str
    expanded: str
    reads: Sequence[str] = ()
    mode: ViewMode | str = "create"
    columns: Sequence[str] = ()
    column_comments: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None

    def __post_init__(self) -> None:
        freeze(self, "reads")
        freeze(self, "columns")

    @property
    def form_to_repeat(self) -> str | None:
        """The form that accepts or replaces an existing view, and creates a missing one."""
        may_repeat = self.mode in ("create_if_missing", "replace")
        return None if may_repeat else "CREATE OR REPLACE VIEW"

    @property
    def defines(self) -> tuple[str, ...]:
        """The view."""
        return (self.target,)

    def own_accesses(self) -> Iterator[Access]:
        """Yield the view, and the tables that its query names."""
        yield Access(self.target.lower(), None, self.tag)
        for name in self.reads:
            yield Access(name.lower(), None, READ)

    def _validate_own(self) -> None:
        require_text(self.text, "text")
        require_text(self.expanded, "expanded")
        require_choice(self.mode, get_args(ViewMode), "mode")
        for name in self.reads:
            require_table(name, "reads")
        for name in self.columns:
            ColumnSpec(name, "string").validate()
        if awaits_rendering(self.target):
            return
        own = TableRef.parse(self.target).full_name
        if own in [name.lower() for name in self.reads]:
            raise InvalidJob(f"The view {own} would read itself.")
