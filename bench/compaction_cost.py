"""Real compactions in one process of the worker, and their predicted costs; see compaction_value.py."""

import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import Any

from airflow_hiveacid.metastore.client import MetastoreClient
from bench.small_compaction import Bench
from tests.fakes.metastore import FakeMetastore

# Prints, for each compaction, the predicted core-seconds by footers and by sizes, the used ones, and
# the work that its note contains. All tasks run in this process.
PROGRAM = """\
import json, sys, time
from airflow_hiveacid.acid.compaction import CompactionType
from airflow_hiveacid.acid.compaction_policy import CompactionPolicy
from airflow_hiveacid.acid.compaction_value import CostRates, value_of
from airflow_hiveacid.acid.names import TableRef
from airflow_hiveacid.acid.read_rates import ASSUMED
from airflow_hiveacid.compaction.forecast import forecast
from airflow_hiveacid.compaction.table import TableCompactor
from airflow_hiveacid.compaction.worker_scheduler import WorkerScheduler
from airflow_hiveacid.jobs import codec
from airflow_hiveacid.jobs.maintenance_jobs import CompactJob
from airflow_hiveacid.jobs.options.metastore_options import MetastoreOptions
from airflow_hiveacid.compaction.past_compactions import past_compactions
from airflow_hiveacid.maintenance.survey import Survey
from airflow_hiveacid.metastore.client import MetastoreClient
from airflow_hiveacid.metastore.txn.snapshot import Snapshot
options = MetastoreOptions.of(sys.argv[1])
with MetastoreClient(options) as client, WorkerScheduler(inline_bytes=1 << 40) as scheduler:
    for name in sys.argv[2:]:
        name, _, type_ = name.partition(":")
        ref = TableRef.parse(name)
        (before,) = Survey(client).survey([ref])
        table = client.get_table(ref)
        work = forecast(client.version, table, None, CompactionType(type_), Snapshot.take(client, [ref]))
        def predicted(rates, given):
            return value_of(before.size, CompactionType(type_), ASSUMED, 1.0, given, rates).cost
        by_footers, by_sizes = predicted(CostRates(), work), predicted(CostRates(), None)
        began = time.process_time()
        job = CompactJob(target=name, type=type_, metastore=options)
        (done,) = TableCompactor(scheduler, client, job).run().partitions
        used = time.process_time() - began
        assert done.outcome == "compacted", done
        (after,) = Survey(client).survey([ref])
        (noted, *_) = past_compactions(client, table, [after.size])
        print(json.dumps({
            "by_footers": by_footers, "by_sizes": by_sizes, "used": used,
            "work": codec.encode(work), "directories": len(before.size.deltas),
            "noted": codec.encode(noted), "bytes": done.bytes_read, "type": type_,
        }), flush=True)
"""


def real_costs(count: int) -> dict[str, Any]:
    """Compact tables of different sizes, and compare the predictions with the used time."""
    folder = Path(tempfile.mkdtemp(prefix="hiveacid-bench-"))
    try:
        with (
            FakeMetastore("4.0.1", directory=folder / "fake") as metastore,
            MetastoreClient(metastore.options) as client,
        ):
            measured = list(_measured(Bench(client, folder), folder, count, metastore.options.uris))
    finally:
        shutil.rmtree(folder)
    return _summary(measured)


def _measured(bench: Bench, folder: Path, count: int, uri: str) -> list[dict[str, Any]]:
    random = Random(1)
    names = []
    for number in range(count):
        rows = int(10 ** random.uniform(1.3, 4.8))
        share = random.choice([0.0, 0.01])
        flat = folder / f"flat{number}.orc"
        bench.write_flat(flat, rows)
        name, _ = bench.table(flat=flat, share=share)
        names.append(f"{name}:{random.choice(['minor', 'major'])}")
        flat.unlink()
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, uri, *names],
        env={**os.environ, "PYTHONPATH": os.getcwd()},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-4000:])
    # The first one also imports modules.
    return [json.loads(line) for line in done.stdout.splitlines()][1:]


def _summary(measured: list[dict[str, Any]]) -> dict[str, Any]:
    from airflow_hiveacid.acid.compaction_fit import PastRun, fitted_rates
    from airflow_hiveacid.acid.compaction_forecast import Forecast
    from airflow_hiveacid.acid.compaction_value import CostRates

    def of(plain: dict[str, Any]) -> PastRun:
        return PastRun(**{**plain, "work": Forecast(**plain["work"])})

    half = len(measured) // 2
    rates = fitted_rates(of(each["noted"]) for each in measured[:half])

    def error(predicted: list[float]) -> float:
        used = [each["used"] for each in measured[half:]]
        errors = [abs(own / real - 1) for own, real in zip(predicted, used, strict=True)]
        return round(statistics.median(errors), 3)

    later = measured[half:]
    fitted = [rates.seconds(Forecast(**each["work"]), each["directories"]) for each in later]
    names = CostRates.__slots__
    return {
        "compactions": len(measured),
        "MB": [round(each["bytes"] / 1e6, 2) for each in measured],
        "used_s": [round(each["used"], 3) for each in measured],
        "noted_s": [round(each["noted"]["seconds"], 3) for each in measured],
        "predicted_s": [round(each["by_footers"], 3) for each in measured],
        "works": [each["work"] for each in measured],
        "median_error_of_defaults": error([each["by_footers"] for each in later]),
        "median_error_of_defaults_by_sizes": error([each["by_sizes"] for each in later]),
        "median_error_of_fitted": error(fitted),
        "fitted": {name: getattr(rates, name) for name in names},
    }
