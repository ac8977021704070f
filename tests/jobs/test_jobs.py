from dataclasses import replace

import pytest

from hiveacid.errors import InvalidJob
from hiveacid.jobs.fields import before_rendering
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.sources import ChangesSource, PathSource, QuerySource, TableSource
from hiveacid.jobs.write_jobs import (
    DeleteJob,
    InsertJob,
    MergeJob,
    RestoreJob,
    TransactionJob,
    UpdateJob,
)
from hiveacid.rules.compaction_policy import Budget, CompactionPolicy
from hiveacid.rules.merge import MatchedDelete, MatchedUpdate, NotMatchedInsert
from hiveacid.rules.write_ids import AsOf

CHANGES = TableSource("sales.changes")
INSERT = InsertJob(target="sales.orders", source=CHANGES)
UPDATE = UpdateJob(target="sales.orders", set={"a": "a + 1"}, where="b > 2")
DELETE = DeleteJob(target="sales.orders", where="b > 2")
COMPACT = CompactJob(target="sales.orders")
CLEAN = CleanJob(target="sales.orders")
MERGE = MergeJob(
    target="sales.orders",
    source=QuerySource("select * from c", {"c": CHANGES}),
    on="s.id = t.id",
    when=[MatchedDelete("s.gone"), MatchedUpdate(), NotMatchedInsert()],
)


@pytest.mark.parametrize(
    "job",
    [
        INSERT,
        UPDATE,
        DELETE,
        MERGE,
        replace(DELETE, where=None, all_rows=True),
        replace(UPDATE, where="true"),
        replace(INSERT, overwrite=True, partitions=[{"d": "1"}, {"d": None}]),
        replace(INSERT, source=PathSource("/in/*.csv", "csv", {"header": "true"}, "a int")),
        replace(DELETE, orc_codec="none", metastore=MetastoreOptions(uris="thrift://a:1")),
        replace(DELETE, target="{{ params.table }}", orc_codec="{{ var.value.codec }}"),
        COMPACT,
        CLEAN,
        replace(COMPACT, partitions=["d=1/e=2", "d=1/e=3", "{{ params.partition }}"]),
        replace(COMPACT, type="{{ params.type }}", mode="{{ params.mode }}"),
        replace(COMPACT, policy=CompactionPolicy(quiet_hours="{{ params.quiet }}")),
        replace(COMPACT, mode="serve", pool="nightly"),
        replace(MERGE, source=TableSource("{{ ds }}"), target_alias="{{ params.alias }}"),
    ],
)
def test_lawful_jobs(job):
    with before_rendering():
        job.validate()


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (replace(DELETE, target="orders"), "'orders' is not the name of a table"),
        (replace(DELETE, where=" "), "where must be a non-empty text"),
        (replace(DELETE, where=None), "DELETE FROM sales.orders has no condition"),
        (replace(UPDATE, where=None), "UPDATE sales.orders has no condition"),
        (
            TransactionJob(statements=[replace(DELETE, where=None)]),
            "DELETE FROM sales.orders has no condition",
        ),
        (replace(DELETE, all_rows=True), "has a condition, and all_rows=True"),
        (replace(DELETE, run_token=""), "run_token"),
        (
            RestoreJob(target="sales.orders", as_of="1", on_empty="skip"),
            "a restore does not have; omit it",
        ),
        (replace(DELETE, lock_wait_seconds=-1), "lock_wait_seconds"),
        (
            replace(DELETE, conflict_policy="loose"),
            "conflict_policy: .loose. is not one of hive, rows, strict",
        ),
        (replace(DELETE, max_restarts=-1), "max_restarts"),
        (replace(DELETE, orc_codec="gzip"), "'gzip' is not one of lz4, none, snappy, zlib, zstd"),
        (replace(UPDATE, set={}), "set names no column"),
        (
            replace(UPDATE, set="a = 1"),
            "set must be a dict of columns and expressions, not 'a = 1'",
        ),
        (replace(UPDATE, set={"a": 1}), "column 'a' is 1. Write a text of SQL, like '1'"),
        (replace(UPDATE, where=""), "where"),
        (replace(INSERT, source=TableSource("x")), "not the name of a table"),
        (replace(INSERT, source="sales.x"), "is no source"),
        (replace(INSERT, source=PathSource("", "orc")), "source.path"),
        (replace(INSERT, source=PathSource("/a", "xml")), "source.format: 'xml'"),
        (replace(INSERT, source=PathSource("/a", "csv", schema="")), "source.schema"),
        (replace(INSERT, source=QuerySource("")), "source.sql"),
        (replace(INSERT, source=QuerySource("x", {"a b": CHANGES})), "name of a view"),
        (replace(INSERT, source=QuerySource("x", {"a": TableSource("b")})), "name of a table"),
        (
            replace(INSERT, source=QuerySource("x", {"a": "sales.a"})),
            "a is 'sales.a', which cannot be",
        ),
        (replace(INSERT, source=QuerySource("x", [CHANGES])), "source.inputs must be a dict"),
        (replace(INSERT, partitions={"d": "1"}), "partitions must be a list, not one dict"),
        (replace(INSERT, static=["d=1"]), "static must be a dict"),
        (replace(INSERT, by_position=True, columns="id"), "columns must be a list, not 'id'"),
        (replace(INSERT, exclude="op"), "exclude must be a list, not 'op'"),
        (replace(INSERT, exclude=[" "]), "exclude must be a non-empty text"),
        (replace(INSERT, exclude=["op"], by_position=True), "exclude finds columns by name"),
        (replace(MERGE, exclude=[1]), "exclude must be a non-empty text"),
        (replace(INSERT, partitions=[]), "partitions is empty"),
        (replace(INSERT, partitions=[{}]), r"partitions\[0\] must name"),
        (replace(INSERT, partitions=[{"d": ""}]), "empty value"),
        (replace(INSERT, partitions=[{"d": "1", "D": "2"}]), "twice"),
        (replace(INSERT, partitions=[{"d": "1"}, {"D": "1"}]), r"partitions\[1\] is there twice"),
        (replace(INSERT, partitions=[{"d": "1"}, {"e": "1"}]), "other keys"),
        (replace(COMPACT, partitions=[]), "partitions is empty"),
        (replace(COMPACT, partitions=["d"]), r"partitions\[0\]: The name 'd' cannot be read"),
        (replace(COMPACT, partitions=["d=1", "d=1"]), r"partitions\[1\] is there twice"),
        (replace(COMPACT, partitions="d=1"), "partitions must be a list, not 'd=1'"),
        (replace(COMPACT, type="mayor"), r"type: 'mayor' is not one of .* Did you mean major\?"),
        (replace(COMPACT, type="full"), "type: 'full' is not one of"),
        (replace(COMPACT, mode="fast"), "mode: 'fast' is not one of"),
        (replace(COMPACT, policy=CompactionPolicy(max_deltas=-1)), "policy.max_deltas"),
        (replace(COMPACT, policy=CompactionPolicy(max_deltas=0)), "max_deltas must be at least 1"),
        (replace(COMPACT, policy=CompactionPolicy(quiet_hours="22-5")), "'22-5' cannot be read"),
        (replace(COMPACT, budget=Budget(max_bytes=0)), "budget.max_bytes"),
        (replace(COMPACT, parallel=0), "parallel"),
        (replace(COMPACT, pool="nightly"), "needs mode='serve'"),
        (replace(COMPACT, mode="serve", pool=" "), "pool must be a non-empty text"),
        (
            replace(COMPACT, mode="serve", pool="airflow-hiveacid:7"),
            "belongs to one compaction of this package",
        ),
        (replace(COMPACT, mode="serve", type="major"), "determine the partitions and the type"),
        (replace(CLEAN, partitions=[""]), r"partitions\[0\] must be a non-empty text"),
        (replace(CLEAN, keep_notes_days=-1), "keep_notes_days"),
        (replace(CLEAN, retention="a week"), "retention"),
        (replace(MERGE, on=""), "on must be a non-empty text"),
        (replace(MERGE, when=MatchedUpdate()), r"single MatchedUpdate; .*when=\[MatchedUpdate"),
        (replace(MERGE, when="update"), "when must be a list of clauses, not 'update'"),
        (replace(MERGE, when=[MatchedUpdate(condition=True)]), "must be a text, not True"),
        (replace(MERGE, when=[MatchedUpdate(), MatchedDelete()]), "never be reached"),
        (TransactionJob(statements=INSERT), "statements must be a list, not one InsertJob"),
        (replace(MERGE, source_alias="a-b"), "cannot be an alias"),
        (replace(MERGE, source_alias="x", target_alias="X"), "same alias"),
    ],
)
def test_unlawful_jobs(job, message):
    with pytest.raises(InvalidJob, match=message):
        job.validate()


@pytest.mark.parametrize(
    ("job", "message"),
    [
        (
            replace(DELETE, where="b > > 2"),
            "^where does not parse: an operand is missing between > and >",
        ),
        (replace(UPDATE, set={"a": "(1"}), "^set: the expression of a does not parse"),
        (
            replace(MERGE, on="t.id = = s.id"),
            "^on does not parse: an operand is missing between = and =",
        ),
        (
            replace(MERGE, when=[MatchedDelete("s.a AND")]),
            r"^when\[0\] \(MatchedDelete\): the condition does not parse",
        ),
        (
            replace(MERGE, when=[NotMatchedInsert(row=["1", "s.a)"])]),
            "expression 2 of the row does not parse",
        ),
        (replace(INSERT, source=QuerySource("SELECT 'x")), "^source.sql does not parse"),
        (
            TransactionJob(statements=[replace(DELETE, where="b >")]),
            r"^statements\[0\]: where does not parse",
        ),
    ],
)
def test_invalid_sql_is_refused(job, message):
    with pytest.raises(InvalidJob, match=message):
        job.validate()


def test_sql_that_is_still_to_be_rendered_is_not_read():
    job = replace(
        MERGE, on="t.id = {{ params.id }} {% if x %}(", when=[MatchedUpdate({"a": "{{ '(' }}"})]
    )
    with before_rendering():
        job.validate()
    with pytest.raises(InvalidJob):
        job.validate()


@pytest.mark.parametrize(
    "uris",
    [
        "thrift://h:9083",
        "thrift://h:9083, thrift://[::1]:9083",
        "https://gateway/metastore",
        "http://h:9001/metastore",
        "{{ conn.hms.host }}",
    ],
)
def test_lawful_addresses(uris):
    with before_rendering():
        MetastoreOptions(uris=uris).validate()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (MetastoreOptions(uris=""), "uris must be a non-empty text"),
        (MetastoreOptions(uris="h:9083"), "not the address"),
        (MetastoreOptions(uris="thrift://h:9083,"), "not the address"),
        (MetastoreOptions(uris="thrift://h"), "has no port"),
        (MetastoreOptions(uris="thrift://h:x"), "cannot be read"),
        (MetastoreOptions(uris="thrift://u:p@h:1"), "must not hold"),
        (MetastoreOptions(uris="thrift://user:12/s@h:1"), "must not hold"),
        (MetastoreOptions(uris="https://h/metastore?token=s"), "must not hold parameters"),
        (MetastoreOptions(uris="thrift://h:1,http://h:2"), "mixes"),
        (MetastoreOptions(uris="thrift://h:1", user=""), "metastore.user"),
        (MetastoreOptions(uris="thrift://h:1", write_events="no"), "metastore.write_events"),
        (MetastoreOptions(uris="thrift://h:1", metastore_profile="cdp"), "metastore_profile"),
        (MetastoreOptions(uris="thrift://h:1", read_timeout_seconds=0), "read_timeout_seconds"),
        (
            MetastoreOptions(uris="thrift://h:1", auth_mechanism="LDAP"),
            "not one of DIGEST-MD5, GSSAPI",
        ),
        (MetastoreOptions(uris="http://h:1", auth_mechanism="GSSAPI"), "is HTTP"),
        (MetastoreOptions(uris="thrift://h:1", kerberos_keytab="/k"), "there is no Kerberos"),
        (MetastoreOptions(uris="thrift://h:1", auth_mechanism="DIGEST-MD5"), "token_env"),
    ],
)
def test_unlawful_metastores_fail_their_job(options, message):
    with pytest.raises(InvalidJob, match=message):
        replace(DELETE, metastore=options).validate()


def test_every_text_of_a_job_is_rendered():
    job = replace(
        MERGE,
        source=QuerySource("q", {"c": PathSource("/p", "csv", {"sep": "x"})}),
        when=[MatchedUpdate({"a": "e"}, "c"), NotMatchedInsert()],
        metastore=MetastoreOptions(uris="u"),
    )
    assert job.render(str.upper) == MergeJob(
        target="SALES.ORDERS",
        source=QuerySource("Q", {"c": PathSource("/P", "CSV", {"sep": "X"})}),
        on="S.ID = T.ID",
        when=[MatchedUpdate({"a": "E"}, "C"), NotMatchedInsert()],
        metastore=MetastoreOptions(
            uris="U",
            kerberos_service_name="HIVE",
            metastore_profile="AUTO",
            write_events="AUTO",
        ),
        conflict_policy="HIVE",
        run_in="AUTO",
        source_alias="S",
        target_alias="T",
    )
    assert replace(INSERT, partitions=[{"d": "x", "e": None}]).render(str.upper).partitions == (
        {"d": "X", "e": None},
    )


def test_a_rendered_template_is_checked_again():
    job = replace(DELETE, target="{{ params.table }}").render(lambda text: "nonsense")
    with pytest.raises(InvalidJob, match="'nonsense' is not the name of a table"):
        job.validate()


def test_a_failing_template_is_reported_with_its_field():
    def fail(text):
        if "{{" in text:
            raise KeyError("day")
        return text

    job = replace(MERGE, when=[MatchedUpdate({"a": "{{ day }}"})])
    with pytest.raises(
        InvalidJob,
        match=r"^job\.when\[0\]\.set\['a'\]: the template '{{ day }}' fails: KeyError: 'day'",
    ):
        job.render(fail)


def test_only_the_start_of_changes_may_be_the_oldest_version() -> None:
    source = ChangesSource("sales.orders", after="oldest")
    source.validate()
    assert source.versions == (AsOf(oldest=True), None)
    for other in (
        ChangesSource("sales.orders", after="0", up_to="oldest"),
        ChangesSource("sales.orders", after="Oldest"),
        TableSource("sales.orders", as_of="oldest"),
    ):
        with pytest.raises(InvalidJob, match=r"cannot be '[oO]ldest'"):
            other.validate()
