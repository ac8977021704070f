"""The checks for known problems of metastores, by their evidence."""

from datetime import UTC, datetime, timedelta

import pytest

from hiveacid.metastore.compactions import READY_FOR_CLEANING, QueuedCompaction
from hiveacid.metastore.thrift.answers import TxnType
from hiveacid.rules.metastore_version import BUNDLED, MetastoreVersion
from hiveacid.rules.names import TableRef
from hiveacid.upkeep.known_problems import (
    NOT_KNOWN,
    Evidence,
    Verdict,
    known_problems,
    problems,
)
from tests.fakes.metastore import REAL_AND_FAKE

INITIATOR_ON = "metastore.compactor.initiator.on"
CLEANER_ON = "metastore.compactor.cleaner.on"
HOUSEKEEPING_ON = "metastore.housekeeping.threads.on"
FETCH_SIZE = "metastore.compactor.fetch.size"
MIN_HISTORY_LEVEL = "metastore.txn.use.minhistorylevel"
MIN_HISTORY_WRITE_ID = "metastore.txn.use.minhistorywriteid"
QUERY_BASED = "hive.compactor.crud.query.based"
ABSENT, PRESENT, UNDETERMINED = Verdict
NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)


def finding(problem, version="4.0.1", **evidence):
    given = {
        "now": NOW,
        "version": MetastoreVersion(int(version[0])),
        "release": version,
        "settings": {},
    }
    (found,) = [
        each for each in known_problems(Evidence(**given | evidence)) if each.problem == problem
    ]
    assert (found.remedy == "") == (found.verdict is ABSENT)
    return found


def ready(next_txn_id, minutes=60, table="t"):
    return QueuedCompaction(
        id=next_txn_id,
        table=TableRef("db", table),
        partition=None,
        type="major",
        state=READY_FOR_CLEANING,
        next_txn_id=next_txn_id,
        committed_at=NOW - timedelta(minutes=minutes),
    )


def test_an_old_transaction_that_blocks_all_cleanings_is_found():
    queue = [ready(8), ready(9, table="u"), ready(5), ready(12, minutes=1)]
    found = finding("HIVE-26704", queue=queue, min_open=7, settings={MIN_HISTORY_WRITE_ID: "false"})
    assert found.verdict is PRESENT
    assert "2 requests of 2 tables" in found.evidence
    assert "open transaction 7" in found.evidence
    assert "End transaction 7" in found.remedy


@pytest.mark.parametrize(
    ("queue", "min_open", "settings", "verdict"),
    [
        ([ready(8)], None, {}, ABSENT),
        ([ready(8)], 8, {MIN_HISTORY_WRITE_ID: "false"}, ABSENT),
        ([ready(8, minutes=9)], 7, {MIN_HISTORY_WRITE_ID: "false"}, ABSENT),
        ([], 7, {}, ABSENT),
        # It may be a reader of the same table.
        ([ready(8)], 7, {MIN_HISTORY_WRITE_ID: "true"}, UNDETERMINED),
        ([ready(8)], 7, {}, UNDETERMINED),
    ],
)
def test_a_cleaning_waits_only_for_older_transactions(queue, min_open, settings, verdict):
    found = finding("HIVE-26704", queue=queue, min_open=min_open, settings=settings)
    assert found.verdict is verdict


@pytest.mark.parametrize(
    ("problem", "version", "settings", "verdict"),
    [
        ("HIVE-26704", "3.0", {}, ABSENT),
        ("HIVE-25503", "3.0", {}, PRESENT),
        ("HIVE-25503", "4.0.1", {}, ABSENT),
        ("HIVE-27075", "3.0", {}, ABSENT),
        ("HIVE-27075", "4.0.1", {HOUSEKEEPING_ON: "true", CLEANER_ON: "true"}, ABSENT),
        ("HIVE-27075", "4.0.1", {HOUSEKEEPING_ON: "true", INITIATOR_ON: "TRUE"}, ABSENT),
        ("HIVE-27075", "4.0.1", {HOUSEKEEPING_ON: "true", CLEANER_ON: "false"}, UNDETERMINED),
        ("HIVE-27075", "4.0.1", {CLEANER_ON: "true"}, UNDETERMINED),
        ("HIVE-27075", "4.0.1", {CLEANER_ON: "false", BUNDLED: "true"}, ABSENT),
        ("HIVE-24291", "3.0", {INITIATOR_ON: "false", BUNDLED: "true"}, ABSENT),
        ("HIVE-24291", "3.0", {INITIATOR_ON: "true", BUNDLED: "true"}, PRESENT),
        ("HIVE-30026", "4.0.1", {INITIATOR_ON: "false", BUNDLED: "true"}, ABSENT),
        ("HIVE-30026", "4.0.1", {INITIATOR_ON: "true", BUNDLED: "true"}, UNDETERMINED),
        ("HIVE-24291", "3.0", {INITIATOR_ON: "true"}, PRESENT),
        ("HIVE-24291", "3.0", {INITIATOR_ON: "false"}, UNDETERMINED),
        ("HIVE-24291", "4.0.1", {MIN_HISTORY_LEVEL: "true"}, ABSENT),
        ("HIVE-24291", "4.0.1", {MIN_HISTORY_LEVEL: "false"}, PRESENT),
        ("HIVE-24291", "4.2.0", {MIN_HISTORY_LEVEL: "false"}, UNDETERMINED),
        ("HIVE-24291", "4.0.1", {}, UNDETERMINED),
        ("HIVE-30026", "3.0", {INITIATOR_ON: "true"}, ABSENT),
        ("HIVE-30026", "4.2.0", {INITIATOR_ON: "true", FETCH_SIZE: "1000"}, UNDETERMINED),
        ("HIVE-30026", "4.2.0", {}, UNDETERMINED),
        ("HIVE-30026", "4.3.0", {}, UNDETERMINED),
        ("HIVE-30026", "4.0.1\x1b[2J", {}, UNDETERMINED),
        ("HIVE-30026", "", {"unknown": "x"}, UNDETERMINED),
        # The calls of version 4, with the number of a vendor.
        ("HIVE-30026", "3.1.3000.7", {INITIATOR_ON: "true"}, UNDETERMINED),
        ("HIVE-25503", "3.1.3000.7", {}, ABSENT),
        ("HIVE-29567", "3.0", {INITIATOR_ON: "true"}, ABSENT),
        ("HIVE-29567", "4.0.1", {INITIATOR_ON: "true", QUERY_BASED: "true"}, PRESENT),
        ("HIVE-29567", "4.2.1", {INITIATOR_ON: "true", QUERY_BASED: "true"}, PRESENT),
        ("HIVE-29567", "4.2.2", {INITIATOR_ON: "true", QUERY_BASED: "true"}, UNDETERMINED),
        ("HIVE-29567", "4.2.1", {INITIATOR_ON: "true"}, UNDETERMINED),
        ("HIVE-29567", "4.2.1", {INITIATOR_ON: "false", BUNDLED: "true"}, ABSENT),
        ("HIVE-28700", "3.0", {INITIATOR_ON: "true"}, ABSENT),
        ("HIVE-28700", "4.0.1", {INITIATOR_ON: "true", QUERY_BASED: "false"}, PRESENT),
        ("HIVE-28700", "4.0.1", {INITIATOR_ON: "true", QUERY_BASED: "true"}, UNDETERMINED),
        ("HIVE-28700", "4.1.0", {INITIATOR_ON: "true", QUERY_BASED: "false"}, ABSENT),
        ("HIVE-29210", "4.1.0", {INITIATOR_ON: "true"}, PRESENT),
        ("HIVE-29210", "4.1.0", {INITIATOR_ON: "false"}, UNDETERMINED),
        ("HIVE-29210", "4.2.0", {INITIATOR_ON: "true"}, ABSENT),
        ("HIVE-29186", "3.0", {INITIATOR_ON: "true"}, ABSENT),
        ("HIVE-29186", "4.0.1", {INITIATOR_ON: "true"}, PRESENT),
        ("HIVE-29186", "4.2.0", {INITIATOR_ON: "true"}, ABSENT),
        ("HIVE-29644", "4.0.1", {}, ABSENT),
        ("HIVE-29520", "4.3.0", {}, ABSENT),
    ],
)
def test_versions_and_settings_decide_where_they_can(problem, version, settings, verdict):
    generation = MetastoreVersion.HMS3 if version == "3.0" else MetastoreVersion.HMS4
    found = finding(problem, version=f"{generation}", release=version, settings=settings)
    assert found.verdict is verdict
    assert found.title
    for name in settings.keys() - {"unknown", BUNDLED}:
        assert name in found.evidence or verdict is ABSENT


@pytest.mark.parametrize(
    ("version", "verdict"), [("3.0", ABSENT), ("4.2.1", UNDETERMINED), ("4.3.0", UNDETERMINED)]
)
def test_a_target_of_replication_may_deadlock(version, verdict):
    properties = frozenset({"repl.target.for", "owner"})
    assert finding("HIVE-29644", version=version, properties=properties).verdict is verdict


def test_a_metastore_without_acid_is_found_by_its_refusal():
    answer = "ACID tables are not permitted when the x property is set to false"
    found = finding("HIVE-29520", version="4.3.0", refusal=answer)
    assert found.verdict is PRESENT
    assert answer in found.evidence
    assert "hiveacid to-iceberg" in found.remedy
    assert finding("HIVE-29520", refusal="Database default not found").verdict is ABSENT


def test_each_release_is_in_one_entry_of_a_ticket():
    for release in ("3.0", "4.0.0", "4.0.1", "4.1.0", "4.2.0", "4.2.1"):
        evidence = Evidence(
            now=NOW, version=MetastoreVersion(int(release[0])), release=release, settings={}
        )
        concerned = [
            problem.ticket
            for problem in problems()
            if problem.in_release(evidence)[0] is Verdict.PRESENT
        ]
        assert len(concerned) == len(set(concerned))


def test_a_fix_is_later_than_the_last_release_with_the_problem():
    def numbers(release):
        return [int(number) for number in release.split(".")]

    for problem in problems():
        assert problem.source
        if problem.fixed != NOT_KNOWN:
            assert numbers(problem.first) <= numbers(problem.last) < numbers(problem.fixed)


@REAL_AND_FAKE
def test_the_evidence_is_that_of_the_metastore(client, hms):
    txn_id = client.open_txn("tests", "localhost", None, TxnType.READ_ONLY)
    try:
        evidence = Evidence.of(client)
    finally:
        client.abort_txn(txn_id)
    assert evidence.min_open is not None
    assert evidence.min_open <= txn_id
    assert evidence.release == ("3.0" if hms.version == "3.1.3" else hms.version)
    assert evidence.numbers == ((3,) if hms.version == "3.1.3" else (4, 0, 1))
    assert evidence.refusal == ""
    assert len(known_problems(evidence)) == 13
    if not hasattr(hms, "settings"):  # The real metastores.
        assert evidence.is_on(BUNDLED)
        assert all(found.verdict is not UNDETERMINED for found in known_problems(evidence))
        assert evidence.is_on(INITIATOR_ON) is False
        assert evidence.is_on(MIN_HISTORY_LEVEL) is (None if hms.version == "3.1.3" else True)


@pytest.mark.parametrize("hms", ["fake 4.0.1", "fake 3.1.3"], indirect=True)
def test_a_dry_run_shows_that_acid_is_switched_off(client, hms, monkeypatch):
    monkeypatch.setattr(hms, "supports_acid", False)
    evidence = Evidence.of(client)
    assert ("name.of.the.setting" in evidence.refusal) == client.features.has_queue
    assert client.get_tables("default") == []
