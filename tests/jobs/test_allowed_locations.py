"""The locations that several limits allow together."""

from dataclasses import replace

import pytest

from hiveacid.errors import AccessRefused, InvalidJob
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.rules.location import AllowedLocations

OPTIONS = MetastoreOptions(uris="thrift://hms:9083")


@pytest.mark.parametrize(
    ("own", "limit", "common"),
    [
        ("", "s3a://a, file", "s3a://a, file"),
        ("s3a://a", "", "s3a://a"),
        ("s3a", "s3a://a, s3a://b", "s3a://a, s3a://b"),
        ("s3a://a, hdfs", "s3a, hdfs://nn1:8020", "s3a://a, hdfs://nn1:8020"),
        ("s3a://a, file", "s3a://b, file", "file"),
    ],
)
def test_both_limits_apply(own: str, limit: str, common: str) -> None:
    found = AllowedLocations.parse(own).within(AllowedLocations.parse(limit))
    assert str(found) == common
    assert AllowedLocations.parse(str(found)) == found


def test_limits_without_a_common_location_allow_nothing() -> None:
    with pytest.raises(InvalidJob, match="outside of those of the configuration: s3a://b"):
        AllowedLocations.parse("s3a://a").within(AllowedLocations.parse("s3a://b"))


@pytest.mark.parametrize("given", ["thrift://hms:9083", OPTIONS])
def test_options_of_a_program_are_within_the_configuration(
    given: str | MetastoreOptions, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert MetastoreOptions.of(given) == OPTIONS
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__ALLOWED_LOCATIONS", "s3a://a, file")
    assert MetastoreOptions.of(given) == replace(OPTIONS, allowed_locations="s3a://a, file")
    narrower = MetastoreOptions.of(replace(OPTIONS, allowed_locations="file"))
    assert narrower.allowed_locations == "file"


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("hdfs://nn1:8020, s3a//lake", "Entry 2 of allowed_locations, 's3a//lake',"),
        ("/warehouse", "Entry 1 of allowed_locations, '/warehouse',"),
        ("hdfs://nn1:8020/warehouse", "Entry 1 of allowed_locations, 'hdfs://nn1:8020/warehouse',"),
        ("file, , gs", "Entry 2 of allowed_locations, '',"),
        (",", "Entry 1 of allowed_locations, '',"),
    ],
)
def test_an_invalid_entry_is_named_before_anything_else(
    text: str, entry: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing_else_is_valid = MetastoreOptions(uris="ftp://x", auth_mechanism="none")
    with pytest.raises(InvalidJob) as own:
        replace(nothing_else_is_valid, allowed_locations=text).validate()
    assert entry in str(own.value)
    monkeypatch.setenv("AIRFLOW__HIVE_ACID__ALLOWED_LOCATIONS", text)
    with pytest.raises(InvalidJob) as configured:
        MetastoreOptions.of(nothing_else_is_valid)
    assert entry in str(configured.value)


def test_an_unreadable_configuration_allows_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: object
) -> None:
    monkeypatch.delenv("AIRFLOW__HIVE_ACID__ALLOWED_LOCATIONS", raising=False)
    monkeypatch.setenv("AIRFLOW_CONFIG", str(tmp_path))
    with pytest.raises(AccessRefused, match="cannot be read"):
        MetastoreOptions.of("thrift://hms:9083")
