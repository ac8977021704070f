"""Options that are shown without their secrets."""

from airflow_hiveacid.jobs.options.secret_options import without_secrets


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
    assert set(without_secrets(secret).values()) == {"***"}


def test_passwords_in_addresses_are_masked() -> None:
    shown = without_secrets(
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
