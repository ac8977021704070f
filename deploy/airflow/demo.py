"""Create the inputs of the DAG hourly_merge: the table demo.customers and an hour of changes."""

import json
import os

from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.names import TableRef
from hiveacid.storage.folder import Storage

TABLE = TableRef("demo", "customers")
HOUR = "2026-11-20T09"
CHANGES = (
    {"id": 1, "country": "de", "op": "upsert", "name": "Emmy", "email": "emmy@example.com"},
    {"id": 2, "country": "fr", "op": "upsert", "name": "Sophie", "email": "sophie@example.com"},
    {"id": 3, "country": "fr", "op": "upsert", "name": "Henri", "email": "henri@example.com"},
    {"id": 3, "country": "fr", "op": "delete"},
)


def main() -> None:
    """Create missing objects; leave existing ones unchanged."""
    with MetastoreClient(MetastoreOptions(uris=os.environ["METASTORE_URI"])) as client:
        if TABLE.database not in client.get_databases():
            client.create_database(TABLE.database)
        if TABLE.name not in client.get_tables(TABLE.database):
            columns = [
                HiveColumn("id", "bigint"),
                HiveColumn("name", "string"),
                HiveColumn("email", "string"),
            ]
            country = [HiveColumn("country", "string")]
            client.create_table(HiveTable.new(TABLE, columns, partition_keys=country))
            print(f"Created the table {TABLE}.")
    feed = Storage.of(os.environ["DEMO_FEED"])
    file = f"{HOUR}/changes.json"
    if not feed.exists(file):
        lines = [
            json.dumps(change | {"changed_at": f"{HOUR}:{minute:02}:00Z"})
            for minute, change in enumerate(CHANGES)
        ]
        with feed.create(file) as sink:
            sink.write("\n".join(lines).encode())
        print(f"Wrote {len(lines)} changes below {feed.location}.")


if __name__ == "__main__":
    main()
