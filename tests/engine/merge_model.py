"""A merge in plain Python: a model for the engine's results, and random merges.

Conditions and expressions come in pairs, as SQL and as a function of a target and a source row.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from hiveacid.api.changes import MergeBuilder

COLUMNS = ("id", "v", "name", "day")
Row = tuple[Any, ...]
Value = Callable[[Mapping[str, Any], Mapping[str, Any]], Any]
Expression = tuple[str, Value]


class Duplicates(Exception):
    """Two source rows act on one target row."""


@dataclass(frozen=True)
class When:
    """A clause: its kind, its assignments (None is all columns) and its condition."""

    kind: str
    values: Mapping[str, Expression] | None = None
    condition: Expression | None = None

    def applies(self, target: Mapping[str, Any], source: Mapping[str, Any]) -> bool:
        return self.condition is None or self.condition[1](target, source) is True

    def row(self, target: Mapping[str, Any], source: Mapping[str, Any]) -> Row:
        if self.values is None:
            return tuple(source[name] for name in COLUMNS)
        return tuple(
            self.values[name][1](target, source) if name in self.values else target.get(name)
            for name in COLUMNS
        )

    def add_to(self, builder: MergeBuilder) -> MergeBuilder:
        condition = None if self.condition is None else self.condition[0]
        if self.kind.endswith("delete"):
            return getattr(builder, f"when_{self.kind}")(condition)
        if self.values is None:
            return getattr(builder, f"when_{self.kind}_all")(condition)
        texts = {name: expression[0] for name, expression in self.values.items()}
        return getattr(builder, f"when_{self.kind}")(texts, condition)


@dataclass(frozen=True)
class Outcome:
    rows: list[Row]
    inserted: int
    updated: int
    deleted: int


def merged(
    target: Sequence[Row], source: Sequence[Row], on: Value, when: Sequence[When]
) -> Outcome:
    """The rows of the target afterwards, and how many were inserted, updated and deleted."""
    rows: list[Row] = []
    counts = {"insert": 0, "update": 0, "delete": 0}
    sources = [_named(row) for row in source]
    partners = [False] * len(sources)
    for old in target:
        row = _named(old)
        pairs = [number for number, other in enumerate(sources) if on(row, other) is True]
        for number in pairs:
            partners[number] = True
        kind = "matched" if pairs else "not_matched_by_source"
        others = [sources[number] for number in pairs] or [{}]
        acting = [(clause, other) for other in others if (clause := _first(kind, when, row, other))]
        matched = [clause for clause in when if clause.kind.startswith("matched_")]
        if len(acting) > 1 and matched != [When("matched_delete")]:
            raise Duplicates
        if not acting:
            rows.append(old)
            continue
        clause, other = acting[0]
        counts[clause.kind.rpartition("_")[2]] += 1
        if clause.kind.endswith("update"):
            rows.append(clause.row(row, other))
    for partner, other in zip(partners, sources, strict=True):
        clause = None if partner else _first("not_matched", when, {}, other)
        if clause is not None:
            counts["insert"] += 1
            rows.append(clause.row({}, other))
    return Outcome(rows, counts["insert"], counts["update"], counts["delete"])


def _named(row: Row) -> dict[str, Any]:
    return dict(zip(COLUMNS, row, strict=True))


def _first(
    kind: str, when: Sequence[When], target: Mapping[str, Any], source: Mapping[str, Any]
) -> When | None:
    """The first clause of a kind that applies."""
    of_kind = (clause for clause in when if clause.kind.rpartition("_")[0] == kind)
    return next((clause for clause in of_kind if clause.applies(target, source)), None)


def _both(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """SQL's rule: null if one of the two is null."""
    return lambda one, other: None if one is None or other is None else function(one, other)


_equal, _greater = _both(lambda one, other: one == other), _both(lambda one, other: one > other)
_plus, _joined = _both(lambda one, other: one + other), _both(lambda one, other: one + other)


def _and(one: Any, other: Any) -> Any:
    return one is True and other is True


ONS: list[Expression] = [
    ("t.id = s.id", lambda t, s: _equal(t["id"], s["id"])),
    ("s.id <=> t.id", lambda t, s: t["id"] == s["id"]),
    (
        "t.id = s.id and t.day = s.day",
        lambda t, s: _and(_equal(t["id"], s["id"]), _equal(t["day"], s["day"])),
    ),
    (
        "t.id = s.id and t.day in ('d0', 'd1')",
        lambda t, s: _and(_equal(t["id"], s["id"]), t["day"] in ("d0", "d1")),
    ),
    (
        "t.id = s.id and s.v > 2",
        lambda t, s: _and(_equal(t["id"], s["id"]), _greater(s["v"], 2)),
    ),
]
ON_PAIRS: list[Expression] = [
    ("s.v > t.v", lambda t, s: _greater(s["v"], t["v"])),
    ("s.name = 'b'", lambda t, s: _equal(s["name"], "b")),
    ("t.day is null or t.v = 1", lambda t, s: t["day"] is None or t["v"] == 1),
]
ON_SOURCES: list[Expression] = [
    ("s.v > 1", lambda t, s: _greater(s["v"], 1)),
    ("s.name <> 'a'", lambda t, s: _both(lambda x, y: x != y)(s["name"], "a")),
]
ON_TARGETS: list[Expression] = [
    ("t.v > 1", lambda t, s: _greater(t["v"], 1)),
    ("t.day = 'd1'", lambda t, s: _equal(t["day"], "d1")),
]
UPDATES: list[dict[str, Expression] | None] = [
    None,
    {"v": ("t.v + s.v", lambda t, s: _plus(t["v"], s["v"]))},
    {
        "name": ("concat(t.name, s.name)", lambda t, s: _joined(t["name"], s["name"])),
        "v": ("s.v", lambda t, s: s["v"]),
    },
    {"day": ("s.day", lambda t, s: s["day"])},
]
INSERTS: list[dict[str, Expression] | None] = [
    None,
    {
        "id": ("s.id", lambda t, s: s["id"]),
        "v": ("coalesce(s.v, 0) + 100", lambda t, s: (s["v"] or 0) + 100),
    },
    {"id": ("s.id", lambda t, s: s["id"]), "day": ("s.day", lambda t, s: s["day"])},
]
UPDATES_OF_TARGET: list[dict[str, Expression]] = [
    {"v": ("t.v - 1", lambda t, s: _plus(t["v"], -1))},
    {"name": ("'gone'", lambda t, s: "gone"), "day": ("'d2'", lambda t, s: "d2")},
]


def random_rows(random: Random, count: int) -> list[Row]:
    """Rows with nulls in every column; the ids may repeat."""

    def some(values: Sequence[Any]) -> Any:
        return None if random.random() < 0.12 else random.choice(values)

    return [
        (some(range(10)), some(range(6)), some("abc"), some(("d0", "d1", "d2")))
        for _ in range(count)
    ]


def random_source(random: Random) -> list[Row]:
    """Rows that mostly have an id each: else nearly every merge would be refused."""
    rows = random_rows(random, random.choice((0, 4, 8, 8)))
    if random.random() < 0.2:
        return rows
    return list({row[0]: row for row in rows}.values())


def random_clauses(random: Random) -> list[When]:
    """Up to two clauses of each kind and action, the unconditional ones last."""
    when: list[When] = []

    def add(kind: str, actions: Sequence[tuple[str, Any]], conditions: list[Expression]) -> None:
        count = random.choice((0, 1, 2))
        for number in range(count):
            action, choices = random.choice(actions)
            last = number == count - 1
            condition = None if last and random.random() < 0.6 else random.choice(conditions)
            values = random.choice(choices) if choices else None
            when.append(When(f"{kind}_{action}", values, condition))

    while not when:
        add("matched", [("update", UPDATES), ("delete", ())], ON_PAIRS)
        add("not_matched", [("insert", INSERTS)], ON_SOURCES)
        if random.random() < 0.4:
            by_target = [("update", UPDATES_OF_TARGET), ("delete", ())]
            add("not_matched_by_source", by_target, ON_TARGETS)
    return when
