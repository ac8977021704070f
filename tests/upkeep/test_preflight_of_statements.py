"""Names, partitions, and versions in statements and queries, checked before the start of Spark."""

from dataclasses import replace
from typing import Any

import pytest

from hiveacid.drivers.checks import Preflight
from hiveacid.drivers.driver_files import DriverFiles
from hiveacid.errors import (
    HiveAcidError,
    InvalidJob,
    TableNotFound,
    UnknownColumn,
    UserError,
    VersionUnknown,
)
from hiveacid.jobs.definition_jobs import (
    ColumnSpec,
    CreateTableJob,
    CreateViewJob,
    DropDatabaseJob,
    DropTableJob,
    TruncateJob,
)
from hiveacid.jobs.job import Job
from hiveacid.jobs.maintenance_jobs import CompactJob
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.jobs.sources import ChangesSource, PathSource, QuerySource, TableSource
from hiveacid.jobs.write_jobs import RestoreJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.rules.merge import MatchedUpdate, NotMatchedInsert
from tests.upkeep.test_preflight import (  # noqa: F401
    DELETE,
    INSERT,
    MERGE,
    QUERY,
    UPDATE,
    Check,
    check,
    client,
    shop,
)


@pytest.mark.parametrize(
    ("job", "error", "message"),
    [
        (
            replace(DELETE, where="idd = 1"),
            UnknownColumn,
            r"^The condition 'idd = 1' names an unknown column: idd\. Did you mean id\?",
        ),
        (
            replace(
                DELETE,
                where="EXISTS (SELECT 1 FROM f AS u WHERE u.idd = t.id)",
                inputs={"f": TableSource("shop.feed")},
            ),
            UnknownColumn,
            r"names an unknown column: u\.idd\.",
        ),
        (
            replace(UPDATE, set={"status": "statsu"}),
            UnknownColumn,
            r"the value of column status names an unknown column: statsu\.",
        ),
        (replace(MERGE, source=QUERY, on="t.id = s.whatever"), UnknownColumn, r"s\.whatever"),
        (
            replace(INSERT, source=replace(QUERY, sql="SELECT id FROM f WHERE nope = 1")),
            UnknownColumn,
            r"^The query names an unknown column: nope\. The columns are id, status, tags\.",
        ),
        (
            replace(INSERT, source=replace(QUERY, sql="SELECT id, status AS nope FROM f")),
            UnknownColumn,
            "The insert into shop.log sets nope",
        ),
        (
            replace(MERGE, when=[NotMatchedInsert()]),
            UnknownColumn,
            "^The merge takes all columns from the source, which has no day",
        ),
        (
            replace(MERGE, source=QUERY, when=[MatchedUpdate()]),
            UnknownColumn,
            "takes all columns from the source, which has no tags, day",
        ),
        (
            replace(INSERT, source=ChangesSource("shop.gone", "0")),
            TableNotFound,
            "shop.gone does not exist",
        ),
        (
            replace(INSERT, source=ChangesSource("shop.log", "2026-02-02", "2026-02-01")),
            VersionUnknown,
            "would begin after 2026-02-02 00:00:00.* and end earlier, at 2026-02-01",
        ),
        (
            TruncateJob(target="shop.days", partition={"n": "8"}),
            UserError,
            "shop.days has no partition where n = '8'",
        ),
        (
            TruncateJob(target="shop.days", partition={"n": "seven"}),
            UserError,
            "'seven' is not a value of the partition key n, which is a int",
        ),
        *(
            (
                replace(INSERT, target="shop.days", **{field: value}),
                UserError,
                "shop.days has no partition where day is '2026-02-30': that is no date",
            )
            for field, value in (
                ("static", {"day": "2026-02-30"}),
                ("partitions", [{"day": "2026-02-30", "n": "1"}]),
            )
        ),
    ],
)
def test_a_statement_that_certainly_fails_is_refused(
    job: Job,
    error: type[HiveAcidError],
    message: str,
    check: Check,  # noqa: F811
) -> None:
    with pytest.raises(error, match=message):
        check(job)


def script(*statements: Any) -> ScriptJob:
    return ScriptJob.of(statements)


CREATE = CreateTableJob(target="shop.new", columns=[ColumnSpec("a", "int")])


def test_a_view_need_not_exist_and_its_tables_must(check: Check) -> None:  # noqa: F811
    view = CreateViewJob(target="shop.ids", text="", expanded="", reads=["shop.orders"])
    check(script(view))
    check(script(CREATE, replace(view, reads=["shop.new"])))
    with pytest.raises(TableNotFound, match=r"^Statement 1 of 1: shop.gone does not exist"):
        check(script(replace(view, reads=["shop.orders", "shop.gone"])))


def test_a_statement_of_a_script_is_identified_by_its_number(check: Check) -> None:  # noqa: F811
    with pytest.raises(UnknownColumn, match=r"^Statement 2 of 2: The condition 't.x'"):
        check(script(DELETE, replace(DELETE, where="t.x")))


def test_objects_created_by_the_script_are_not_required(check: Check) -> None:  # noqa: F811
    made = replace(DELETE, target="shop.new", where="t.a = 1")
    check(script(CREATE, made, replace(MERGE, source=TableSource("shop.new"))))
    with pytest.raises(TableNotFound, match=r"Statement 1 of 2: shop.new does not exist"):
        check(script(made, CREATE))
    check(script(DropTableJob(target="shop.orders"), replace(DELETE, where="t.x = 1")))
    check(script(DropDatabaseJob(target="shop"), replace(DELETE, target="shop.gone")))
    grown = replace(INSERT, source=TableSource("shop.nested"), merge_schema=True)
    check(script(grown, replace(INSERT, by_position=True, columns=["t"])))


def test_new_columns_are_named_before_they_are_added(check: Check) -> None:  # noqa: F811
    grown = replace(INSERT, source=TableSource("shop.nested"), merge_schema=True)
    assert check(grown) == ["merge_schema adds columns to shop.log: t."]
    assert check(replace(grown, exclude=["T"])) == []
    schema = PathSource("s3a://b/f", "csv", schema="id int, op string, Score double")
    told = ["merge_schema adds columns to shop.log: score."]
    assert check(replace(grown, source=schema, exclude=["OP"])) == told
    changes = QuerySource("SELECT * FROM c", {"c": ChangesSource("shop.orders", "0", "0")})
    merge = replace(MERGE, source=changes, merge_schema=True, when=[MatchedUpdate()])
    told = ["merge_schema adds columns to shop.orders: _change_type, _write_id, _row_id."]
    assert check(merge) == told
    named = MatchedUpdate({"_change_type": "s._change_type", "id": "s.id"})
    assert check(replace(merge, when=[named])) == [told[0].replace(", _write_id, _row_id", "")]
    assert check(replace(merge, exclude=["_change_type", "_Write_id", "_row_id"])) == []
    for job in (grown, merge, replace(merge, merge_schema=False)):
        with pytest.raises(UnknownColumn, match="excludes nope, but the source has no such"):
            check(replace(job, exclude=["nope"]))


def test_a_script_may_need_what_its_earlier_statements_add(check: Check) -> None:  # noqa: F811
    insert = replace(INSERT, target="shop.days", partitions=[{"day": "2026-01-02", "n": "8"}])
    later = [
        TruncateJob(target="shop.days", partition={"n": "8"}),
        CompactJob(target="shop.days", partitions=["day=2026-01-02/n=8"]),
        RestoreJob(target="shop.days", as_of="1"),
        replace(INSERT, source=ChangesSource("shop.days", "0", "1"), by_position=True),
    ]
    check(script(insert, *later))
    for statement in later:
        with pytest.raises(UserError, match=r"^Statement 1 of 1"):
            check(script(statement))


@pytest.mark.parametrize(
    ("query", "error", "message"),
    [
        ("SELECT id FROM f", None, ""),
        ("SELECT idd FROM f", UnknownColumn, r"^The query names an unknown column: idd\."),
        ("WITH c AS (SELECT id FROM f) SELECT idd FROM c AS f", UnknownColumn, r"column: idd\."),
        ("SELECT id FROM f, rnge(3) AS f", InvalidJob, r"calls rnge\(\).* Did you mean range\?"),
        ("SELECT id FROM g", TableNotFound, "shop.gone does not exist"),
        ("SELECT * FROM c", VersionUnknown, "shop.log has no version 2"),
    ],
)
def test_a_query_is_checked(
    client: MetastoreClient,  # noqa: F811
    query: str,
    error: type[HiveAcidError] | None,
    message: str,
) -> None:
    inputs = {
        "f": TableSource("shop.feed"),
        "g": ChangesSource("shop.gone", "0"),
        "c": ChangesSource("shop.log", "2", "1"),
    }
    given = QuerySource(query, {query[-1]: inputs[query[-1]]})
    preflight = Preflight(client, DriverFiles(), print)
    if error is None:
        preflight.check_query(given)
        return
    with pytest.raises(error, match=message):
        preflight.check_query(given)
