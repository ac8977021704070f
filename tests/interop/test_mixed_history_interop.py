"""Random histories of Hive, Trino and this package on the same tables, compared with a model.

MIXED_OPERATIONS=400 makes them longer, MIXED_SEED repeats one: its operations follow from the seed and
the table.
"""

import os
from contextlib import closing
from random import Random

import pytest

from tests.interop.engines import Hive, Trino
from tests.interop.mixed_history import MixedHistory
from tests.interop.mixed_table import SHAPES, MixedTable
from tests.samples import random_of_commit

pytestmark = [pytest.mark.interop, pytest.mark.timeout(7200)]
# Of all tables together.
OPERATIONS = int(os.environ.get("MIXED_OPERATIONS", "40"))
SEED = os.environ.get("MIXED_SEED") or str(random_of_commit("mixed").randrange(1 << 31))
BETWEEN_CHECKS = 5
# Trino 476 fails to write where the metastore has statistics of columns.
WITHOUT_STATISTICS = {
    "hive.stats.autogather": "false",
    "hive.stats.column.autogather": "false",
    "hive.mr.compactor.gather.stats": "false",
}


@pytest.fixture(scope="module")
def engines(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixed")
    warehouse = folder / "warehouse"
    warehouse.mkdir()
    with (
        closing(Hive(folder, warehouse, WITHOUT_STATISTICS)) as hive,
        closing(Trino(folder, hive.metastore_uri)) as trino,
    ):
        yield hive, trino


@pytest.mark.parametrize("shape", SHAPES)
def test_all_engines_see_the_rows_of_the_model(shape, spark, engines):
    draw = Random(f"{SEED} {shape}")
    table = MixedTable(f"mixed_{shape}", SHAPES[shape], spark, *engines)
    try:
        table.create(by_hive=draw.random() < 0.5)
        history = MixedHistory(table, draw)
        for number in range(1, max(OPERATIONS // len(SHAPES), 1) + 1):
            history.step()
            if number % BETWEEN_CHECKS == 0:
                table.check()
        if table.stirred:
            table.check()
            history.repair_buckets()
        table.check()
        table.check_row_ids()
    except BaseException as error:
        done = "\n".join(f"{number}. {what}" for number, what in enumerate(table.log, 1))
        error.add_note(f"MIXED_SEED={SEED} MIXED_OPERATIONS={OPERATIONS}, {table.name}:\n{done}")
        raise
