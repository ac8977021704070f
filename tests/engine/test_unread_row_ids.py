"""Row ids that a read does not need are not decoded."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import HiveAcidError
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.orc.format.streams import StreamKind, StripeFooter
from hiveacid.orc.format.tail import OrcTail
from tests.engine.acid_tables import create, folder

# The columns of the envelope: originalTransaction, rowId, and currentTransaction.
ROW_ID_COLUMNS = (2, 4, 5)


def damage(path: Path) -> int:
    """Make the values of these columns unreadable; return the number of damaged streams."""
    with path.open("rb+") as file:
        tail = OrcTail.read(file)
        streams = [
            stream
            for stripe in tail.stripes
            for stream in StripeFooter.read(file, tail, stripe).data
            if stream.column in ROW_ID_COLUMNS and stream.kind == StreamKind.DATA
        ]
        for stream in streams:
            file.seek(stream.offset)
            file.write(b"\xff" * stream.length)
    return len(streams)


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
def test_only_reads_that_need_row_ids_decode_them(
    spark: SparkSession, hms: EmbeddedMetastore, client: MetastoreClient, database: str
) -> None:
    table = create(client, f"{database}.t", {"id": "bigint", "v": "string"})
    with AcidTable(f"{database}.t", hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(spark.range(0, 100, 1, 1).selectExpr("id", "concat('v', id) v"))
        (path,) = folder(table).glob("delta_*/bucket_*")
        assert damage(path) == len(ROW_ID_COLUMNS)
        rows = {(row.id, row.v) for row in acid.to_df().collect()}
        assert rows == {(number, f"v{number}") for number in range(100)}
        with pytest.raises(HiveAcidError):
            acid.delete("id = 5")
