"""Random histories of a table: readers see committed rows once, and no compaction."""

from dataclasses import dataclass, field

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from hiveacid.errors import NothingToCompact
from hiveacid.rules.compaction import CompactionType, plan_compaction
from hiveacid.rules.directory import FileStatus, Rules, acid_state
from hiveacid.rules.names import Base, Delta, parse_directory
from hiveacid.rules.write_ids import (
    NO_OPEN,
    CompactorWriteIdList,
    ValidTxnList,
    ValidWriteIdList,
)
from tests.samples import examples

WRITES = ("insert", "delete", "update", "statements", "overwrite", "stream")
WRITING = (
    *(write for write in WRITES if write != "overwrite" for _ in range(4)),
    "overwrite",
    *(f"{write} aborted" for write in WRITES),
    *(f"{write} open" for write in WRITES if write != "overwrite"),
    "commit oldest",
    "commit oldest",
    "abort oldest",
    "reader",
)
COMPACTING = ("minor", "major", "failed minor", "failed major", "open minor", "open major")
ROUNDS = st.tuples(
    st.lists(st.sampled_from(WRITING), min_size=2, max_size=8), st.sampled_from(COMPACTING)
)


@dataclass
class Table:
    """A table whose directories hold, instead of rows, the names of the writes that made them.

    Attributes:
        rules: Hive 3 has neither transactions of compactions nor suffixes.
        content: The content of each directory: pairs of a write id and the name it was written
            under.
        written: The same pairs of all writes.
        readers: The visible rows of each open snapshot, and its first result.
    """

    rules: Rules
    content: dict[str, frozenset[tuple[int, str]]] = field(default_factory=dict)
    written: set[tuple[int, str]] = field(default_factory=set)
    last_write_id: int = 0
    open: list[int] = field(default_factory=list)
    aborted: list[int] = field(default_factory=list)
    last_txn: int = 0
    aborted_txns: list[int] = field(default_factory=list)
    open_txns: list[int] = field(default_factory=list)
    compacted: dict[str, str] = field(default_factory=dict)
    readers: list = field(default_factory=list)
    compactions: int = 0

    def step(self, what):
        kind, _, fate = what.partition(" ")
        if kind in ("minor", "major"):
            self.compact(CompactionType(kind), "")
        elif fate in ("minor", "major"):
            self.compact(CompactionType(fate), kind)
        elif kind == "reader":
            snapshot = self.snapshot()
            self.readers.append((snapshot, self.read(snapshot)))
        elif kind in ("commit", "abort"):
            if self.open:
                write_id = self.open.pop(0)
                if kind == "abort":
                    self.aborted.append(write_id)
        # An overwrite excludes all other writers.
        elif kind != "overwrite" or not self.open:
            self.write(kind, fate)

    def stream(self, fate):
        """A batch of three transactions that write into one directory."""
        write_ids = range(self.last_write_id + 1, self.last_write_id + 4)
        self.last_write_id = write_ids[-1]
        name = Delta(write_ids[0], write_ids[-1]).name
        self.content[name] = frozenset((write_id, name) for write_id in write_ids)
        self.written |= self.content[name]
        if fate:
            (self.open if fate == "open" else self.aborted).append(write_ids[1])

    def write(self, kind, fate):
        if kind == "stream":
            self.stream(fate)
            return
        self.last_write_id = write_id = self.last_write_id + 1
        if fate:
            (self.open if fate == "open" else self.aborted).append(write_id)
        inserts = Delta(write_id, write_id, 0)
        deletes = Delta(write_id, write_id, 1, is_delete=True)
        made = {
            "insert": [inserts],
            "delete": [deletes],
            "update": [inserts, deletes],
            "statements": [inserts, Delta(write_id, write_id, 2)],
            "overwrite": [Base(write_id)],
        }
        for directory in made[kind]:
            self.content[directory.name] = frozenset({(write_id, directory.name)})
            self.written |= self.content[directory.name]

    def snapshot(self):
        write_ids = ValidWriteIdList(
            "t",
            self.last_write_id,
            min(self.open, default=NO_OPEN),
            tuple(sorted(self.open)),
            tuple(sorted(self.aborted)),
        )
        open_txns, aborted_txns = tuple(self.open_txns), tuple(self.aborted_txns)
        oldest = min(open_txns, default=NO_OPEN)
        return write_ids, ValidTxnList(self.last_txn, oldest, open_txns, aborted_txns)

    def state(self, write_ids, txns):
        return acid_state(
            self.files(), write_ids, txns, rules=self.rules, metadata_acid=self.compacted
        )

    def files(self):
        return [FileStatus(f"{name}/bucket_00000", 1) for name in self.content]

    def read(self, snapshot):
        write_ids, txns = snapshot
        state = self.state(write_ids, txns)
        rows = [
            write
            for name in filter(None, [state.base, *state.deltas])
            for write in self.content[name]
            if write_ids.is_valid(write[0])
        ]
        assert len(rows) == len(set(rows)), "a row would be read twice"
        assert not {state.base, *state.deltas} & {*state.obsolete, *state.aborted}
        assert not {*state.obsolete} & {*state.aborted}
        return frozenset(rows)

    def expected(self, write_ids):
        """The rows of the writes that are visible, since the last visible overwrite."""
        seen = {write for write in self.written if write_ids.is_valid(write[0])}
        last = max((number for number, name in seen if name.startswith("base_")), default=0)
        return {write for write in seen if write[0] >= last}

    def compact(self, type_, fate):
        write_ids, txns = self.snapshot()
        compactor = CompactorWriteIdList.of(write_ids)
        try:
            plan = plan_compaction(self.state(compactor, txns), type_, self.files())
        except NothingToCompact:
            return
        txn = 0
        if self.rules is Rules.HIVE4:
            self.last_txn = txn = self.last_txn + 1
            if fate:
                (self.open_txns if fate == "open" else self.aborted_txns).append(txn)
        elif fate:
            return
        rows, events = plan.named(txn)
        assert not {rows, events} & self.content.keys()
        taken = {
            write
            for name in plan.inputs
            for write in self.content[name]
            if not compactor.is_aborted(write[0])
        }
        of_events = {write for write in taken if is_delete(write[1])}
        keeps_events = events is not None
        self.content[rows] = frozenset(taken - of_events if keeps_events else taken)
        if keeps_events:
            self.content[events] = frozenset(of_events)
        if txn == 0 and type_ is CompactionType.MAJOR:
            self.compacted[rows] = "compacted"
        self.compactions += 1


def is_delete(name):
    parsed = parse_directory(name)
    return isinstance(parsed, Delta) and parsed.is_delete


@pytest.mark.parametrize("rules", Rules)
@examples(150)
@given(rounds=st.lists(ROUNDS, min_size=3, max_size=8))
def test_no_reader_sees_a_compaction(rules, rounds):
    table = Table(rules)
    # Without any older base the readers of Hive 3 fail after any overwrite.
    table.step("overwrite")
    for writing, compacting in rounds:
        for step in writing:
            table.step(step)
        snapshot = table.snapshot()
        table.readers.append((snapshot, table.read(snapshot)))
        assert table.readers[-1][1] == table.expected(snapshot[0])
        table.step(compacting)
        for snapshot, seen in table.readers:
            assert table.read(snapshot) == seen
    event(f"{min(table.compactions, 3)} compactions")
