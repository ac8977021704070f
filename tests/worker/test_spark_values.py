"""Every function and operator of the worker has the results of Spark, for all edge values."""

import re

import pytest

from hiveacid.worker.expressions import ONE_ROW, SUBSET, Expression
from tests.samples import QUICK
from tests.worker.spark_values import (
    FAILS,
    FORMS,
    Case,
    cases,
    evaluated,
    expression_of,
    rows_of,
    stored_results,
    texts_of,
)

# `make quick` compares one case of so many; a prime number meets all forms, types and literals.
SHARE = 13 if QUICK else 1
Results = dict[Case, tuple[str, list[str | None]]]


@pytest.fixture(scope="module")
def compiled() -> dict[Case, Expression]:
    found = ((case, expression_of(case)) for case in [*dict.fromkeys(cases())][::SHARE])
    return {case: of for case, of in found if of is not None}


@pytest.fixture(scope="module")
def stored() -> Results:
    return stored_results()


def test_each_expression_was_evaluated_by_spark(
    compiled: dict[Case, Expression], stored: Results
) -> None:
    missing = [case for case in compiled if case not in stored]
    assert not missing, "Run python -m tests.worker.spark_values, which asks Spark."
    assert len(compiled) > 8000 // SHARE


def test_each_part_of_the_subset_is_compared() -> None:
    forms = " ".join(form for some in FORMS.values() for form in some).lower()
    for part in (
        word for words in SUBSET for word in re.findall(r"[a-z_]+|[%=<>+*-]+", words.lower())
    ):
        known = {"columns", "literals", "and", "null", "is", "values", "of"}
        assert part in known or part in forms, part


def test_the_results_are_those_of_spark(compiled: dict[Case, Expression], stored: Results) -> None:
    problems, compared = [], 0
    for case, expression in compiled.items():
        type_, expected = stored[case]
        if type_ not in (str(expression.type), FAILS):
            problems.append(f"{case} is of the type {expression.type}, and of {type_} on Spark")
            continue
        rows = rows_of(case.types) if case.types else ONE_ROW
        results = [*evaluated(expression, rows, range(rows.num_rows))]
        compared += len(results)
        for number, result in results:
            if result != expected[number]:
                row = rows.slice(number, 1)
                given = [texts_of(column)[0] for column in row.columns] if case.types else []
                problems.append(f"{case} of {given} is {result}, and {expected[number]} on Spark")
                break
    assert not problems, f"{len(problems)}\n" + "\n".join(problems[:100])
    # Otherwise most of them would need Spark.
    assert compared > 200_000 // SHARE
