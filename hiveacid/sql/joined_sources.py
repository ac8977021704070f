"""The tables that UPDATE ... FROM and DELETE ... USING join with the table that they change.

Each column has its table in front: a name alone could be of any of them, and Spark would only look for
it in those of the innermost query.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from hiveacid.sql.relations import Relations, free_name, names_in
from hiveacid.sql.statement import Edit, SqlStatement
from hiveacid.sql.words import Nesting, keyword_of


def same_name(alias: str) -> str:
    """Return the error for a source with the name of the target."""
    return f"The table and its source are both called {alias}."


def conjuncts_of(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """Split a condition at each AND that connects all of it; one with OR stays whole."""
    parts, start, nesting, betweens = [], 0, Nesting(), 0
    for at, token in enumerate(tokens):
        word = keyword_of(token) if nesting.is_outside else ""
        if word == "OR":
            return [tokens]
        betweens += word == "BETWEEN"
        if word == "AND" and betweens:
            betweens -= 1
        elif word == "AND":
            parts.append(tokens[start:at])
            start = at + 1
        nesting.pass_by(token)
    return [*parts, tokens[start:]]


@dataclass(frozen=True)
class JoinedSources:
    """The sources of a statement by the names that its columns have in front.

    Attributes:
        statement: The statement.
        tree: Its syntax tree.
        target: The name of the table that is changed.
        names: The names of the sources in lower case, each with its name for Spark.
        joined: The name of the join as the source of a merge.
    """

    statement: SqlStatement
    tree: exp.Expr
    target: str
    names: Mapping[str, str]
    joined: str

    @classmethod
    def of(
        cls,
        statement: SqlStatement,
        tree: exp.Expr,
        target: str,
        relations: Sequence[exp.Expr],
    ) -> "JoinedSources":
        """Find the sources in the tree of a FROM or a USING."""
        known = Relations(statement, tree)
        names: dict[str, str] = {}
        for relation in _with_joins(relations):
            name = relation.alias_or_name
            if not name:
                statement.refuse(relation, "The source needs a name.", "Write (...) AS s.")
            if name.lower() == target.lower():
                statement.refuse(relation, same_name(name), "Name one AS s.")
            if name.lower() in names:
                statement.refuse(relation, f"Two sources are called {name}.", "Name one AS s.")
            names[name.lower()] = known.unique_name(relation) or name.lower()
        return cls(statement, tree, target, names, free_name("_joined", names_in(tree)))

    def require_named(self, parts: Sequence[Sequence[Token]], table: str) -> set[str]:
        """Refuse columns that have no table in front.

        Args:
            parts: Conditions, or assignments.
            table: The full name of the table that is changed.

        Returns:
            The names of the tables of all columns, in lower case.
        """
        found = set()
        own = self.target.lower()
        for column in self._columns(parts):
            names = [part.name.lower() for part in column.parts]
            if names[0] not in (*self.names, own) and ".".join(names[:2]) == table:
                names = [own]
            if len(column.parts) == 1 or names[0] not in (*self.names, own):
                self.statement.refuse(
                    column,
                    f"The table of the column {column.name} is not clear.",
                    f"Write {' or '.join(f'{name}.{column.name}' for name in (own, *self.names))}.",
                )
            found.add(names[0])
        return found

    def renamed(self, tokens: Sequence[Token], columns: dict[str, str]) -> Iterator[Edit]:
        """Let an expression read the columns of the sources from their join.

        Args:
            tokens: The expression.
            columns: The texts of the columns with their names in the join; new ones are added.
        """
        for column in self._columns([tokens]):
            source, name = column.parts[0].name.lower(), column.parts[1].name.lower()
            if source in self.names:
                path = (self.names[source], name)
                text = ".".join(f"`{part.replace('`', '``')}`" for part in path)
                if text not in columns:
                    taken = {each.strip("`") for each in columns.values()}
                    base = f"{source}__{name}".replace("`", "_")
                    columns[text] = f"`{free_name(base, taken)}`"
                start, end = column.parts[0].meta["start"], column.parts[1].meta["end"] + 1
                yield Edit(start, end, f"{self.joined}.{columns[text]}")

    def _columns(self, parts: Sequence[Sequence[Token]]) -> Iterator[exp.Column]:
        """The columns of some expressions, without those of subqueries and the targets of SET."""
        ranges = [range(tokens[0].start, tokens[-1].end + 1) for tokens in parts if tokens]
        for column in self.tree.find_all(exp.Column):
            start = column.parts[0].meta.get("start")
            if start is None or not any(start in each for each in ranges):
                continue
            is_default = len(column.parts) == 1 and column.name.upper() == "DEFAULT"
            is_read = column.parent_select is None and not _is_set(column, self.tree)
            if is_read and not is_default:
                yield column


def _is_set(column: exp.Column, tree: exp.Expr) -> bool:
    """Whether a column gets a value of an UPDATE."""
    if not isinstance(tree, exp.Update):
        return False
    targets = [each.this for each in tree.expressions if isinstance(each, exp.EQ)]
    return any(column is each or column.parent is each for each in targets)


def _with_joins(relations: Sequence[exp.Expr]) -> Iterator[exp.Expr]:
    for relation in relations:
        yield relation
        yield from (join.this for join in relation.args.get("joins") or ())
