import os
import re
import subprocess
import sys

import pytest

from tests import java_archive


@pytest.mark.server
def test_the_quickstart_shows_an_hourly_merge_its_compaction_and_the_cleaning(tmp_path):
    command = [sys.executable, "-m", "airflow_hiveacid.quickstart", "--directory", str(tmp_path)]
    # It leaves Spark's own variables out, as they are the user's.
    environment = os.environ | {"JDK_JAVA_OPTIONS": java_archive.SHORT_LIFE}
    ended = subprocess.run(
        command, env=environment, check=False, capture_output=True, encoding="utf-8"
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    parts = ended.stdout.split("== ")
    *_, before, _, merged, report, corrected, reasons, compacted, earlier, cleaned, rows = parts

    def names(text):
        return sorted(re.findall(r"(\S+) +\S+@example", text))

    assert names(before) == ["Emmy", "Henri", "Maria", "Max", "Sophie"]
    # Henri was deleted, two came, and of the two changes of one row the last one won.
    assert names(merged) == names(rows) == ["Emmy", "Maria", "Max", "Pál", "Sophie", "Évariste"]
    assert "max@example.org" in rows
    told = dict(re.findall(r"^  (rows \w+|partitions) +(.+)$", report, re.M))
    assert told == {
        "rows inserted": "2",
        "rows updated": "1",
        "rows deleted": "1",
        "partitions": "country=de, country=fr, country=hu",
    }
    assert re.search(r"^1\. merge demo.customers: 1 row updated", corrected, re.M)
    assert "sophie@example.org" in rows
    # Two partitions were inserted into and changed, one of them twice; two only inserted into.
    for country, count in (("de", 3), ("fr", 5)):
        assert f"country={country} needs a major compaction: {count} deltas" in reasons
    for country in ("hu", "pl"):
        assert f"country={country} needs none: 1 delta" in reasons
    signs = [line.split()[0] for line in compacted.splitlines() if "bucket_" in line]
    assert (signs.count("+"), signs.count("-")) == (2, 0)
    assert names(earlier) == names(before)
    assert len(re.findall(r"^  removed  country=(?:de|fr)/(?:delete_)?delta_", cleaned, re.M)) == 8
