"""The constraints of a table, evaluated by Arrow for the rows that are written."""

import json

import pyarrow as pa
from pyarrow import compute as pc

from hiveacid.errors import CheckFailed
from hiveacid.rules.constraints import VIOLATION_REMEDY, WriteRules
from hiveacid.rules.schema import parse_type
from hiveacid.worker.expressions import Expression, Scope, condition, with_alias

_ALIAS = "#"
_SHOWN_CHARACTERS = 500


def require_compiled(rules: WriteRules | None) -> None:
    """Make sure that the constraints of a table are evaluated here.

    Raises:
        SparkNeeded: One of them needs Spark.
    """
    _compiled(rules)


def require_constraints(rows: pa.Table, rules: WriteRules | None) -> None:
    """Refuse rows that violate a constraint.

    Args:
        rows: The columns of the table and its partition keys, by their names.
        rules: The constraints; None if there are none to satisfy.

    Raises:
        CheckFailed: A row violates one of them.
    """
    aliased = with_alias(_ALIAS, rows)
    for name, rule in _compiled(rules):
        wrong = rows.filter(pc.invert(rule.holds(aliased))).slice(0, 1)
        if wrong.num_rows:
            assert rules is not None
            example = json.dumps(wrong.to_pylist()[0], default=str)[:_SHOWN_CHARACTERS]
            raise CheckFailed(
                f"The constraint {name} of {rules.table} refuses the row {example}.",
                remedy=VIOLATION_REMEDY,
            )


def _compiled(rules: WriteRules | None) -> list[tuple[str, Expression]]:
    if rules is None:
        return []
    types = {name.lower(): parse_type(type_) for name, type_ in rules.columns.items()}
    scope = Scope({_ALIAS: types})
    return [(rule.constraint, condition(rule.holds, scope)) for rule in rules.rules]
