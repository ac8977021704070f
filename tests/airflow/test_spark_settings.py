from pathlib import Path

import pytest

from airflow_hiveacid.cluster.spark_submission import uses_local_paths


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_a_path_without_a_scheme_is_local_as_long_as_nothing_says_otherwise(tmp_path: Path) -> None:
    assert uses_local_paths(["spark.executor.memory"], {"SPARK_HOME": str(tmp_path)})
    assert not uses_local_paths(["spark.hadoop.fs.defaultFS"], {})
    assert not uses_local_paths(["/etc/spark.properties"], {})


@pytest.mark.parametrize(
    ("variable", "file"),
    [("HADOOP_CONF_DIR", "core-site.xml"), ("SPARK_HOME", "conf/spark-defaults.conf")],
)
def test_settings_of_this_machine_may_differ(variable: str, file: str, tmp_path: Path) -> None:
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).touch()
    assert not uses_local_paths([], {variable: str(tmp_path)})
