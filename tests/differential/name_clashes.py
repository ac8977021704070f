"""Random statements in which tables, aliases, queries of WITH, columns and fields have equal names.

Their subqueries name relations of the queries around them. Each statement has a query of Spark for the
rows that it shows, or that it leaves in its table.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

DATABASES = ("a", "b")
# Two of them are also used by everything; the others have been names of columns or relations that
# this package adds, or are words of SQL.
_WORDS = ("c", "t", "s", "order", "select", "row", "rowid", "bucket", "operation", "_metadata")
_ADDED = ("_acid_row", "_acid_clause", "_acid_fate", "_acid_path", "_joined", "_common_1", "_row")
_FURTHER = (*_WORDS, *_ADDED, "_a_1", "_b_1", "a__b")
_OPERATORS = ("=", "=", "<", "<>", "<=>", "<=")

# The fields of a column; None for a number.
Fields = tuple[str, ...] | None
Value = int | None | tuple[int | None, ...]


@dataclass(frozen=True)
class Table:
    """A table; all of its values are small numbers, or structs of them.

    Attributes:
        database: Its database.
        name: Its name.
        columns: Its columns; the numbers of the first one differ.
        rows: The rows at the beginning.
    """

    database: str
    name: str
    columns: Mapping[str, Fields]
    rows: Sequence[tuple[Value, ...]]

    @property
    def types(self) -> dict[str, str]:
        """The types of the columns in Hive's words."""
        return {
            name: "int" if fields is None else f"struct<{','.join(f'`{f}`:int' for f in fields)}>"
            for name, fields in self.columns.items()
        }

    def query(self, rows: Sequence[tuple[Value, ...]]) -> str:
        """A query of some rows with the columns of the table."""
        names = ", ".join(f"`{name}`" for name in self.columns)
        fields = self.columns.values()
        if not rows:
            nulls = ", ".join(_literal(None, each) for each in fields)
            return f"SELECT {names} FROM VALUES ({nulls}) AS v({names}) WHERE FALSE"
        values = ", ".join(f"({', '.join(map(_literal, row, fields))})" for row in rows)
        return f"SELECT {names} FROM VALUES {values} AS v({names})"


@dataclass(frozen=True)
class Statement:
    """A statement.

    Attributes:
        text: The statement.
        oracle: The query of its rows, for Spark.
        target: The table that it changes; None for a query.
    """

    text: str
    oracle: str
    target: Table | None = None


@dataclass(frozen=True)
class _Relation:
    """A relation of a FROM.

    Attributes:
        text: The relation, with its alias.
        labels: The names that its columns have in front.
        columns: Its columns.
    """

    text: str
    labels: Sequence[tuple[str, ...]]
    columns: Mapping[str, Fields]


_Scopes = Sequence[Sequence[_Relation]]


@dataclass
class Clashes:
    """Draws tables and statements; the same random numbers give the same ones."""

    random: Random
    names: Sequence[str] = field(init=False)
    tables: Sequence[Table] = field(init=False)

    def __post_init__(self) -> None:
        self.names = [*DATABASES, *self.random.sample(_FURTHER, 2)]
        self.tables = [
            self._table(database, name)
            for database in DATABASES
            for name in self.random.sample(self.names, 2)
        ]

    def statement(self) -> Statement:
        """Draw a statement."""
        kinds = [self._select, self._delete, self._update, self._merge, self._using, self._from]
        return self.random.choices(kinds, [10, 3, 2, 4, 2, 2])[0]()

    def _table(self, database: str, name: str) -> Table:
        one, struct, other = self.random.sample(self.names, 3)
        fields = tuple(self.random.sample(self.names, 2))
        numbers = [
            (key, tuple(self._number() for _ in fields), self._number())
            for key in self.random.sample(range(6), 4)
        ]
        return Table(database, name, {one: None, struct: fields, other: None}, numbers)

    def _number(self) -> int | None:
        return self.random.choice((None, *range(6)))

    # Statements.

    def _select(self) -> Statement:
        scope, with_ = self._relations(self.random.choice((1, 1, 2)), may_define=True)
        shown = ", ".join(f"{self._value([scope])} AS v{number}" for number in range(2))
        text = f"{with_}SELECT {shown} FROM {_from(scope)} WHERE {self._condition([scope])}"
        return Statement(text, text)

    def _delete(self) -> Statement:
        target, relation = self._target()
        where = self._condition([[relation]])
        kept = f"SELECT * FROM {relation.text} WHERE NOT coalesce({where}, FALSE)"
        return Statement(f"DELETE FROM {relation.text} WHERE {where}", kept, target)

    def _update(self) -> Statement:
        target, relation = self._target()
        where, value = self._condition([[relation]]), self._value([[relation]], deep=True)
        column = self._column_to_set(target)
        columns = [value if name == column else f"`{name}`" for name in target.columns]
        oracle = (
            f"SELECT {', '.join(columns)} FROM {relation.text} WHERE {where} UNION ALL"
            f" SELECT * FROM {relation.text} WHERE NOT coalesce({where}, FALSE)"
        )
        text = f"UPDATE {relation.text} SET {self._name(column)} = {value} WHERE {where}"
        return Statement(text, oracle, target)

    def _merge(self) -> Statement:
        target, into = self._target()
        (source,), _ = self._relations(1, aliased=True)
        on = self._equal([[into, source]], into, source)
        both, own, given = [[into, source]], [[into]], [[source]]
        label, column = _path(into.labels[0]), self._column_to_set(target)
        old = [f"{label}.`{name}`" for name in target.columns]
        # Rows that match: the first clause, or none.
        condition, value = self._condition(both, depth=0), self._value(both)
        changed = f"CASE WHEN {condition} THEN {value} ELSE {label}.`{column}` END"
        matched = [
            changed if name == column else each
            for name, each in zip(target.columns, old, strict=True)
        ]
        parts = [f"SELECT {', '.join(matched)} FROM {into.text} JOIN {source.text} ON {on}"]
        text = f"MERGE INTO {into.text} USING {source.text} ON {on}"
        text += f" WHEN MATCHED AND {condition} THEN UPDATE SET `{column}` = {value}"
        if self._is(0.6):
            number, where = self._value(given), self._condition(given, depth=0)
            new = [number if name == column else "NULL" for name in target.columns]
            parts.append(
                f"SELECT {', '.join(new)} FROM {source.text} LEFT ANTI JOIN {into.text} ON {on}"
                f" WHERE {where}"
            )
            text += f" WHEN NOT MATCHED AND {where} THEN INSERT (`{column}`) VALUES ({number})"
        rest = f"FROM {into.text} LEFT ANTI JOIN {source.text} ON {on}"
        if self._is(0.6):
            where, value = self._condition(own, depth=0), self._value(own)
            columns = [value if name == column else f"`{name}`" for name in target.columns]
            parts.append(f"SELECT {', '.join(columns)} {rest} WHERE {where}")
            rest += f" WHERE NOT coalesce({where}, FALSE)"
            text += f" WHEN NOT MATCHED BY SOURCE AND {where} THEN UPDATE SET `{column}` = {value}"
        parts.append(f"SELECT {', '.join(f'`{name}`' for name in target.columns)} {rest}")
        return Statement(text, " UNION ALL ".join(parts), target)

    def _using(self) -> Statement:
        target, relation = self._target()
        (source,), _ = self._relations(1, aliased=True)
        on = self._equal([[relation, source]], relation, source)
        oracle = f"SELECT * FROM {relation.text} LEFT ANTI JOIN {source.text} ON {on}"
        return Statement(
            f"DELETE FROM {relation.text} USING {source.text} WHERE {on}", oracle, target
        )

    def _from(self) -> Statement:
        """An UPDATE by one source, or by the join of two."""
        target, relation = self._target()
        sources, _ = self._relations(self.random.choice((1, 2)), aliased=True)
        first, last, column = sources[0], sources[-1], self._column_to_set(target)
        on = self._equal([[relation, first]], relation, first)
        if last is not first:
            on += f" AND {self._equal([[first, last]], first, last)}"
        value = self._number_of(last, last.labels[0])
        label = _path(relation.labels[0])
        columns = [value if name == column else f"{label}.`{name}`" for name in target.columns]
        listed, joined = _from(sources), _from([relation, *sources])
        every = ", ".join(f"{label}.`{name}`" for name in target.columns)
        others = " CROSS JOIN ".join(source.text for source in sources)
        rest = f"SELECT {every} FROM {relation.text} LEFT ANTI JOIN ({others}) ON {on}"
        oracle = f"SELECT {', '.join(columns)} FROM {joined} WHERE {on} UNION ALL {rest}"
        text = f"UPDATE {relation.text} SET `{column}` = {value} FROM {listed} WHERE {on}"
        return Statement(text, oracle, target)

    # Relations.

    def _target(self) -> tuple[Table, _Relation]:
        table = self.random.choice(self.tables)
        return table, self._relation(table, {})

    def _column_to_set(self, target: Table) -> str:
        return [name for name, fields in target.columns.items() if fields is None][1]

    def _relations(
        self, count: int, *, may_define: bool = False, aliased: bool = False
    ) -> tuple[list[_Relation], str]:
        """Draw relations, and perhaps a WITH that defines some of them."""
        defined: dict[str, Table] = {}
        with_ = ""
        if may_define and self._is(0.4):
            name, table = self.random.choice(self.names), self.random.choice(self.tables)
            inner = self._relation(table, {})
            columns = ", ".join(f"{_path(inner.labels[0])}.`{each}`" for each in table.columns)
            where = self._condition([[inner]], depth=0)
            defined[name] = table
            with_ = f"WITH `{name}` AS (SELECT {columns} FROM {inner.text} WHERE {where}) "
        return [
            self._relation(self.random.choice(self.tables), defined, aliased=aliased)
            for _ in range(count)
        ], with_

    def _relation(
        self, table: Table, defined: Mapping[str, Table], *, aliased: bool = False
    ) -> _Relation:
        text, labels = self._name(table.name), [(table.name,)]
        if table.database != DATABASES[0] or self._is(0.5):
            text = f"{self._name(table.database)}.{text}"
            labels.append((table.database, table.name))
        elif table.name in defined:
            table = defined[table.name]
        if aliased or self._is(0.5):
            alias = self.random.choice(self.names)
            return _Relation(f"{text} AS {self._name(alias)}", [(alias,)], table.columns)
        return _Relation(text, labels, table.columns)

    # Expressions.

    def _condition(self, scopes: _Scopes, depth: int = 2) -> str:
        choice = self.random.random()
        if depth == 0 or choice < 0.25:
            other = self._value(scopes) if self._is(0.5) else str(self.random.randint(0, 5))
            return f"{self._value(scopes)} {self.random.choice(_OPERATORS)} {other}"
        if choice < 0.4:
            word = self.random.choice(("AND", "OR"))
            both = (self._condition(scopes, depth - 1) for _ in range(2))
            return f"({f' {word} '.join(both)})"
        without = self.random.choice(("", "", "NOT "))
        inner, with_ = self._relations(self.random.choice((1, 1, 2)), may_define=True)
        all_scopes = [inner, *scopes]
        where = self._condition(all_scopes, depth - 1)
        if choice < 0.7:
            return f"{without}EXISTS ({with_}SELECT 1 FROM {_from(inner)} WHERE {where})"
        value = self._value([inner])
        if choice < 0.85:
            query = f"{with_}SELECT {value} FROM {_from(inner)} WHERE {where}"
            return f"{self._value(scopes)} {without}IN ({query})"
        return f"{self._value(scopes)} = {self._scalar(scopes)}"

    def _scalar(self, scopes: _Scopes) -> str:
        (inner,), with_ = self._relations(1, may_define=True)
        where = f"{self._value([[inner]])} = {self._value([[inner], *scopes])}"
        return f"({with_}SELECT max({self._value([[inner]])}) FROM {inner.text} WHERE {where})"

    def _value(self, scopes: _Scopes, *, deep: bool = False) -> str:
        """A number of a relation of one of the scopes."""
        if deep and self._is(0.4):
            return self._scalar(scopes)
        scope = scopes[0] if self._is(0.5) else self.random.choice(scopes)
        relation = self.random.choice(scope)
        label = () if self._is(0.25) else self.random.choice(relation.labels)
        return self._number_of(relation, label)

    def _equal(self, scopes: _Scopes, one: _Relation, other: _Relation) -> str:
        """Numbers of two relations are equal; each column has its relation in front."""
        keys = [
            f"{_path((*relation.labels[0], next(iter(relation.columns))))}"
            for relation in (one, other)
        ]
        if self._is(0.7):
            return " = ".join(keys)
        return f"{self._number_of(one, one.labels[0])} = {keys[1]}"

    def _number_of(self, relation: _Relation, label: Sequence[str]) -> str:
        column, fields = self.random.choice([*relation.columns.items()])
        below = () if fields is None else (self.random.choice(fields),)
        return ".".join(map(self._name, (*label, column, *below)))

    def _name(self, name: str) -> str:
        """A name in any case, in quotes where it is a word of SQL."""
        shown = self.random.choice((name, name, name.upper(), name.capitalize()))
        return f"`{shown}`" if name in ("order", "select") or self._is(0.2) else shown

    def _is(self, likelihood: float) -> bool:
        return self.random.random() < likelihood


def _from(relations: Sequence[_Relation]) -> str:
    return ", ".join(relation.text for relation in relations)


def _path(names: Sequence[str]) -> str:
    return ".".join(f"`{name}`" for name in names)


def _literal(value: Value, fields: Fields) -> str:
    if fields is None:
        return f"CAST({'NULL' if value is None else value} AS INT)"
    if not isinstance(value, tuple):
        return f"CAST(NULL AS STRUCT<{', '.join(f'`{name}`: INT' for name in fields)}>)"
    pairs: Iterator[tuple[str, Value]] = zip(fields, value, strict=True)
    return f"named_struct({', '.join(f'{name!r}, {_literal(each, None)}' for name, each in pairs)})"
