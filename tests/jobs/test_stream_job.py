"""The valid fields of a stream's job, and the validation of checkpoints."""

import re
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from hiveacid.errors import InvalidJob, PositionMismatch, StreamOvertaken
from hiveacid.jobs import codec
from hiveacid.jobs.fields import before_rendering
from hiveacid.jobs.job_json import from_json, to_json
from hiveacid.jobs.sources import BatchSource, QuerySource, TableSource
from hiveacid.jobs.stream_job import StreamJob, StreamSource, stream_token
from hiveacid.jobs.write_jobs import InsertJob, MergeJob, UpdateJob
from hiveacid.records.stream_places import CheckpointState, StreamPlace, require_same_place
from hiveacid.rules.merge import MatchedUpdate, NotMatchedInsert

APPEND = InsertJob(target="shop.events", source=BatchSource())
UPSERT = MergeJob(
    target="shop.{{ params.newest }}",
    source=QuerySource("SELECT * FROM b", {"b": BatchSource()}),
    on="t.id = s.id",
    when=(MatchedUpdate(), NotMatchedInsert()),
)
JOB = StreamJob(
    name="orders",
    source=StreamSource("json", {"path": "/landing/{{ params.feed }}"}, "id int, v string"),
    statements=[APPEND, UPSERT],
    checkpoint="file:/checkpoints/orders",
)
A, B = "query-a", "query-b"


def test_it_equals_its_json_copy_and_is_known_by_its_first_table() -> None:
    job = replace(JOB, run_for="55 min", reset_query=A, orc_codec="lz4")
    with before_rendering():
        job.validate()
    assert job.target == "shop.events"
    assert from_json(to_json(job)) == job
    assert (job.interval, job.limit) == (timedelta(seconds=10), timedelta(minutes=55))
    assert replace(JOB, trigger="available_now").interval is None


def test_templates_in_it_are_rendered() -> None:
    rendered = JOB.render(lambda text: re.sub(r"\{\{ params\.(\w+) \}\}", r"\1", text))
    rendered.validate()
    assert rendered.tables == ("shop.events", "shop.newest")
    assert rendered.source.options == {"path": "/landing/feed"}


@pytest.mark.parametrize(
    "option",
    [
        "kafka.sasl.jaas.config",
        "kafka.ssl.truststore.password",
        "kafka.ssl.keystore.key",
        "kafka.sasl.oauthbearer.client.credentials.client.secret",
        "fs.azure.account.key.lake",
        "sessionToken",
    ],
)
def test_the_display_of_a_job_contains_no_secret_option(option: str) -> None:
    options = {option: "s3cret", "subscribe": "orders", "kafka.bootstrap.servers": "h:9092"}
    job = replace(JOB, source=StreamSource("kafka", options))
    assert "s3cret" not in repr(job) + str(job)
    assert "'subscribe': 'orders', 'kafka.bootstrap.servers': 'h:9092'" in repr(job)
    assert from_json(to_json(job)) == job


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"statements": []}, "statements is empty"),
        ({"statements": ["INSERT"]}, "cannot be part of a transaction"),
        ({"statements": [replace(APPEND, source=TableSource("a.b"))]}, "No statement reads"),
        (
            {
                "statements": [APPEND]
                + 2 * [UpdateJob(target="shop.x", set={"v": "1"}, where="true")]
            },
            "changed by 2 statements",
        ),
        ({"name": "a/b"}, "'a/b' is no name of a stream"),
        ({"source": TableSource("a.b")}, "is no StreamSource"),
        ({"source": StreamSource("")}, "source.format"),
        ({"source": StreamSource("json", {"path": "/f"})}, "source.schema is missing"),
        ({"source": StreamSource("csv", {}, "id int")}, "source.options has no path"),
        ({"source": StreamSource("kafka", ["subscribe"])}, "source.options must be a dict"),
        (
            {"source": StreamSource("rate", {"rowsPerSecond": 5})},
            "rowsPerSecond is no text; .* '5'",
        ),
        ({"checkpoint": "checkpoints"}, "is relative to .* Write .* /checkpoints"),
        ({"trigger": "often"}, "trigger cannot be 'often'"),
        ({"trigger": "0"}, "trigger"),
        ({"run_for": "an hour"}, "run_for cannot be 'an hour'"),
        ({"target": "shop.other"}, "target is the table of statements"),
    ],
)
def test_malformed_fields_are_reported_at_parse_time(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidJob, match=message), before_rendering():
        replace(JOB, **wrong).validate()


def place(query_id: str, batch_id: int) -> StreamPlace:
    return StreamPlace(name="s", query_id=query_id, batch_id=batch_id, number=3, checkpoint="/old")


@pytest.mark.parametrize(
    ("known", "checkpoint", "reset_query"),
    [
        (None, CheckpointState("/c"), None),
        # Killed before the table has a record of the stream.
        (None, CheckpointState("/c", A, planned=0), None),
        (None, CheckpointState("/c", A, planned=5, done=4), A),
        (place(A, -1), CheckpointState("/c", A, planned=0), None),
        (place(A, 4), CheckpointState("/c", A, planned=4, done=3), None),
        (place(A, 4), CheckpointState("/c", A, planned=5, done=4), None),
        (place(A, 4), CheckpointState("/c", A, planned=5, done=4), A),
        (place(A, 4), CheckpointState("/c"), A),
        (place(A, 4), CheckpointState("/c", B), A),
    ],
)
def test_a_checkpoint_that_matches_the_table_is_accepted(
    known: StreamPlace | None, checkpoint: CheckpointState, reset_query: str | None
) -> None:
    require_same_place("s", "d.t", known, checkpoint, reset_query)


@pytest.mark.parametrize(
    ("known", "checkpoint", "reset_query", "message"),
    [
        (None, CheckpointState("/c", A, planned=5, done=4), None, "d.t does not know the stream s"),
        (None, CheckpointState("/c", A, planned=5, done=4), B, "d.t does not know the stream s"),
        (place(A, 4), CheckpointState("/c"), None, "batch 4 of query query-a.*/c is not there"),
        (place(A, 4), CheckpointState("/c", B), None, "query-a.*/c is that of query query-b"),
        (place(B, 0), CheckpointState("/c"), A, "batch 0 of query query-b.*/c is not there"),
        (place(A, 4), CheckpointState("/c", A, 3, 3), None, "only to batch 3: it is an old copy"),
        (place(A, 4), CheckpointState("/c", A, 3, 3), A, "only to batch 3: it is an old copy"),
    ],
)
def test_any_other_checkpoint_is_an_error(
    known: StreamPlace | None, checkpoint: CheckpointState, reset_query: str | None, message: str
) -> None:
    with pytest.raises(PositionMismatch, match=message) as raised:
        require_same_place("s", "d.t", known, checkpoint, reset_query)
    assert raised.value.remedy


@pytest.mark.parametrize(("query_id", "batch_id"), [(A, 4), (A, 3), (B, 5)])
def test_a_batch_behind_the_place_is_refused(query_id: str, batch_id: int) -> None:
    with pytest.raises(StreamOvertaken, match=f"Batch {batch_id} of query {query_id}"):
        place(A, 4).require_before(query_id, batch_id)
    place(A, 4).require_before(A, 5)


def test_a_place_is_read_as_it_was_written_and_knows_the_token_of_the_next_batch() -> None:
    read = codec.read_obligation(StreamPlace, codec.to_bytes(place(A, 4)), "place")
    assert read == place(A, 4)
    assert place(A, 4).next_token == stream_token("s", A, 5)
    for content in (b"{}", b"\xff", None):
        with pytest.raises(InvalidJob):
            codec.read_obligation(StreamPlace, content, "place")
