"""docs/tested_versions.toml lists the versions that the tests, the Makefile, and the benchmarks name."""

import re
import tomllib
from collections import defaultdict
from datetime import date
from pathlib import Path

from tests.interop.software import TRINO_VERSION
from tests.spark_versions.versions import OTHERS
from tests.versions import REAL

ROOT = Path(__file__).parents[1]
LISTED = tomllib.loads((ROOT / "docs" / "tested_versions.toml").read_text())["version"]
MAKEFILE = (ROOT / "Makefile").read_text()
LOCK = (ROOT / "requirements.lock").read_text()
PEERS = (ROOT / "bench" / "delta_and_iceberg.py").read_text()


def listed() -> dict[str, set[str]]:
    found = defaultdict(set)
    for each in LISTED:
        assert each["version"] not in found[each["of"]]
        found[each["of"]].add(each["version"])
    return found


def locked(name: str) -> str:
    (version,) = re.findall(rf"^{name}==(\S+)", LOCK, re.MULTILINE)
    return str(version)


def minors(versions: set[str]) -> set[str]:
    return {".".join(version.split(".")[:2]) for version in versions}


def combined(variable: str) -> set[str]:
    """The values of a variable of the Makefile."""
    (values,) = re.findall(rf"^{variable} \?= (.*)$", MAKEFILE, re.MULTILINE)
    return {value.removeprefix("python") for value in values.split()}


def test_the_tested_versions_are_listed() -> None:
    found = listed()
    metastores = {each if isinstance(each, str) else each.values[0] for each in REAL}
    assert found["Hive Metastore"] == metastores
    assert found["Trino"] == {TRINO_VERSION}
    assert found["Spark"] == {*OTHERS.values(), locked("pyspark")}
    assert minors(found["Airflow"]) == combined("AIRFLOWS")
    assert locked("apache-airflow") in found["Airflow"]
    assert minors(found["Python"]) == combined("PYTHONS")
    assert found["pyiceberg"] == {locked("pyiceberg")}
    for name, artifact in (
        ("Iceberg for Spark", "iceberg-spark-runtime"),
        ("Delta Lake", "delta-spark"),
    ):
        assert found[name] == set(re.findall(rf"{artifact}-?_?4\.1_2\.13:([\d.]+)", PEERS))


def test_days_are_in_order() -> None:
    for each in LISTED:
        if published := each.get("published"):
            assert date.fromisoformat(published) < date.fromisoformat(f"{each['tested']}-30"[:10])
