"""Make the golden tables of tests/data/tables again: python -m tests.interop.make_tables.

Names as arguments choose some of them. Every row there is one that Hive 4.0.1 selected itself.
"""

import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import closing
from pathlib import Path

from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.client import MetastoreClient
from tests.interop import acid_tables, insert_only_tables
from tests.interop.engines import Hive
from tests.interop.making import Making
from tests.interop.phrases import ACID, COLUMNS, values

Make = Callable[[Making], None]
BY_QUERY: list[Make] = [acid_tables.query_compacted]
PLAIN: list[Make] = [
    insert_only_tables.insert_only_orc,
    insert_only_tables.insert_only_parquet,
    insert_only_tables.insert_only_text,
    insert_only_tables.insert_only_csv,
    insert_only_tables.insert_only_json,
    insert_only_tables.insert_only_partitioned,
    insert_only_tables.insert_only_union,
    acid_tables.originals_bucketed,
    acid_tables.originals_union,
    acid_tables.loaded,
    acid_tables.statements,
    acid_tables.truncated,
    acid_tables.dropped,
    acid_tables.rolled_back,
    acid_tables.streamed,
    acid_tables.compactions_that_did_not_commit,
    acid_tables.old_row_ids,
    acid_tables.evolved,
]


def main(wanted: Iterable[str]) -> None:
    """Make the tables of these names, or all."""
    chosen = set(wanted)
    for tables, by_query in ((PLAIN, "false"), (BY_QUERY, "true")):
        asked = [make for make in tables if not chosen or make.__name__ in chosen]
        if asked:
            with tempfile.TemporaryDirectory(prefix="golden-") as folder:
                settings = {"hive.compactor.crud.query.based": by_query}
                _make(asked, Path(folder), settings)


def prepare(hive: Hive) -> None:
    """Create the tables that statements select from."""
    hive.sql(f"create table default.numbers ({COLUMNS}) {ACID}")
    hive.sql(f"create external table default.plain ({COLUMNS}) stored as orc")
    for table in ("numbers", "plain"):
        hive.sql(f"insert into default.{table} {values(range(1, 11))}")


def _make(tables: Iterable[Make], folder: Path, settings: dict[str, str]) -> None:
    (folder / "warehouse").mkdir()
    with closing(Hive(folder, folder / "warehouse", settings)) as hive:
        prepare(hive)
        with MetastoreClient(MetastoreOptions(uris=hive.metastore_uri)) as client:
            for make in tables:
                about = (make.__doc__ or "").splitlines()[0]
                making = Making(make.__name__, about, hive, client)
                make(making)
                making.save()
                print(make.__name__, len(making.snapshots), "snapshots", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
