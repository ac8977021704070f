import json
import os
import re
from importlib import import_module
from importlib.metadata import entry_points, version
from pathlib import Path

import airflow
import jsonschema
import pytest
from airflow.configuration import AIRFLOW_HOME
from airflow.providers.common.compat.sdk import conf
from airflow.providers_manager import ProvidersManager
from airflow.sdk import BaseHook, BaseOperator, BaseSensorOperator
from airflow.triggers.base import BaseTrigger

import airflow_hiveacid
from airflow_hiveacid.hooks.sql import HiveAcidSqlHook
from airflow_hiveacid.operators.writes import HiveAcidMergeOperator
from airflow_hiveacid.provider_info import get_provider_info
from hiveacid.rules.cleaning import DEFAULT_RETENTION


def test_tests_have_an_airflow_of_their_own():
    assert os.environ["AIRFLOW_HOME"] == AIRFLOW_HOME


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


def test_the_versions_are_those_of_the_changelog():
    changelog = (Path(__file__).parents[2] / "CHANGELOG.md").read_text()
    versions = get_provider_info()["versions"]
    assert versions == re.findall(r"^## (\S+)", changelog, re.M)
    assert versions[0] == version("airflow-hiveacid") == airflow_hiveacid.__version__


def test_the_documented_retention_is_the_library_s():
    options = get_provider_info()["config"]["hive_acid"]["options"]
    assert options["retention"]["default"] == DEFAULT_RETENTION


def test_the_plugin_is_the_one_that_airflow_loads():
    (plugin,) = get_provider_info()["plugins"]
    (point,) = (
        point
        for point in entry_points(group="airflow.plugins")
        if point.module.startswith("airflow_hiveacid")
    )
    assert plugin["plugin-class"] == point.value.replace(":", ".")
    assert plugin["name"] == point.load().name


def test_airflow_itself_lists_the_plugin_and_its_provider():
    listed = {each.plugin_class: each.provider_name for each in ProvidersManager().plugins}
    (plugin,) = get_provider_info()["plugins"]
    assert listed[plugin["plugin-class"]] == "airflow-hiveacid"


def test_the_connection_type_is_the_hook_s():
    (connection,) = get_provider_info()["connection-types"]
    module, name = connection["hook-class-name"].rsplit(".", 1)
    assert getattr(import_module(module), name) is HiveAcidSqlHook
    assert connection["connection-type"] == HiveAcidSqlHook.conn_type
    assert connection["hook-name"] == HiveAcidSqlHook.hook_name


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


def named(*keys):
    """The paths of classes and functions that Airflow will import."""
    for entry in get_provider_info()[keys[0]]:
        yield from [entry] if isinstance(entry, str) else [entry[key] for key in keys[1:]]


@pytest.mark.parametrize(
    "path",
    [
        *named("extra-links"),
        *named("task-decorators", "class-name"),
        *named("cli"),
        *named("plugins", "plugin-class"),
        *named("asset-uris", "handler", "factory", "to_openlineage_converter"),
    ],
)
def test_modules_that_airflow_imports_exist(path):
    module, name = path.rsplit(".", 1)
    assert callable(getattr(import_module(module), name))


def test_airflow_itself_finds_the_links():
    assert set(named("extra-links")) <= set(ProvidersManager().extra_links_class_names)


def test_the_links_of_the_operators_are_known_to_airflow():
    links = {
        f"{type(link).__module__}.{type(link).__name__}"
        for link in HiveAcidMergeOperator.operator_extra_links
    }
    assert links
    assert links <= set(named("extra-links"))


def test_every_option_has_a_default_that_airflow_can_read():
    ProvidersManager().initialize_providers_configuration()
    (section,) = get_provider_info()["config"].values()
    for name, option in section["options"].items():
        expected = "none" if option["default"] is None else option["default"]
        assert conf.get("hive_acid", name, fallback="none") == expected


def test_pyspark_and_its_client_are_of_one_version():
    # Their wheels own the same files; unequal ones overwrite each other into a broken package.
    assert version("pyspark") == version("pyspark-client")
