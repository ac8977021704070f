"""One answer of the page parses a limited number of bytes, in all of its threads."""

import tomllib
from pathlib import Path

import pytest

from hiveacid.errors import TooLarge
from hiveacid.foreign.budget import Threads, foreign_bytes, spend
from hiveacid.foreign.text import parse_json
from hiveacid.records.known_erasures import KnownErasures
from hiveacid.storage.folder import ReadOnlyStorage

_MOST = 1 << 20
_ROOT = Path(__file__).parents[2]


def test_a_budget_counts_all_files(tmp_path: Path) -> None:
    for name in "abc":
        (tmp_path / name).write_bytes(bytes(400_000))
    storage = ReadOnlyStorage.of(str(tmp_path))
    with foreign_bytes(16 << 10):
        assert storage.read_small("a")
        assert storage.read_small("b")
        with pytest.raises(TooLarge, match=r"c is too large: .*16 KiB.*command hiveacid"):
            storage.read_small("c")
    assert storage.read_small("c")


def test_threads_share_the_budget_of_their_request() -> None:
    with foreign_bytes(_MOST), Threads(4) as pool:
        pending = [pool.submit(spend, 300_000, "A note") for _ in range(4)]
        failed = [each for each in pending if isinstance(each.exception(), TooLarge)]
    assert len(failed) == 1


def test_requests_have_budgets_of_their_own() -> None:
    with foreign_bytes(_MOST):
        spend(_MOST, "A note")
        with foreign_bytes(_MOST):
            spend(_MOST, "A note")
        with pytest.raises(TooLarge):
            spend(1, "A note")
    spend(1 << 40, "A note")


@pytest.mark.parametrize("text", ["[" * 100_000, b'{"a":' * 100_000, "[1,2,3]", "x"])
def test_json_has_few_values_that_are_not_deep(text: str | bytes) -> None:
    with pytest.raises(ValueError, match=r"deep|values|Expecting"):
        parse_json(text, limit=2 if text == "[1,2,3]" else 4_000_000)


def test_an_answer_shows_requests_of_many_keys(tmp_path: Path) -> None:
    hashes = " ".join(f"{number:032x}" for number in range(100_000))
    with foreign_bytes(_MOST):
        for number in range(15):
            (tmp_path / str(number)).write_text(f'{{"hashes": "{hashes}"}}')
            content = ReadOnlyStorage.of(str(tmp_path)).read_small(str(number), 1 << 28)
            assert content is not None
            assert parse_json(content)["hashes"] == hashes


def test_of_a_hundred_hostile_records_an_answer_parses_no_more_than_its_budget(
    tmp_path: Path,
) -> None:
    for number in range(100):
        record = tmp_path / f"r{number:03}" / "record"
        record.mkdir(parents=True)
        (record / "1.json").write_bytes(b"[" + b"[]," * 340_000 + b"1]")
    with foreign_bytes(_MOST):
        found = KnownErasures(f"file:{tmp_path}").read()
    assert len(found) == 100
    assert sum("1024 KiB" in each.problem for each in found) >= 98


def test_only_the_functions_with_limits_may_call_the_libraries() -> None:
    settings = tomllib.loads((_ROOT / "pyproject.toml").read_text())["tool"]["ruff"]["lint"]
    free = {path for path, rules in settings["per-file-ignores"].items() if "TID251" in rules}
    assert free == {
        "hiveacid/{foreign/*,orc/format/batches}.py",
        "{deploy,docs,release}/**",
        "tests/**",
        "dbt/acceptance/**",
        "bench/**",
    }
    marks = {
        path
        for folder in ("hiveacid", "airflow_hiveacid", "dbt/adapters", "spark_apps", "dags")
        for path in (_ROOT / folder).rglob("*.py")
        if "noqa: TID251" in path.read_text()
    }
    assert not marks
    assert {"json.loads", "pyarrow.parquet.ParquetFile", "pyarrow.orc.ORCFile"} <= {
        *settings["flake8-tidy-imports"]["banned-api"]
    }
