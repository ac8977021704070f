"""The workloads of bench/lst.py, the degradation rate, and the refresh sets of bench/tpcds.py."""

import json
from pathlib import Path

import duckdb
import pytest

from bench.lst_tables import markdown
from bench.lst_workloads import (
    WORKLOADS,
    degradation_rate,
    degradations,
    phases_of,
    series_of,
)
from bench.tpcds import FACTS, WEEK, WEEKS, Tpcds, deleted_weeks, tables_in, with_months

FIRST, DAYS, ORDERS = 2450816, 700, 500


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Tpcds:
    """Tables with the keys of TPC-DS: an order a day and more, and a return of every third one."""
    folder = tmp_path_factory.mktemp("tpcds")
    db = duckdb.connect()
    db.execute(
        f"CREATE TABLE date_dim AS SELECT {FIRST} + i AS d_date_sk, 1176 + i // 30 AS d_month_seq"
        f" FROM range({DAYS + 100}) AS r(i)"
    )
    tables = ["date_dim"]
    for fact in FACTS:
        is_return = fact.prefix[1] == "r"
        rows = f"range(1, {ORDERS + 1}) AS r(i), range(1, 3) AS lines(j)"
        db.execute(
            f"CREATE TABLE {fact.name} AS SELECT"
            f" CASE WHEN i % 50 = 0 THEN NULL ELSE {FIRST} + i % {DAYS} + {3 * is_return} END"
            f" AS {fact.date}, j AS {fact.prefix}_item_sk, i AS {fact.number},"
            f" (i / 10)::DECIMAL(7, 2) AS {fact.amount} FROM {rows}"
            + (" WHERE i % 3 = 0" if is_return else "")
        )
        tables.append(fact.name)
    for table in tables:
        db.execute(f"COPY {table} TO '{folder}/{table}.parquet'")
    (folder / "queries.json").write_text(
        json.dumps(
            {"7": "SELECT 1 FROM store_sales, date_dim WHERE ss_sold_date_sk = d_date_sk;\n"}
        )
    )
    return Tpcds(folder)


def numbers(path: Path, column: str) -> list[int]:
    return [row[0] for row in duckdb.sql(f"SELECT DISTINCT {column} FROM '{path}'").fetchall()]


def test_the_degradation_rate_is_the_mean_relative_increase() -> None:
    assert degradation_rate([10, 10, 10]) == 0
    assert degradation_rate([10, 15, 30]) == pytest.approx((0.5 + 1) / 2)
    assert degradation_rate([20, 10]) == -0.5


def test_the_degradation_rate_matches_a_published_one() -> None:
    # Minutes of the queries of Delta Lake 2.2 in wp1, from the published results of LST-Bench.
    assert degradation_rate([19.8, 31.3, 44.0, 56.3, 69.7, 66.1]) == pytest.approx(0.29, abs=0.005)


def test_one_value_has_no_degradation() -> None:
    with pytest.raises(ValueError, match="two phases"):
        degradation_rate([1])


def test_longevity_queries_after_each_data_maintenance() -> None:
    names = [phase.name for phase in phases_of("wp1", 2, 1)]
    assert names == ["load", "SU1", "DM1", "SU2", "DM2", "SU3"]


def test_each_round_of_resilience_maintains_more_data() -> None:
    phases = phases_of("wp2", 3, 2)
    assert [phase.executions for phase in phases if phase.executions] == [2, 4, 6]
    assert [phase.name for phase in phases[2:6]] == ["DM1", "SU2", "OPT1", "SU2o"]


def test_queries_run_beside_every_change_of_concurrency() -> None:
    assert all(phase.concurrent for phase in phases_of("wp3", 3, 1)[1:])


def test_time_travel_reads_versions_of_earlier_phases() -> None:
    phases = phases_of("wp4", 3, 1)
    for number, phase in enumerate(phases):
        if phase.as_of is not None:
            assert phase.as_of in [each.name for each in phases[: number - 1]]
    assert [phase.as_of for phase in phases if phase.as_of] == [
        "load",
        "DM1",
        "load",
        "DM2",
        "load",
    ]


@pytest.mark.parametrize("pack", WORKLOADS)
def test_a_workload_has_at_most_the_rounds_of_the_original(pack: str) -> None:
    assert phases_of(pack, 99, 1) == phases_of(pack, WORKLOADS[pack][1], 1)
    assert len({phase.name for phase in phases_of(pack, 99, 1)}) == len(phases_of(pack, 99, 1))


def test_series_begin_with_the_first_queries() -> None:
    assert series_of(phases_of("wp2", 2, 1)) == {
        "SU": ["SU1", "SU2", "SU3"],
        "SU optimized": ["SU1", "SU2o", "SU3o"],
        "DM": ["DM1", "DM2"],
    }
    assert series_of(phases_of("wp4", 2, 1))["SU of the first version"] == [
        "SU1",
        "SU2@load",
        "SU3@load",
    ]
    assert series_of(phases_of("wp3", 2, 1))["SU beside DM"] == ["SU1+DM1", "SU2o+DM2"]


def test_rates_are_reported_by_series_engine_and_figure() -> None:
    phases = phases_of("wp1", 2, 1)
    measured = {
        phase.name: {"delta": {"seconds": 2.0**number, "cpu": 1, "files": 1, "megabytes": 1}}
        for number, phase in enumerate(phases)
    }
    rates = degradations(phases, measured)
    assert rates["SU"] == {"delta": {"seconds": 3, "cpu": 0}}
    assert rates["DM"]["delta"] == {"seconds": 3, "cpu": 0, "files": 0, "megabytes": 0}


def test_the_tables_show_each_phase_and_rate() -> None:
    figures = {"seconds": 2.04, "cpu": 3.0, "files": 7, "megabytes": 1.5, "stored_megabytes": 2.0}
    both = {"seconds": 9.0, "cpu": 3.0, "query": 4.0, "maintain": 8.96}
    text = markdown(
        {
            "packs": {
                "wp1": {
                    "phases": {"load": {"delta": figures}, "SU1+DM1": {"delta": both}},
                    "s_dr": {"SU": {"delta": {"seconds": 0.125}}},
                }
            }
        }
    )
    assert "| load | 2.0 |" in text
    assert "| SU1+DM1 | 4.0 / 9.0 |" in text
    assert "| S_DR of SU, seconds | 0.12 |" in text


def test_rows_get_the_month_of_their_day(data: Tpcds) -> None:
    for fact in FACTS:
        wrong = duckdb.sql(
            f"SELECT count(*) FROM '{data.base(fact)}' WHERE {fact.month} IS DISTINCT FROM"
            f" CASE WHEN {fact.date} IS NOT NULL THEN 1176 + ({fact.date} - {FIRST}) // 30 END"
        ).fetchall()
        assert wrong == [(0,)]


def test_refresh_sets_have_orders_of_their_own(data: Tpcds) -> None:
    for fact in FACTS:
        sets = [numbers(data.base(fact), fact.number)]
        sets += [numbers(data.refresh(fact, execution), fact.number) for execution in range(3)]
        together = [number for each in sets for number in each]
        assert all(sets)
        assert len(set(together)) == len(together)


def test_returns_of_a_refresh_set_belong_to_its_orders(data: Tpcds) -> None:
    for sales, returns in zip(FACTS[::2], FACTS[1::2], strict=True):
        sold = numbers(data.refresh(sales, 2), sales.number)
        assert set(numbers(data.refresh(returns, 2), returns.number)) <= set(sold)


def test_a_refresh_set_is_a_hundredth_of_the_orders(data: Tpcds) -> None:
    assert len(numbers(data.refresh(FACTS[0], 0), FACTS[0].number)) == ORDERS // 100


def test_executions_delete_other_weeks_but_always_the_same(data: Tpcds) -> None:
    weeks = [deleted_weeks(FIRST, FIRST + DAYS - 1, execution) for execution in range(20)]
    assert weeks == [deleted_weeks(FIRST, FIRST + DAYS - 1, execution) for execution in range(20)]
    assert len({tuple(each) for each in weeks}) > 15
    for each in weeks:
        days = {day for first, last in each for day in range(first, last + 1)}
        assert len(days) == WEEK * WEEKS
        assert days <= set(range(FIRST, FIRST + DAYS))


def test_the_condition_selects_the_rows_of_the_weeks(data: Tpcds) -> None:
    for fact in FACTS[::2]:
        days = " OR ".join(
            f"{fact.date} BETWEEN {first} AND {last}" for first, last in data.weeks(1)
        )
        rows = f"SELECT count(*) FROM '{data.base(fact)}' WHERE"
        chosen = duckdb.sql(f"{rows} {data.deleted(fact, 1)}").fetchall()
        assert chosen == duckdb.sql(f"{rows} {days}").fetchall()
        assert chosen[0][0] > 0


def test_a_join_of_days_joins_the_months_too(data: Tpcds) -> None:
    assert data.queries[7].endswith("ss_sold_date_sk = d_date_sk AND ss_month = d_month_seq")
    assert with_months("dt.d_date_sk = web_returns.wr_returned_date_sk") == (
        "dt.d_date_sk = web_returns.wr_returned_date_sk AND web_returns.wr_month = dt.d_month_seq"
    )
    assert with_months("cs_sold_date_sk = d1.d_date_sk", 12) == (
        "cs_sold_date_sk = d1.d_date_sk AND cs_month = d1.d_month_seq DIV 12"
    )
    assert with_months("ws_ship_date_sk = d_date_sk") == "ws_ship_date_sk = d_date_sk"


def test_the_tables_of_a_query_are_found() -> None:
    query = "SELECT 1 FROM catalog_sales LEFT JOIN catalog_returns ON true, web_site"
    assert [fact.name for fact in tables_in(query)] == ["catalog_sales", "catalog_returns"]
