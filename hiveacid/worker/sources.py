"""Sources of statements as rows of Arrow: tables, files, rows of the caller, and queries of these."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import chain
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from sqlglot.tokenizer_core import Token, TokenType

from hiveacid.dataclass import dataclass
from hiveacid.errors import HiveAcidError, SparkNeeded, UnsupportedFile, UnsupportedTable
from hiveacid.jobs.fields import Parameters
from hiveacid.jobs.sources import BatchSource, PathSource, QuerySource, Source, TableSource
from hiveacid.metastore.catalog import HiveTable, StorageFormat
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import existing_table
from hiveacid.parser.statement import SqlStatement
from hiveacid.parser.words import Words, keyword_of, separated
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import HiveType, TableKind, parse_type
from hiveacid.rules.sql_names import quoted
from hiveacid.tables.scan.columns import TableColumns
from hiveacid.tables.scan.table_part import TablePart
from hiveacid.tables.scan.times import has_finer_times
from hiveacid.tables.scan.visible_table import plain_parts, see_table
from hiveacid.tables.visible_files import FilesReader
from hiveacid.worker.expressions import (
    ONE_ROW,
    Expression,
    Scope,
    bare_column,
    common_types,
    compiled,
    condition,
    hive_type,
    tree_of,
    widened,
)
from hiveacid.worker.files import MOST_EVENTS, bounded, rows_of_files

# Queries that are evaluated here: VALUES, and columns of one table with a condition

# Each takes a kilobyte until all have one type.
_MOST_VALUES = 100_000


@dataclass(frozen=True)
class Query:
    """A compiled query.

    Attributes:
        names: The names of its columns; empty texts for those without a name.
        rows: The values of each row of VALUES; None for a query of a table.
        columns: The columns of a query of a table.
        where: The condition of a query of a table.
        relation: The view that it reads, and its alias.
    """

    names: Sequence[str]
    rows: Sequence[Sequence[Expression]] | None = None
    columns: Sequence[Expression] = ()
    where: Expression | None = None
    relation: tuple[str, str] | None = None

    @property
    def types(self) -> list[HiveType]:
        """The types of its columns."""
        if self.rows is None:
            return [column.type for column in self.columns]
        return [row[0].type for row in zip(*self.rows, strict=True)]

    def of(self, source: pa.Table | None) -> list[pa.ChunkedArray]:
        """Evaluate the columns.

        Args:
            source: The rows that it reads, with the names that expressions use.
        """
        if self.rows is not None:
            parts = [[value.values(ONE_ROW) for value in row] for row in self.rows]
            columns = zip(*parts, strict=True)
            return [
                pa.chunked_array([pa.concat_arrays([part.chunk(0) for part in column])])
                for column in columns
            ]
        assert source is not None
        if self.where is not None:
            source = source.filter(self.where.holds(source))
        return [column.values(source) for column in self.columns]


@dataclass
class QueryCompiler:
    """Compiles a query.

    Attributes:
        inputs: The types of the columns of the views that it can read, by their names.
        params: The values of parameters.
    """

    inputs: Mapping[str, Mapping[str, HiveType]]
    params: Parameters = field(default_factory=dict)

    def compile(self, text: str) -> Query:
        """Compile a query.

        Raises:
            SparkNeeded: It is not evaluated here.
        """
        try:
            statement = SqlStatement.of(text, "default")
        except HiveAcidError as error:
            raise SparkNeeded(error.what) from error
        words = Words(statement)
        if words.take("VALUES"):
            return self._values(statement, statement.tokens[1:])
        if words.take("SELECT"):
            return self._select(statement, list(statement.tokens[1:]))
        raise SparkNeeded("such a query")

    def _values(self, statement: SqlStatement, tokens: Sequence[Token]) -> Query:
        rows, values = [], 0
        for row in separated(tokens):
            if (
                row[0].token_type is not TokenType.L_PAREN
                or row[-1].token_type is not TokenType.R_PAREN
            ):
                raise SparkNeeded("VALUES without brackets")
            texts = [statement.slice(part) for part in separated(row[1:-1]) if part]
            values += len(texts)
            if values > _MOST_VALUES:
                raise SparkNeeded(f"VALUES with more than {_MOST_VALUES:,} values")
            rows.append([compiled(text, Scope({}, self.params)) for text in texts])
        if len({len(row) for row in rows}) != 1:
            raise SparkNeeded("rows of several lengths")
        # Spark converts the values of a column to one type first.
        types = [common_types(column) for column in zip(*rows, strict=True)]
        converted = [
            [widened(value, type_) for value, type_ in zip(row, types, strict=True)] for row in rows
        ]
        return Query([""] * len(types), converted)

    def _select(self, statement: SqlStatement, tokens: list[Token]) -> Query:
        positions = _outside(tokens)
        words = {
            index: keyword_of(token) for index, token in enumerate(tokens) if index in positions
        }
        sources = [index for index, word in words.items() if word == "FROM"]
        if len(sources) != 1:
            raise SparkNeeded("a query without one FROM")
        wheres = [index for index, word in words.items() if word == "WHERE"]
        end = wheres[0] if wheres else len(tokens)
        relation = tokens[sources[0] + 1 : end]
        clauses = set(words.values()) & _CLAUSES
        if clauses or len(wheres) > 1:
            raise SparkNeeded(", ".join(sorted(clauses)) or "two conditions")
        if not wheres and (inner := _inner_query(tokens[: sources[0]], relation)):
            return self.compile(statement.slice(inner))
        view, alias = self._relation(relation)
        types = self.inputs[view]
        scope = Scope({alias: types}, self.params)
        names, columns = [], []
        for part in separated(tokens[: sources[0]]):
            for name, text in self._column(statement, part, types):
                names.append(name)
                columns.append(_column_of(text, scope))
        where = condition(statement.slice(tokens[end + 1 :]), scope) if wheres else None
        return Query(names, None, columns, where, (view, alias))

    def _relation(self, tokens: Sequence[Token]) -> tuple[str, str]:
        names = [token.text for token in tokens if keyword_of(token) != "AS"]
        if len(names) not in (1, 2) or names[0] not in self.inputs:
            raise SparkNeeded("FROM with more than one table")
        return names[0], names[-1].lower()

    def _column(
        self, statement: SqlStatement, tokens: Sequence[Token], types: Mapping[str, HiveType]
    ) -> list[tuple[str, str]]:
        if not tokens:
            raise SparkNeeded("an empty column")
        if len(tokens) == 1 and tokens[0].token_type is TokenType.STAR:
            return [(name, quoted(name)) for name in types]
        if len(tokens) > 2 and keyword_of(tokens[-2]) == "AS":
            return [(tokens[-1].text.lower(), statement.slice(tokens[:-2]))]
        is_name = all(
            token.token_type in (TokenType.VAR, TokenType.IDENTIFIER, TokenType.DOT)
            for token in tokens
        )
        return [(tokens[-1].text.lower() if is_name else "", statement.slice(tokens))]


def _inner_query(columns: Sequence[Token], relation: Sequence[Token]) -> Sequence[Token]:
    """Return the query in brackets that ``SELECT *`` reads, with or without an alias."""
    ends = [index for index, token in enumerate(relation) if token.token_type is TokenType.R_PAREN]
    is_star = [token.token_type for token in columns] == [TokenType.STAR]
    if not is_star or not ends or relation[0].token_type is not TokenType.L_PAREN:
        return ()
    alias = [token for token in relation[ends[-1] + 1 :] if keyword_of(token) != "AS"]
    return relation[1 : ends[-1]] if len(alias) < 2 else ()


def _column_of(text: str, scope: Scope) -> Expression:
    """Compile a column of a query; one of the table may have any type."""
    if (source := bare_column(tree_of(text, scope), scope)) is None:
        return compiled(text, scope)
    return Expression(source[1], lambda rows: rows.column(source[0]))


_CLAUSES = {
    *("GROUP", "ORDER", "HAVING", "LIMIT", "UNION", "JOIN", "DISTINCT", "OVER", "LATERAL", "SORT"),
    *(
        "CLUSTER",
        "DISTRIBUTE",
        "WINDOW",
        "EXCEPT",
        "INTERSECT",
        "MINUS",
        "QUALIFY",
        "OFFSET",
        "TABLESAMPLE",
    ),
    *("PIVOT", "UNPIVOT", "ALL", "ON", "USING", "NATURAL", "CROSS", "WITH"),
}


def _outside(tokens: Sequence[Token]) -> set[int]:
    """The places of the tokens outside of brackets."""
    depth, positions = 0, set()
    for index, token in enumerate(tokens):
        if token.token_type is TokenType.L_PAREN:
            depth += 1
        elif token.token_type is TokenType.R_PAREN:
            depth -= 1
        elif not depth:
            positions.add(index)
    return positions


@dataclass(frozen=True)
class ArrowSource:
    """A source that is evaluated here.

    Attributes:
        names: The names of its columns in lower case; empty texts for those without a name.
        types: Their types.
        read: Reads the rows behind it by the snapshot of a reader, if there are some.
        table: The transactional table that these are.
        query: The query of these rows; None for all of them.
        is_table: Whether they are a table, whose rows are those of the snapshot.
        without_bytes: The path of the files behind it, if these have no bytes.
    """

    names: Sequence[str]
    types: Sequence[HiveType]
    read: Callable[[Any], pa.Table] | None
    table: TableRef | None = None
    query: Query | None = None
    is_table: bool = False
    without_bytes: Sequence[str] = ()

    @property
    def reads(self) -> list[TableRef]:
        """The transactional tables that it reads."""
        return [] if self.table is None else [self.table]

    def evaluate(self, reader: FilesReader | None = None) -> pa.Table:
        """Return its rows, with its names.

        Args:
            reader: Reads tables under the snapshot of the caller; other rows need none.

        Raises:
            SparkNeeded: It has too many rows.
        """
        rows = None if self.read is None else self.read(reader)
        if self.query is None:
            return rows
        if rows is not None:
            assert self.query.relation is not None
            alias = self.query.relation[1]
            rows = rows.rename_columns([f"{alias}.{name}" for name in rows.column_names])
        columns = self.query.of(rows)
        numbered = pa.table({str(number): column for number, column in enumerate(columns)})
        return numbered.rename_columns([*self.names])


def types_of(table: HiveTable) -> dict[str, HiveType]:
    """Return the types of the columns and partition keys, by their names in lower case."""
    return {
        column.name.lower(): parse_type(column.type)
        for column in (*table.columns, *table.partition_keys)
    }


class SharedInputs:
    """The inputs of several statements: each is looked up once, so that all read the same rows."""

    def __init__(self, batches: Mapping[str, ArrowSource] = MappingProxyType({})) -> None:
        """Begin with the inputs that need no look-up.

        Args:
            batches: The rows that a ``BatchSource`` names.
        """
        self._found: list[tuple[Source, ArrowSource]] = [
            (BatchSource(name), rows) for name, rows in batches.items()
        ]

    def of(self, source: Source, look_up: Callable[[], ArrowSource]) -> ArrowSource:
        """Return an input.

        Args:
            source: The input.
            look_up: Looks it up.
        """
        for source_of_input, input_ in self._found:
            if source_of_input == source:
                return input_
        self._found.append((source, look_up()))
        return self._found[-1][1]


def source_of(
    client: MetastoreClient,
    source: Source,
    params: Mapping[str, Any],
    batches: Mapping[str, ArrowSource] = MappingProxyType({}),
    shared: SharedInputs | None = None,
) -> ArrowSource:
    """Look up a source; files are read at once.

    Args:
        client: The metastore.
        source: The source.
        params: The values of parameters.
        batches: The rows that a ``BatchSource`` names.
        shared: The inputs of all statements of the write.

    Raises:
        SparkNeeded: It is not evaluated here.
        EmptySource: There is no file.
    """
    shared = SharedInputs() if shared is None else shared
    if not isinstance(source, QuerySource):
        return shared.of(source, partial(_input, client, source, batches))
    inputs = {
        name: shared.of(named_source, partial(_input, client, named_source, batches))
        for name, named_source in source.inputs.items()
    }
    values = {**params, **source.params}
    for name, text in source.common.items():
        # Expressions have one result here: a query that two statements read gives both the same rows.
        whole = _result_of(text, inputs, values)
        inputs[name] = replace(whole, read=whole.evaluate, query=None)
    return _result_of(source.sql, inputs, values)


def _result_of(
    text: str, inputs: Mapping[str, ArrowSource], params: Mapping[str, Any]
) -> ArrowSource:
    types = {name: dict(zip(i.names, i.types, strict=True)) for name, i in inputs.items()}
    query = QueryCompiler(types, params).compile(text)
    whole = ArrowSource([], [], None) if query.relation is None else inputs[query.relation[0]]
    return replace(whole, names=query.names, types=query.types, query=query)


def source_of_rows(rows: pa.Table) -> ArrowSource:
    """Return rows of a Python program as a source.

    Raises:
        SparkNeeded: They are too many, or of types that are not evaluated here.
    """
    return _given(bounded(rows.schema, rows.to_batches(), "the given rows"))


def _given(rows: pa.Table) -> ArrowSource:
    return ArrowSource(rows.column_names, [*map(hive_type, rows.schema.types)], lambda _: rows)


def _input(
    client: MetastoreClient, source: Source, batches: Mapping[str, ArrowSource]
) -> ArrowSource:
    if isinstance(source, BatchSource) and source.name in batches:
        return batches[source.name]
    if isinstance(source, PathSource):
        client.allowed_locations.require(source.path)
        rows, size = rows_of_files(source)
        return replace(_given(rows), without_bytes=() if size else (source.path,))
    if not isinstance(source, TableSource):
        raise SparkNeeded(f"a {type(source).__name__}")
    table = existing_table(client, TableRef.parse(source.name))
    if table.is_view or source.version is not None:
        raise SparkNeeded(f"a view or an earlier version: {source.name}")
    if StorageFormat.of(table.serde, source.name).is_text:
        raise SparkNeeded(f"lines of text: {source.name}")
    types = types_of(table)
    # Without a unit, timestamps keep all their digits.
    columns = TableColumns(table.columns, table.partition_keys, unit=None)
    kinds = [field.type for field in columns.schema]
    schema = pa.schema([*zip(types, kinds, strict=True)])
    is_plain = table.kind is TableKind.NOT_ACID

    def read(reader: FilesReader) -> pa.Table:
        try:
            if is_plain:
                parts: Iterable[TablePart] = plain_parts(client, reader.confirmed(table))
            else:
                visible = see_table(client, reader.txn, table)
                parts = map(visible.part, visible.partitions)
            limited = (replace(part, most_events=MOST_EVENTS) for part in parts)
            batches = chain.from_iterable(part.rows(columns, needs_ids=False) for part in limited)
            rows = bounded(schema, (batch for _, batch in batches), source.name)
        except (UnsupportedFile, UnsupportedTable) as error:
            raise SparkNeeded(error.what) from error
        if any(has_finer_times(chunk) for column in rows.columns for chunk in column.chunks):
            # Spark cannot copy them: it refuses those of transactional tables, and cuts others.
            raise SparkNeeded(f"timestamps of more digits than microseconds in {source.name}")
        return rows

    return ArrowSource(
        [*types], [*types.values()], read, None if is_plain else table.ref, is_table=True
    )
