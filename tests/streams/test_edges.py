"""Streams at the edge: hostile rows and files, tables that vanish, checkpoints of others, secrets."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hiveacid.errors import (
    CorruptFile,
    HiveAcidError,
    MetastoreUnreachable,
    PositionMismatch,
    StorageError,
    TableNotFound,
    UnknownColumn,
)
from hiveacid.jobs.sources import BatchSource, QuerySource
from hiveacid.jobs.stream_job import SECRET_OPTION, StreamSource
from hiveacid.jobs.write_jobs import InsertJob
from hiveacid.records.stream_places import stream_states
from hiveacid.rules.locks import ConflictPolicy
from hiveacid.rules.names import TableRef
from hiveacid.rules.schema import TableKind
from hiveacid.spark.streaming import StreamRun
from hiveacid.storage.folder import Storage
from tests.engine.acid_tables import create, folder
from tests.metastore_calls import counted_calls
from tests.streams.stream_case import BATCH, StreamCase, upsert

pytestmark = [
    pytest.mark.streams,
    pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True),
]
OPENING = ("open_txns", "allocate_table_write_ids", "lock", "commit_txn")


def append(stream: StreamCase) -> InsertJob:
    return InsertJob(target=stream.events, source=BATCH)


def test_no_new_rows_cost_no_transaction(stream: StreamCase) -> None:
    stream.arrive((1, "a"))
    stream.run()
    with counted_calls() as calls:
        report = stream.run()
    assert (report.batches, report.ended) == (0, "no more rows")
    assert not calls.keys() & set(OPENING)


def test_a_batch_without_rows_changes_nothing(stream: StreamCase) -> None:
    stream.arrive((1, "a"))
    stream.run()
    files = sorted(path.name for path in table_folder(stream, stream.events).glob("*delta*"))
    (stream.feed / "empty.json").write_text("")
    report = stream.run()
    assert (report.rows, report.rows_inserted) == (0, 0)
    assert (
        sorted(path.name for path in table_folder(stream, stream.events).glob("*delta*")) == files
    )
    stream.arrive((2, "b"))
    stream.run()
    assert stream.problems() == []


def test_a_record_that_cannot_be_read_is_null_or_an_error_as_the_source_says(
    stream: StreamCase,
) -> None:
    source = stream.job().source
    stream.arrive((1, "a"))
    (stream.feed / "poisoned.json").write_text('{"id": 2, "v": \n')
    strict = replace(source, options={**source.options, "mode": "FAILFAST"})
    for _ in range(2):
        with pytest.raises(HiveAcidError, match="poisoned") as raised:
            stream.run(append(stream), source=strict)
        assert not raised.value.retryable
    # The batch stays the next one.
    assert stream.rows(stream.events) == [(1, "a")]
    kept = replace(
        source,
        options={**source.options, "columnNameOfCorruptRecord": "broken"},
        schema="id BIGINT, v STRING, broken STRING",
    )
    query = QuerySource(
        "SELECT -1L AS id, broken AS v FROM b WHERE broken IS NOT NULL", BATCH.inputs
    )
    stream.run(replace(append(stream), source=query), source=kept)
    assert (-1, '{"id": 2, "v": ') in stream.rows(stream.events)


def test_a_header_other_than_the_schema_is_an_error_that_names_the_file(
    stream: StreamCase,
) -> None:
    (stream.feed / "swapped.csv").write_text("v,id\n1,2\n")
    options = {"path": str(stream.feed), "header": "true", "inferSchema": "false"}
    source = StreamSource("csv", options, "id BIGINT, v STRING")
    with pytest.raises(UnknownColumn, match=r"swapped\.csv differs from the schema: it has v "):
        stream.run(append(stream), source=source)
    assert stream.rows(stream.events) == []
    by_position = replace(source, options={**options, "enforceSchema": "true"})
    stream.run(append(stream), source=by_position)
    assert stream.rows(stream.events) == [(1, "2")]


def test_a_file_of_another_format_is_named(stream: StreamCase) -> None:
    (stream.feed / "poisoned.parquet").write_text("PAR1 but not really PAR1")
    source = StreamSource("parquet", {"path": str(stream.feed)}, "id BIGINT, v STRING")
    with pytest.raises(CorruptFile, match=r"poisoned\.parquet"):
        stream.run(append(stream), source=source)
    assert stream.rows(stream.events) == []
    (state,) = states(stream)
    assert (state.ended, state.error, state.batches) == ("failed", "CorruptFile", 0)


def test_the_schema_of_a_source_may_grow_between_two_runs(stream: StreamCase) -> None:
    stream.arrive((1, "a"))
    stream.run(append(stream))
    source = replace(stream.job().source, schema="id BIGINT, v STRING, seq BIGINT, more STRING")
    (stream.feed / "grown.json").write_text('{"id": 2, "v": "b", "more": "!"}\n')
    query = QuerySource("SELECT id, concat(v, more) AS v FROM b", BATCH.inputs)
    stream.run(replace(append(stream), source=query), source=source)
    assert stream.rows(stream.events) == [(1, "a"), (2, "b!")]


def test_a_table_that_is_gone_keeps_the_batch_out_of_the_other_one_until_it_is_back(
    stream: StreamCase,
) -> None:
    stream.arrive((1, "a"))
    stream.run()
    stream.client.drop_table(TableRef.parse(stream.newest))
    stream.arrive((2, "b"))
    for _ in range(2):
        with pytest.raises(TableNotFound, match=stream.newest):
            stream.run()
    assert stream.rows(stream.events) == [(1, "a")]
    create(stream.client, stream.newest, {"id": "bigint", "v": "string"})
    stream.run()
    assert stream.rows(stream.events) == stream.every
    assert stream.rows(stream.newest) == [(2, "b")]


def test_a_checkpoint_has_one_stream_and_a_name_one_query(stream: StreamCase) -> None:
    stream.arrive((1, "a"))
    first = stream.run(append(stream))
    copy = f"file:{shutil.copytree(stream.checkpoint, stream.folder / 'copy')}"
    stream.arrive((2, "b"))
    with pytest.raises(PositionMismatch, match="does not know the stream second"):
        stream.run(append(stream), name="second", checkpoint=copy)
    with pytest.raises(PositionMismatch, match="does not know the stream feed"):
        stream.run(upsert(stream.newest), checkpoint=copy)
    with pytest.raises(PositionMismatch, match=f"batch 0 of query {first.query_id}"):
        stream.run(append(stream), checkpoint=f"file:{stream.folder}/new")
    assert stream.rows(stream.events) == [(1, "a")]
    stream.run(append(stream))
    assert stream.rows(stream.events) == stream.every


def test_a_checkpoint_without_a_scheme_is_in_the_default_file_system(stream: StreamCase) -> None:
    stream.arrive((1, "a"))
    first = stream.run(checkpoint=str(stream.checkpoint))
    stream.arrive((2, "b"))
    assert stream.run(checkpoint=f"file:{stream.checkpoint}").query_id == first.query_id
    assert stream.problems() == []


@pytest.mark.parametrize("policy", ["strict", "rows"])
def test_every_conflict_policy_is_one_for_streams(
    stream: StreamCase, policy: ConflictPolicy
) -> None:
    for rows in (((1, "a"), (2, "b")), ((2, "gone"), (1, "c"))):
        stream.arrive(*rows)
        stream.run(conflict_policy=policy)
    stream.arrive((3, "d"))
    stream.run(upsert(stream.newest), name="alone", checkpoint=f"file:{stream.folder}/alone")
    stream.run(conflict_policy=policy)
    assert stream.problems() == []


def test_tables_of_all_kinds_are_written_in_one_transaction(stream: StreamCase) -> None:
    columns = {"id": "bigint", "v": "string"}
    parted, plain = f"{stream.database}.parted", f"{stream.database}.plain"
    create(stream.client, parted, columns, {"day": "string"}, bucket_columns=["id"], num_buckets=2)
    create(stream.client, plain, columns, kind=TableKind.INSERT_ONLY)
    days = "SELECT id, v, IF(id % 2 = 0, 'even', 'odd') AS day FROM b"
    jobs = (
        InsertJob(target=plain, source=BATCH),
        replace(upsert(parted), source=QuerySource(days, {"b": BatchSource()})),
    )
    for rows in (((1, "a"), (2, "b")), ((1, "c"), (4, "d"))):
        stream.arrive(*rows)
        stream.run(*jobs)
    assert stream.rows(plain) == stream.every
    assert stream.rows(parted) == [(1, "c", "odd"), (2, "b", "even"), (4, "d", "even")]


def test_a_long_outage_of_the_metastore_ends_the_run_and_the_next_one_continues(
    stream: StreamCase, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = []

    def away(*_: Any) -> None:
        tries.append(1)
        raise MetastoreUnreachable("No metastore answers.")

    stream.arrive((1, "a"))
    with monkeypatch.context() as patch:
        patch.setattr("hiveacid.spark.streaming.PATIENCE", 1.5)
        patch.setattr(StreamRun, "_apply", away)
        with pytest.raises(MetastoreUnreachable):
            stream.run(append(stream))
    assert len(tries) == 2
    stream.run(append(stream))
    assert stream.rows(stream.events) == stream.every


def test_a_checkpoint_that_cannot_be_written_is_an_error_before_a_row(stream: StreamCase) -> None:
    stream.arrive((1, "a"))
    (stream.folder / "file").write_text("")
    with pytest.raises(
        StorageError, match=r"not a directory.*Look at the checkpoint .*file/checkpoint"
    ):
        stream.run(append(stream), checkpoint=f"file:{stream.folder}/file/checkpoint")
    assert stream.rows(stream.events) == []


def test_an_option_from_a_property_reaches_only_the_source(
    stream: StreamCase, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The effect of the option is visible: the text of a null in CSV."""
    source = StreamSource("csv", {"path": str(stream.feed)}, "id BIGINT, v STRING")
    (stream.feed / "1.csv").write_text("1,s3cret\n2,b\n")
    conf = stream.spark.sparkContext.getConf().set(f"{SECRET_OPTION}nullValue", "s3cret")
    monkeypatch.setattr(stream.spark.sparkContext, "getConf", lambda: conf)
    report = stream.run(append(stream), source=source)
    (stream.feed / "2.csv").write_text("3,c\n")
    wrong = replace(append(stream), source=QuerySource("SELECT nothing FROM b", BATCH.inputs))
    with pytest.raises(HiveAcidError) as raised:
        stream.run(wrong, source=source)
    assert stream.rows(stream.events) == [(1, None), (2, "b")]
    kept = [
        path for path in stream.folder.rglob("*") if path.is_file() and path.parent != stream.feed
    ]
    kept += [
        path
        for path in table_folder(stream, stream.events).rglob("_hiveacid*/**/*")
        if path.is_file()
    ]
    assert len(kept) > 5
    told = [str(raised.value), str(report), *capfd.readouterr()]
    assert not any("s3cret" in text for text in told)
    assert not any(b"s3cret" in path.read_bytes() for path in kept)


def states(stream: StreamCase) -> Any:
    return stream_states(Storage.of(str(table_folder(stream, stream.events))))


def table_folder(stream: StreamCase, table: str) -> Path:
    return folder(stream.client.get_table(TableRef.parse(table)))


def test_a_number_that_does_not_fit_into_a_tinyint_is_null_or_an_error_as_the_source_says(
    stream: StreamCase,
) -> None:
    (stream.feed / "feed.json").write_text('{"id": 127, "v": "a"}\n{"id": 200, "v": "b"}\n')
    source = replace(stream.job().source, schema="id TINYINT, v STRING")
    strict = replace(source, options={**source.options, "mode": "FAILFAST"})
    with pytest.raises(HiveAcidError, match=r"tinyint in file:.*feed\.json\."):
        stream.run(append(stream), source=strict)
    query = QuerySource("SELECT coalesce(id, -1L) AS id, v FROM b", BATCH.inputs)
    stream.run(replace(append(stream), source=query), source=source)
    assert {*stream.rows(stream.events)} == {(127, "a"), (-1, "b")}
