"""Timestamps that were rewritten, read by ORC's Java library; it seeks by our row indexes."""

import io
import random

import pytest

from hiveacid.orc.copying.transplant import transplant
from tests.orc.bucket_files import BUCKET, compact, planned
from tests.orc.java_orc import read_rows, write_timestamps
from tests.orc.orc_tables import CODECS
from tests.orc.test_timestamps import acid_timestamps
from tests.orc.timestamp_streams import EPOCH, ODD, clocks_of, timestamps_in_file

GONE = [0, 7, 1100]


def check_compaction(spark, folder, old):
    """Without some rows, the library reads the same from the new file as from the old one."""
    _, new = compact([planned(old)], [(1, BUCKET, row) for row in GONE])
    for name, file in (("old", old), ("new", new)):
        (folder / name).write_bytes(file.getvalue())
    expected = [row for n, row in enumerate(read_rows(spark, folder / "old")) if n not in GONE]
    for first in (0, 999, 1005):
        assert read_rows(spark, folder / "new", first) == expected[first:]
    return expected, new


def test_files_written_by_java(spark, tmp_path):
    draw = random.Random(8)
    # From far apart to nearly equal, so that all kinds of runs of integers occur.
    timestamps = [(seconds + EPOCH, nanos) for seconds, nanos in ODD]
    timestamps += [(draw.randrange(-(10**11), 10**11), draw.randrange(10**9)) for _ in range(300)]
    timestamps += [(1_700_000_000 + n, n % 3 * 10**8) for n in range(300)]
    timestamps += [(1_700_000_000, draw.randrange(200) or 999_999_999) for _ in range(300)]
    timestamps += [(-n * 86_400 - 1, 10 ** (n % 9)) for n in range(200)] + [None] * 30
    write_timestamps(spark, tmp_path / "flat", timestamps, orc_row_index_stride=1000)
    flat, old = io.BytesIO((tmp_path / "flat").read_bytes()), io.BytesIO()
    # So much for the decoder that the other tests rely on.
    found = timestamps_in_file(flat)
    assert [nanos for _, nanos in found[2]] == [each[1] for each in timestamps if each]
    transplant([flat], old, write_id=1, bucket=BUCKET)
    expected, _ = check_compaction(spark, tmp_path, old)
    assert expected[1].startswith(f"[0, 1, {BUCKET}, 2, 1, [2, 1970-01-01 00:00:00.000000001,")


@pytest.mark.parametrize("codec", CODECS)
def test_timestamps_at_all_places(spark, tmp_path, codec):
    rows = [(each, each) for each in ODD] + [(None, (n, n)) for n in range(10)]
    rows += [((n * 1_800_003 - 2_000_000_000, n), None) for n in range(1100)]
    check_compaction(spark, tmp_path, acid_timestamps(rows, 1, codec=codec, stride=1000))


def test_timestamps_by_another_clock(spark, tmp_path):
    """Some fall into the hours that New York's clocks skip and repeat."""
    rows = [((n * 1_800_003 - 2_000_000_000, n), None) for n in range(1200)]
    old = acid_timestamps(rows, 1, clock="America/New_York", stride=1000)
    _, new = check_compaction(spark, tmp_path, old)
    assert clocks_of(new) == [b"America/New_York"]
