"""Histories made by hand and by a model: each anomaly is found and named, and others pass."""

import math
from random import Random

import pytest

from tests.isolation.bank import problems_of_balances
from tests.isolation.checker import SERIALIZABILITY, Checker
from tests.isolation.cycles import RW
from tests.isolation.transactions import Append, Outcome, Read, Txn


def txn(name, reads="", appends="", outcome=Outcome.OK, at=(0, math.inf)):
    """Reads like "x=12 y={}", a list and a set, and appends like "x3 x4"."""
    return Txn(
        name,
        tuple(read(*each.split("=")) for each in reads.split()),
        tuple(Append(each[0], each[1]) for each in appends.split()),
        outcome,
        *at,
    )


def read(key, text):
    return Read(key, frozenset(text.strip("{}")) if text.startswith("{") else tuple(text))


SKEW = [txn("A", "x= y=", "x1"), txn("B", "x= y=", "y1"), txn("C", "x=1 y=1")]
SKEW_OF_SETS = [txn("A", "x={}", "x1"), txn("B", "x={}", "x2"), txn("C", "x={12}")]
LONG_FORK = [txn("A", "", "x1"), txn("B", "", "y1"), txn("C", "x=1 y="), txn("D", "x= y=1")]
FORBIDDEN = {
    "G0": [txn("A", "", "x1 y2"), txn("B", "", "x2 y1"), txn("C", "x=12 y=12")],
    "G1a": [txn("A", "", "x1", Outcome.FAILED), txn("B", "x=1")],
    "G1b": [txn("A", "", "x1 x2"), txn("B", "x=1"), txn("C", "x=12")],
    "G1b/of a set": [txn("A", "", "x1 x2"), txn("B", "x={2}")],
    "G1c": [txn("A", "y=1", "x1"), txn("B", "x=1", "y1")],
    "G1c/with ww": [txn("A", "", "x1 y1"), txn("B", "y=1", "x2"), txn("C", "x=21")],
    "G-single/read skew": [txn("A", "", "x1 y1"), txn("B", "x=1 y="), txn("C", "y=1")],
    "G-single/of sets": [txn("A", "", "x1 y1"), txn("B", "x={1} y={}")],
    "G-single/lost update": [txn("A", "x=", "x1"), txn("B", "x=", "x2"), txn("C", "x=12")],
    "G-single/a long way": [
        txn("A", "", "x1 w1"),
        txn("B", "x=1", "y1"),
        txn("C", "y=1", "z1"),
        txn("D", "z=1 w="),
        txn("E", "w=1"),
    ],
    "G-nonadjacent": LONG_FORK,
    "lost update": [txn("A", "x=", "x1"), txn("B", "x=", "x2"), txn("C", "x=2")],
    "lost append": [txn("A", "", "x1", at=(1, 2)), txn("B", "x=", at=(3, 4))],
    "lost append/of a set": [txn("A", "", "x1", at=(1, 2)), txn("B", "x={}", at=(3, 4))],
    "duplicate": [txn("A", "", "x1"), txn("B", "x=11")],
    "garbage": [txn("A", "", "x1"), txn("B", "x=12")],
    "incompatible order": [
        txn("A", "", "x1"),
        txn("B", "", "x2"),
        txn("C", "x=12"),
        txn("D", "x=2"),
    ],
    "fuzzy read": [txn("A", "", "x1"), txn("B", "x= x=1")],
    "G0-realtime": [txn("A", "", "x1", at=(1, 2)), txn("B", "", "x2", at=(3, 4)), txn("C", "x=21")],
    "G1c-realtime": [txn("A", "x=1", at=(1, 2)), txn("B", "", "x1", at=(3, 4))],
    "G-single-realtime/stale read": [
        txn("A", "", "x1", at=(1, 2)),
        txn("B", "x=", at=(3, 4)),
        txn("C", "x=1", at=(3, 4)),
    ],
    "G-nonadjacent-realtime": [
        txn("A", "", "y1", at=(1, 2)),
        txn("B", "x=", at=(3, 9)),
        txn("C", "", "x1", at=(1, 9)),
        txn("D", "x=1 y=", at=(1, 9)),
        txn("E", "y=1", at=(8, 9)),
    ],
}
ALLOWED = {
    "nothing": [],
    "one after the other": [
        txn("A", "x= y={}", "x1 y1", at=(1, 2)),
        txn("B", "x=1 y={1}", "x2 y2", at=(3, 4)),
        txn("C", "x=12 y={21}", at=(5, 6)),
    ],
    "side by side, in either order": [
        txn("A", "x=", "x1", at=(1, 9)),
        txn("B", "x=1", "x2", at=(1, 8)),
        txn("C", "x=1", at=(2, 7)),
    ],
    "unknown, and seen": [
        txn("A", "x=", "x1 x2", Outcome.UNKNOWN, at=(1, math.inf)),
        txn("B", "x=12", at=(2, 3)),
        txn("C", "x=", at=(0.5, 3)),
    ],
    "unknown, and never seen": [
        txn("A", "x=", "x1", Outcome.UNKNOWN, at=(1, math.inf)),
        txn("B", "x=", at=(2, 3)),
    ],
    "failed, and never seen": [txn("A", "x=7 y=8", "x1", Outcome.FAILED), txn("B", "x=")],
    "appends of which nobody knows the order": [
        txn("A", "", "x1"),
        txn("B", "", "x2"),
        txn("C", "x={2}"),
        txn("D", "x={12}"),
    ],
}


@pytest.mark.parametrize("name", FORBIDDEN)
def test_an_anomaly_is_found_and_named(name):
    checker, expected = Checker(FORBIDDEN[name]), name.partition("/")[0]
    found = {anomaly.name: anomaly for anomaly in checker.forbidden()}
    assert expected in found
    assert f"{expected}: 1, FORBIDDEN" in checker.report()
    # A cycle is described edge by edge, from a transaction back to itself.
    cycle = found[expected].cycle
    assert [edge.source for edge in cycle[1:] + cycle[:1]] == [edge.target for edge in cycle]
    assert bool(cycle) == expected.startswith(("G0", "G1c", "G-"))


@pytest.mark.parametrize("name", ALLOWED)
def test_a_clean_history_passes(name):
    checker = Checker(ALLOWED[name])
    assert checker.anomalies() == []
    assert "FORBIDDEN" not in checker.report()


@pytest.mark.parametrize("history", [SKEW, SKEW_OF_SETS], ids=["lists", "a set"])
def test_write_skew_is_allowed_by_snapshot_isolation_and_not_by_serializability(history):
    checker = Checker(history)
    assert checker.forbidden() == []
    (skew,) = checker.forbidden(SERIALIZABILITY)
    assert skew.name == "G2-item"
    assert [edge.kind for edge in skew.cycle] == [RW, RW]
    assert "G2-item: 1, allowed" in checker.report()
    assert "A read " in checker.report()


def test_write_skew_beside_other_reads_is_found_by_the_clock():
    # B began after the end of C, which has not seen the append of A; A has not seen that of B.
    history = [
        txn("A", "y=", "x1", at=(1, 9)),
        txn("C", "x=", at=(2, 3)),
        txn("B", "x=", "y1", at=(4, 5)),
        txn("D", "x=1 y=1", at=(10, 11)),
    ]
    assert Checker(history).forbidden() == []
    assert [each.name for each in Checker(history).anomalies()] == ["G2-item"]


def test_an_element_has_one_writer():
    with pytest.raises(ValueError, match="is of B and A"):
        Checker([txn("A", "", "x1"), txn("B", "", "x1")])


def test_balances_are_consistent_and_never_overdrawn():
    reads = {"A": {"x": 3, "y": -1}, "B": {"x": 2, "y": 1}, "C": {"x": -1, "y": 3}}
    assert [*problems_of_balances(2, reads, ["x"])] == [
        "B read {'x': 2, 'y': 1}, which is 3, not 2.",
        "C read -1 as the balance of x.",
    ]


class Model:
    """A database with snapshot isolation, as long as nothing is broken in it.

    Attributes:
        broken: The omitted action.
    """

    def __init__(self, seed, broken=""):
        self.dice, self.broken = Random(seed), broken
        self.states = [dict.fromkeys("wxyz", ())]
        self.history = []

    def run(self, txns=80, side_by_side=4):
        """Transactions that are begun, and committed, in any order."""
        open_txns, clock = [], 0
        while len(self.history) < txns or open_txns:
            clock += 1
            more = len(self.history) < txns and len(open_txns) < side_by_side
            if more and (not open_txns or self.dice.random() < 0.5):
                open_txns.append((clock, len(self.states) - 1, self.dice.sample("wxyz", 2)))
            else:
                self.commit(clock, *open_txns.pop(self.dice.randrange(len(open_txns))))
        return Checker([*self.history, self.reading(clock + 1, "wxyz", clock + 2)])

    def reading(self, began, keys, ended, seen=-1):
        reads = tuple(self.read(key, seen) for key in keys)
        return Txn(f"T{began}", reads, (), Outcome.OK, began, ended)

    def read(self, key, seen):
        if self.broken == "snapshot":
            seen = self.dice.choice([seen, -1])
        value = self.states[seen][key]
        return Read(key, frozenset(value) if key in "yz" else value)

    def commit(self, clock, began, seen, keys):
        if self.broken == "start":
            seen = max(0, seen - self.dice.randrange(3))
        txn = self.reading(began, keys, clock, seen)
        appends = tuple(
            Append(key, f"{began}.{number}")
            for key in self.dice.sample(keys, self.dice.randrange(3))
            for number in range(self.dice.choice([1, 1, 2]))
        )
        lists = {append.key for append in appends} & set("wx")
        conflict = any(self.states[-1][key] != self.states[seen][key] for key in lists)
        failed = conflict and self.broken != "first committer wins"
        outcome = Outcome.FAILED if failed else Outcome.OK
        self.history.append(
            Txn(txn.name, txn.reads, appends, outcome, txn.began, txn.ended, "of the model")
        )
        if not failed or self.broken == "rollback":
            new = dict(self.states[-1])
            for append in appends:
                if self.broken != "appends" or self.dice.random() < 0.95:
                    new[append.key] += (append.element,)
            self.states.append(new)


@pytest.mark.parametrize("seed", range(3))
def test_a_database_with_snapshot_isolation_passes(seed):
    checker = Model(seed).run()
    assert checker.forbidden() == []
    assert {each.name for each in checker.anomalies()} >= {"G2-item"}
    assert Model(seed).run(side_by_side=1).anomalies() == []


@pytest.mark.parametrize(
    ("broken", "found"),
    [
        ("first committer wins", "lost update"),
        ("snapshot", "G-single"),
        ("start", "G-single-realtime"),
        ("rollback", "G1a"),
        ("appends", "lost append"),
    ],
)
def test_a_broken_database_is_found_out(broken, found):
    assert found in {anomaly.name for anomaly in Model(0, broken).run().forbidden()}
