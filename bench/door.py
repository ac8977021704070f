"""The price of the door: statements and queries through it, and without it, in one session.

    PYTHONPATH=. python bench/door.py --rounds 15

Each pair is run in turns, and the medians of the seconds are shown, with their difference. Queries
are on tables that are not transactional, statements on one that is, against ``AcidTable``.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from session import session

import hiveacid
from hiveacid.api.table import AcidTable
from hiveacid.metastore.dev.embedded import EmbeddedMetastore


def main() -> None:
    """Measure, and print one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=15)
    rounds = parser.parse_args().rounds
    with (
        tempfile.TemporaryDirectory(prefix="hiveacid-") as folder,
        EmbeddedMetastore(
            "4.0.1", directory=Path(folder, "hms"), progress=lambda _: None
        ) as metastore,
    ):
        plain = session(Path(folder))
        door = hiveacid.install(plain, metastore.uri)
        for spark in (plain, door):
            spark.sql(
                "CREATE TABLE IF NOT EXISTS plain USING parquet AS SELECT id FROM range(1000)"
            )
        door.sql(
            "CREATE TABLE default.t (id int, v string) TBLPROPERTIES ('transactional' = 'true')"
        )
        door.sql("INSERT INTO default.t SELECT int(id), 'v' FROM range(1000)")
        with AcidTable("default.t", metastore.uri, spark=plain, run_in="spark") as table:
            pairs: dict[str, tuple[Callable[[], object], Callable[[], object]]] = {
                "query of a plain table": (
                    lambda: door.sql("SELECT max(id) FROM plain").collect(),
                    lambda: plain.sql("SELECT max(id) FROM plain").collect(),
                ),
                "query of six plain tables": (
                    lambda: door.sql(_joined("plain")).collect(),
                    lambda: plain.sql(_joined("plain")).collect(),
                ),
                "read of a transactional table": (
                    lambda: door.sql("SELECT max(id) FROM default.t").collect(),
                    lambda: table.to_df().selectExpr("max(id)").collect(),
                ),
                "update of one row": (
                    lambda: door.sql("UPDATE default.t SET v = 'a' WHERE id = 7").collect(),
                    lambda: table.update({"v": "'b'"}, "id = 7"),
                ),
                "append of one row": (
                    lambda: door.sql("INSERT INTO default.t VALUES (1, 'x')").collect(),
                    lambda: table.append(plain.sql("SELECT 1 AS id, 'x' AS v")),
                ),
            }
            figures = {}
            for name, works in pairs.items():
                seconds: tuple[list[float], list[float]] = ([], [])
                for number in range(rounds + 2):
                    for work, taken in zip(works, seconds, strict=True):
                        start = time.perf_counter()
                        work()
                        if number > 1:
                            taken.append(time.perf_counter() - start)
                with_door, without = map(statistics.median, seconds)
                figures[name] = {
                    "door": round(with_door, 4),
                    "without": round(without, 4),
                    "price": round(with_door - without, 4),
                }
    print(json.dumps(figures, indent=1))


def _joined(name: str) -> str:
    tables = " ".join(f"JOIN {name} t{number} USING (id)" for number in range(1, 6))
    return f"SELECT max(id) FROM {name} t0 {tables}"


if __name__ == "__main__":
    main()
