"""What Spark runs, whatever the job: `spark-submit run.py --job FILE --report FILE`."""

import sys

from airflow_hiveacid.cluster.die_with_parent import die_with_parent
from airflow_hiveacid.engine.application import main

if __name__ == "__main__":
    die_with_parent()
    sys.exit(main(sys.argv[1:]))
