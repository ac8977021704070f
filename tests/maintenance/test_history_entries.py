"""What a directory's name tells of the past."""

from airflow_hiveacid.acid.names import CONVERTED_BASE
from airflow_hiveacid.maintenance.history_entries import DirectoryState, entry_of


def test_the_base_of_an_overwrite_is_no_compaction():
    overwrite = entry_of("base_0000007", None, DirectoryState.CURRENT, 1)
    assert (overwrite.kind, overwrite.compaction) == ("base", False)
    assert (overwrite.min_write_id, overwrite.max_write_id) == (7, 7)
    compacted = entry_of("base_0000007", None, DirectoryState.CURRENT, 1, marked=True)
    assert (compacted.kind, compacted.operation) == ("major", "major")
    converted = entry_of(f"base_{CONVERTED_BASE}_v0000009", None, DirectoryState.CURRENT, 1)
    assert (converted.min_write_id, converted.max_write_id, converted.txn_id) == (0, 0, 9)
