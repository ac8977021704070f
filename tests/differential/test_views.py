"""Random and mutated queries have the same rows directly and through a view, or the view is refused."""

from itertools import islice

import pytest
from pyspark.sql import SparkSession

from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from tests.differential.views import Queries, Views

# Each query is run as it is, and mutated.
QUERIES, MUTATIONS, BATCHES, ALWAYS = 15, 3, 50, 1


def _batches() -> list[object]:
    return [
        pytest.param(batch, marks=[] if batch < ALWAYS else pytest.mark.differential)
        for batch in range(BATCHES)
    ]


@pytest.mark.parametrize("batch", _batches())
def test_views_have_the_rows_of_their_queries(
    batch: int, spark: SparkSession, fake4: EmbeddedMetastore
) -> None:
    database, problems = f"views_{batch}", []
    with MetastoreClient(fake4.options) as client:
        client.create_database(database)
        try:
            views, queries = Views(spark, client, database), Queries(batch, database)
            for query in islice(queries.valid(), QUERIES):
                for each in (query, *(queries.mutated(query) for _ in range(MUTATIONS))):
                    if problem := views.difference(each):
                        problems.append(f"{each}\n    {problem}")
        finally:
            client.drop_database(database, cascade=True)
    assert not problems, "\n" + "\n".join(problems)
    assert views.outcomes["equal"] >= QUERIES // 2, views.outcomes
    # Of the mutated queries that Spark runs, the parser of this package reads most.
    assert views.outcomes["refused"] <= max(2, views.outcomes["equal"] // 5), views.refusals
