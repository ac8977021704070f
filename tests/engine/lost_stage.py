"""Write from a stage whose output gets lost, and print the result.

In a process of its own: `python -m tests.engine.lost_stage URI TABLE insert|merge FOLDER`. A Spark
that runs in one process takes itself for a lost executor afterwards. It ends ten minutes later, and
until then it lets go of no memory.
"""

import json
import os
import sys
from pathlib import Path

from pyspark import TaskContext
from pyspark.sql import SparkSession

from hiveacid.api.table import AcidTable
from hiveacid.errors import JobFailed
from tests.engine.test_evaluated_once import Restless


def main(uri: str, table: str, change: str, folder: Path) -> None:
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.log.level", "OFF")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.local.dir", str(folder / "local"))
        .getOrCreate()
    )
    struck = folder / "struck"

    def lose_shuffle_files(batches):
        yield from batches
        # By now some tasks have done their work, and others have not read their part.
        if TaskContext.get().partitionId() == 4 and not struck.exists():
            struck.touch()
            for file in (folder / "local").rglob("shuffle_*"):
                file.unlink(missing_ok=True)

    restless = Restless(spark, folder / "seen").frame
    rows = restless.repartition(16, "id").mapInArrow(lose_shuffle_files, restless.schema)
    with AcidTable(table, uri, spark=spark, run_in="spark") as acid:
        try:
            if change == "insert":
                acid.append(rows)
            else:
                acid.merge(rows, "t.id = s.id").when_not_matched_insert_all().execute()
        except JobFailed as error:
            told = {"error": str(error), "retryable": error.retryable}
        else:
            told = {"error": "none", "retryable": False}
        print(json.dumps({**told, "struck": struck.exists(), "rows": acid.to_df().count()}))
    sys.stdout.flush()
    os._exit(0)  # Its Spark may have trouble to end.


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3], Path(sys.argv[4]))
