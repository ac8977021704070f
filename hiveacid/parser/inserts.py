"""INSERT as a job, and several INSERTs from one FROM as a transaction.

The tree of sqlglot shows which tables a statement reads; its clauses are read token by token, so that
every token of the statement is part of the job or refused.
"""

from collections.abc import Iterator, Sequence
from dataclasses import field, replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from hiveacid.dataclass import dataclass
from hiveacid.jobs.sources import QuerySource
from hiveacid.jobs.write_jobs import InsertJob, TransactionJob
from hiveacid.parser.relations import QUERY_WORDS, Inputs, free_name, names_in, query_with
from hiveacid.parser.statement import Edit, SqlStatement
from hiveacid.parser.words import Words, keyword_of, separated
from hiveacid.rules.texts import plural

_PARTS = ("this", "expression", "overwrite", "with_", "by_name", "source", "where")
_QUERIES = (*QUERY_WORDS, "(")
# They end the list of columns of a SELECT that has no FROM.
_AFTER_COLUMNS = (
    *("WHERE", "GROUP BY", "HAVING", "WINDOW", "LATERAL", "ORDER BY", "SORT BY", "CLUSTER BY"),
    *("DISTRIBUTE BY", "LIMIT", "OFFSET", "UNION", "EXCEPT", "INTERSECT", "MINUS"),
)


def insert_job(statement: SqlStatement, tree: exp.Insert) -> InsertJob:
    """INSERT INTO or OVERWRITE ... SELECT, VALUES or TABLE."""
    query = tree.expression or tree.args.get("source")
    if not isinstance(query, exp.Query | exp.Values | exp.Table):
        statement.refuse(tree, "An INSERT needs a SELECT or VALUES.")
    words = Words(statement)
    with_ = words.until("INSERT")
    job = _insert(statement, tree, words)
    body = words.rest()
    if not body:
        statement.refuse(words.next, "An INSERT needs a SELECT or VALUES.")
    rows = _rows_of_values(statement, query, body)
    _require_values(statement, rows, job.columns)
    defaults = _Defaults.of(rows)
    inputs = Inputs(statement, tree)
    edits = [*inputs.edits(with_), *inputs.edits(body), *defaults.edits]
    text = query_with(statement, tree, with_, body, edits)
    return replace(
        job, source=QuerySource(sql=text, inputs=inputs.sources), defaults=defaults.places
    )


def _rows_of_values(
    statement: SqlStatement, query: exp.Expr, tokens: Sequence[Token]
) -> list[Sequence[Token]]:
    """Return the rows of a VALUES, each with its brackets; other queries have none."""
    words = Words(replace(statement, tokens=tokens))
    rows: list[Sequence[Token]] = []
    if not isinstance(query, exp.Values) or not words.take("VALUES"):
        return rows
    while words.keyword == "(":
        rows.append(words.brackets())
        if not words.take(","):
            break
    return rows


def _require_values(
    statement: SqlStatement, rows: Sequence[Sequence[Token]], columns: Sequence[str] | None
) -> None:
    """Refuse a row with another number of values than the named columns, or than the first row."""
    for row in rows:
        number, first_count = len(separated(row[1:-1])), len(separated(rows[0][1:-1]))
        if columns is not None and number != len(columns):
            subject = f"The row has {plural(number, 'value')}, and the INSERT names {plural(len(columns), 'column')}."
            statement.refuse(row[0], subject)
        if number != first_count:
            statement.refuse(
                row[0],
                f"The row has {plural(number, 'value')}, and the first row has {first_count}.",
            )


@dataclass(frozen=True, slots=True)
class _Defaults:
    """The keyword DEFAULT in VALUES.

    NULL takes its place, and further columns of the row are true where it was.

    Attributes:
        places: The places of the columns that have it anywhere.
        edits: The replacements.
    """

    places: tuple[int, ...] = ()
    edits: Sequence[Edit] = field(default_factory=tuple)

    @classmethod
    def of(cls, rows: Sequence[Sequence[Token]]) -> "_Defaults":
        """Find it in the rows of a VALUES, each with its brackets."""
        parts = [separated(row[1:-1]) for row in rows]
        places = sorted(
            {index for row in parts for index, value in enumerate(row) if _is_default(value)}
        )
        if not places:
            return cls()
        edits = []
        for row, values in zip(rows, parts, strict=True):
            for value in values:
                if _is_default(value):
                    edits.append(Edit(value[0].start, value[0].end + 1, "NULL"))
            marks = (place < len(values) and _is_default(values[place]) for place in places)
            end = row[-1].start
            edits.append(Edit(end, end, "".join(f", {mark}".upper() for mark in marks)))
        return cls(tuple(places), edits)


def _is_default(value: Sequence[Token]) -> bool:
    return len(value) == 1 and keyword_of(value[0]) == "DEFAULT"


def multi_insert_job(
    statement: SqlStatement, tree: exp.MultitableInserts
) -> InsertJob | TransactionJob:
    """FROM ... INSERT ... INSERT ...: all of it in one transaction."""
    statement.only(tree, ("expressions", "source", "with_"), "FROM ... INSERT")
    words = Words(statement)
    with_ = words.until("FROM")
    words.expect("FROM")
    source = words.until("INSERT")
    inserts = []
    for insert in tree.expressions:
        if not isinstance(insert, exp.Insert) or not isinstance(insert.expression, exp.Select):
            statement.refuse(insert, "After FROM, an INSERT needs a SELECT.")
        if insert.expression.args.get("from_") is not None:
            statement.refuse(
                insert.expression.args["from_"], "The FROM of this INSERT precedes it."
            )
        job = _insert(statement, insert, words)
        branch = _Branch(statement, tree, with_, source, words.until("INSERT"))
        inserts.append(replace(job, source=branch.query(keep=len(tree.expressions) > 1)))
    words.end()
    if len(inserts) == 1:
        return inserts[0]
    return TransactionJob(target=inserts[0].target, statements=tuple(inserts))


class _Branch:
    """One of several inserts with the rows that all of them select from.

    Args:
        statement: The statement.
        tree: Its syntax tree.
        with_: The tokens of its WITH.
        source: The tokens between its FROM and its first INSERT.
        body: The tokens of the query of this insert, which has no FROM.
    """

    def __init__(
        self,
        statement: SqlStatement,
        tree: exp.MultitableInserts,
        with_: Sequence[Token],
        source: Sequence[Token],
        body: Sequence[Token],
    ) -> None:
        self._statement, self._tree = statement, tree
        self._with, self._source, self._body = with_, source, body
        self._inputs = Inputs(statement, tree)
        self._common: dict[str, str] = {}

    def query(self, *, keep: bool) -> QuerySource:
        """Return the query of this insert.

        Args:
            keep: Whether subqueries of the source are evaluated once for all inserts: they might
                return other rows the next time.
        """
        places = (self._with, self._source, self._body)
        edits = [edit for tokens in places for edit in self._inputs.edits(tokens)]
        used_names = names_in(self._tree)
        for subquery in self._subqueries() if keep else ():
            name = free_name(f"_common_{len(self._common) + 1}", {*self._common, *used_names})
            self._common[name] = query_with(
                self._statement, self._tree, self._with, subquery[1:-1], edits
            )
            start, end = subquery[0].start, subquery[-1].end + 1
            edits = [edit for edit in edits if not start <= edit.start < end]
            edits.append(Edit(start, end, name))
        words = Words(replace(self._statement, tokens=self._body))
        words.until("SELECT")
        words.until(*_AFTER_COLUMNS)
        columns = self._body[: len(self._body) - len(words.rest())]
        behind = columns[-1].end + 1
        clause = f" FROM {self._statement.slice(self._source, edits)}"
        edits.append(Edit(behind, behind, clause))
        text = query_with(self._statement, self._tree, self._with, self._body, edits)
        return QuerySource(sql=text, inputs=self._inputs.sources, common=self._common)

    def _subqueries(self) -> Iterator[Sequence[Token]]:
        """Find the queries in brackets that the source joins."""
        words = Words(replace(self._statement, tokens=self._source))
        starts = True
        while not words.done:
            if starts and words.keyword == "(" and keyword_of(words.rest()[1]) in _QUERIES:
                yield words.brackets()
                starts = False
                continue
            starts = words.keyword in ("JOIN", ",")
            if words.keyword == "(":
                words.brackets()
            else:
                words.skip()


def _insert(statement: SqlStatement, tree: exp.Insert, words: Words) -> InsertJob:
    """Read an INSERT up to its query."""
    statement.only(tree, _PARTS, "INSERT")
    destination = tree.this.this if isinstance(tree.this, exp.Schema) else tree.this
    if isinstance(destination, exp.Directory):
        statement.refuse(destination, "INSERT OVERWRITE DIRECTORY is not supported.")
    target = statement.table(destination, "Inserting into")
    words.expect("INSERT")
    overwrite = words.take("OVERWRITE")
    if not overwrite:
        words.expect("INTO")
    words.take("TABLE")
    words.table()
    values, dynamic = words.partition() if words.take("PARTITION") else ({}, ())
    by_name = words.take_all("BY", "NAME")
    columns = None
    if words.keyword == "(" and keyword_of(words.rest()[1]) not in _QUERIES:
        columns = tuple(_column(statement, part) for part in separated(words.brackets()[1:-1]))
    whole_table = not overwrite and words.take_all("REPLACE", "WHERE")
    if whole_table and not words.take("TRUE"):
        statement.refuse(words.next, "REPLACE WHERE has no other condition than TRUE.")
    if not words.done and words.keyword not in _QUERIES:
        statement.refuse(words.next, f"INSERT with {words.shown()} is not supported.")
    return InsertJob(
        target=target,
        source=QuerySource(""),
        overwrite=overwrite or whole_table,
        whole_table=whole_table,
        by_position=not by_name,
        columns=columns,
        partitions=(values,) if values and not dynamic else None,
        static=values if values and dynamic else None,
        dynamic=dynamic,
    )


def _column(statement: SqlStatement, tokens: Sequence[Token]) -> str:
    words = Words(replace(statement, tokens=tokens or statement.tokens))
    name = words.name()
    if not tokens or not words.done:
        statement.refuse(words.next, "The columns of an INSERT are names.")
    return name.lower()
