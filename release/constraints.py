"""Constraints for the packages of a clean environment."""

import re

# The packages whose versions depend on the version of Spark.
_OF_SPARK = {"pyspark", "pyspark-client", "py4j", "pandas", "numpy", "pyarrow"}


def without_hashes(lock: str) -> str:
    """Return the pins of a lock file or a constraints file, one on each line."""
    pins = re.findall(r"^[A-Za-z0-9][^\s;\\]*==[^\s;\\]+(?:\s*;[^\\\n]*)?", lock, re.MULTILINE)
    return "".join(f"{pin.strip()}\n" for pin in pins)


def without_spark(pins: str) -> str:
    """Return the pins that hold for any version of Spark."""
    names = "|".join(sorted(_OF_SPARK))
    return re.sub(rf"^(?:{names})==.*\n", "", pins, flags=re.MULTILINE)
