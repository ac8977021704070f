"""The tables that a statement reads, as the named inputs of a job."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from hiveacid.errors import InvalidJob, UserError
from hiveacid.jobs.sources import ChangesSource, Input, QuerySource, TableSource
from hiveacid.rules.as_of import AsOf
from hiveacid.rules.names import TableRef
from hiveacid.sql.relations import Relations, free_name, is_of_metastore
from hiveacid.sql.statement import Edit, SqlStatement
from hiveacid.sql.words import Words, keyword_of

_CHANGES = "TABLE_CHANGES"


class Inputs:
    """Gives every table that a statement reads a one-word name, and stores its source.

    Args:
        statement: The statement.
        tree: Its syntax tree: names that its WITH defines are not tables of the metastore.
        prefix: The prefix of the names.
    """

    def __init__(self, statement: SqlStatement, tree: exp.Expr, prefix: str = "") -> None:
        self.sources: dict[str, Input] = {}
        self._statement = statement
        self._tree = tree
        self._relations = Relations(statement, tree)
        self._prefix = prefix
        self._taken = {cte.alias.lower() for cte in tree.find_all(exp.CTE)}
        self._names: dict[TableSource | ChangesSource, str] = {}

    def query(self, tokens: Sequence[Token]) -> QuerySource:
        """Return the query that some tokens of the statement are, as a source of its own."""
        return QuerySource(sql=self.text(tokens), inputs=self.sources)

    def text(self, tokens: Sequence[Token]) -> str:
        """Return the text of some tokens, which reads the inputs in place of the tables."""
        return self._statement.slice(tokens, self.edits(tokens))

    def with_databases(self, tokens: Sequence[Token]) -> str:
        """Return the text of some tokens with the database of each table of the metastore.

        Raises:
            SqlError: The name of a table is invalid, or in double quotes.
        """
        missing = []
        for table in self._tree.find_all(exp.Table):
            if is_of_metastore(table) and (start := _start_of(table)) is not None:
                self._statement.full_name(table)
                if not table.db:
                    missing.append(Edit(start, start, f"`{self._statement.database}`."))
        return self._statement.slice(tokens, missing)

    def edits(self, tokens: Sequence[Token]) -> list[Edit]:
        """Name the inputs of some tokens, and return the replacements of the tables."""
        within = range(tokens[0].start, tokens[-1].end + 1) if tokens else range(0)
        edits: list[Edit] = []
        for table in self._tree.find_all(exp.Table):
            start = _start_of(table)
            if start is None or start not in within:
                continue
            alias = table.args.get("alias")
            if alias is not None and isinstance(alias.this, exp.Parameter):
                self._statement.refuse(
                    table, "A version after @ is not supported.", "Write FOR VERSION AS OF 7."
                )
            if self._is_changes(table):
                call = self._call(start)
                name = self._name(self._changes(table.this))
                edits.append(Edit(start, call[-1].end + 1, f"`{name}`"))
            elif is_of_metastore(table):
                source = self._source(table)
                edits += self._replacement(table, self._index(start), f"`{self._name(source)}`")
            elif self._relations.unique_name(table) is not None:
                edits += self._replacement(table, self._index(start), None)
        return [*edits, *(edit for edit in self._relations.edits if edit.start in within)]

    def _replacement(self, table: exp.Table, first: int, name: str | None) -> Iterator[Edit]:
        """Replace a table's name and version, and call it as its columns do.

        Args:
            table: The table.
            first: The place of its first token.
            name: The name of its input; None if Spark knows the table by its own name.
        """
        tokens, at = self._statement.tokens, first
        while at + 1 < len(tokens) and tokens[at + 1].token_type is TokenType.DOT:
            at += 2
        if table.args.get("version") is not None:
            at = self._end_of_version(at)
        start, end = tokens[first].start, tokens[at].end + 1
        name = self._statement.text[start:end] if name is None else name
        only_named = first > 0 and keyword_of(tokens[first - 1]) == "TABLE"
        if table.alias or only_named:
            yield Edit(start, end, name)
            return
        # Its columns are known by the name of the table.
        own_name = f"`{table.name.replace('`', '``')}`"
        alias = f" AS {self._relations.unique_name(table) or own_name}"
        following = keyword_of(tokens[at + 1]) if at + 1 < len(tokens) else ""
        if following != "TABLESAMPLE":
            yield Edit(start, end, f"{name}{alias}")
            return
        yield Edit(start, end, name)
        words = Words(replace(self._statement, tokens=tokens[at + 2 :]))
        sample = words.brackets()
        if words.take("REPEATABLE"):
            sample = words.brackets()
        end = sample[-1].end + 1
        yield Edit(end, end, alias)

    def _end_of_version(self, at: int) -> int:
        """Return the place of the last token of FOR VERSION AS OF 7, behind a table's name."""
        tokens = self._statement.tokens
        while keyword_of(tokens[at]) != "OF":
            at += 1
        literals = (TokenType.NUMBER, TokenType.STRING)
        while tokens[at].token_type not in literals:
            at += 1
        return at

    def _index(self, start: int) -> int:
        return next(at for at, token in enumerate(self._statement.tokens) if token.start == start)

    def _call(self, start: int) -> Sequence[Token]:
        """Return the arguments of a function with their brackets."""
        tokens = self._statement.tokens[self._index(start) + 1 :]
        return Words(replace(self._statement, tokens=tokens)).brackets()

    def _source(self, table: exp.Table) -> TableSource:
        """A table, and which version of it."""
        source = TableSource(self._statement.full_name(table))
        version = table.args.get("version")
        if version is None:
            return source
        value = version.expression
        # FOR TIMESTAMP is another word for FOR SYSTEM_TIME, and both may be left out.
        by_time = version.name == "TIMESTAMP"
        if isinstance(value, exp.Cast) and value.to.is_type("timestamp", "timestamptz", "date"):
            value = value.this
        if (
            version.args.get("kind") != "AS OF"
            or not isinstance(value, exp.Literal)
            or value.is_string is not by_time
        ):
            self._statement.refuse(
                version,
                "A version is a number or a text.",
                "Write FOR VERSION AS OF 7, or FOR SYSTEM_TIME AS OF '2026-03-01 12:00:00+00:00'.",
            )
        as_of = str(value.this)
        try:
            if by_time and as_of.strip().isdecimal():
                # It would be taken for a write id.
                as_of = str(AsOf.of_time(as_of).time)
            source = replace(source, as_of=as_of)
            source.validate()
        except InvalidJob as error:
            raise self._statement.error(version, str(error)) from error
        return source

    @staticmethod
    def _is_changes(table: exp.Table) -> bool:
        function = table.this
        return isinstance(function, exp.Anonymous) and function.name.upper() == _CHANGES

    def _changes(self, function: exp.Anonymous) -> ChangesSource:
        """TABLE_CHANGES('db.t', 3, 9): the changes after version 3 up to version 9."""
        given = function.expressions
        if not 2 <= len(given) <= 3 or not all(isinstance(value, exp.Literal) for value in given):
            self._statement.refuse(
                function,
                f"{_CHANGES} takes a table, and one or two versions.",
                f"Write {_CHANGES}('db.t', 3, 9), or times as texts in place of numbers.",
            )
        table, after, up_to = [*[str(value.this) for value in given], None][:3]
        name = str(table) if "." in str(table) else f"{self._statement.database}.{table}"
        try:
            source = ChangesSource(TableRef.parse(name).full_name, str(after), up_to)
            source.validate()
        except UserError as error:
            raise self._statement.error(function, str(error)) from error
        return source

    def _name(self, source: TableSource | ChangesSource) -> str:
        if source not in self._names:
            base = re.sub(r"\W", "_", self._prefix + source.name.replace(".", "__"))
            name = free_name(base, self._taken)
            self._taken.add(name.lower())
            self._names[source] = name
            self.sources[name] = source
        return self._names[source]


def _start_of(table: exp.Table) -> int | None:
    """Return where the name of a table starts; None for a table that is not in the text."""
    parts = [table.args.get("db"), table.this]
    offsets = [part.meta["start"] for part in parts if part is not None and "start" in part.meta]
    return min(offsets, default=None)
