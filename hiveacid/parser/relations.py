"""The relations of a statement, and the columns that name them.

Spark reads each table under a name of one word, so ``sales.orders.id`` loses its database. If another
relation called ``orders`` is visible there, Spark could then read the column from it, or from a struct
``orders`` of a subquery's table. Such relations therefore get unique names, like ``_orders_1``, and so
do the columns that name them.
"""

import re
from collections import defaultdict
from collections.abc import Container, Iterator, Sequence
from dataclasses import replace
from itertools import chain, count

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob, UserError
from hiveacid.jobs.sources import BatchSource, ChangesSource, Input, QuerySource, TableSource
from hiveacid.parser.statement import Edit, SqlStatement
from hiveacid.parser.words import Words, keyword_of
from hiveacid.rules.names import TableRef
from hiveacid.rules.sql_names import quoted
from hiveacid.rules.write_ids import AsOf

# A WITH before a statement, put into the queries of the statement


QUERY_WORDS = ("SELECT", "VALUES", "TABLE", "WITH", "FROM")


def subqueries(statement: SqlStatement, tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Find the outermost queries in brackets, without the brackets."""
    words = Words(replace(statement, tokens=tokens))
    while not words.done:
        following = words.rest()[:2]
        if words.keyword == "(" and len(following) == 2 and keyword_of(following[1]) in QUERY_WORDS:
            yield words.brackets()[1:-1]
        else:
            words.skip()


def query_with(
    statement: SqlStatement,
    tree: exp.Expr,
    outer: Sequence[Token],
    body: Sequence[Token],
    edits: Sequence[Edit],
) -> str:
    """Return a query with the queries that a WITH before its statement defines.

    Args:
        statement: The statement.
        tree: Its syntax tree.
        outer: The tokens of the WITH; may be empty.
        body: The tokens of the query.
        edits: The replacements of tables.
    """
    if not outer:
        return statement.slice(body, edits)
    first = statement.slice(outer, edits)
    if keyword_of(body[0]) != "WITH":
        return f"{first} {statement.slice(body, edits)}"
    names = {cte.alias.lower() for cte in tree.args["with_"].expressions}
    words = Words(replace(statement, tokens=body))
    words.expect("WITH")
    recursive = words.take("RECURSIVE")
    words_of_with = Words(replace(statement, tokens=words.rest()))
    while True:
        position = words_of_with.next
        if words_of_with.name().lower() in names:
            statement.refuse(position, f"{position.text} is defined twice.")
        words_of_with.until("(", "AS")
        if words_of_with.keyword == "(":
            words_of_with.brackets()
        words_of_with.expect("AS")
        words_of_with.brackets()
        if not words_of_with.take(","):
            break
    if recursive and keyword_of(outer[1]) != "RECURSIVE":
        first = first.replace(outer[0].text, f"{outer[0].text} RECURSIVE", 1)
    return f"{first}, {statement.slice(words.rest(), edits)}"


# Nodes whose expressions name the relations of their FROM, USING, or INTO.
_SCOPES = (exp.Select, exp.Update, exp.Delete, exp.Merge, exp.MultitableInserts)
_SOURCES = (exp.From, exp.Join, exp.Delete, exp.Merge, exp.MultitableInserts)
# Spark reads a file by parquet.`/path`.
_FILES = frozenset({"avro", "csv", "json", "orc", "parquet", "text"})


@dataclass(frozen=True, eq=False, slots=True)
class _Relation:
    """A table, a subquery or a generator with a name.

    Attributes:
        node: Its node in the tree of the statement.
        path: Its name in lower case; of a table without an alias with database, if it has one.
        is_input: Whether Spark reads it under a name of one word.
    """

    node: exp.Expr
    path: tuple[str, ...]
    is_input: bool


@dataclass(frozen=True, slots=True)
class _Reference:
    """The relation in front of a column.

    Attributes:
        parts: The identifiers of the column that name the relation.
        relations: The relations of the innermost scope that it may mean.
        namesakes: All visible relations with the same last name.
        is_outer: Whether a scope inside of that one has relations, which may have a struct with
            this name.
        is_inner: Whether fewer parts name a relation of a scope outside of that one, which may have
            a struct with the name of this relation.
    """

    parts: Sequence[exp.Expr]
    relations: Sequence[_Relation]
    namesakes: Sequence[_Relation]
    is_outer: bool
    is_inner: bool

    @property
    def is_crowded(self) -> bool:
        """Whether the last part alone could mean another relation, or a struct."""
        if len(self.parts) == 1 or not self.relations[0].is_input:
            return False  # The name has no database to lose.
        is_ambiguous = len({namesake.path for namesake in self.namesakes}) > 1
        return is_ambiguous or self.is_outer or self.is_inner


class Relations:
    """The names of relations in the text for Spark.

    Args:
        statement: The statement.
        tree: Its syntax tree.
        renamed: A relation that gets a unique name in any case.

    Raises:
        SqlError: A column may belong to any of several relations.
    """

    def __init__(
        self, statement: SqlStatement, tree: exp.Expr, renamed: exp.Expr | None = None
    ) -> None:
        self._statement = statement
        self._scopes: dict[int, list[_Relation]] = defaultdict(list)
        for scope, relation in _relations(tree, statement.database):
            self._scopes[id(scope)].append(relation)
        references_of_tree = map(self._reference, tree.find_all(exp.Column))
        references = [reference for reference in references_of_tree if reference is not None]
        self._unique = _unique_names(tree, references, renamed)
        self.edits = [*self._of_references(references), *self._of_aliases()]

    def unique_name(self, node: exp.Expr) -> str | None:
        """Return the unique name of a relation; None if it keeps its own name."""
        return self._unique.get(id(node))

    def _reference(self, column: exp.Column) -> _Reference | None:
        """Find the relation of a column; None if the column names no relation of the statement."""
        names = tuple(part.name.lower() for part in column.parts[:-1])
        scopes = [*self._visible(column)] if names else []
        for depth, scope in enumerate(scopes):
            # As in Spark, a table of a database precedes the field of a struct.
            for length in range(len(names), 0, -1):
                namesakes = [
                    relation for relation in scope if relation.path[-length:] == names[:length]
                ]
                if namesakes:
                    last = names[length - 1]
                    return _Reference(
                        column.parts[:length],
                        namesakes,
                        namesakes=[
                            relation for relation in chain(*scopes) if relation.path[-1] == last
                        ],
                        is_outer=any(scopes[:depth]),
                        is_inner=any(
                            relation.path[-fewer:] == names[:fewer]
                            for relation in chain(*scopes[depth + 1 :])
                            for fewer in range(1, length)
                        ),
                    )
        return None

    def _visible(self, node: exp.Expr) -> Iterator[Sequence[_Relation]]:
        """The relations that an expression can name, from the innermost scope to the outermost one."""
        is_hidden = False
        while (parent := node.parent) is not None:
            if isinstance(node, exp.CTE) and parent.parent is not None:
                # A query that WITH defines does not see the relations of the query after it.
                node = parent.parent
                continue
            is_hidden |= isinstance(node, exp.Subquery) and _is_source(node)
            if isinstance(parent, _SCOPES):
                if not is_hidden:
                    yield self._scopes[id(parent)]
                is_hidden = False
            node = parent

    def _of_references(self, references: Sequence[_Reference]) -> Iterator[Edit]:
        for reference in references:
            first, last = reference.parts[0].meta, reference.parts[-1].meta
            relation, *alternatives = reference.relations
            unique = self.unique_name(relation.node)
            if alternatives and any(
                self.unique_name(relation.node) for relation in reference.relations
            ):
                name = ".".join(part.name for part in reference.parts)
                paths = sorted({".".join(relation.path) for relation in reference.relations})
                self._statement.refuse(
                    reference.parts[0],
                    f"{name} may be any of the tables {', '.join(paths)}.",
                    "Give each table an alias, and write the alias in front of its columns.",
                )
            if unique is not None:
                yield Edit(first["start"], last["end"] + 1, unique)
            elif len(reference.parts) > 1 and relation.is_input:
                yield Edit(first["start"], last["start"], "")

    def _of_aliases(self) -> Iterator[Edit]:
        for relations in self._scopes.values():
            for relation in relations:
                unique, alias = self.unique_name(relation.node), _alias(relation.node)
                if unique is not None and alias is not None:
                    yield Edit(alias.meta["start"], alias.meta["end"] + 1, unique)


def is_of_metastore(table: exp.Table) -> bool:
    """Whether a table is one of the metastore, not a query that WITH defines, a function, or a file."""
    if not isinstance(table.this, exp.Identifier) or table.catalog:
        return False  # A function of rows, or a table of a catalog of Spark.
    if table.db:
        return not (table.db.lower() in _FILES and "/" in table.name)
    return table.name.lower() not in _defined_above(table)


def free_name(base: str, used_names: Container[str]) -> str:
    """Return a name that differs from others in more than case.

    Args:
        base: The name, to which a number is added if it is taken.
        used_names: The other names, in lower case.
    """
    names = chain([base], (f"{base}_{number}" for number in count(2)))
    return next(name for name in names if name.lower() not in used_names)


def names_in(tree: exp.Expr) -> set[str]:
    """All names in a tree, in lower case."""
    return {identifier.name.lower() for identifier in tree.find_all(exp.Identifier)}


def _relations(tree: exp.Expr, database: str) -> Iterator[tuple[exp.Expr, _Relation]]:
    """The relations that expressions can name, each with its scope."""
    for node in tree.walk():
        alias = _alias(node)
        is_target_of_insert = isinstance(node.parent, exp.Insert | exp.Schema)
        if alias is None and (not isinstance(node, exp.Table) or is_target_of_insert):
            continue
        scope = node.find_ancestor(*_SCOPES)
        if scope is None or isinstance(node, exp.CTE):
            continue
        if alias is not None:
            yield scope, _Relation(node, (alias.name.lower(),), is_input=False)
        elif isinstance(node, exp.Table) and node.name:
            is_input = is_of_metastore(node)
            database_of_table = node.db or (database if is_input else "")
            path = (node.catalog, database_of_table, node.name)
            names = tuple(name.lower() for name in path if name)
            yield scope, _Relation(node, names, is_input)


def _alias(node: exp.Expr) -> exp.Identifier | None:
    """Return the name that a relation has behind AS."""
    alias = node.args.get("alias")
    name = alias.this if isinstance(alias, exp.TableAlias) else None
    return name if isinstance(name, exp.Identifier) else None


def _is_source(node: exp.Expr) -> bool:
    """Whether a node is in the place of a table."""
    return node.arg_key in ("this", "using", "source") and isinstance(node.parent, _SOURCES)


def _unique_names(
    tree: exp.Expr, references: Sequence[_Reference], renamed: exp.Expr | None
) -> dict[int, str]:
    """Name the relations whose own name could mean several; the keys are the ids of their nodes.

    All relations that are visible to a reference get unique names together. A column that names one
    of them by its last name then means the innermost one, as in Spark, or does not exist.
    """
    used_names = names_in(tree)
    unique: dict[int, str] = {}
    named_nodes = [
        (namesake.node, namesake.path[-1])
        for reference in references
        if reference.is_crowded
        for namesake in reference.namesakes
    ]
    if renamed is not None:
        named_nodes.append((renamed, renamed.alias_or_name))
    for node, last in named_nodes:
        if id(node) not in unique:
            base = re.sub(r"\W", "_", last, flags=re.ASCII)
            names = (f"_{base}_{number}" for number in count(1))
            name = next(name for name in names if name.lower() not in used_names)
            used_names.add(name.lower())
            unique[id(node)] = name
    return unique


def _defined_above(node: exp.Expr) -> Iterator[str]:
    """The names that the WITH of a query around a node has for it."""
    child, parent = node, node.parent
    while parent is not None:
        clause = parent.args.get("with_")
        if clause is not None and clause is not child:
            yield from (cte.alias.lower() for cte in clause.expressions)
        if isinstance(parent, exp.With):
            for cte in parent.expressions:
                if cte is child and not parent.args.get("recursive"):
                    break
                yield cte.alias.lower()
        child, parent = parent, parent.parent


# The tables that a statement reads, as the named inputs of a job


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
        self._names: dict[TableSource | ChangesSource | BatchSource, str] = {}

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
                    missing.append(Edit(start, start, f"{quoted(self._statement.database)}."))
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
                edits.append(Edit(start, call[-1].end + 1, quoted(name)))
            elif is_of_metastore(table):
                source = self._source(table)
                edits += self._replacement(table, self._index(start), quoted(self._name(source)))
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
        tokens, index = self._statement.tokens, first
        while index + 1 < len(tokens) and tokens[index + 1].token_type is TokenType.DOT:
            index += 2
        if table.args.get("version") is not None:
            index = self._end_of_version(index)
        start, end = tokens[first].start, tokens[index].end + 1
        name = self._statement.text[start:end] if name is None else name
        only_named = first > 0 and keyword_of(tokens[first - 1]) == "TABLE"
        if table.alias or only_named:
            yield Edit(start, end, name)
            return
        # Its columns are known by the name of the table.
        own_name = quoted(table.name)
        alias = f" AS {self._relations.unique_name(table) or own_name}"
        following = keyword_of(tokens[index + 1]) if index + 1 < len(tokens) else ""
        if following != "TABLESAMPLE":
            yield Edit(start, end, f"{name}{alias}")
            return
        yield Edit(start, end, name)
        words = Words(replace(self._statement, tokens=tokens[index + 2 :]))
        sample = words.brackets()
        if words.take("REPEATABLE"):
            sample = words.brackets()
        end = sample[-1].end + 1
        yield Edit(end, end, alias)

    def _end_of_version(self, index: int) -> int:
        """Return the place of the last token of FOR VERSION AS OF 7, behind a table's name."""
        tokens = self._statement.tokens
        while keyword_of(tokens[index]) != "OF":
            index += 1
        literals = (TokenType.NUMBER, TokenType.STRING)
        while tokens[index].token_type not in literals:
            index += 1
        return index

    def _index(self, start: int) -> int:
        return next(
            index for index, token in enumerate(self._statement.tokens) if token.start == start
        )

    def _call(self, start: int) -> Sequence[Token]:
        """Return the arguments of a function with their brackets."""
        tokens = self._statement.tokens[self._index(start) + 1 :]
        return Words(replace(self._statement, tokens=tokens)).brackets()

    def _source(self, table: exp.Table) -> TableSource | BatchSource:
        """A table, and which version of it; a table that a session reads by itself has no versions."""
        source = TableSource(self._statement.full_name(table))
        version = table.args.get("version")
        if version is None:
            is_known = self._statement.of_session
            names = [source.name] if table.db else [table.name.lower(), source.name]
            batches = (
                BatchSource(name) for name in names if is_known is not None and is_known(name)
            )
            return next(batches, source)
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
        arguments = function.expressions
        if not 2 <= len(arguments) <= 3 or not all(
            isinstance(value, exp.Literal) for value in arguments
        ):
            self._statement.refuse(
                function,
                f"{_CHANGES} takes a table, and one or two versions.",
                f"Write {_CHANGES}('db.t', 3, 9), or times as texts in place of numbers.",
            )
        table, start, up_to = [*[str(value.this) for value in arguments], None][:3]
        name = str(table) if "." in str(table) else f"{self._statement.database}.{table}"
        try:
            source = ChangesSource(TableRef.parse(name).full_name, str(start), up_to)
            source.validate()
        except UserError as error:
            raise self._statement.error(function, str(error)) from error
        return source

    def _name(self, source: TableSource | ChangesSource | BatchSource) -> str:
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
