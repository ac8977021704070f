import json
from pathlib import Path

import pytest

from hiveacid.cli.main import main
from tests.rules.test_directory import ERRORS

DATA = Path(__file__).parents[1] / "data"
CASES = json.loads((DATA / "acid_state_cases.json").read_text())["cases"]
KEYS = ("base", "deltas", "originals", "obsolete", "aborted")


def lay_out(case, folder):
    for name in case["files"]:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
    for directory, data_format in case.get("metadataAcid", {}).items():
        marker = {"thisFileVersion": "0", "dataFormat": data_format}
        (folder / directory / "_metadata_acid").write_text(json.dumps(marker))


def inspect(capsys, folder, write_ids, *options):
    """The exit status, and the state of each partition by its name."""
    status = main(
        [
            "cat",
            "--directories",
            "--path",
            str(folder),
            "--write-ids",
            write_ids,
            "--json",
            *options,
        ]
    )
    partitions = json.loads(capsys.readouterr().out)["partitions"]
    return status, {state.pop("partition"): state for state in partitions}


def options_of(case):
    txns = ["--txns", case["validTxns"]] if case["validTxns"] else []
    return ["--write-id-kind", case["writeIdListKind"], *txns]


@pytest.mark.parametrize("rules", ["hive4", "hive3"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_directory_is_reported_as_that_hive_reads_it(capsys, tmp_path, case, rules):
    lay_out(case, tmp_path)
    status, printed = inspect(
        capsys, tmp_path, case["validWriteIds"], "--rules", rules, *options_of(case)
    )
    (printed,), expected = printed.values(), case["expect"][rules]
    assert status == (30 if "error" in expected else 0)
    assert set(printed) == ({"error"} if "error" in expected else set(KEYS))
    if "error" in expected:
        expected = {"error": ERRORS[expected["error"]].__name__}
    for key, value in expected.items():
        # The order of the last two is not Hive's either.
        advisory = key in ("obsolete", "aborted")
        assert (sorted(printed[key]) if advisory else printed[key]) == (
            sorted(value) if advisory else value
        )


@pytest.mark.parametrize(
    "case", [case for case in CASES if "recommended" in case], ids=lambda case: case["name"]
)
def test_by_default_nothing_is_shown_by_mistake(capsys, tmp_path, case):
    lay_out(case, tmp_path)
    _, printed = inspect(capsys, tmp_path, case["validWriteIds"], *options_of(case))
    expected = {key: value for key, value in case["recommended"].items() if key in KEYS}
    (printed,) = printed.values()
    assert {key: printed[key] for key in expected} == expected


def test_a_folder_of_partitions_is_reported_by_partition(capsys):
    status, printed = inspect(
        capsys, DATA / "tables/part_dyn", "default.part_dyn:9:9223372036854775807::"
    )
    assert status == 0
    assert "dt=a b%2Fc%3Dd%3A%25/k=9" in printed
    assert printed["dt=2024-01-02/k=1"]["base"] == "base_0000007"


def test_one_unreadable_partition_does_not_hide_the_others(capsys, tmp_path):
    for name in ("k=1/base_x", "k=2/delta_0000001_0000001_0000"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "bucket_00000").write_text("x")
    status, printed = inspect(capsys, tmp_path, "db.t:1:9223372036854775807::")
    assert status == 30
    assert printed["k=1"] == {"error": "MalformedName"}
    assert printed["k=2"]["deltas"] == ["delta_0000001_0000001_0000"]


def test_text_describes_each_directory(capsys):
    folder = DATA / "hive-written/hive4"
    assert main(["cat", "--directories", "--path", str(folder), "--write-ids", "db.t:2:2::"]) == 0
    title, *lines = capsys.readouterr().out.splitlines()
    assert title.startswith(str(folder))
    assert lines.pop(0).split() == ["state", "directory", "size", "files", "holds"]
    assert [line.split()[:2] for line in lines[:3]] == [
        ["read", "delta_0000001_0000001_0000"],
        ["read", "delete_delta_0000002_0000002_0000"],
        ["read", "delta_0000002_0000002_0000"],
    ]
    assert lines[1].endswith("deletes of write id 2, statement 0")
    assert lines[3].split()[:3] == ["not", "visible", "base_0000003"]
