"""The Compose file, as far as it can be checked without Docker; tests/live runs its services."""

import json
import os
import re
import shutil
import subprocess
import sys
import zipfile
from base64 import urlsafe_b64decode
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jsonschema
import pytest

from tests.deploy import compose

SERVICES = compose.services()
DEPLOY = compose.ROOT / "deploy"
IN_IMAGE = "/opt/hiveacid/"


def test_it_follows_the_schema_of_compose() -> None:
    spec = find_spec("check_jsonschema")
    assert spec is not None
    assert spec.origin is not None
    file = Path(spec.origin).parent / "builtin_schemas" / "vendor" / "compose-spec.json"
    schema = json.loads(file.read_text())
    validator = jsonschema.validators.validator_for(schema)(schema)
    content = compose.read()
    assert [error.message for error in validator.iter_errors(content)] == []
    content["services"]["postgres"]["helthcheck"] = {}
    assert not validator.is_valid(content)


def test_all_sets_are_complete() -> None:
    def of(profile: str) -> set[str]:
        everywhere = {name for name, service in SERVICES.items() if "profiles" not in service.raw}
        return everywhere | {
            name for name, service in SERVICES.items() if profile in service.raw.get("profiles", [])
        }

    common = {"postgres", "s3", "metastore", "airflow-setup"}
    assert of("small") == common | {"airflow"}
    airflow = {"airflow-api", "airflow-scheduler", "airflow-dag-processor", "airflow-triggerer"}
    assert of("full") == common | airflow | {"spark-master", "spark-worker"}
    assert of("clients") == common - {"airflow-setup"} | {"spark-thrift", "spark-connect"}
    for profile in ("small", "full", "clients"):
        for name in of(profile):
            needed = SERVICES[name].raw.get("depends_on", {})
            assert needed.keys() <= of(profile), f"{name} waits for what {profile} has not"


@pytest.mark.parametrize("name", sorted(set(SERVICES) - {"airflow-setup"}))
def test_every_permanent_service_has_a_health_check(name: str) -> None:
    service = SERVICES[name]
    assert service.health
    assert service.raw["restart"] == "unless-stopped"


def test_one_that_waits_for_health_waits_for_one_that_has_it() -> None:
    for service in SERVICES.values():
        for other, condition in service.raw.get("depends_on", {}).items():
            if condition["condition"] == "service_healthy":
                assert SERVICES[other].health, f"{service.name} waits for {other}"


def test_all_images_are_pinned() -> None:
    images = [service.raw["image"] for service in SERVICES.values()]
    base = re.findall(r"^FROM (\S+)", compose.DOCKERFILE.read_text(), re.MULTILINE)
    for image in {*images, *base}:
        assert re.fullmatch(r"[\w/.-]+:v?\d+\.\d+(\.\d+)?(-[\w-]+)?", image), image


def test_the_image_is_made_of_what_is_there_and_not_ignored() -> None:
    copied = re.findall(r"^COPY (.*) \S+$", compose.DOCKERFILE.read_text(), re.MULTILINE)
    sources = {word for words in copied for word in words.split()}
    assert {
        "requirements.lock",
        "hiveacid",
        "airflow_hiveacid",
        "spark_apps",
        "dags",
        "deploy",
    } <= sources
    wanted = compose.DOCKERFILE.with_name("Dockerfile.dockerignore").read_text().splitlines()
    for source in sources:
        assert (compose.ROOT / source).exists(), source
        assert f"!{source}" in wanted


def test_the_package_is_built_from_exactly_the_copied_files(tmp_path: Path) -> None:
    before_install, found, _ = compose.DOCKERFILE.read_text().partition(
        "--no-build-isolation ./hiveacid ."
    )
    assert found
    copied = re.findall(r"^COPY (.*) (\S+)$", before_install, re.MULTILINE)
    for sources, target in copied:
        for source in sources.split():
            origin, copy = compose.ROOT / source, tmp_path / target
            if origin.is_dir():
                shutil.copytree(origin, copy, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(origin, copy)
    names: set[str] = set()
    for project in (tmp_path / "hiveacid", tmp_path):
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel"]
        done = subprocess.run(build, check=False, cwd=project, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        (wheel,) = (project / "dist").glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            names |= set(archive.namelist())
    assert {"airflow_hiveacid/__init__.py", "hiveacid/spark/run.py"} <= names


def test_no_port_is_open_to_others_than_this_machine() -> None:
    for service in SERVICES.values():
        for port in service.raw.get("ports", []):
            assert port.startswith("127.0.0.1:"), f"{service.name}: {port}"


def test_mounted_programs_exist_and_are_executable() -> None:
    for service in SERVICES.values():
        for mount in service.mounts:
            assert (compose.ROOT / mount).exists(), mount
        for word in (*service.command, *service.health):
            if word.startswith(IN_IMAGE):
                file = compose.ROOT / word.removeprefix(IN_IMAGE)
                assert file.is_file(), word
                assert file.suffix != ".sh" or os.access(file, os.X_OK), f"{word} is no program"


def test_passwords_are_only_in_the_compose_file() -> None:
    secret = re.compile(r"PASSWORD|SECRET|FERNET")
    for service in SERVICES.values():
        for name, value in service.raw.get("environment", {}).items():
            if secret.search(name) and not name.endswith("_FILE"):
                assert value.startswith("${"), f"{service.name} has {name} without a variable"
    defaults = {
        default
        for name, default in re.findall(r"\$\{(\w+):-([^}]*)\}", compose.FILE.read_text())
        if secret.search(name)
    }
    assert len(defaults) >= 6
    for file in DEPLOY.rglob("*"):
        if file.is_file():
            text = file.read_text()
            assert not [word for word in defaults if word in text], file


def test_those_who_share_a_secret_are_given_the_same() -> None:
    pairs = [
        (("postgres", "METASTORE_DATABASE_PASSWORD"), ("metastore", "METASTORE_DATABASE_PASSWORD")),
        (("s3", "ROOT_SECRET_KEY"), ("metastore", "AWS_SECRET_ACCESS_KEY")),
        (("s3", "ROOT_ACCESS_KEY"), ("airflow", "AWS_ACCESS_KEY_ID")),
        (("s3", "ROOT_SECRET_KEY"), ("spark-worker", "AWS_SECRET_ACCESS_KEY")),
    ]
    for (one, its), (other, theirs) in pairs:
        raw = SERVICES[one].raw["environment"][its], SERVICES[other].raw["environment"][theirs]
        assert raw[0] == raw[1]
    database = SERVICES["airflow"].raw["environment"]["AIRFLOW__DATABASE__SQL_ALCHEMY_CONN"]
    assert SERVICES["postgres"].raw["environment"]["AIRFLOW_DATABASE_PASSWORD"] in database


def test_the_secrets_have_the_form_that_airflow_wants() -> None:
    environment = SERVICES["airflow-api"].environment
    assert len(urlsafe_b64decode(environment["AIRFLOW__CORE__FERNET_KEY"])) == 32
    # Shorter keys make the library that signs with them warn at every request.
    assert len(environment["AIRFLOW__API_AUTH__JWT_SECRET"]) >= 64


def variables(path: Path) -> set[str]:
    values = [element.text or "" for element in ElementTree.parse(path).iter("value")]
    return {name for value in values for name in re.findall(r"\$\{env\.(\w+)\}", value)}


@pytest.mark.parametrize("user", ["metastore", "spark-worker", "airflow", "airflow-scheduler"])
def test_hadoop_finds_in_the_environment_what_its_files_want(user: str) -> None:
    wanted = variables(DEPLOY / "hadoop" / "core-site.xml")
    assert wanted == {"AWS_ENDPOINT_URL", "AWS_DEFAULT_REGION"}
    assert wanted <= SERVICES[user].environment.keys()


def test_the_metastore_finds_in_the_environment_what_its_file_wants() -> None:
    wanted = variables(DEPLOY / "metastore" / "metastore-site.xml")
    assert len(wanted) == 5
    assert wanted <= SERVICES["metastore"].environment.keys()


@pytest.mark.parametrize(
    "script", sorted(DEPLOY.rglob("*.sh")), ids=lambda path: path.relative_to(DEPLOY).as_posix()
)
def test_a_script_finds_its_variables_in_the_environment(script: Path) -> None:
    # Those with a default in the script itself are in braces.
    wanted = set(re.findall(r"\$([A-Z][A-Z0-9_]+)", script.read_text()))
    wanted -= {"JAVA_HOME"} | compose.image_environment().keys()
    users = [service for service in SERVICES.values() if runs(service, script)]
    assert users
    for service in users:
        assert wanted <= service.environment.keys(), service.name


def runs(service: compose.Service, script: Path) -> bool:
    mounted = [Path(entry).name for entry in service.mounts]
    commands = [word for word in service.command if word.startswith(IN_IMAGE)]
    return script.name in mounted or any(
        compose.ROOT / word.removeprefix(IN_IMAGE) == script for word in commands
    )


def test_the_airflow_in_the_image_has_the_connections_of_the_examples() -> None:
    def connection(service: str, conn_id: str) -> Any:
        return json.loads(SERVICES[service].environment[f"AIRFLOW_CONN_{conn_id.upper()}"])

    for name in ("airflow", "airflow-scheduler", "airflow-triggerer"):
        assert connection(name, "hive_acid_default") == {
            "conn_type": "hive_acid_metastore",
            "host": "metastore",
            "port": 9083,
        }
    assert connection("airflow", "spark_default")["host"].startswith("local")
    assert connection("airflow-scheduler", "spark_default")["host"] == "spark://spark-master:7077"
