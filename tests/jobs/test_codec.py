import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.errors import InvalidJob
from hiveacid.jobs import definition_jobs as ddl_jobs
from hiveacid.jobs.definition_jobs import AnalyzeJob
from hiveacid.jobs.export_job import ExportChangesJob
from hiveacid.jobs.job import ScriptedJob
from hiveacid.jobs.job_json import from_json, to_json
from hiveacid.jobs.maintenance_jobs import CleanJob, CompactJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.jobs.script_job import ScriptJob
from hiveacid.jobs.sources import ChangesSource, PathSource, QuerySource, TableSource
from hiveacid.jobs.write_jobs import DeleteJob, InsertJob, MergeJob, RestoreJob, UpdateJob
from hiveacid.rules import merge
from hiveacid.rules.compaction_policy import Budget, CompactionPolicy

TEXT = st.text(max_size=8)
MAYBE = st.none() | TEXT
TEXTS = st.dictionaries(TEXT, TEXT, max_size=3)
FILES = st.builds(TableSource, TEXT) | st.builds(PathSource, TEXT, TEXT, TEXTS, MAYBE)
SOURCES = FILES | st.builds(QuerySource, TEXT, st.dictionaries(TEXT, FILES, max_size=2))
INPUTS = st.dictionaries(TEXT, FILES, max_size=2)
CLAUSES = (
    st.builds(merge.MatchedUpdate, st.none() | TEXTS, MAYBE)
    | st.builds(merge.MatchedDelete, MAYBE)
    | st.builds(merge.NotMatchedInsert, st.none() | TEXTS, MAYBE)
    | st.builds(merge.NotMatchedInsert, row=st.tuples(TEXT, TEXT))
    | st.builds(merge.NotMatchedBySourceUpdate, TEXTS, MAYBE)
    | st.builds(merge.NotMatchedBySourceDelete, MAYBE)
)
COMMON = {
    "target": TEXT,
    "metastore": st.none()
    | st.builds(
        MetastoreOptions,
        uris=TEXT,
        user=MAYBE,
        connect_timeout_seconds=st.floats(allow_nan=False, allow_infinity=False),
        token_env=MAYBE,
    ),
    "run_token": MAYBE,
    "max_restarts": st.integers(),
    "orc_codec": MAYBE,
}
JOBS = (
    st.builds(
        InsertJob,
        **COMMON,
        source=SOURCES,
        overwrite=st.booleans(),
        partitions=st.none() | st.lists(st.dictionaries(TEXT, MAYBE, max_size=2), max_size=2),
        by_position=st.booleans(),
        columns=st.none() | st.lists(TEXT, max_size=2),
        static=st.none() | st.dictionaries(TEXT, MAYBE, max_size=2),
        exclude=st.lists(TEXT, max_size=2),
    )
    | st.builds(UpdateJob, **COMMON, set=TEXTS, where=MAYBE, inputs=INPUTS, target_alias=TEXT)
    | st.builds(DeleteJob, **COMMON, where=MAYBE, inputs=INPUTS)
    | st.builds(MergeJob, **COMMON, source=SOURCES, on=TEXT, when=st.lists(CLAUSES, max_size=3))
    | st.builds(
        CompactJob,
        **COMMON,
        partitions=st.none() | st.lists(TEXT, max_size=2),
        type=MAYBE,
        policy=st.builds(
            CompactionPolicy,
            max_delta_ratio=st.integers() | st.floats(allow_nan=False, allow_infinity=False),
            max_aborted_age_hours=st.none() | st.integers(),
            quiet_hours=MAYBE,
            right_for=MAYBE,
        ),
        budget=st.builds(Budget, max_bytes=st.none() | st.integers()),
        parallel=st.integers(),
    )
    | st.builds(RestoreJob, **COMMON, as_of=TEXT)
    | st.builds(CleanJob, **COMMON, keep_notes_days=st.integers(), retention=MAYBE)
    | st.builds(
        AnalyzeJob,
        **COMMON,
        partitions=st.none() | st.tuples(TEXT),
        columns=st.none() | st.tuples(TEXT),
        rows_only=st.booleans(),
    )
    | st.builds(
        ExportChangesJob,
        **COMMON,
        source=st.builds(ChangesSource, TEXT, TEXT, MAYBE, st.booleans()),
        path=TEXT,
        envelope=TEXT,
    )
)


COLUMNS = st.lists(st.builds(ddl_jobs.ColumnSpec, TEXT, TEXT, MAYBE), max_size=2)
SCRIPTS = st.builds(
    ScriptJob,
    **COMMON,
    statements=st.lists(
        JOBS.filter(lambda job: isinstance(job, ScriptedJob))
        | st.builds(
            ddl_jobs.TruncateJob, **COMMON, partition=st.none() | st.dictionaries(TEXT, MAYBE)
        )
        | st.builds(ddl_jobs.ConvertJob, **COMMON)
        | st.builds(
            ddl_jobs.CreateTableJob,
            **COMMON,
            columns=COLUMNS,
            partition_keys=COLUMNS,
            bucket_columns=st.lists(TEXT, max_size=2),
            properties=TEXTS,
            location=MAYBE,
        ),
        max_size=3,
    ),
)


@given(JOBS | SCRIPTS)
def test_a_job_survives_json(job):
    assert from_json(to_json(job)) == job


def test_words_that_editors_complete_are_texts_like_others():
    job = CompactJob(target="db.t", type="{{ params.type }}", mode="queue")
    assert from_json(to_json(job)) == job
    with pytest.raises(InvalidJob, match=r"job\.type must be a text, not 5"):
        from_json('{"job": "compact", "target": "db.t", "type": 5}')


def test_json_needs_only_what_has_no_default():
    text = """
        {"job": "merge", "target": "a.b", "source": {"kind": "table", "name": "a.c"},
         "on": "s.id = t.id", "when": [{"kind": "matched_delete"}]}
    """
    assert from_json(text) == MergeJob(
        target="a.b", source=TableSource("a.c"), on="s.id = t.id", when=[merge.MatchedDelete()]
    )


DELETE = {"job": "delete", "target": "a.b"}
TABLE = {"kind": "table", "name": "a.b"}
INSERT = {"job": "insert", "target": "a.b", "source": TABLE}
COMPACT = {"job": "compact", "target": "a.b"}
MERGE = {"job": "merge", "target": "a.b", "source": TABLE, "on": "x", "when": []}


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "must be a JSON object"),
        (
            {},
            r"job\.job must be one of add_columns, alter_columns, analyze, .*transaction.*, not None",
        ),
        ({"job": ["merge"]}, r"job\.job must be one of"),
        ({"job": "delete"}, "job lacks the key 'target'"),
        (DELETE | {"wher": "x"}, "job has the unknown key 'wher'"),
        (DELETE | {"where": 1}, r"job\.where must be a text, not 1"),
        (DELETE | {"target": None}, r"job\.target must be a text, not None"),
        (DELETE | {"max_restarts": True}, r"job\.max_restarts must be a whole number, not True"),
        (DELETE | {"max_restarts": 1.5}, r"job\.max_restarts must be a whole number"),
        (DELETE | {"lock_wait_seconds": "1"}, r"job\.lock_wait_seconds must be a number"),
        (DELETE | {"lock_wait_seconds": True}, r"job\.lock_wait_seconds must be a number"),
        (DELETE | {"metastore": {"uri": "x"}}, r"job\.metastore has the unknown key 'uri'"),
        (DELETE | {"metastore": []}, r"job\.metastore must be an object"),
        (INSERT | {"overwrite": 1}, r"job\.overwrite must be true or false, not 1"),
        (INSERT | {"source": "a.b"}, r"job\.source must be an object"),
        (
            INSERT | {"source": {"name": "a.b"}},
            r"job\.source\.kind must be one of batch, changes, path, query, table",
        ),
        (INSERT | {"partitions": {}}, r"job\.partitions must be a list"),
        (INSERT | {"partitions": [{"d": 1}]}, r"job\.partitions\[0\]\.d must be a text"),
        (COMPACT | {"partitions": "d=1"}, r"job\.partitions must be a list"),
        (COMPACT | {"policy": {"deltas": 3}}, r"job\.policy has the unknown key 'deltas'"),
        (COMPACT | {"budget": {"max_bytes": "1 GB"}}, r"job\.budget\.max_bytes must be a whole"),
        (MERGE | {"when": [{"kind": "table"}]}, r"job\.when\[0\]\.kind must be one of"),
        (
            MERGE | {"when": [{"kind": "matched_update", "set": {"a": 1}}]},
            r"job\.when\[0\]\.set\.a must be a text, not 1",
        ),
    ],
)
def test_invalid_values_are_errors_with_their_place(data, message):
    with pytest.raises(InvalidJob, match=message):
        from_json(json.dumps(data))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not JSON"),
        ('{"job": "delete",', "not JSON"),
        ('{"job": "delete", "target": "a.b", "target": "a.c"}', "the key 'target' twice"),
        ('{"job": "delete", "target": "a.b", "lock_wait_seconds": NaN}', "must be a number"),
    ],
)
def test_broken_text_is_an_error(text, message):
    with pytest.raises(InvalidJob, match=message):
        from_json(text)
