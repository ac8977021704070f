"""Entry point of Spark for every job: `spark-submit run.py --job FILE --report FILE`."""

import sys

if sys.version_info < (3, 11):  # noqa: UP036 - a cluster may have an older one.
    # An import would fail by a syntax error, which does not name the remedy.
    sys.exit(
        f"SoftwareMissing: the driver runs on Python {sys.version.split()[0]}; this package needs "
        "Python 3.11 or later. Name another one in spark.pyspark.python."
    )

from hiveacid.drivers.java_start import die_with_parent
from hiveacid.drivers.spark_support import (
    require_supported_packages,
    require_supported_spark,
)
from hiveacid.errors import SoftwareMissing

if __name__ == "__main__":
    import pyspark

    try:
        warning = require_supported_spark(pyspark.__version__, "The driver")
        require_supported_packages()
    except SoftwareMissing as error:
        sys.exit(f"SoftwareMissing: {error}")
    if warning is not None:
        print(f"hiveacid: {warning}", file=sys.stderr)
    # Its imports fail with an unsupported Spark.
    from hiveacid.spark.application import main

    die_with_parent()
    sys.exit(main(sys.argv[1:]))
