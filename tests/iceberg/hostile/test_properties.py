"""Properties of servers and options of jobs are data: they start no code, and contact no host."""

import json
from typing import Any

import pytest

from hiveacid.errors import InvalidJob
from hiveacid.jobs.iceberg_job import IcebergExportJob
from tests.iceberg.hostile.lakehouse import NAMES, Lakehouse
from tests.iceberg.hostile.rest_server import RestServer

# Of the many names, a case checks a part.
PARTS = 24


def test_the_names_include_those_of_code_and_addresses() -> None:
    assert {"py-io-impl", "py-catalog-impl", "write.py-location-provider.impl"} < set(NAMES)
    assert {"auth", "uri", "oauth2-server-uri", "s3.endpoint", "s3.signer", "s3.proxy-uri"} < set(
        NAMES
    )
    assert {"s3.retry-strategy-impl", "rest.sigv4-enabled", "hf.endpoint", "token"} < set(NAMES)


def rest_options(lakehouse: Lakehouse, server: RestServer) -> dict[str, str]:
    return {"type": "rest", "uri": server.uri, "token": "t0ken", "locations": lakehouse.warehouse}


def test_a_harmless_server_is_read(lakehouse: Lakehouse, server: RestServer) -> None:
    assert lakehouse.read(rest_options(lakehouse, server)) == ""
    assert set(server.tokens) == {"Bearer t0ken"}
    lakehouse.watch.require_nothing()


@pytest.mark.sampled(1)
@pytest.mark.parametrize("part", range(PARTS))
def test_no_property_of_a_server_is_more_than_data(
    lakehouse: Lakehouse, server: RestServer, part: int
) -> None:
    options = rest_options(lakehouse, server)
    metadata = dict(server.table["metadata"])
    for name in NAMES[part::PARTS]:
        for value in lakehouse.values(name):
            texts = {name: str(value)}
            server.config = {name: value}
            lakehouse.read(options)
            server.config = {}
            server.table["config"] = texts
            server.table["storage-credentials"] = [{"prefix": "file:", "config": texts}]
            server.table["metadata"] = {**metadata, "properties": texts}
            lakehouse.read(options)
            server.table.update({"config": {}, "storage-credentials": [], "metadata": metadata})
        lakehouse.watch.require_nothing(name)
    assert set(server.tokens) == {"Bearer t0ken"}


@pytest.mark.parametrize("place", ["metadata-location", "location", "manifest-list"])
@pytest.mark.parametrize("target", ["file", "hdfs", "s3", "parent", "link", "url"])
def test_no_location_of_a_server_is_opened_outside_of_the_warehouse(
    lakehouse: Lakehouse, server: RestServer, place: str, target: str
) -> None:
    watch, lake = lakehouse.watch, lakehouse.folder / "lake"
    (lake / "link").symlink_to(watch.file.parent)
    address = f"127.0.0.1:{watch.trap.port}"
    location = {
        "file": f"file://{watch.file}",
        "hdfs": f"hdfs://{address}/x.metadata.json",
        "s3": "s3://elsewhere/x.metadata.json",
        "parent": f"{lakehouse.warehouse}/../outside/{watch.file.name}",
        "link": f"{lakehouse.warehouse}/link/{watch.file.name}",
        "url": f"file://{watch.file}#/../../lake/x.metadata.json",
    }[target]
    if place == "metadata-location":
        server.table[place] = location
    elif place == "location":
        server.table["metadata"][place] = location
    else:
        for snapshot in server.table["metadata"]["snapshots"]:
            snapshot[place] = location
    message = lakehouse.read(rest_options(lakehouse, server), must_be_refused=True)
    assert "outside of the folders of the catalog" in message
    watch.require_nothing()


def test_a_token_goes_to_no_other_host(lakehouse: Lakehouse, server: RestServer) -> None:
    server.redirect = f"http://127.0.0.1:{lakehouse.watch.trap.port}/"
    options = rest_options(lakehouse, server)
    assert "redirects to another address" in lakehouse.read(options, must_be_refused=True)
    lakehouse.watch.require_nothing()


@pytest.mark.parametrize("secret", [{"token": "t0ken"}, {"credential": "id:s3cret"}])
@pytest.mark.parametrize("key", ["uri", "oauth2-server-uri"])
def test_a_secret_is_not_sent_without_tls(
    lakehouse: Lakehouse, server: RestServer, secret: dict[str, str], key: str
) -> None:
    options = {**rest_options(lakehouse, server), key: "http://catalog.invalid"}
    del options["token"]
    message = lakehouse.read({**options, **secret}, must_be_refused=True)
    assert "without TLS" in message
    lakehouse.watch.require_nothing()


def test_a_message_of_a_server_contains_no_secret(lakehouse: Lakehouse, server: RestServer) -> None:
    error = {"error": {"message": "The token t0ken is unknown.", "type": "BadRequest", "code": 400}}
    server.error = json.dumps(error)
    message = lakehouse.read(rest_options(lakehouse, server), must_be_refused=True)
    assert "The token *** is unknown." in message


@pytest.mark.parametrize(
    "option", ["py-catalog-impl", "py-io-impl", "s3.retry-strategy-impl", "auth.impl"]
)
def test_options_of_a_job_name_no_code(option: str) -> None:
    job = IcebergExportJob(target="a.b", table="ns.t", catalog_options={option: "a.B"})
    with pytest.raises(InvalidJob, match="names code"):
        job.validate()
    job = IcebergExportJob(
        target="a.b", table="ns.t", properties={"write.py-location-provider.impl": "a.B"}
    )
    with pytest.raises(InvalidJob, match="names code"):
        job.validate()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"type": "glue"}, "the type 'glue'"),
        ({"type": "hadoop", "warehouse": "/x"}, "Set type to one of hive, rest, sql."),
        ({"type": "sql", "uri": "sqlite://", "s3.signer": "x"}, "the option 's3.signer'"),
        ({"type": "sql", "uri": "sqlite:///x?plugin=x", "warehouse": "/x"}, "option uri"),
        ({"type": "rest", "uri": "file:///x", "warehouse": "/x"}, "option uri"),
        ({"type": "rest", "uri": "https://x"}, "folders of the catalog lake are unknown"),
    ],
)
def test_only_known_options_of_the_right_type_are_accepted(
    lakehouse: Lakehouse, options: dict[str, str], message: str
) -> None:
    assert message in lakehouse.read(options, must_be_refused=True)


@pytest.mark.parametrize(
    "config", [{"py-io-impl": "x.Y"}, {"auth": {"type": "custom", "impl": "x.Y"}}]
)
def test_settings_of_pyiceberg_name_no_code(
    lakehouse: Lakehouse,
    server: RestServer,
    monkeypatch: pytest.MonkeyPatch,
    config: dict[str, Any],
) -> None:
    settings = {"catalog": {"lake": config}}
    (lakehouse.folder / ".pyiceberg.yaml").write_text(_yaml(settings))
    monkeypatch.setenv("PYICEBERG_HOME", str(lakehouse.folder))
    assert lakehouse.read(rest_options(lakehouse, server), must_be_refused=True)


def _yaml(value: dict[str, Any], indent: str = "") -> str:
    lines = [
        f"{indent}{key}:\n{_yaml(each, indent + '  ')}"
        if isinstance(each, dict)
        else f"{indent}{key}: {each}\n"
        for key, each in value.items()
    ]
    return "".join(lines)
