"""An overwrite that dies anywhere while it publishes: the rows from before show, to all of us."""

import os
from pathlib import Path

import pytest

from hiveacid.api.table import AcidTable
from hiveacid.errors import HiveAcidError
from hiveacid.jobs.maintenance_jobs import CleanJob
from hiveacid.metastore.txn.live_transaction import LiveTransaction
from hiveacid.rules.names import parse_directory
from hiveacid.upkeep.table_cleaning import clean
from tests.engine.acid_tables import create
from tests.rows import rows_of

SCHEMA = "id int, v string, p string"
OLD = [{"id": 1, "v": "old", "p": "a"}, {"id": 2, "v": "old", "p": "b"}]
NEW = [(3, "new", "a"), (4, "new", "b")]
CASES = [("fake 4.0.1", 1), ("fake 3.1.3", 1), ("3.1.3", 2)]


class Killed(HiveAcidError):
    """An exception that represents a kill."""


@pytest.mark.parametrize(("hms", "published"), CASES, indirect=["hms"])
def test_readers_after_a_kill_see_the_earlier_rows(
    hms, client, database, spark, monkeypatch, published
):
    name = f"{database}.t"
    create(client, name, {"id": "int", "v": "string"}, {"p": "string"})
    appeared = []

    def rename(source, target, *, really=os.rename):
        if parse_directory(Path(target).name) is not None:
            if len(appeared) == published:
                raise Killed("killed")
            appeared.append(target)
        really(source, target)

    def commit(_):
        raise Killed("killed")

    with AcidTable(name, hms.uri, spark=spark, run_in="spark") as table:
        table.append(spark.createDataFrame([tuple(row.values()) for row in OLD], SCHEMA))
        with monkeypatch.context() as patch:
            patch.setattr(os, "rename", rename)
            patch.setattr(LiveTransaction, "commit", commit)
            # Who is dead removes nothing.
            patch.setattr(LiveTransaction, "_remove_owned", lambda _: None)
            with pytest.raises(Killed):
                table.overwrite(spark.createDataFrame(NEW, SCHEMA))
        assert len(appeared) == published

        assert rows_of(hms.uri, name) == OLD
        table.update({"v": "'changed'"}, "id = 2")
        changed = [OLD[0], OLD[1] | {"v": "changed"}]
        assert rows_of(hms.uri, name) == changed
        outcomes = {
            result.partition: result.outcome for result in table.compact("major").partitions
        }
        assert outcomes["p=b"] == "compacted"
        assert rows_of(hms.uri, name) == changed
        assert clean(client, CleanJob(target=name, retention="0")).kept == ()
        assert rows_of(hms.uri, name) == changed
        assert not [path for path in appeared if os.path.exists(path)]
