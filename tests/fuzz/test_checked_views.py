"""Texts that the check of views accepts read nothing but their inputs, whatever other parsers find."""

import os
from collections import Counter
from contextlib import suppress

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from hiveacid.errors import HiveAcidError
from hiveacid.jobs.sources import QuerySource, TableSource
from hiveacid.spark.session import scan_session
from hiveacid.spark.statements.refused_sql import check_view
from tests.fuzz.driver import Source
from tests.fuzz.test_sql import PARTS, VIEWS

INPUTS = int(os.environ.get("VIEW_INPUTS", "300"))
LEAVES = {"LocalRelation", "OneRowRelation", "CTERelationRef"}


def test_an_accepted_text_reads_its_inputs_only(spark: SparkSession) -> None:
    session, leaves, accepted = scan_session(spark), Counter[str](), 0
    rows = "SELECT a, a AS b, a AS `b``c` FROM VALUES ('x') AS v(a)"
    for name in ("t", "u", "c", "d"):
        session.sql(rows).createOrReplaceTempView(name)
    inputs = {name: TableSource(f"db.{name}") for name in ("t", "u", "d")}
    source = Source("checked views")
    for _ in range(INPUTS):
        text = source.text(VIEWS, PARTS)
        # Texts with halves of characters are refused earlier.
        with suppress(HiveAcidError, UnicodeEncodeError):
            text.encode()
            check_view(session, "db.v", QuerySource(text, inputs))
            accepted += 1
            with suppress(PySparkException, Py4JError):
                found = session.sql(text)._jdf.queryExecution().analyzed().collectLeaves()
                leaves.update(str(found.apply(at).nodeName()) for at in range(found.size()))
    assert accepted > INPUTS // 20
    assert set(leaves) <= LEAVES
    assert leaves["LocalRelation"] > 0
