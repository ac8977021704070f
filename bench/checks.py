"""Cost of checks: merges of the same rows without checks, with checks that footers answer, and with
ten checks of rows, in turn.

    python bench/checks.py --rows 2000000 --merged 200000 --rounds 3

Each merge updates as many rows as it inserts.
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from lineitem import COLUMNS, lineitem
from session import TASKS, seconds_of, session

from hiveacid.api.table import AcidTable
from hiveacid.jobs.checks import (
    AcceptedValues,
    Check,
    Holds,
    InRange,
    Matches,
    NotNull,
    RowCount,
)
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import TableRef
from hiveacid.writes.statement import WriteOptions

FOOTERS = (
    RowCount(min=1),
    RowCount(of="inserted", min=1),
    NotNull(columns=["l_orderkey", "l_linenumber"]),
    InRange(column="l_orderkey", min=0),
    InRange(column="l_linenumber", min=1, max=7),
)
TEN_OF_ROWS = (
    NotNull(columns=["l_comment"]),
    Holds(sql="l_discount BETWEEN 0 AND 1"),
    Holds(sql="l_tax BETWEEN 0 AND 1"),
    Holds(sql="l_quantity >= 0 AND l_extendedprice >= 0"),
    Holds(sql="l_receiptdate >= date'1992-01-01'"),
    Holds(sql="length(l_comment) > 5"),
    AcceptedValues(column="l_returnflag", accepted=["A", "N", "R"]),
    AcceptedValues(column="l_linestatus", accepted=["O", "F"]),
    AcceptedValues(column="l_shipmode", accepted=["AIR", "RAIL", "SHIP", "TRUCK", "MAIL"]),
    Matches(column="l_comment", pattern="^note "),
)
KINDS: dict[str, Sequence[Check]] = {"none": (), "footers": FOOTERS, "ten of rows": TEN_OF_ROWS}


def measure(rows: int, merged: int, rounds: int, folder: Path) -> dict[str, float]:
    spark = session(folder)
    taken: dict[str, list[float]] = {name: [] for name in KINDS}
    with EmbeddedMetastore(directory=folder / "hms") as hms:
        client = MetastoreClient(hms.options)
        client.create_database("bench")
        names = list(KINDS)
        for number in range(rounds + 1):
            # The first one does not count: it warms up. Each kind is the first one in turn.
            for kind in names[number % len(names) :] + names[: number % len(names)]:
                ref = TableRef("bench", f"t_{number}_{names.index(kind)}")
                client.create_table(HiveTable.new(ref, COLUMNS))
                options = WriteOptions(checks=tuple(KINDS[kind]))
                with AcidTable(ref.full_name, hms.options, spark=spark, run_in="spark") as table:
                    table.append(lineitem(spark, 0, rows, TASKS))
                first = rows - merged // 2
                changes = lineitem(spark, first, first + merged, TASKS, "id + 1")
                with AcidTable(
                    ref.full_name, hms.options, spark=spark, run_in="spark", options=options
                ) as table:
                    merge = table.merge(changes, "t.l_orderkey = s.l_orderkey")
                    merge = merge.when_matched_update_all().when_not_matched_insert_all()
                    seconds = seconds_of(merge.execute)
                client.drop_table(ref, delete_data=True)
                if number:
                    taken[kind].append(seconds)
    return {kind: median(seconds) for kind, seconds in taken.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--merged", type=int, default=200_000)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = measure(arguments.rows, arguments.merged, arguments.rounds, Path(folder))
    for kind, seconds in found.items():
        print(f"{kind}: {seconds:.2f} s, {seconds / found['none']:.3f} of a merge without checks")


if __name__ == "__main__":
    main()
