"""Statements and mutated statements have the same meaning for Spark's parser, or are refused."""

from itertools import islice

import pytest
from pyspark.sql import SparkSession

from tests.differential.mutations import Statements
from tests.differential.spark_meaning import Parser

# Each statement is read as it is, and mutated.
STATEMENTS, MUTATIONS, BATCHES, ALWAYS = 20, 9, 25, 1


def _batches() -> list[object]:
    return [
        pytest.param(batch, marks=[] if batch < ALWAYS else pytest.mark.differential)
        for batch in range(BATCHES)
    ]


@pytest.mark.parametrize("batch", _batches())
def test_statements_mean_what_spark_reads(batch: int, spark: SparkSession) -> None:
    parser, statements, problems = Parser(spark), Statements(batch), []
    for text in islice(statements.valid(), STATEMENTS):
        for each in (text, *(statements.mutated(text) for _ in range(MUTATIONS))):
            if problem := parser.difference(each):
                problems.append(f"{each}\n    {problem}")
    assert not problems, "\n" + "\n".join(problems)
