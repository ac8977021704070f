"""Jobs whose transactions are lost before they are committed."""

import io
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.jobs.options import PATIENCE_SECONDS, MetastoreOptions
from hiveacid.metastore.thrift.answers import TxnState
from hiveacid.metastore.txn.heartbeat import Heartbeat
from hiveacid.orc.format.envelope import FIELDS
from hiveacid.orc.format.streams import StripeFooter
from hiveacid.orc.format.tail import OrcTail
from hiveacid.progress import Phase, PhaseObserver
from hiveacid.rules.names import STAGING_PREFIX, Base, Delta, parse_directory
from hiveacid.upkeep.table_cleaning import clean
from hiveacid.writes.statement import WriteOptions
from tests.engine.acid_tables import everything, folder, problems_of_keys
from tests.engine.compaction_case import Case

Change = Callable[[AcidTable], Any]
OLD = [(1, "old", "x"), (2, "old", "x"), (3, "old", "y")]


class Entered(PhaseObserver):
    """Counts phases."""

    def __init__(self) -> None:
        self.times: Counter[Phase] = Counter()

    def enter(self, phase: Phase) -> None:
        self.times[phase] += 1


class Lost:
    """A table, and jobs whose transactions expire."""

    def __init__(self, case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
        self.case, self.monkeypatch = case, monkeypatch
        self._others = self._at_work()
        self._runs = 0

    def run(self, change: Change, *observers: PhaseObserver, **options: Any) -> Any:
        self._runs += 1
        token = options.pop("run_token", f"d/{self._runs}/t/-1")
        patience = options.pop("patience_seconds", PATIENCE_SECONDS)
        known = WriteOptions(lock_wait_seconds=0, run_token=token, **options)
        with AcidTable(
            self.case.name,
            MetastoreOptions(uris=self.case.uri, patience_seconds=patience),
            spark=self.case.spark,
            run_in="spark",
            options=known,
            observers=observers,
        ) as table:
            return change(table)

    def expire(self, *, silent: bool = True) -> None:
        """Let the metastore abort active transactions, as it does after a silence."""
        if silent:
            self.monkeypatch.setattr(Heartbeat, "silence", 1e6)
        for txn_id in sorted(self._at_work() - self._others):
            self.case.client.abort_txn(txn_id)

    def merge(self, *rows: tuple[Any, ...]) -> Change:
        source = self.case.frame(*rows)
        return lambda table: (
            table.merge(source, "t.id = s.id AND t.p = s.p")
            .when_matched_update_all()
            .when_not_matched_insert_all()
            .execute()
        )

    def newest_columns(self) -> dict[tuple[str, int, int, int], bytes]:
        """The bytes of all columns of the user in the rows of the newest version."""
        found: dict[int, list[Path]] = {}
        for path in folder(self.case.client.get_table(self.case.ref)).rglob("bucket_*"):
            directory = parse_directory(path.parent.name)
            if isinstance(directory, Base):
                found.setdefault(directory.write_id, []).append(path)
            elif isinstance(directory, Delta) and not directory.is_delete:
                found.setdefault(directory.max_write_id, []).append(path)
        return {
            (f"{path.parent.parent.name}/{path.name}", *where): stream
            for path in found[max(found)]
            for where, stream in user_streams(path).items()
        }

    def clean(self) -> None:
        """Remove obsolete files, and check that nothing else is left."""
        job = CleanJob(target=self.case.name, metastore=self.case.client.options, retention="0")
        clean(self.case.client, job)
        assert clean(self.case.client, job).kept == ()
        self._check_nothing_left()

    def check_sound(self) -> None:
        assert problems_of_keys(self.case.client.get_table(self.case.ref)) == []
        self._check_nothing_left()

    def _check_nothing_left(self) -> None:
        table = self.case.client.get_table(self.case.ref)
        assert self.case.problems() == []
        assert [path for path in everything(table) if STAGING_PREFIX in path] == []
        assert self._at_work() <= self._others
        assert self.case.client.show_locks() == []

    def _at_work(self) -> set[int]:
        txns = self.case.client.get_open_txns_info()
        return {txn.txn_id for txn in txns if txn.state is TxnState.OPEN}


def user_streams(path: Path) -> dict[tuple[int, int, int], bytes]:
    """The bytes of each stream of the columns that no ACID file has by itself."""
    content = path.read_bytes()
    source = io.BytesIO(content)
    tail = OrcTail.read(source)
    return {
        (number, stream.column, stream.kind): content[stream.offset :][: stream.length]
        for number, stripe in enumerate(tail.stripes)
        for footer in [StripeFooter.read(source, tail, stripe)]
        for stream in (*footer.index, *footer.data)
        if stream.column > len(FIELDS)
    }


def update(condition: str, value: str = "new") -> Change:
    return lambda table: table.update({"v": f"'{value}'"}, condition)


CHANGES: dict[str, tuple[Callable[[Lost], Change], list[tuple[Any, ...]]]] = {
    "append": (
        lambda lost: lambda table: table.append(lost.case.frame((4, "new", "z"))),
        [*OLD, (4, "new", "z")],
    ),
    "update": (
        lambda lost: update("id <> 2"),
        [(1, "new", "x"), (2, "old", "x"), (3, "new", "y")],
    ),
    "delete": (lambda lost: lambda table: table.delete("id = 2"), [OLD[0], OLD[2]]),
    "merge": (
        lambda lost: lost.merge((1, "new", "x"), (5, "new", "z")),
        [(1, "new", "x"), *OLD[1:], (5, "new", "z")],
    ),
    "overwrite": (
        lambda lost: lambda table: table.overwrite(lost.case.frame((6, "new", "x"))),
        [OLD[2], (6, "new", "x")],
    ),
}
