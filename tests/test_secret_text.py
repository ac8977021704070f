"""Texts, options, errors and jobs without their secrets."""

import time

import pytest

from hiveacid.errors import (
    IcebergRefused,
    InvalidJob,
    StorageError,
    options_without_secrets,
    secrets_of,
    without_secrets,
)
from hiveacid.jobs.iceberg_job import IcebergExportJob
from hiveacid.jobs.report import ErrorReport
from hiveacid.jobs.write_jobs import DeleteJob
from hiveacid.storage.filesystems import filesystem_of


def test_secret_options_are_masked() -> None:
    secret = {
        "password": "x",
        "kafka.ssl.key.passwd": "x",
        "db_pwd": "x",
        "eventhubs.connectionString": "x",
        "connection_string": "x",
        "fs.azure.sas.fixed.token": "x",
        "fs.azure.sas.container.account": "x",
        "sas": "x",
        "SharedAccessSignature": "x",
        "fs.s3a.access.key": "x",
    }
    assert set(options_without_secrets(secret).values()) == {"***"}


def test_passwords_in_addresses_are_masked() -> None:
    shown = options_without_secrets(
        {
            "url": "jdbc:postgresql://u:p@ss@h:5432/db?x=1",
            "servers": "amqp://a:b@h1,amqp://c:d@h2",
            "path": "s3a://bucket/a:b@c",
            "subscribe": "sassafras",
            "n": 1,
        }
    )
    assert shown == {
        "url": "jdbc:postgresql://u:***@h:5432/db?x=1",
        "servers": "amqp://a:***@h1,amqp://c:***@h2",
        "path": "s3a://bucket/a:b@c",
        "subscribe": "sassafras",
        "n": 1,
    }


SECRET = "Hunter2Hunter2"


@pytest.mark.parametrize(
    "text",
    [
        'OAuthError: invalid_client: {"client_id": "me", "client_secret": "SECRET"}',
        "OAuthError: grant_type=client_credentials&client_secret=SECRET&scope=catalog",
        r'{"body": "{\"client_secret\": \"SECRET\"}"}',
        r'{"client_secret": "a\"SECRET"}',
        r"{\"client_secret\": \"a\\\"SECRET\"}",
        "{'client_secret': 'a SECRET'}",
        "client_secret='it''SECRET'",
        'client_secret="never closed SECRET',
        "client_secret: SECRET",
        "client-secret = SECRET",
        "Client-Secret=>SECRET",
        "s3a://KEY:SECRET@bucket/folder",
        "s3a://SECRET:key@bucket/folder",
        "s3a://KEY:a/SECRET/b@bucket/folder",
        "S3N://KEY:a@SECRET@bucket/folder",
        "fs.s3a.secret.key=SECRET",
        "s3.access-key-id=SECRET",
        "postgresql://user:SECRET@host/db",
        "postgresql://user:pa/SECRET@host/db",
        "postgresql+psycopg2://user:pa?SECRET#x@host/db",
        "postgresql://user:12/SECRET@host/db",
        "postgresql://user:a@b/SECRET@host:5432/db",
        "jdbc:postgresql://host/db?user=me&password=SECRET",
        "redis://:SECRET@host, amqp://a:SECRET@host",
        "https://SECRET@example.com/x",
        "Authorization: Basic SECRET",
        "'Authorization': 'Bearer SECRET'",
        "curl -H 'X: Bearer SECRET'",
        "https://account.blob/c?sv=2024&sig=SECRET%3D&se=x",
        "https://bucket.example/x?X-Amz-Signature=SECRET&X-Amz-Credential=SECRET",
        'PlainLoginModule required username="a" password="b SECRET";',
        "token: SECRET",
        "the token eyJSECRETSECRET.SECRET.SECRET expired",
        "connectionString=Endpoint=sb://x/;SharedAccessKey=SECRET",
    ],
)
def test_secrets_in_texts_are_hidden(text: str) -> None:
    shown = without_secrets(text.replace("SECRET", SECRET))
    assert SECRET not in shown
    assert "***" in shown
    error = IcebergRefused(text.replace("SECRET", SECRET), remedy=text.replace("SECRET", SECRET))
    assert SECRET not in f"{error} {error!r} {error.args}"
    report = ErrorReport.of(ValueError(text.replace("SECRET", SECRET)))
    assert SECRET not in f"{report} {report.lines} {report}"


@pytest.mark.parametrize(
    "text",
    [
        "hdfs://nn1:8020/warehouse/email=joe@example.com/delta_1",
        "hdfs://nn1/warehouse/email=joe@example.com",
        "s3a://bucket/a:b@c",
        "abfss://container@account.dfs.core.windows.net/x",
        "The token: Token is expired",
        "The metastore does not know the secret of the delegation token.",
        "Basic authentication is off",
        "sales.tokens has no column passwords",
        "metastore.token_env must name where the delegation token is.",
        "thrift://hms-1:9083,thrift://hms-2:9083",
        "dag/run@host/task/-1",
    ],
)
def test_other_texts_do_not_change(text: str) -> None:
    assert without_secrets(text) == text


def test_known_secrets_are_hidden_in_any_form() -> None:
    options = {
        "type": "rest",
        "uri": "postgresql://user:p%40ss%2Fword@host/db",
        "credential": 'client:s3"cr/et',
        "header.X-Api-Key": "k-123456",
        "warehouse": "lake",
        "scope": "a",
    }
    known = list(secrets_of(options))
    for quoted in ("p@ss/word", "p%40ss%2Fword", 's3"cr/et', "s3%22cr%2Fet", r"s3\"cr/et"):
        shown = without_secrets(f"Server says: {quoted} is wrong for lake", known)
        assert shown == "Server says: *** is wrong for lake"
    assert without_secrets("k-123456 a lake", known) == "*** a lake"


@pytest.mark.parametrize(
    "text",
    ["token=\"'", "password: ", "\\", "a://", "x://@/", "bearer ", 'password=\\"', "token", "a."],
)
def test_long_hostile_texts_take_linear_time(text: str) -> None:
    def seconds(times: int) -> float:
        began = time.process_time()
        without_secrets(text * times)
        return time.process_time() - began

    short = max(seconds(10_000), 0.01)
    assert seconds(100_000) < 100 * short / 3


def test_a_shown_job_has_no_secrets() -> None:
    location = f"s3a://KEY:{SECRET}@bucket/lake"
    job = IcebergExportJob(
        target="db.t",
        table="lake.t",
        location=location,
        catalog_options={"s3.access-key-id": SECRET, "uri": f"postgresql://u:a/{SECRET}@h/d"},
        properties={"token": SECRET},
    )
    assert SECRET not in str(job)
    delete = DeleteJob(target="db.t", where=f"x = 1 AND password = '{SECRET}'")
    assert SECRET not in str(delete)


def test_locations_with_credentials_are_refused() -> None:
    for location in (f"s3a://KEY:{SECRET}@bucket/t", f"gs://u:{SECRET}@bucket/t"):
        with pytest.raises(StorageError, match="contains credentials") as refused:
            filesystem_of(location)
        assert SECRET not in str(refused.value)


def test_an_invalid_option_of_a_catalog_is_not_quoted() -> None:
    job = IcebergExportJob(
        target="db.t",
        table="lake.t",
        catalog_options={"password": 123456},  # type: ignore[dict-item]
    )
    with pytest.raises(InvalidJob, match="not int") as refused:
        job.validate()
    assert "123456" not in str(refused.value)
