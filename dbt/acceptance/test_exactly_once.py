"""A repeated run applies each model once: after failures, with the same name, and after kills."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from dbt.tests.util import run_dbt

from hiveacid import AcidTable

SEED = "id,day,amount\n1,2026-01-01,10\n2,2026-01-01,20\n3,2026-01-02,30\n"
APPENDED = """
{{ config(materialized='incremental', incremental_strategy='append') }}
select id, amount from {{ ref('raw') }}
"""
FAILING_HOOK = (
    "{% if env_var('FAIL', '') %}select raise_error('planned'){% else %}select 1{% endif %}"
)


@pytest.fixture
def failing():
    """Let hooks fail until the variable is removed."""
    os.environ["FAIL"] = "1"
    yield
    os.environ.pop("FAIL", None)


class TestRetry:
    @pytest.fixture(scope="class")
    def seeds(self):
        return {"raw.csv": SEED}

    @pytest.fixture(scope="class")
    def models(self):
        return {"appended.sql": APPENDED}

    @pytest.fixture(scope="class")
    def project_config_update(self):
        return {"models": {"+post-hook": FAILING_HOOK}}

    def _rows(self, project):
        return project.run_sql("select count(*) from {schema}.appended", fetch="one")[0]

    def test_a_retry_does_not_append_again(self, project, failing):
        run_dbt(["seed"])
        run_dbt(["run"], expect_pass=False)
        assert self._rows(project) == 3
        # The table was created by the run that is retried.
        run_dbt(["retry"], expect_pass=False)
        assert self._rows(project) == 3
        del os.environ["FAIL"]
        run_dbt(["retry"])
        assert self._rows(project) == 3
        os.environ["FAIL"] = "1"
        run_dbt(["run"], expect_pass=False)
        assert self._rows(project) == 6
        run_dbt(["retry"], expect_pass=False)
        # Also the retry of a retry belongs to the first run.
        del os.environ["FAIL"]
        (again,) = run_dbt(["retry"])
        assert again.adapter_response["code"] == "ALREADY APPLIED"
        assert self._rows(project) == 6
        run_dbt(["run"])
        assert self._rows(project) == 9


class TestOncePer:
    @pytest.fixture(scope="class")
    def dbt_profile_target(self, dbt_profile_target):
        return {**dbt_profile_target, "once_per": "{{ env_var('DBT_ONCE_PER', '') }}"}

    @pytest.fixture(scope="class")
    def seeds(self):
        return {"raw.csv": SEED}

    @pytest.fixture(scope="class")
    def models(self):
        return {"appended.sql": APPENDED}

    def test_a_named_run_is_applied_once(self, project, monkeypatch):
        def rows():
            return project.run_sql("select count(*) from {schema}.appended", fetch="one")[0]

        run_dbt(["seed"])
        for name, expected in (("monday", 3), ("monday", 3), ("tuesday", 6), ("tuesday", 6)):
            monkeypatch.setenv("DBT_ONCE_PER", name)
            run_dbt(["run"])
            assert rows() == expected


MODELS = {
    "appended.sql": APPENDED,
    "merged.sql": """
{{ config(materialized='incremental', unique_key='id', partition_by='day') }}
select id, amount, day from {{ ref('raw') }}
""",
    "replaced.sql": """
{{ config(materialized='incremental', unique_key='day', incremental_strategy='delete+insert') }}
select day, id, amount from {{ ref('raw') }}
""",
    "totals.sql": "select day, sum(amount) as amount, count(*) as n from {{ ref('appended') }} a"
    " join {{ ref('merged') }} m using (id, amount) group by day",
    "keyed.sql": """
{{ config(partition_by='day') }}
select id, amount, day from {{ ref('merged') }}
""",
}
PROFILE = """
test:
  target: dev
  outputs:
    dev:
      type: hiveacid
      schema: {schema}
      threads: 2
      metastore: {uri}
      once_per: "{{{{ env_var('DBT_ONCE_PER', '') }}}}"
      spark: {{spark.master: "local[2]", spark.sql.shuffle.partitions: 2, spark.ui.enabled: false}}
"""
SNAPSHOT = """
snapshots:
  - name: states
    relation: ref('raw')
    config: {unique_key: id, strategy: check, check_cols: [amount]}
"""


@pytest.fixture
def kill_project(tmp_path, metastore):
    """A project with every way of writing, to be run by processes."""
    folder = tmp_path / "project"
    for name, text in {
        "dbt_project.yml": "name: test\nprofile: test\nmodels: {test: {+materialized: table}}\n"
        "flags: {send_anonymous_usage_stats: false}\n",
        "profiles.yml": PROFILE.format(schema=f"kill{random.randrange(10**9)}", uri=metastore.uri),
        "seeds/raw.csv": SEED,
        "snapshots/states.yml": SNAPSHOT,
        **{f"models/{name}": text for name, text in MODELS.items()},
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def _build(folder: Path, once_per: str, kill_after: float | None = None) -> float | None:
    """Build a project, or kill the process some time after its first model has begun.

    Returns:
        The seconds since then; None if the process was killed.
    """
    options = ["--project-dir", str(folder), "--profiles-dir", str(folder)]
    with subprocess.Popen(
        [sys.executable, "-m", "dbt.cli.main", "build", *options],
        env={**os.environ, "DBT_ONCE_PER": once_per},
        cwd=folder,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        next((line for line in process.stdout if " START " in line), None)
        begun = time.monotonic()
        try:
            assert process.wait(kill_after) == 0
        except subprocess.TimeoutExpired:
            process.kill()
            return None
        return time.monotonic() - begun


def _rows(folder: Path, table: str, uri: str) -> list[tuple[object, ...]]:
    (line,) = [x for x in (folder / "profiles.yml").read_text().splitlines() if "schema:" in x]
    schema = line.split(":")[1].strip()
    found = AcidTable(f"{schema}.{table}", uri).to_arrow().to_pylist()
    return sorted(
        tuple(str(value) for key, value in row.items() if not key.startswith("dbt_"))
        for row in found
    )


@pytest.mark.timeout(7200)
def test_killed_runs_leave_the_rows_of_undisturbed_ones(kill_project, metastore):
    kills = int(os.environ.get("DBT_KILLS", "6"))
    seed = int(os.environ.get("DBT_KILL_SEED", random.randrange(10**6)))
    times = random.Random(seed)
    print(f"DBT_KILL_SEED={seed}")
    duration = _build(kill_project, "undisturbed")
    runs, killed = 1, 0
    while killed < kills:
        runs += 1
        for attempt in range(4):
            ended = _build(kill_project, f"run {runs}", times.uniform(0, duration))
            if ended is not None:
                # A machine has quicker and slower hours; later attempts have less to do.
                duration = duration if attempt else ended
                break
            killed += 1
            print(f"{killed} kills in {runs} runs", flush=True)
        _build(kill_project, f"run {runs}")
    raw = [("1", "10", "2026-01-01"), ("2", "20", "2026-01-01"), ("3", "30", "2026-01-02")]
    once = [(key, amount) for key, amount, _ in raw]
    assert _rows(kill_project, "appended", metastore.uri) == sorted(once * runs)
    assert _rows(kill_project, "merged", metastore.uri) == raw
    assert _rows(kill_project, "keyed", metastore.uri) == raw
    assert _rows(kill_project, "replaced", metastore.uri) == sorted(
        (day, key, amount) for key, amount, day in raw
    )
    assert _rows(kill_project, "totals", metastore.uri) == [
        ("2026-01-01", str(30 * runs), str(2 * runs)),
        ("2026-01-02", str(30 * runs), str(runs)),
    ]
    assert _rows(kill_project, "states", metastore.uri) == sorted(
        (key, day, amount) for key, amount, day in raw
    )
