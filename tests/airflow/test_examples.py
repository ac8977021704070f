from pathlib import Path

import airflow.sdk
import pytest

try:
    from airflow.dag_processing.dagbag import DagBag
except ImportError:  # Before Airflow 3.2.
    from airflow.models.dagbag import DagBag

from airflow_hiveacid.cluster.packaged import example_dags

EXAMPLES = sorted(path.stem for path in example_dags().glob("*.py"))
# It declares nothing where Airflow knows of no partitions.
PARTITIONED = "partitioned_backfill"


@pytest.fixture(scope="module")
def dags():
    bag = DagBag(dag_folder=str(example_dags()))
    assert bag.import_errors == {}
    return bag.dags


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_a_documented_dag_of_its_file_s_name(name, dags):
    if name == PARTITIONED and not hasattr(airflow.sdk, "CronPartitionTimetable"):
        pytest.skip("needs a newer Airflow")
    dag = dags[name]
    assert Path(dag.fileloc).stem == name
    assert dag.doc_md
    assert "hive-acid" in dag.tags


@pytest.mark.parametrize("name", ["hourly_merge", "daily_merge"])
def test_a_merge_of_an_interval_has_one(name, dags):
    # In Airflow 3 a bare cron schedule has intervals without length: it would merge nothing.
    assert type(dags[name].timetable).__name__ == "CronDataIntervalTimetable"


def test_merges_that_are_filled_back_say_what_is_applied_once(dags):
    for name in {"daily_merge", PARTITIONED} & dags.keys():
        once_per = dags[name].get_task("merge").once_per
        assert "run_id" not in once_per
        assert "data_interval_start" in once_per or "partition_key" in once_per
