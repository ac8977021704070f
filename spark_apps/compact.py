"""The Spark application of CompactJob: `spark-submit compact.py --job FILE --report FILE`."""

import sys

from airflow_hiveacid.engine.run import main
from airflow_hiveacid.jobs.compaction import CompactJob
from airflow_hiveacid.jobs.parent import die_with_parent

if __name__ == "__main__":
    die_with_parent()
    sys.exit(main(sys.argv[1:], CompactJob))
