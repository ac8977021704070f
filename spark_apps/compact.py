"""The Spark application of CompactJob: `spark-submit compact.py --job FILE --report FILE`."""

import sys

from airflow_hiveacid.engine.run import main
from airflow_hiveacid.jobs.die_with_parent import die_with_parent
from airflow_hiveacid.jobs.maintenance_jobs import CompactJob

if __name__ == "__main__":
    die_with_parent()
    sys.exit(main(sys.argv[1:], CompactJob))
