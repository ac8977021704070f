"""Answers of a REST server need a limited amount of memory and time, and are parts of its own paths."""

import tracemalloc

import pytest

from hiveacid.iceberg import catalogs as rest_catalog
from tests.iceberg.hostile.lakehouse import Lakehouse
from tests.iceberg.hostile.rest_server import RestServer


def refusal(lakehouse: Lakehouse, server: RestServer) -> str:
    options = {"type": "rest", "uri": server.uri, "locations": lakehouse.warehouse}
    message = lakehouse.read(options, must_be_refused=True)
    lakehouse.watch.require_nothing()
    return message


def test_a_long_answer_is_not_read_to_its_end(
    lakehouse: Lakehouse, server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_catalog, "LARGEST_JSON", 1 << 20)
    server.body = bytes(64 << 20)
    tracemalloc.start()
    try:
        assert "invalid" in refusal(lakehouse, server)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 32 << 20


def test_an_answer_with_too_many_objects_is_refused(
    lakehouse: Lakehouse, server: RestServer
) -> None:
    server.table["metadata"]["more"] = [{}] * 100_001
    assert "more than 100000 objects" in refusal(lakehouse, server)


def test_an_answer_that_does_not_end_is_refused(
    lakehouse: Lakehouse, server: RestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest_catalog, "_ANSWER_SECONDS", 0)
    assert "The answer takes more than" in refusal(lakehouse, server)


@pytest.mark.parametrize("text", ["a?b=c", "a#b", "a\nb", "a" * 1001])
@pytest.mark.parametrize("key", ["prefix", "namespace-separator"])
def test_a_server_chooses_no_query_of_a_request(
    lakehouse: Lakehouse, server: RestServer, key: str, text: str
) -> None:
    server.config = {key: text}
    assert f"an invalid {key}" in refusal(lakehouse, server)


@pytest.mark.parametrize("prefix", ["../x", "//elsewhere/x", "@elsewhere/x"])
def test_a_server_chooses_no_other_server(
    lakehouse: Lakehouse, server: RestServer, prefix: str
) -> None:
    server.config = {"prefix": prefix}
    options = {"type": "rest", "uri": server.uri, "locations": lakehouse.warehouse}
    lakehouse.read(options)
    lakehouse.watch.require_nothing()
