"""Mirrors that a newer version of this package has written are refused, and not followed halfway."""

import json

import pytest
from pyiceberg.table.snapshots import Operation, Snapshot, Summary

from hiveacid.errors import NewerRecord
from hiveacid.iceberg import attempt as attempts
from hiveacid.iceberg.mirror_state import (
    MirroredColumns,
    Provenance,
    SourceStripes,
    require_known,
)

ORIGIN = Provenance(
    partition="k=1",
    location="file:/w/t/k=1",
    sources=(SourceStripes("delta_1_1/bucket_0", 7, 1, (0,)),),
    complete=True,
    whole=True,
)
COLUMNS = MirroredColumns((("id", "int"),), "name")


@pytest.mark.parametrize("later", [{"format": 2}, {"condition": 1}])
def test_records_of_a_newer_version_are_refused(later: dict[str, int]) -> None:
    assert Provenance.decode(ORIGIN.encode()) == ORIGIN
    assert MirroredColumns.decode(COLUMNS.encode()) == COLUMNS
    with pytest.raises(NewerRecord, match="file x has the format"):
        Provenance.decode(json.dumps(json.loads(ORIGIN.encode()) | later).encode(), "file x")
    with pytest.raises(NewerRecord, match="mirror x has the format"):
        MirroredColumns.decode(json.dumps(json.loads(COLUMNS.encode()) | later), "mirror x")


@pytest.mark.parametrize("text", ["null", "[]", "{}", '{"format": 1}'])
def test_other_values_are_no_records(text: str) -> None:
    with pytest.raises(ValueError, match="no"):
        Provenance.decode(text.encode())
    with pytest.raises(ValueError, match="no"):
        MirroredColumns.decode(text)


def test_a_snapshot_with_an_unknown_property_is_refused() -> None:
    def snapshot(name: str) -> Snapshot:
        summary = Summary(Operation.APPEND, **{name: "1"})
        return Snapshot(**{"snapshot-id": 1, "manifest-list": "file:/x", "summary": summary})

    for name in attempts.PROPERTIES:
        require_known("ns.t", snapshot(name))
    require_known("ns.t", snapshot("another.program"))
    with pytest.raises(NewerRecord, match=r"ns\.t has the unknown property 'hiveacid\.condition'"):
        require_known("ns.t", snapshot("hiveacid.condition"))
