"""Random statements on a table of a shape."""

from collections.abc import Iterator
from random import Random

from tests.differential.shape import Shape
from tests.differential.statements import (
    OTHER,
    TARGET,
    Compact,
    Delete,
    Insert,
    Merge,
    Statement,
    Update,
    When,
    values,
)

_ACTIONS = {
    "MATCHED": ("UPDATE", "UPDATE", "DELETE"),
    "NOT MATCHED": ("INSERT",),
    "NOT MATCHED BY SOURCE": ("UPDATE", "DELETE"),
}


class RandomStatements:
    """Draws statements; the same random numbers give the same ones."""

    def __init__(self, random: Random, shape: Shape) -> None:
        """Statements for one table.

        Args:
            random: Decides.
            shape: The shape of the table.
        """
        self._random = random
        self._shape = shape
        self._columns = shape.all_columns
        self._of_target = shape.expressions(random, ["t"])
        self._of_source = shape.expressions(random, ["s"])
        self._of_both = shape.expressions(random, ["t", "s"])
        self._where = shape.expressions(random, ["t"], subqueries=True)

    def history(self, count: int) -> list[Statement]:
        """Rows to begin with, then some statements; compactions are not counted."""
        statements: list[Statement] = [self.rows(24)]
        for number in range(count):
            # The few rows after many deletes prove little.
            few = number % 4 == 3
            statements.append(self.rows(8) if few and self._is(0.5) else self._statement())
            if self._is(0.12):
                statements.append(Compact(self._random.choice(("minor", "major"))))
        return statements

    def rows(self, count: int) -> Insert:
        """An insert of literal rows."""
        return Insert(values(self._literals(count), self._columns), tuple(self._columns))

    def distinct_rows(self, count: int) -> str:
        """A query of literal rows, mostly with an id each."""
        rows = self._literals(count)
        if self._is(0.8):
            rows = list({row[0]: row for row in rows}.values())
        return values(rows, self._columns)

    def _statement(self) -> Statement:
        draw = self._random.choices(
            [self._merge, self._update, self._delete, self._insert, self._overwrite],
            [50, 17, 12, 14, 7],
        )[0]
        return draw()

    def _merge(self) -> Merge:
        return Merge(self._source(), self._on(), tuple(self._clauses()), tuple(self._columns))

    def _update(self) -> Update:
        names = self._some_columns(2)
        changes = {name: self._of_target.value(name) for name in names}
        return Update(changes, self._condition())

    def _delete(self) -> Delete:
        return Delete(self._condition() or self._where.condition())

    def _insert(self) -> Insert:
        if self._is(0.5):
            return self.rows(self._random.randint(1, 8))
        columns = [name for name in self._columns if name in self._shape.keys or self._is(0.7)] or [
            "id"
        ]
        inserted = self._selected(columns, self._random.choice((TARGET, OTHER)))
        return Insert(inserted, tuple(columns))

    def _overwrite(self) -> Insert:
        keys = list(self._shape.keys)
        given = keys[: self._random.randint(0, len(keys))]
        static = {key: self._of_target.literal(key) for key in given}
        columns = [name for name in self._columns if name not in static]
        if self._is(0.5):
            types = {name: self._columns[name] for name in columns}
            rows = self._literals(self._random.randint(0, 12), columns)
            source = values(rows, types)
        else:
            source = self._selected(columns, self._random.choice((TARGET, OTHER)))
        return Insert(source, tuple(columns), tuple(keys), replaces=True, static=static)

    def _selected(self, columns: list[str], table: str) -> str:
        expressions = self._shape.expressions(self._random, ["o"])
        made = ", ".join(f"{expressions.value(name)} AS {name}" for name in columns)
        return f"SELECT {made} FROM {table} AS o WHERE {expressions.condition()}"

    def _source(self) -> str:
        choice = self._random.random()
        if choice < 0.6:
            return self.distinct_rows(self._random.choice((0, 3, 8, 8, 14)))
        if choice < 0.85:
            where = self._shape.expressions(self._random, ["o"]).condition()
            names = ", ".join(f"o.{name}" for name in self._columns)
            return f"SELECT {names} FROM {OTHER} AS o WHERE {where}"
        most = [f"max(o.{name}) AS {name}" for name in self._columns if name != "id"]
        return f"SELECT {', '.join(['o.id AS id', *most])} FROM {TARGET} AS o GROUP BY o.id"

    def _on(self) -> str:
        columns = self._columns
        bucketed = [name for name in self._shape.bucket_columns if name in columns]
        keys = self._random.choice([["id"], ["id"], ["id", *self._shape.keys], [*bucketed, "id"]])
        equal = " AND ".join(f"t.{name} = s.{name}" for name in dict.fromkeys(keys))
        forms = [
            equal,
            equal,
            equal,
            "s.id IS NOT DISTINCT FROM t.id",
            f"{equal} AND {self._of_target.condition(depth=0)}",
            f"{equal} AND {self._of_source.condition(depth=0)}",
            f"t.id = s.id + 1 AND {self._of_both.condition(depth=0)}",
            f"t.id = s.id OR ({equal} AND {self._of_both.condition(depth=0)})",
        ]
        return self._random.choice(forms)

    def _clauses(self) -> Iterator[When]:
        kinds = [kind for kind in _ACTIONS if kind != "NOT MATCHED BY SOURCE" or self._is(0.4)]
        numbers = {kind: self._random.choice((0, 1, 1, 2, 3)) for kind in kinds}
        if not any(numbers.values()):
            numbers["MATCHED"] = 1
        for kind, number in numbers.items():
            for clause in range(number):
                # One without a condition takes all that is left.
                last = clause == number - 1
                yield self._clause(kind, None if last and self._is(0.6) else self._sees(kind))

    def _clause(self, kind: str, condition: str | None) -> When:
        action = self._random.choice(_ACTIONS[kind])
        if action == "DELETE":
            return When(kind, action, None, condition)
        if kind != "NOT MATCHED BY SOURCE" and self._is(0.35):
            return When(kind, action, None, condition)
        by_kind = {"MATCHED": self._of_both, "NOT MATCHED": self._of_source}
        expressions = by_kind.get(kind, self._of_target)
        names = self._some_columns(3)
        changes = {name: expressions.value(name) for name in names}
        return When(kind, action, changes, condition)

    def _sees(self, kind: str) -> str:
        by_kind = {"MATCHED": self._of_both, "NOT MATCHED": self._of_source}
        return by_kind.get(kind, self._of_target).condition()

    def _condition(self) -> str | None:
        return None if self._is(0.05) else self._where.condition()

    def _literals(self, count: int, names: list[str] | None = None) -> list[list[str]]:
        columns = list(self._columns) if names is None else names
        return [[self._of_target.typed(name) for name in columns] for _ in range(count)]

    def _some_columns(self, most: int) -> list[str]:
        columns = list(self._columns)
        return self._random.sample(columns, self._random.randint(1, min(most, len(columns))))

    def _is(self, likelihood: float) -> bool:
        return self._random.random() < likelihood
