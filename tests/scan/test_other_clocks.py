"""Timestamps by the clocks of their writers, as ORC's own library in Java shows them."""

import random

import pytest

from hiveacid.cli.values import json_values
from hiveacid.storage.folder import Storage
from hiveacid.storage.listing import DataFile
from hiveacid.tables.scan.orc_file import OrcFile
from tests.orc.java_orc import read_rows
from tests.orc.test_timestamps import acid_timestamps
from tests.orc.timestamp_streams import ODD


@pytest.mark.parametrize("clock", ["UTC", "America/New_York", "Australia/Lord_Howe"])
def test_a_wall_clock_shows_what_java_shows(spark, tmp_path, clock: str) -> None:
    draw = random.Random(1582)
    moments = [*ODD, *[(n * 1_800_003 - 2_000_000_000, n) for n in range(1000)]]
    moments += [
        (draw.randrange(-(6 * 10**10), 2 * 10**11), draw.randrange(10**9)) for _ in range(300)
    ]
    file = acid_timestamps([(each, None) for each in moments], 1, clock=clock)
    path = tmp_path / "bucket_00000"
    path.write_bytes(file.getvalue())
    data = DataFile("bucket_00000", len(file.getvalue()), None, 0)
    ours = [
        text
        for rows in OrcFile(Storage.of(str(tmp_path)), data).keyed(["c0"])
        for text in json_values(rows.columns["c0"])
    ]
    theirs = [row.split(", [", 1)[1].split(", ")[1] for row in read_rows(spark, path)]
    assert ours == [text.removesuffix(".0") for text in theirs]
