"""Random values, expressions and conditions whose text means the same to Spark and to DuckDB."""

from collections.abc import Mapping, Sequence
from random import Random

# Few of each type, so that rows meet each other; none is null.
VALUES: Mapping[str, Sequence[str]] = {
    "int": [str(number) for number in range(10)],
    "bigint": [f"CAST({number} AS BIGINT)" for number in (-7, 0, 1, 2, 3, 4, 3000000000)],
    "string": ["'a'", "'b'", "'ab'", "'B'", "'\u00e4'", "'x y'", "''"],
    "decimal(9,2)": [
        f"CAST({text} AS DECIMAL(9,2))" for text in ("0", "1", "1.5", "-2.25", "12345.67")
    ],
    "double": [f"CAST('{text}' AS DOUBLE)" for text in ("0.5", "-1.25", "3", "NaN", "Infinity")],
    "date": [f"DATE '{text}'" for text in ("2026-01-31", "2026-02-01", "2024-02-29", "1582-10-04")],
    "boolean": ["TRUE", "FALSE"],
}
# Values for names of partitions; an empty text is indistinguishable from null there.
PARTITION_VALUES: Mapping[str, Sequence[str]] = {
    "string": ["'p0'", "'p1'", "'p 2/%'"],
    "int": ["0", "1", "2"],
    "date": ["DATE '2026-01-31'", "DATE '2026-02-01'", "DATE '1969-12-31'"],
}


class Expressions:
    """Makes expressions over the columns of some aliases."""

    def __init__(
        self,
        random: Random,
        columns: Mapping[str, str],
        aliases: Sequence[str],
        pools: Mapping[str, Sequence[str]],
        *,
        subqueries: bool = False,
    ) -> None:
        """Expressions over rows that are at hand under some names.

        Args:
            random: Decides.
            columns: The columns of each alias and their types.
            aliases: The names that columns are written with.
            pools: The literals of columns that may not have just any value of their type.
            subqueries: Whether conditions may read the table `other`.
        """
        self._random = random
        self._columns = columns
        self._aliases = aliases
        self._pools = pools
        self._subqueries = subqueries

    def literal(self, column: str) -> str:
        """A value that a column may have."""
        return self._random.choice(self._pools.get(column) or VALUES[self._columns[column]])

    def typed(self, column: str, *, nulls: float = 0.12) -> str:
        """A literal of just the type of a column, or its null."""
        if self._random.random() < nulls:
            return f"CAST(NULL AS {self._columns[column]})"
        return self.literal(column)

    def value(self, column: str) -> str:
        """An expression that can be stored in a column."""
        choice = self._random.random()
        if choice < 0.4:
            return self._column(column)
        if choice < 0.55:
            return self.typed(column)
        if choice < 0.7:
            return f"COALESCE({self._column(column)}, {self.literal(column)})"
        if choice < 0.85 or column in self._pools:
            one, other = self._column(column), self.literal(column)
            return f"CASE WHEN {self.condition(depth=0)} THEN {one} ELSE {other} END"
        return self._computed(column)

    def condition(self, depth: int = 1) -> str:
        """A condition, which may well be null."""
        choice = self._random.random()
        if depth and choice < 0.35:
            word = self._random.choice(("AND", "OR"))
            return f"({self.condition(depth - 1)} {word} {self.condition(depth - 1)})"
        if depth and choice < 0.42:
            return f"NOT ({self.condition(depth - 1)})"
        if self._subqueries and choice < 0.6:
            return self._subquery()
        return self._comparison()

    def _column(self, name: str) -> str:
        return f"{self._random.choice(self._aliases)}.{name}"

    def _comparison(self) -> str:
        column = self._random.choice(list(self._columns))
        name, literal = self._column(column), self.literal(column)
        other = self._column(column) if len(self._aliases) > 1 else literal
        operator = self._random.choice(("=", "=", "<>", "<", "<=", ">", ">="))
        forms = [
            f"{name} {operator} {literal}",
            f"{name} {operator} {other}",
            f"{name} IS NULL",
            f"{name} IS NOT NULL",
            f"{name} IN ({literal}, {self.literal(column)})",
            f"{name} NOT IN ({literal}, {self._random.choice((self.literal(column), 'NULL'))})",
            f"{name} BETWEEN {literal} AND {self.literal(column)}",
            f"{name} IS DISTINCT FROM {other}",
        ]
        if self._columns[column] == "string":
            forms += [f"{name} LIKE '%b%'", f"length({name}) > 1"]
        if self._columns[column] == "boolean":
            forms.append(name)
        return self._random.choice(forms)

    def _subquery(self) -> str:
        column = self._random.choice(list(self._columns))
        name = self._column(column)
        inner = Expressions(self._random, self._columns, ["o"], self._pools)
        where = inner.condition(depth=0)
        return self._random.choice(
            (
                f"{name} IN (SELECT o.{column} FROM other AS o WHERE {where})",
                f"{name} NOT IN (SELECT o.{column} FROM other AS o"
                f" WHERE {where} AND o.{column} IS NOT NULL)",
                f"EXISTS (SELECT 1 FROM other AS o WHERE o.{column} = {name} AND {where})",
                f"{name} >= (SELECT min(o.{column}) FROM other AS o WHERE {where})",
            )
        )

    def _computed(self, column: str) -> str:
        type_ = self._columns[column]
        one, other = self._column(column), self._column(column)
        both = {
            "int": f"({one} + {other}) % 10",
            "bigint": f"({one} - {other}) % 1000 + 1",
            "string": f"substr({one} || '_' || {other}, 1, 4)",
            "decimal(9,2)": f"CAST(({one} + {other}) % 1000 AS DECIMAL(9,2))",
            "double": f"{one} + {other}",
            # The day after 1582-10-04 is one that cannot be stored.
            "date": f"{one} - 1",
            "boolean": f"NOT {one}",
        }
        return both[type_]
