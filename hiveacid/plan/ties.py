"""Partition keys that ON makes equal to values of the source, whose rows then tell the partitions."""

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp
from sqlglot.tokenizer_core import Token, TokenType

from hiveacid.errors import SqlError
from hiveacid.metastore.table_rules import column_names
from hiveacid.parser.statement import SqlStatement
from hiveacid.parser.words import Nesting, keyword_of
from hiveacid.plan.merge import MergeChange, RowAction
from hiveacid.plan.partitions import condition_tree
from hiveacid.plan.scope import NamedColumn

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
    for left_text, right_text in equalities(change.on):
        for key, value in ((left_text, right_text), (right_text, left_text)):
            side, name = _column(change, _tree(key)) or ("", "")
            if side == "target" and name in keys and _is_of_source(change, value):
                ties.setdefault(name, value)
    if ties.keys() != keys.keys():
        return None
    actions = (*change.matched, *change.not_matched)
    ties_hold = all(_keeps(change, action, ties) for action in actions)
    return {key: ties[key] for key in keys} if ties_hold else None


def equals_one_partition(value_type: str, key: str) -> bool:
    """Whether a value equals the key of one partition at most.

    A text is compared with a number as a number, so that the number 1 equals both the texts 1 and
    01. The number 0.0 equals -0.0, which is another partition.

    Args:
        value_type: The type of the value.
        key: The type of the key.
    """
    if key in _INEXACT:
        return False
    if _is_text(key):
        return _is_text(value_type)
    return value_type not in _INEXACT


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
    value_types = {key: _known_type(change, text, source) for key, text in ties.items()}
    keys = change.table.key_types
    if any(keys[key] in _INEXACT for key in keys):
        return False
    answers = [
        None if type_ is None else equals_one_partition(type_, keys[key])
        for key, type_ in value_types.items()
    ]
    return False if False in answers else None if None in answers else True


def compared_columns(change: MergeChange) -> list[str]:
    """Return the columns of the target that ON names, to show rows by; all if only Spark reads it."""
    names = column_names(change.table)
    tree = condition_tree(change.on)
    if tree is None:
        return names
    columns = (_meaning(change, column) for column in tree.find_all(exp.Column))
    compared = {column.name for column in columns if column and column.side == "target"}
    return [name for name in names if name.lower() in compared]


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
        outer_positions = [*_outside(tokens)]
        equal = [
            position for position in outer_positions if tokens[position].token_type is TokenType.EQ
        ]
        if len(equal) == 1 and not any(_is_other(tokens[position]) for position in outer_positions):
            sides = tokens[: equal[0]], tokens[equal[0] + 1 :]
            if all(sides):
                left_text, right_text = map(statement.slice, sides)
                yield left_text, right_text


def _split(tokens: Sequence[Token]) -> list[list[Token]]:
    """Split a condition at each AND outside of brackets, but not at that of BETWEEN, nor beside OR."""
    outer_positions = [*_outside(tokens)]
    if any(keyword_of(tokens[position]) == "OR" for position in outer_positions):
        return [[*tokens]]
    parts, start, in_between = [], 0, False
    for position in outer_positions:
        word = keyword_of(tokens[position])
        if word == "AND" and not in_between:
            parts.append([*tokens[start:position]])
            start = position + 1
        in_between = word == "BETWEEN" or (in_between and word != "AND")
    return [*parts, [*tokens[start:]]]


def _outside(tokens: Sequence[Token]) -> Iterator[int]:
    """Yield the positions of the tokens outside of brackets and CASE expressions."""
    nesting = Nesting()
    for position, token in enumerate(tokens):
        if nesting.is_outside:
            yield position
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
    column = _meaning(change, tree) if isinstance(tree, exp.Column) else None
    return None if column is None or column.fields else (column.side, column.name)


def _meaning(change: MergeChange, tree: exp.Column) -> NamedColumn | None:
    return change.scope.column([part.name for part in tree.parts])


def _is_of_source(change: MergeChange, text: str) -> bool:
    """Whether an expression depends on the source only."""
    tree = condition_tree(text)
    if tree is None or any(tree.find_all(exp.Query, exp.Star)):
        return False
    columns = (_meaning(change, column) for column in tree.find_all(exp.Column))
    return all(column is not None and column.side == "source" for column in columns)


def _keeps(change: MergeChange, action: RowAction, ties: Mapping[str, str]) -> bool:
    """Whether the rows that a clause writes are in the partition that ON compares."""
    values = {name.lower(): value for name, value in (action.values or {}).items()}
    return all(
        key not in values or _is_same(change, values[key], key, tied) for key, tied in ties.items()
    )


def _is_same(change: MergeChange, value: str, key: str, tied: str) -> bool:
    tree, tied_tree = _tree(value), _tree(tied)
    column = _column(change, tree)
    if column is not None:
        return column in (("target", key), _column(change, tied_tree))
    return tree is not None and tree == tied_tree


def _is_text(type_: str) -> bool:
    return type_.partition("(")[0] in _TEXTS
