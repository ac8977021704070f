"""Statistics that metastores store as accurate: their content, and their revocation."""

from datetime import date, datetime
from decimal import Decimal

import pytest

from airflow_hiveacid import AcidTable
from hiveacid.cli.main import main
from hiveacid.errors import TableReplaced, UnknownColumn, UserError, WrongTableKind
from hiveacid.jobs.definition_jobs import AnalyzeJob
from hiveacid.metastore.client import MetastoreClient
from hiveacid.parser.script import to_script
from hiveacid.tables.definitions.run import run_script_of_ddl
from hiveacid.tables.statistics import analyze
from tests.engine.acid_tables import create
from tests.stored_statistics import ACCURATE, Stored

TYPES = {
    "id": "int",
    "flag": "boolean",
    "real": "double",
    "price": "decimal(12,2)",
    "day": "date",
    "at": "timestamp",
    "text": "string",
    "code": "char(5)",
    "blob": "binary",
    "tags": "array<int>",
}


def calls_before(client, monkeypatch, name, action):
    """Have something done just before the first call of a name."""
    really, done = client.call, []

    def call(declared, *arguments, **about):
        if declared.name.startswith(name) and not done:
            done.append(name)
            action()
        return really(declared, *arguments, **about)

    monkeypatch.setattr(client, "call", call)
    return done


def of_case(case, **more):
    return analyze(case.client, AnalyzeJob(target=case.name, **more))


def test_statistics_of_every_type_are_stored(spark, client, hms, database):
    name = f"{database}.types"
    create(client, name, TYPES)
    rows = [
        (1, True, -1.5, Decimal("-7.25"), date(1970, 1, 2), datetime(2020, 1, 1), "ab", "x", b"1"),
        (9, False, 2.5, Decimal("1.00"), date(2030, 1, 1), datetime(2021, 1, 1), "", "yz", b"22"),
        (5, *[None] * 8),
        (-9, *[None] * 8),
    ]
    shown = TYPES | {"code": "string"}
    schema = ", ".join(f"{name} {type_}" for name, type_ in shown.items())
    with AcidTable(name, hms.uri, spark=spark, run_in="spark") as table:
        table.append(spark.createDataFrame([(*row, [1]) for row in rows], schema).coalesce(1))
        table.delete("t.id = -9")
        report = table.analyze()
    assert report.warnings == ()
    (found,) = report.partitions
    assert (found.rows, found.accurate) == (3, True)
    assert [*found.omitted] == ["tags"]
    assert {each.name: (each.nulls, each.low, each.high) for each in found.columns}["price"] == (
        1,
        "-7.25",
        "1.00",
    )
    stored = Stored(client, table.ref)
    assert stored.rows == 3
    assert stored.exact == {*TYPES} - {"tags"}
    assert stored.columns == {
        "id": (0, 1, 9),
        "flag": (1, 1),
        "real": (1, -1.5, 2.5),
        "price": (1, -725, 100),
        "day": (1, 1, 21915),
        "at": (1, 1577836800, 1609459200),
        "text": (1, 2),
        # It is stored without blanks at its end.
        "code": (1, 2),
        "blob": (1, 2),
    }


CHANGES = {
    "update": lambda table, frame: table.update({"v": "'new'"}, "t.id = 1"),
    "delete": lambda table, frame: table.delete("t.id = 1"),
    "append": lambda table, frame: table.append(frame),
    "merge": lambda table, frame: (
        table.merge(frame, "t.id = s.id")
        .when_matched_delete()
        .when_not_matched_insert_all()
        .execute()
    ),
    "restore": lambda table, frame: table.restore(1),
    "overwrite": lambda table, frame: table.overwrite(frame),
    "truncate a partition": lambda table, frame: table.truncate({"p": "x"}),
    "another append": lambda table, frame: table.append(frame),
    "truncate": lambda table, frame: table.truncate(),
}


@pytest.mark.parametrize("keys", [None, {"p": "string"}], ids=["flat", "partitioned"])
def test_every_change_takes_the_promise_back(make, keys):
    case = make(keys=keys)
    case.append((1, "a", "x"), (2, "b", "x"))
    case.append((3, "c", "x"))
    partition = "p=x" if keys else None
    for name, change in CHANGES.items():
        if keys is None and name == "truncate a partition":
            continue
        expected = case.rows()
        assert of_case(case).rows == len(expected), name
        stored = Stored(case.client, case.ref, partition)
        assert stored.rows == len(expected), name
        bounds = [function((row[0] for row in expected), default=None) for function in (min, max)]
        if expected:
            assert stored.columns["id"] == (0, *bounds), name
        else:
            # Version 4 would keep the bounds of rows that have gone.
            assert "id" not in stored.exact
        frame = case.frame((1, "z", "x"), (8, "z", "x"))
        case.change(lambda table, change=change, frame=frame: change(table, frame))
        assert case.rows() != expected, name
        stored = Stored(case.client, case.ref, partition)
        assert (stored.rows, stored.exact) == (None, frozenset()), name
        assert ACCURATE not in stored.parameters, name
        assert stored.parameters["numRows"] == "", name


def test_a_compaction_leaves_them(make):
    case = make()
    case.append((1, "a", "x"), (2, "b", "x"))
    case.append((3, "c", "x"))
    case.change(lambda table: table.delete("t.id = 3"))
    assert of_case(case).partitions[0].stripes_decoded == 1
    case.compact("major")
    stored = Stored(case.client, case.ref)
    assert (stored.rows, stored.columns["id"]) == (2, (0, 1, 2))


def test_changes_of_the_definition_keep_statistics_valid(make):
    case = make()
    case.append((1, "a", "x"), (2, "b", "x"))
    of_case(case)
    script = f"ALTER TABLE {case.name} ADD COLUMNS (more int); ALTER TABLE {case.name} RENAME TO "
    script += f"{case.ref.database}.other"
    run_script_of_ddl(case.client, to_script(script))
    ref = type(case.ref)(case.ref.database, "other")
    stored = Stored(case.client, ref)
    # Wrong statistics are worse than none.
    assert stored.rows in (None, 2)
    assert "more" not in stored.exact
    assert analyze(case.client, AnalyzeJob(target=ref.full_name)).rows == 2
    stored = Stored(case.client, ref)
    assert (stored.rows, stored.exact) == (2, {"id", "v", "p"})


def test_only_what_is_named_is_analyzed(make):
    case = make(keys={"p": "string", "q": "int"})
    with case.open() as table:
        frame = case.spark.createDataFrame(
            [(1, "a", "x", 1), (2, "b", "x", 2), (3, "c", "y", 1)],
            "id int, v string, p string, q int",
        )
        table.append(frame)
    report = of_case(case, partitions=["p=x"], columns=["ID"])
    assert [each.partition for each in report.partitions] == ["p=x/q=1", "p=x/q=2"]
    assert Stored(case.client, case.ref, "p=x/q=2").columns == {"id": (0, 2, 2)}
    assert Stored(case.client, case.ref, "p=y/q=1").rows is None
    # Exact statistics stay so, as nothing has been written since.
    of_case(case, partitions=["q=02"], columns=["v"])
    assert Stored(case.client, case.ref, "p=x/q=2").exact == {"id", "v"}
    of_case(case, rows_only=True)
    assert Stored(case.client, case.ref, "p=x/q=2").exact == {"id", "v"}
    assert Stored(case.client, case.ref, "p=y/q=1").rows == 1
    with pytest.raises(UserError, match="no partition p=z"):
        of_case(case, partitions=["p=z"])
    with pytest.raises(UnknownColumn, match="no column w"):
        of_case(case, columns=["w"])


def test_sql_analyzes(make, capsys):
    case = make()
    case.append((1, "a", "x"), (2, None, "x"))
    sql = f"ANALYZE TABLE {case.name} COMPUTE STATISTICS FOR COLUMNS v"
    report = run_script_of_ddl(case.client, to_script(sql))
    assert report.statements[0].run.job == "analyze"
    stored = Stored(case.client, case.ref)
    assert (stored.rows, stored.columns) == (2, {"v": (1, 1)})
    assert main(["sql", f"{sql}, id", "--metastore", case.uri]) == 0
    assert capsys.readouterr().out == f"1. analyze {case.name}: done\n"
    assert Stored(case.client, case.ref).columns["id"] == (0, 1, 2)


@pytest.mark.parametrize("before", ["alter_table", "set_aggr", "get_open_txns"])
def test_nothing_is_promised_while_another_one_writes(make, monkeypatch, before):
    case = make()
    case.append((1, "a", "x"))
    with MetastoreClient(case.client.options) as client:
        done = calls_before(client, monkeypatch, before, lambda: case.append((2, "b", "x")))
        report = analyze(client, AnalyzeJob(target=case.name))
    assert done
    stored = Stored(case.client, case.ref)
    if report.partitions[0].accurate:
        assert (before, stored.rows, stored.columns["id"]) == ("get_open_txns", 2, (0, 1, 2))
    else:
        assert stored.rows is None
        assert stored.parameters["numRows"] == ""
        assert "another transaction" in report.warnings[0] or "write id" in report.warnings[0]


def test_a_concurrent_writer_prevents_accurate_statistics(make):
    case = make()
    case.append((1, "a", "x"))
    txn = case.client.open_txn("user", "host", None)
    write_id = case.client.allocate_write_id(txn, case.ref)
    report = of_case(case)
    assert report.warnings[0].startswith(
        f"The statistics are not exact: write id {write_id} of {case.name} was open."
    )
    assert not report.partitions[0].accurate
    stored = Stored(case.client, case.ref)
    assert (stored.rows, ACCURATE in stored.parameters) == (None, False)
    case.client.abort_txn(txn)
    assert of_case(case).partitions[0].accurate


def test_statistics_of_a_killed_analysis_are_not_trusted(make, monkeypatch):
    case = make()
    case.append((1, "a", "x"))

    def die():
        raise KeyboardInterrupt

    with MetastoreClient(case.client.options) as client:
        calls_before(client, monkeypatch, "commit_txn", die)
        with pytest.raises(KeyboardInterrupt):
            analyze(client, AnalyzeJob(target=case.name))
    # Version 4 trusts it once it has forgotten the transaction, which wrote nothing: it is right.
    assert Stored(case.client, case.ref).rows in (None, 1)
    # Every writer revokes it in any case.
    case.append((2, "b", "x"))
    assert Stored(case.client, case.ref).rows is None
    of_case(case)
    assert Stored(case.client, case.ref).rows == 2


def test_another_table_of_the_name_gets_no_statistics_of_the_first(make, monkeypatch):
    case = make()
    case.append((1, "a", "x"))

    def replace():
        case.client.drop_table(case.ref)
        create(case.client, case.name, {"id": "int", "v": "string", "p": "string"})

    with MetastoreClient(case.client.options) as client:
        calls_before(client, monkeypatch, "set_aggr", lambda: None)
        really = analyze.__globals__["require_same_definition"]

        def check(*arguments):
            replace()
            return really(*arguments)

        monkeypatch.setitem(analyze.__globals__, "require_same_definition", check)
        with pytest.raises(TableReplaced):
            analyze(client, AnalyzeJob(target=case.name))
    assert Stored(case.client, case.ref).rows is None


def test_a_table_that_is_not_transactional_is_refused(spark, client, database):
    create(client, f"{database}.plain", {"id": "int"}, parameters={"transactional": "false"})
    with pytest.raises(WrongTableKind):
        analyze(client, AnalyzeJob(target=f"{database}.plain"))
