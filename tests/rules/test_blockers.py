from datetime import UTC, datetime, timedelta

import pytest

from hiveacid.rules.cleaning import Blocker

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("blocker", "words"),
    [
        (Blocker(txn_id=12, user="alice"), "transaction 12 of alice"),
        (Blocker(txn_id=12, lock_id=5, user="alice"), "transaction 12 of alice"),
        (Blocker(lock_id=5, user="hive"), "lock 5 of hive"),
        (
            Blocker(txn_id=7, user="al", since=NOW - timedelta(seconds=90)),
            "transaction 7 of al, open for 90 s",
        ),
        (
            Blocker(txn_id=7, user="al", since=NOW - timedelta(minutes=90)),
            "transaction 7 of al, open for 90 min",
        ),
        (
            Blocker(txn_id=7, user="al", since=NOW - timedelta(days=3)),
            "transaction 7 of al, open for 3 days",
        ),
        # The clocks of two machines may differ.
        (
            Blocker(txn_id=7, user="al", since=NOW + timedelta(seconds=5)),
            "transaction 7 of al, open for 0 s",
        ),
        (
            Blocker(txn_id=7, user="al", run="sales/scheduled__2026-03-01/merge.orders/-1"),
            "transaction 7 of al (Airflow task merge.orders of DAG sales, "
            "run scheduled__2026-03-01)",
        ),
        (
            Blocker(txn_id=7, user="al", run="sales/by/hand/merge/4"),
            "transaction 7 of al (Airflow task merge[4] of DAG sales, run by/hand)",
        ),
        (
            Blocker(txn_id=7, user="al", run="prod:sales/by/hand/merge/4"),
            "transaction 7 of al (Airflow task merge[4] of DAG sales in Airflow prod, run by/hand)",
        ),
        (Blocker(txn_id=7, user="al", run="4711"), "transaction 7 of al (run 4711)"),
    ],
)
def test_a_blocker_is_named_with_its_run_and_its_age(blocker, words):
    assert blocker.describe(NOW) == words
