"""No file of a table has NaN in its statistics, by any writer."""

import math
import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import orc
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.dev.embedded import EmbeddedMetastore
from hiveacid.rules.names import SIDECAR_FILE
from hiveacid.rules.schema import TableKind
from tests.engine.acid_tables import create, files, folder
from tests.engine.compaction_case import report_of_compaction
from tests.orc.orc_tables import double_ranges

# NaN is first in a row group of Spark's, later in one, and beside both zeros.
VALUES = [math.nan, *map(float, range(1, 1000)), *map(float, range(1000)), math.nan, 0.0, -0.0]


@pytest.mark.parametrize("hms", ["fake 4.0.1"], indirect=True)
@pytest.mark.parametrize("kind", [TableKind.FULL_ACID, TableKind.INSERT_ONLY])
def test_no_file_says_nan_in_its_statistics(
    spark: SparkSession,
    hms: EmbeddedMetastore,
    client: MetastoreClient,
    database: str,
    kind: TableKind,
) -> None:
    name = f"{database}.t"
    columns = {"id": "int", "d": "double", "s": "struct<f:float>"}
    table = create(client, name, columns, kind=kind, parameters={"orc.row.index.stride": "1000"})
    rows = [(number, value, (value,)) for number, value in enumerate(VALUES)]
    frame = spark.createDataFrame(rows, "id int, d double, s struct<f:float>").coalesce(1)

    def says_nan() -> bool:
        found = [
            folder(table) / path
            for path in files(table)
            if ("bucket_" in path or "000000_" in path) and not path.startswith("delete_delta")
        ]
        ranges = [each for path in found for each in double_ranges(path.open("rb"))]
        assert ranges
        return any(math.isnan(value) for range_ in ranges for value in range_)

    with AcidTable(name, hms.uri, spark=spark, run_in="spark") as acid:
        acid.append(frame)
        assert not says_nan()
        acid.append(frame)
        if kind is TableKind.INSERT_ONLY:
            # As another engine of ours might have written it.
            spoil(folder(table))
            assert says_nan()
        else:
            acid.update({"id": "id + 1"}, "id % 500 = 0")
            assert not says_nan()
        assert report_of_compaction(acid, "major").partitions[0].outcome == "compacted"
        for path in folder(table).glob("delta_*"):
            shutil.rmtree(path)
        assert not says_nan()
        assert acid.to_df().where("isnan(d) or isnan(s.f)").count() == 4


def spoil(root: Path) -> None:
    """Let the ORC library write the files of the second delta again, as if they were not ours."""
    (path,) = root.glob("delta_0000002_*/000000_0")
    rows = orc.ORCFile(str(path)).read()
    orc.write_table(pa.table(rows), str(path), compression="zlib", row_index_stride=1000)
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    (path.parent / SIDECAR_FILE).unlink()
