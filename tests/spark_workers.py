"""The source of Spark's Python workers in the tests: `python -m tests.spark_workers`.

Spark puts its Python code on their path inside of archives, and every single task then reads the
directories of these again, for a tenth of a second. The same code is installed beside us.
"""

import gc
import sys

if __name__ == "__main__":
    sys.path[:] = [entry for entry in sys.path if not entry.endswith((".zip", ".jar"))]
    sys.path_importer_cache.clear()

    from pyspark.daemon import manager

    # A worker looks for garbage after every task, among all that has been imported.
    gc.freeze()
    manager()
