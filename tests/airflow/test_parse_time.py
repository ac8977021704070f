import subprocess
import sys

_HEAD = "from airflow.sdk import DAG\n"
_OURS = """
from airflow_hiveacid import (
    CompactionPolicy,
    HiveAcidCleanOperator,
    HiveAcidCompactOperator,
    HiveAcidMergeOperator,
    MatchedDelete,
    MatchedUpdate,
    NotMatchedInsert,
    PathSource,
)
from hiveacid.jobs import MergeJob
from airflow_hiveacid.sensors import (
    HiveAcidCompactionNeededSensor,
    HiveAcidDeltaCountSensor,
    HiveAcidDeltaSizeSensor,
)
CLAUSES = (MatchedDelete(condition="s.op = 'd'"), MatchedUpdate(), NotMatchedInsert())
SOURCE = PathSource(path="/feed/{{ run_id }}", format="json")
"""
_TASKS = """
    for number in range(100):
        HiveAcidMergeOperator(
            task_id=f"merge_{number}",
            job=MergeJob(target="db.t", source=SOURCE, on="t.id = s.id", when=CLAUSES),
        )
    needed = HiveAcidCompactionNeededSensor(
        task_id="needed", table="db.*", policy=CompactionPolicy(max_deltas=3), deferrable=True
    )
    HiveAcidDeltaCountSensor(task_id="count", table="db.t")
    HiveAcidDeltaSizeSensor(task_id="size", table="db.t", measure="rows")
    for operator in (HiveAcidCompactOperator, HiveAcidCleanOperator):
        operator.partial(task_id=operator.__name__).expand(need=needed.output)
"""
_TIMED = """
import sys, time
begun = time.process_time()
exec(compile(open(sys.argv[1]).read(), sys.argv[1], "exec"))
print(time.process_time() - begun)
heavy = {"pyspark", "thrift", "pyarrow", "numpy", "requests"}
print(sorted(heavy & set(sys.modules)))
"""


def parse(path, text):
    """Parse a DAG file in a fresh process; answer its seconds and the heavy modules it loaded."""
    path.write_text(text)
    command = [sys.executable, "-c", _TIMED, str(path)]
    output = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    *_, seconds, heavy = output.strip().splitlines()
    return float(seconds), heavy


def test_a_hundred_operators_and_all_sensors_parse_quickly_and_load_nothing_heavy(tmp_path):
    empty, _ = parse(tmp_path / "empty.py", f"{_HEAD}with DAG('d'):\n    pass\n")
    full, heavy = parse(tmp_path / "full.py", f"{_HEAD}{_OURS}with DAG('d'):{_TASKS}")
    assert full - empty < 2
    assert heavy == "[]"
