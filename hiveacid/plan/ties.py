"""Partition keys that ON makes equal to values of the source, whose rows then tell the partitions."""

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from hiveacid.errors import SqlError
from hiveacid.metastore.table_rules import column_names
from hiveacid.parser.partition_conditions import condition_tree
from hiveacid.parser.statement import SqlStatement
from hiveacid.parser.words import Nesting, keyword_of
from hiveacid.plan.merge import MergeChange, RowAction

_INEXACT = ("float", "double")
_TEXTS = ("string", "varchar", "char")
# A part of a condition with one of these, outside of brackets, is more than one equality.
_OTHER_WORDS = frozenset(
    [
        "OR",
        "NOT",
        "IS",
        "IN",
        "LIKE",
        "ILIKE",
        "RLIKE",
        "REGEXP",
        "SIMILAR",
        "BETWEEN",
        "EXISTS",
        "ESCAPE",
        "DISTINCT",
    ]
)
_OTHER_SIGNS = frozenset({"<", ">", "<=", ">=", "<>", "!=", "<=>", "!", "!<", "!>"})


def ties_of(change: MergeChange) -> Mapping[str, str] | None:
    """Return the expression of the source that each partition key equals in all pairs and new rows.

    Only the parts of ON count that AND connects. Each clause must leave the key as it is, or write
    the same expression into it. Whatever is not certain counts as no tie.

    Returns:
        The expressions by keys in lower case; the partitions of their values are locked if each
        ``equals_one_partition``. None if the rows of the source do not tell the partitions, so that
        the table is locked.
    """
    keys = change.table.key_types
    if not keys or change.not_matched_by_source:
        return None
    ties: dict[str, str] = {}
    for one, other in equalities(change.on):
        for key, value in ((one, other), (other, one)):
            side, name = _column(change, _tree(key)) or ("", "")
            if side == "target" and name in keys and _is_of_source(change, value):
                ties.setdefault(name, value)
    if ties.keys() != keys.keys():
        return None
    actions = (*change.matched, *change.not_matched)
    kept = all(_keeps(change, action, ties) for action in actions)
    return {key: ties[key] for key in keys} if kept else None


def equals_one_partition(given: str, key: str) -> bool:
    """Whether a value equals the key of one partition at most.

    A text is compared with a number as a number, so that the number 1 equals both the texts 1 and
    01. The number 0.0 equals -0.0, which is another partition.

    Args:
        given: The type of the value.
        key: The type of the key.
    """
    if key in _INEXACT:
        return False
    if _is_text(key):
        return _is_text(given)
    return given not in _INEXACT


def tells_partitions(change: MergeChange, source: Mapping[str, str] | None) -> bool | None:
    """Whether the rows of the source tell the partitions; None if only an engine knows the types.

    Args:
        change: The merge.
        source: The types of the source's columns by names in lower case; None if unknown.
    """
    ties = ties_of(change)
    if ties is None:
        # A name without an alias may be that of either side.
        return None if change.source is None and _has_bare_names(change.on) else False
    given = {key: _known_type(change, text, source) for key, text in ties.items()}
    keys = change.table.key_types
    if any(keys[key] in _INEXACT for key in keys):
        return False
    told = [
        None if type_ is None else equals_one_partition(type_, keys[key])
        for key, type_ in given.items()
    ]
    return False if False in told else None if None in told else True


def _has_bare_names(condition: str) -> bool:
    tree = condition_tree(condition)
    return tree is None or any(not column.table for column in tree.find_all(exp.Column))


def _known_type(change: MergeChange, text: str, source: Mapping[str, str] | None) -> str | None:
    """Return the type of an expression of the source, if its text shows it."""
    tree = _tree(text)
    if isinstance(tree, exp.Cast) and tree.to.is_type("date"):
        return "date"
    if isinstance(tree, exp.Literal) and (tree.is_string or tree.is_int):
        return "string" if tree.is_string else "int"
    side, name = _column(change, tree) or ("", "")
    return source.get(name) if side == "source" and source is not None else None


def equalities(condition: str) -> Iterator[tuple[str, str]]:
    """Yield both sides of each ``=`` among the parts of a condition that AND connects.

    The sides are the text of the author: a tree written as text may have lost something.
    """
    try:
        statement = SqlStatement.of(condition, "")
    except SqlError:
        return
    pending = [[*statement.tokens]]
    while pending:
        tokens = _without_brackets(pending.pop(0))
        parts = _split(tokens)
        if len(parts) > 1:
            pending = [*parts, *pending]
            continue
        outside = [*_outside(tokens)]
        equal = [at for at in outside if tokens[at].token_type is TokenType.EQ]
        if len(equal) == 1 and not any(_is_other(tokens[at]) for at in outside):
            sides = tokens[: equal[0]], tokens[equal[0] + 1 :]
            if all(sides):
                one, other = map(statement.slice, sides)
                yield one, other


def _split(tokens: Sequence[Token]) -> list[list[Token]]:
    """Split a condition at each AND outside of brackets, but not at that of BETWEEN, nor beside OR."""
    outside = [*_outside(tokens)]
    if any(keyword_of(tokens[at]) == "OR" for at in outside):
        return [[*tokens]]
    parts, start, in_between = [], 0, False
    for at in outside:
        word = keyword_of(tokens[at])
        if word == "AND" and not in_between:
            parts.append([*tokens[start:at]])
            start = at + 1
        in_between = word == "BETWEEN" or (in_between and word != "AND")
    return [*parts, [*tokens[start:]]]


def _outside(tokens: Sequence[Token]) -> Iterator[int]:
    """Yield the positions of the tokens outside of brackets and CASE expressions."""
    nesting = Nesting()
    for at, token in enumerate(tokens):
        if nesting.is_outside:
            yield at
        nesting.pass_by(token)


def _without_brackets(tokens: list[Token]) -> list[Token]:
    """Remove brackets around a whole condition."""
    while len(tokens) > 2 and tokens[0].token_type is TokenType.L_PAREN:
        if [*_outside(tokens)] != [0] or tokens[-1].token_type is not TokenType.R_PAREN:
            break
        tokens = tokens[1:-1]
    return tokens


def _is_other(token: Token) -> bool:
    return keyword_of(token) in _OTHER_WORDS or token.text in _OTHER_SIGNS


def _tree(text: str) -> exp.Expr | None:
    tree = condition_tree(text)
    return None if tree is None else tree.unnest()


def _column(change: MergeChange, tree: exp.Expr | None) -> tuple[str, str] | None:
    """Return the side and the name of the column that an expression consists of, in lower case."""
    if not isinstance(tree, exp.Column):
        return None
    side, name, fields = _resolved(change, [part.name.lower() for part in tree.parts])
    return None if not side or fields else (side, name)


def _resolved(change: MergeChange, parts: Sequence[str]) -> tuple[str, str, Sequence[str]]:
    """Return the side, the column and the fields that a name means, as Spark finds them.

    The side is empty if the name is ambiguous, or means no known column.
    """
    first, *rest = parts
    target = {name.lower() for name in column_names(change.table)}
    source = None if change.source is None else {name.lower() for name in change.source}
    sides = (("target", change.target_alias, target), ("source", change.source_alias, source))
    # As in Spark, a.b is the column b of the table a rather than the field of a column.
    for side, alias, names in sides:
        if rest and first == alias.lower() and (names is None or rest[0] in names):
            return side, rest[0], rest[1:]
    having = [side for side, _, names in sides if names is not None and first in names]
    certain = source is not None and len(having) == 1
    return (having[0] if certain else "", first, rest)


def _is_of_source(change: MergeChange, text: str) -> bool:
    """Whether an expression depends on the source only."""
    tree = condition_tree(text)
    if tree is None or any(tree.find_all(exp.Query, exp.Star)):
        return False
    columns = tree.find_all(exp.Column)
    names = ([part.name.lower() for part in column.parts] for column in columns)
    return all(_resolved(change, parts)[0] == "source" for parts in names)


def _keeps(change: MergeChange, action: RowAction, ties: Mapping[str, str]) -> bool:
    """Whether the rows that a clause writes are in the partition that ON compares."""
    values = {name.lower(): value for name, value in (action.values or {}).items()}
    return all(
        key not in values or _is_same(change, values[key], key, tied) for key, tied in ties.items()
    )


def _is_same(change: MergeChange, value: str, key: str, tied: str) -> bool:
    tree, other = _tree(value), _tree(tied)
    column = _column(change, tree)
    if column is not None:
        return column in (("target", key), _column(change, other))
    return tree is not None and tree == other


def _is_text(type_: str) -> bool:
    return type_.partition("(")[0] in _TEXTS
