"""Scenarios of statements that change definitions of partitions, columns and views."""

from collections.abc import Sequence
from typing import Any

from hiveacid.errors import HiveAcidError
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from tests.faults.driver import ESCAPED, Told
from tests.faults.operations import ADDED, DROPPED, Rows
from tests.faults.run import Run

_ALTER_CALL = "alter_table_with_environment_context"
_HAS_IDS = "has write ids of an earlier conversion"


class DefinitionRun(Run):
    """A change of definitions is not part of a transaction: an attempt that failed may be complete."""

    def _check_told(self, told: Told) -> None:
        seen = self._rows()
        assert seen in (self._old, self._new), f"neither old nor new rows: {seen}"
        assert told.error != ESCAPED, told.message
        if told.report is not None:
            self._done = True
            self._expect(self._new)
            self._check_definition()

    def _check_report(self, report: Any) -> None:
        self._check_definition()

    def _check_definition(self) -> None:
        """Compare the definitions with those that the job makes."""
        raise NotImplementedError


class DropPartitionRun(DefinitionRun):
    """Each attempt drops the partition that is there, also one that others have created since."""

    def _expected(self, rows: Rows) -> Rows:
        return {name: [row for row in own if row.p != DROPPED] for name, own in rows.items()}

    def _expect_strangers(self, applied: bool) -> None:
        self._old, self._done = self._rows(), False
        self._new = self._expected(self._old)

    def _check_zombies(self, seen: Rows) -> None:
        # One that slept after its drop reports it when others have created the partition again.
        assert seen in (self._old, self._new), seen

    def _check_definition(self) -> None:
        """The rows show it; others may have created the partition again."""


class AddPartitionsRun(DefinitionRun):
    """Rows stay, and the partitions are there."""

    def _check_definition(self) -> None:
        names = self.client.get_partition_names(self.tables.main)
        assert {f"p={p}" for p in ADDED} <= set(names), names
        table = self.client.get_table(self.tables.main)
        for each in self.client.get_partitions(table):
            assert each.columns == table.columns, f"{each.values} has other columns than the table"


class ConversionRun(Run):
    """A plain table may keep write ids that prevent a conversion; the error describes a copy.

    Version 4 allocates them before it refuses a late call, here of an attempt that slept while another
    one marked the table.
    """

    @property
    def _final_errors(self) -> Sequence[str]:
        return [*super()._final_errors, *(["UnsupportedTable"] if self._may_have_ids else [])]

    @property
    def _may_have_ids(self) -> bool:
        """Whether the metastore may have refused an attempt, and nobody has converted the table."""
        overlapped = self.scenario.again is not None and self._slept_before(_ALTER_CALL)
        is_plain = self.client.get_table(self.tables.main).kind is TableKind.NOT_ACID
        return self.scenario.version[0] == "4" and overlapped and is_plain and not self._done

    def _check_zombies(self, seen: Rows) -> None:
        for told in self._woken:
            assert told.error != "UnsupportedTable" or _HAS_IDS in told.message, told.message
        super()._check_zombies(seen)

    def _check_refusal(self, error: HiveAcidError) -> None:
        if not self._may_have_ids or _HAS_IDS not in error.what:
            raise error
        self._expect(self._old)


class RenameColumnRun(DefinitionRun):
    """Rows stay, and every partition has the new name."""

    def _check_definition(self) -> None:
        table = self.client.get_table(self.tables.main)
        for each in (table, *self.client.get_partitions(table)):
            assert [column.name for column in each.columns] == ["id", "w"], each


class ViewsRun(DefinitionRun):
    """Rows stay, one view is replaced, one is created, and one is gone."""

    def _check_definition(self) -> None:
        database = self.tables.main.database
        names = self.client.get_tables(database)
        assert sorted(names) == ["created", "main", "replaced"], names
        for name, number in (("replaced", 2), ("created", 3)):
            view = self.client.get_table(TableRef(database, name))
            assert view.raw.viewOriginalText.endswith(f"WHERE id > {number}"), view
            assert [column.name for column in view.columns] == ["id", "v", "p"], view
