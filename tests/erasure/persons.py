"""A database whose persons are erased, and the search that tells whether a byte of them is left."""

import json
from pathlib import Path
from typing import Any

from hiveacid.cli.main import main
from hiveacid.erasure.requests import Eraser
from hiveacid.erasure.search import columns_named
from hiveacid.jobs.erase_job import EraseJob, EraseReport
from hiveacid.jobs.sources import PathSource, Source
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.thrift import idl_tables
from hiveacid.orc.format.streams import StripeFooter, encoding_of
from hiveacid.orc.format.tail import OrcTail
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import AS_STORED
from tests.erasure.remnants import remnants
from tests.places import place_of
from tests.rows import unordered_rows_of


def person(number: int) -> str:
    return f"person-{number:06d}-of-the-test"


ROWS, ERASED = 3000, 1000
KEYS = [person(number) for number in range(0, ROWS, ROWS // ERASED)]
INSERT_ONLY = " TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
LAYOUTS = {
    "plain": "CREATE TABLE t (who string, id int, note string)",
    "partitioned": "CREATE TABLE t (who string, id int, note string) PARTITIONED BY (k int)",
    "bucketed": "CREATE TABLE t (who string, id int, note string) PARTITIONED BY (k int)"
    " CLUSTERED BY (id) INTO 3 BUCKETS",
    "dictionary": "CREATE TABLE t (who string, id int, note string)",
    "direct": "CREATE TABLE t (who string, id int, note string)"
    " TBLPROPERTIES ('orc.dictionary.key.threshold'='0', 'orc.compress'='SNAPPY')",
    "insert-only": f"CREATE TABLE t (who string, id int, note string){INSERT_ONLY}",
    "insert-only partitioned": "CREATE TABLE t (who string, id int, note string)"
    f" PARTITIONED BY (k int){INSERT_ONLY}",
}


class Warehouse:
    """A database with a folder of requests."""

    def __init__(self, client: MetastoreClient, database: str, folder: Path) -> None:
        self.client, self.database = client, database
        self.folder, self.requests = folder, folder / "erasures"
        self.t = f"{database}.t"

    def sql(self, script: str) -> None:
        arguments = ["sql", script, "--database", self.database, "--run-in", "worker"]
        assert main([*arguments, "--metastore", self.client.options.uris]) == 0

    def fill(self, layout: str, rows: int = ROWS) -> None:
        """Insert all persons, and update some."""
        self.sql(LAYOUTS[layout])
        keys = ", k" if "PARTITIONED" in LAYOUTS[layout] else ""
        times = 4 if layout == "dictionary" else 1
        for half in (0, 1):
            values = ", ".join(
                f"('{person(number)}', {number}, 'note of {person(number)}'"
                + (f", {number % 3})" if keys else ")")
                for number in range(half, rows, 2)
                for _ in range(times)
            )
            self.sql(f"INSERT INTO t VALUES {values}")
        if "insert_only" not in LAYOUTS[layout]:
            self.sql("UPDATE t SET note = concat(who, '!') WHERE id < 30")

    def job(self, keys: Source | None = None, **options: Any) -> EraseJob:
        fields: dict[str, Any] = {
            "request": "r1",
            "keys": keys or self.keys_file(KEYS),
            "columns": {self.t: "who"},
            "folder": f"file:{self.requests}",
            "retention": "0",
            "metastore": self.client.options,
        }
        return EraseJob(**{**fields, **options})

    def keys_file(self, keys: list[str], name: str = "who") -> PathSource:
        path = self.folder / "keys.json"
        path.write_text("".join(json.dumps({name: key}) + "\n" for key in keys))
        return PathSource(f"file:{path}", "json", schema=f"{name} string")

    def eraser(self) -> Eraser:
        return Eraser(self.client, f"file:{self.requests}")

    def erase(self, job: EraseJob | None = None) -> EraseReport:
        job = job or self.job()
        return Eraser(self.client, job.folder).run(job)

    def place(self, name: str = "t") -> Path:
        return Path(place_of(self.client.get_table(TableRef(self.database, name)).folder))

    def left(self, name: str = "t", keys: list[str] = KEYS) -> set[str]:
        """All keys that a search of all bytes finds below the folder of a table."""
        return {key for hits in remnants(self.place(name), keys).values() for key in hits}

    def encodings(self) -> set[int]:
        """The encodings of the column of keys."""
        found = set()
        for path in self.place().rglob("delta_*/bucket_*"):
            with path.open("rb") as source:
                tail = OrcTail.read(source)
                (number,) = columns_named(tail, AS_STORED, "who")
                for stripe in tail.stripes:
                    footer = StripeFooter.read(source, tail, stripe)
                    found.add(encoding_of(footer.encodings[number]))
        return found

    def rows(self, name: str = "t") -> list[dict[str, Any]]:
        return unordered_rows_of(self.client.options.uris, f"{self.database}.{name}")

    def bounds(self, column: str) -> dict[str, tuple[int, int]]:
        """What the metastore stores about a column, whether it promises that or not."""
        ref = TableRef.parse(self.t)
        request = idl_tables.PartitionsStatsRequest(
            dbName=ref.database,
            tblName=ref.name,
            colNames=[column],
            partNames=self.client.get_partition_names(ref),
        )
        found = self.client.call(idl_tables.get_partitions_statistics_req, request).partStats
        of_numbers = {name: stored[0].statsData.longStats for name, stored in found.items()}
        return {name: (each.lowValue, each.highValue) for name, each in of_numbers.items()}

    def certificate(self, request: str = "r1") -> dict[str, Any] | None:
        path = self.requests / request / "certificate.json"
        found: dict[str, Any] | None = json.loads(path.read_text()) if path.exists() else None
        return found

    def require_erased(self, report: EraseReport) -> None:
        assert report.certificate, report.waits
        assert self.left() == set()
        certificate = self.certificate()
        assert certificate is not None
        texts = remnants(self.requests, KEYS)
        assert texts == {}
        assert len(certificate["keys"]) == len({*certificate["keys"]})
        assert all(file["gone_at"] for file in certificate["files"])
        assert not any(Path(place_of(file["path"])).exists() for file in certificate["files"])
