from pathlib import Path

import pytest
from airflow.dag_processing.dagbag import DagBag

from airflow_hiveacid.applications import example_dags

EXAMPLES = sorted(path.stem for path in example_dags().glob("*.py"))


@pytest.fixture(scope="module")
def dags():
    bag = DagBag(dag_folder=str(example_dags()))
    assert bag.import_errors == {}
    return bag.dags


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_is_a_documented_dag_of_its_file_s_name(name, dags):
    dag = dags[name]
    assert Path(dag.fileloc).stem == name
    assert dag.doc_md
    assert "hive-acid" in dag.tags


def test_the_hourly_merge_has_an_hour_to_merge(dags):
    # In Airflow 3 a bare cron schedule has intervals without length: it would merge nothing.
    timetable = dags["hourly_merge"].timetable
    assert type(timetable).__name__ == "CronDataIntervalTimetable"
    assert dags["hourly_merge"].max_active_runs == 1
