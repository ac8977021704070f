"""Measure the time until a newcomer gets the error for each mistake of
tests/airflow/test_mistakes.py.

    python bench/mistakes.py --rounds 5 --json out.json

The seconds run from the first line of the task in the DAG file to the error, in a process that has Airflow
imported, against a metastore that answers at once. The median of some rounds is printed as a table.
"""

import argparse
import json
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
TESTS = "tests/airflow/test_mistakes.py"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    reported: dict[str, tuple[str, str, str]] = {}
    seconds: dict[str, list[float]] = {}
    for _ in range(arguments.rounds):
        for mistake, moment, error, text, took in one_round():
            reported[mistake] = moment, error, text
            seconds.setdefault(mistake, []).append(took)
    medians = {mistake: round(statistics.median(took), 4) for mistake, took in seconds.items()}
    print("| Mistake | Moment | Error | Seconds | Message |\n|---|---|---|---|---|")
    for mistake, (moment, error, text) in reported.items():
        print(f"| {mistake} | {moment} | `{error}` | {medians[mistake]:.3f} | {text} |")
    if arguments.json:
        arguments.json.write_text(json.dumps(medians, indent=2))


def one_round() -> Iterator[tuple[str, str, str, str, float]]:
    """Return each mistake, the moment of its error, the error, its text, and the seconds until then."""
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder) / "results.xml"
        command = [sys.executable, "-m", "pytest", "-q", TESTS, "-k", "before_spark_starts"]
        command += [f"--junitxml={results}"]
        subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        for case in ElementTree.parse(results).iter("testcase"):
            name = re.search(r"\[(.*)\]$", case.attrib["name"])
            found = {each.attrib["name"]: each.attrib["value"] for each in case.iter("property")}
            assert name
            text = " ".join(found["text"].replace("|", "\\|").split())
            yield name[1], found["moment"], found["error"], text, float(found["seconds"])


if __name__ == "__main__":
    main()
