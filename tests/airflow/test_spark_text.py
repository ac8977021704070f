"""The values that a template may produce for Spark's arguments, variables and properties: one line
each."""

import base64
import json
import logging
import subprocess
from pathlib import Path

import pytest

from airflow_hiveacid import HiveAcidDeleteOperator, MetastoreOptions
from airflow_hiveacid.cluster.spark_submission import properties
from airflow_hiveacid.hooks.metastore import HiveAcidMetastoreHook
from airflow_hiveacid.hooks.tasks import HiveAcidTaskRefused
from hiveacid.errors import InvalidJob, MetastoreUnreachable
from hiveacid.jobs import DeleteJob
from hiveacid.metastore.client import MetastoreClient

DELETE = DeleteJob(target="db.t", where="id = 1", run_in="spark")
SECOND = "x\nspark.driver.extraJavaOptions -javaagent:/tmp/evil.jar"

READER = """
import java.io.*; import java.util.*; import java.nio.file.*;
public class Reader {
  public static void main(String[] a) throws Exception {
    Properties found = new Properties();
    found.load(new InputStreamReader(new FileInputStream(a[0]), "UTF-8"));
    Base64.Encoder encoder = Base64.getEncoder();
    for (String key : found.stringPropertyNames())
      System.out.println(encoder.encodeToString(key.getBytes("UTF-8")) + " "
        + encoder.encodeToString(found.getProperty(key).getBytes("UTF-8")));
  }
}
"""


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"env_vars": {"A": SECOND}}, r"env_vars\['A'\]"),
        ({"env_vars": {"A\nB": "x"}}, "env_vars"),
        ({"env_vars": {"A=B": "x"}}, "env_vars"),
        ({"env_vars": {"": "x"}}, "env_vars"),
        ({"env_vars": {"A": "x\0"}}, r"env_vars\['A'\]"),
        ({"env_vars": {"A": "\ud800"}}, r"env_vars\['A'\]"),
        ({"conf": {"spark.a": SECOND}}, r"conf\['spark.a'\]"),
        ({"conf": {"spark.a": "x\r"}}, r"conf\['spark.a'\]"),
        ({"conf": {"spark.a b": "x"}}, "conf"),
        ({"jars": "/a.jar\n/b.jar"}, "jars"),
        ({"packages": "a:b:1\x1b[2J"}, "packages"),
        ({"properties_file": "/a\0b"}, "properties_file"),
        ({"driver_memory": "2g\n"}, "driver_memory"),
    ],
)
@pytest.mark.parametrize("master", ["local[2]", "yarn"])
def test_a_text_of_two_lines_is_refused_by_its_name(
    given, field, master, spark_submit, context, monkeypatch
):
    connection = json.dumps({"conn_type": "spark", "host": master})
    monkeypatch.setenv("AIRFLOW_CONN_SPARK_DEFAULT", connection)
    operator = HiveAcidDeleteOperator(task_id="t", job=DELETE, **given)
    with pytest.raises((InvalidJob, HiveAcidTaskRefused), match=field):
        operator.execute(context)
    assert not spark_submit.seen_file.exists()


@pytest.mark.server
def test_java_reads_the_properties_that_were_written(tmp_path: Path) -> None:
    values = [
        "",
        " a ",
        "a\\",
        "C:\\new\\u0041",
        "a=b:c",
        "# no",
        "! no",
        "é😀",
        "a\\nb",
        "$HOME ${x}",
        "'\"",
    ]
    conf = {f"spark.env.A{number}": value for number, value in enumerate(values)}
    file = tmp_path / "spark.properties"
    file.write_text("spark.first goes on \\" + "\n\n" + properties(conf), encoding="utf-8")
    (tmp_path / "Reader.java").write_text(READER)
    command = ["java", "-Xshare:auto", str(tmp_path / "Reader.java"), str(file)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    found = {
        base64.b64decode(key).decode(): base64.b64decode(value).decode()
        for key, _, value in (line.partition(" ") for line in lines)
    }
    assert found == {"spark.first": "goes on ", **conf}


def test_no_two_connections_share_the_variable_of_their_token(monkeypatch) -> None:
    ids = [
        "a-b",
        "a_b",
        "a.b",
        "A_B",
        "a_B",
        "ax2dxb",
        "a b",
        "a__b",
        "ab",
        "ä",
        "hive_acid_default",
    ]
    names = {}
    for conn_id in ids:
        hook = HiveAcidMetastoreHook(conn_id)
        connection = {"conn_type": "hive_acid_metastore", "host": "h", "password": conn_id}
        monkeypatch.setattr(hook, "get_connection", lambda _, given=connection: _connection(given))
        names[conn_id] = hook.options().token_env
    assert len(set(names.values())) == len(ids)
    assert all(name.isascii() and name.isidentifier() for name in names.values())
    assert names["hive_acid_default"] == "HIVEACID_TOKEN_HIVE_ACID_DEFAULT"


def _connection(fields):
    from airflow.sdk import Connection

    return Connection(conn_id="c", **fields)


@pytest.mark.parametrize(
    ("options", "warns"),
    [
        ({"uris": "thrift://192.0.2.1:1"}, "without TLS"),
        ({"uris": "thrift://192.0.2.1:2", "tls": True}, None),
        ({"uris": "thrift://127.0.0.1:1"}, None),
        ({"uris": "http://127.0.0.1:1", "token_env": "HIVEACID_TOKEN_TEST"}, None),
        ({"uris": "http://192.0.2.1:3"}, "without TLS"),
        ({"uris": "https://192.0.2.1:4", "token_env": "HIVEACID_TOKEN_TEST"}, None),
    ],
)
def test_an_unprotected_connection_is_warned_about_once(
    options, warns, caplog, monkeypatch
) -> None:
    monkeypatch.setenv("HIVEACID_TOKEN_TEST", "s3cret")

    def refuse(*_, **__):
        raise OSError("not here")

    monkeypatch.setattr("socket.socket.connect", refuse)
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            with pytest.raises(MetastoreUnreachable):
                MetastoreClient(
                    MetastoreOptions(**options, connect_timeout_seconds=1, read_timeout_seconds=1)
                ).get_databases()
    said = [
        record.getMessage() for record in caplog.records if "without TLS" in record.getMessage()
    ]
    assert len(said) == (0 if warns is None else 1)
    assert all(warns in line and "s3cret" not in line for line in said)


def test_no_token_goes_to_another_machine_without_tls(monkeypatch) -> None:
    monkeypatch.setenv("HIVEACID_TOKEN_TEST", "s3cret")
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("It connects."))
    options = MetastoreOptions(uris="http://192.0.2.1:3", token_env="HIVEACID_TOKEN_TEST")
    with pytest.raises(InvalidJob, match="without TLS") as caught:
        MetastoreClient(options).get_databases()
    assert "s3cret" not in str(caught.value)


def test_tls_is_refused_where_it_could_not_be() -> None:
    with pytest.raises(InvalidJob, match="https://"):
        MetastoreOptions(uris="http://h:1/metastore", tls=True).validate()


def test_a_token_or_a_user_of_two_lines_is_no_header(monkeypatch) -> None:
    monkeypatch.setenv("HIVEACID_TOKEN_TEST", "a\r\nx-actor-username: root")
    options = MetastoreOptions(uris="http://127.0.0.1:1", token_env="HIVEACID_TOKEN_TEST")
    with pytest.raises(InvalidJob, match="HIVEACID_TOKEN_TEST"):
        MetastoreClient(options).get_databases()
    with pytest.raises(InvalidJob, match=r"metastore\.user"):
        MetastoreOptions(uris="http://h:1", user="a\nb").validate()
