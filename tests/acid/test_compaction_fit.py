"""Cost rates that are fitted to earlier compactions."""

import random
from statistics import median

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_hiveacid.acid.compaction_fit import FEWEST_RUNS, PastRun, fitted_rates
from airflow_hiveacid.acid.compaction_forecast import Forecast
from airflow_hiveacid.acid.compaction_value import CostRates

DEFAULT = CostRates()
TRUE = CostRates(
    start=0.2, directory=0.01, copied_byte=1 / 100e6, encoded_byte=1 / 5e6, delete_event=1e-6
)
NUMBERS = st.one_of(st.integers(-(2**70), 2**70))


def run(copied=0, encoded=0, events=0, directories=1, seconds=None, noise=1.0):
    work = Forecast(copied_bytes=copied, encoded_bytes=encoded, delete_events=events)
    seconds = TRUE.seconds(work, directories) * noise if seconds is None else seconds
    return PastRun(work=work, directories=directories, seconds=seconds)


def history(count, seed=1, outliers=0):
    source = random.Random(seed)
    runs = [
        run(
            copied=int(source.choice([0, 1e6, 3e9])),
            encoded=int(source.choice([0, 1e5, 2e8])),
            directories=source.randrange(2, 40),
            noise=source.lognormvariate(0, 0.1),
        )
        for _ in range(count)
    ]
    return [run(copied=10**6, seconds=5000.0) for _ in range(outliers)] + runs


def median_error(runs, rates):
    """The median of the relative error of predictions."""
    return median(abs(rates.seconds(run.work, run.directories) / run.seconds - 1) for run in runs)


def test_rates_converge_to_those_of_the_runs():
    runs = history(200)
    assert median_error(runs, DEFAULT) > 0.3
    fitted = fitted_rates(runs)
    assert median_error(history(200, seed=2), fitted) < 0.15
    assert fitted.encoded_byte == pytest.approx(TRUE.encoded_byte, rel=0.2)
    assert fitted.copied_byte == pytest.approx(TRUE.copied_byte, rel=0.2)


def test_outliers_change_little():
    fitted = fitted_rates(history(200, outliers=20))
    assert median_error(history(200, seed=2), fitted) < 0.2


def test_few_runs_change_nothing():
    assert fitted_rates(history(FEWEST_RUNS - 1)) == DEFAULT
    assert fitted_rates([]) == DEFAULT


def test_a_rate_without_evidence_keeps_its_default():
    fitted = fitted_rates([run(encoded=10**9) for _ in range(20)])
    assert fitted.encoded_byte == pytest.approx(TRUE.encoded_byte, rel=0.01)
    assert fitted.copied_byte == DEFAULT.copied_byte
    assert fitted.delete_event == DEFAULT.delete_event


def test_empty_runs_are_no_evidence():
    empty = [PastRun(work=Forecast(), directories=0, seconds=50.0) for _ in range(100)]
    assert fitted_rates(empty) == DEFAULT


@given(
    st.lists(
        st.builds(
            run,
            copied=NUMBERS,
            encoded=NUMBERS,
            events=NUMBERS,
            directories=NUMBERS,
            seconds=st.floats(),
        ),
        max_size=30,
    )
)
def test_any_records_leave_every_rate_within_a_factor_of_its_default(runs):
    fitted = fitted_rates(runs * 5)
    for name in CostRates.__slots__:
        default = getattr(DEFAULT, name)
        assert default / 20.001 <= getattr(fitted, name) <= default * 20.001
