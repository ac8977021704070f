"""The application that runs jobs, which kills the NameNode when it comes to a phase.

NAMENODE is the process group of that, PHASE is the phase.
"""

import os
import signal
import sys
from typing import Any

from hiveacid.progress import Phase
from hiveacid.spark import run as engine
from hiveacid.spark.application import main
from tests.observers import At


def kill() -> None:
    os.killpg(int(os.environ["NAMENODE"]), signal.SIGKILL)


def run(spark: Any, job: Any, observers: Any = (), *, really: Any = engine.run) -> Any:
    return really(spark, job, [*observers, At(Phase(os.environ["PHASE"]), kill)])


if __name__ == "__main__":
    engine.run = run
    sys.exit(main(sys.argv[1:]))
