import json
from importlib import import_module
from importlib.metadata import entry_points, version
from pathlib import Path

import airflow
import jsonschema
import pytest
from airflow.sdk import BaseHook, BaseOperator, BaseSensorOperator
from airflow.triggers.base import BaseTrigger

from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from airflow_hiveacid.provider_info import get_provider_info


def test_airflow_accepts_the_metadata():
    schema = json.loads(Path(airflow.__file__).with_name("provider_info.schema.json").read_text())
    jsonschema.validate(get_provider_info(), schema)


def test_airflow_finds_the_metadata_by_the_entry_point():
    (point,) = (
        point
        for point in entry_points(group="apache_airflow_provider")
        if point.module.startswith("airflow_hiveacid")
    )
    assert point.load() is get_provider_info


def test_the_connection_type_is_the_hook_s():
    (connection,) = get_provider_info()["connection-types"]
    module, name = connection["hook-class-name"].rsplit(".", 1)
    assert getattr(import_module(module), name) is HiveAcidMetastoreHook
    assert connection["connection-type"] == HiveAcidMetastoreHook.conn_type
    assert connection["hook-name"] == HiveAcidMetastoreHook.hook_name


@pytest.mark.parametrize(
    ("kind", "base"),
    [
        ("operators", BaseOperator),
        ("sensors", BaseSensorOperator),
        ("triggers", BaseTrigger),
        ("hooks", BaseHook),
    ],
)
def test_each_named_module_holds_its_class(kind, base):
    for entry in get_provider_info()[kind]:
        for module in map(import_module, entry["python-modules"]):
            own = [value for value in vars(module).values() if isinstance(value, type)]
            assert any(
                issubclass(value, base) and value.__module__ == module.__name__ for value in own
            )


def test_pyspark_and_its_client_are_of_one_version():
    # Their wheels own the same files; unequal ones overwrite each other into a broken package.
    assert version("pyspark") == version("pyspark-client")
