"""Check whether a merge's source rows determine its partitions, as far as its text shows it."""

from collections.abc import Iterator, Mapping, Sequence

from sqlglot import exp

from hiveacid.jobs.write_jobs import MergeJob
from hiveacid.rules.merge import Clause, MatchedUpdate, MergePlan, NotMatchedInsert
from hiveacid.sql.partition_conditions import condition_tree, conjuncts

_INEXACT = ("float", "double")


def ties_partitions(
    job: MergeJob,
    columns: Sequence[str],
    keys: Mapping[str, str],
    source: Mapping[str, str] | None,
) -> bool | None:
    """Whether ON makes every partition key equal to a value of the source, and no clause changes it.

    Then only the partitions of the source's rows are locked, else the whole table.

    Args:
        job: The merge.
        columns: The columns of its table, without the partition keys.
        keys: The partition keys with their types.
        source: The columns of the source with their types; None if only Spark knows them.

    Returns:
        None if the result depends on types that only Spark knows.
    """
    plan = MergePlan.of(job.when)
    if plan.not_matched_by_source:
        return False
    fixed = dict(reversed([*_fixed(job, keys)]))
    if fixed.keys() != keys.keys():
        # A name without an alias may be either side's.
        return None if _has_bare_names(job.on) else False
    answers = [_one_equals(type_, fixed[key], source) for key, type_ in keys.items()]
    for clause in (*plan.matched, *plan.not_matched):
        answers += _kept(clause, fixed, [*columns, *keys], job.source_alias)
    return False if False in answers else None if None in answers else True


def _fixed(job: MergeJob, keys: Mapping[str, str]) -> Iterator[tuple[str, exp.Expr]]:
    """The keys with the values of the source that ON makes them equal to; the first one counts."""
    source, target = job.source_alias.lower(), job.target_alias.lower()
    for equal in conjuncts(condition_tree(job.on)):
        if not isinstance(equal, exp.EQ):
            continue
        for key, value in ((equal.this, equal.expression), (equal.expression, equal.this)):
            if not isinstance(key, exp.Column) or _path(key)[:-1] != [target]:
                continue
            tables = [_path(column)[:-1][:1] for column in value.find_all(exp.Column)]
            of_source = all(table == [source] for table in tables) and not value.find(exp.Query)
            if key.name.lower() in keys and of_source:
                yield key.name.lower(), value


def _kept(
    clause: Clause, fixed: Mapping[str, exp.Expr], names: Sequence[str], alias: str
) -> Iterator[bool | None]:
    """Whether a clause writes into each key the same value that ON compares it to."""
    given: Mapping[str, str] | None
    if isinstance(clause, MatchedUpdate):
        given = clause.set
    elif isinstance(clause, NotMatchedInsert):
        given = clause.values if clause.row is None else dict(zip(names, clause.row, strict=False))
    else:
        return
    values = None if given is None else {n.strip("`").lower(): v for n, v in given.items()}
    for key, value in fixed.items():
        if values is None:
            yield _same(value, condition_tree(f"{alias}.`{key}`"))
        elif key in values:
            yield _same(value, condition_tree(values[key]))
        elif isinstance(clause, NotMatchedInsert):
            yield False


def _same(one: exp.Expr, other: exp.Expr | None) -> bool | None:
    if isinstance(one, exp.Column) and isinstance(other, exp.Column):
        return _path(one) == _path(other)
    return True if one == other else None


def _one_equals(type_: str, value: exp.Expr, source: Mapping[str, str] | None) -> bool | None:
    """Whether each value of the source equals one partition: as a text, 1 equals both 1 and 01.

    The number 0.0 equals -0.0, which is another partition.
    """
    if type_ in _INEXACT:
        return False
    if isinstance(value, exp.Cast) and value.to.is_type("date"):
        return type_ != "string"
    if isinstance(value, exp.Literal):
        return True if value.is_string else type_ != "string" if value.is_int else None
    # The type of a field is within the type of its struct.
    if not isinstance(value, exp.Column) or len(value.parts) > 2 or source is None:
        return None
    given = source.get(value.name.lower())
    if given is None:
        return None
    return given == type_ if type_ == "string" else given not in _INEXACT


def _has_bare_names(condition: str) -> bool:
    """Whether a condition may have columns without a table."""
    tree = condition_tree(condition)
    return tree is None or any(not column.table for column in tree.find_all(exp.Column))


def _path(column: exp.Column) -> list[str]:
    """The name of a column with its table and the fields behind it, in lower case."""
    return [part.name.lower() for part in column.parts]
