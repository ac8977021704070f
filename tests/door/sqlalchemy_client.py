"""SQLAlchemy by PyHive, as tools for reports use it: packages of their own, in a process of their own."""

import fcntl
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from hiveacid.metastore.dev.distribution import cache_folder
from tests.door.servers import Server

_PACKAGES = ("pyhive==0.7.0", "sqlalchemy==2.0.58", "thrift==0.25.0", "thrift_sasl==0.4.3")
_PROGRAM = """
import json, sys
from sqlalchemy import Column, Integer, MetaData, String, Table, create_engine, inspect, select, text
url, database = sys.argv[1:]
first = create_engine(url)
with first.connect() as connection:
    connection.execute(text("SHOW TABLES"))
# With its last connection, the server closes a loader of classes.
first.dispose()
engine = create_engine(url)
metadata = MetaData()
table = Table("t", metadata, Column("id", Integer), Column("v", String), schema=database)
found = inspect(engine)
answer = {
    # PyHive lists tables by Hive's SHOW TABLES, whose columns Spark does not have.
    "exists": found.has_table("t", schema=database),
    "columns": [column["name"] for column in found.get_columns("t", schema=database)],
    "reflected": [*Table("t", MetaData(), schema=database, autoload_with=engine).columns.keys()],
}
with engine.connect() as connection:
    connection.execute(table.insert().values([{"id": 1, "v": "it's"}, {"id": 2, "v": "two"}]))
    connection.execute(text("CREATE TEMPORARY VIEW s AS SELECT 2 AS id, 'new' AS v"))
    merge = f"MERGE INTO {database}.t t USING s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
    answer["merged"] = connection.execute(text(merge)).mappings().one()["rows_updated"]
    rows = connection.execute(select(table).where(table.c.id > 0).order_by(table.c.id))
    answer["rows"] = [[*row] for row in rows]
    try:
        connection.execute(text(f"DELETE FROM {database}.t WHERE nope = 1"))
    except Exception as error:
        answer["error"] = str(error)
print(json.dumps(answer))
"""


def by_sqlalchemy(server: Server, user: str, database: str) -> dict[str, Any]:
    """Return the answers to a program of SQLAlchemy about the table `t`, which it changes."""
    url = f"hive://{user}@127.0.0.1:{server.port}/{database}"
    ended = subprocess.run(
        [sys.executable, "-c", _PROGRAM, url, database],
        env={"PYTHONPATH": str(_packages())},
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    answer: dict[str, Any] = json.loads(ended.stdout)
    return answer


def _packages() -> Path:
    """Return a folder with the packages, which are downloaded once."""
    folder = cache_folder() / "pyhive-0.7.0"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with folder.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            partial = folder.with_suffix(".partial")
            pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-warn-conflicts"]
            subprocess.run([*pip, "--target", str(partial), *_PACKAGES], check=True)
            partial.rename(folder)
    return folder
