"""The Spark application of DeleteJob: `spark-submit delete.py --job FILE --report FILE`."""

import sys

from airflow_hiveacid.engine.run import main
from airflow_hiveacid.jobs.options import DeleteJob
from airflow_hiveacid.jobs.parent import die_with_parent

if __name__ == "__main__":
    die_with_parent()
    sys.exit(main(sys.argv[1:], DeleteJob))
