"""Which histories are tried: other ones after every commit, and again each that has ever failed."""

import os
import subprocess
from pathlib import Path
from random import Random

COUNT = int(os.environ.get("HISTORIES", "6"))


def seeds(*failed: int, share: float = 1.0) -> list[int]:
    """Seeds that follow from the commit, so that everybody who tests it tries the same ones.

    Args:
        failed: Those that have found a mistake in the same test, which stay.
        share: How many others, of the usual number.
    """
    here = Path(__file__).parent
    command = ["git", "rev-parse", "HEAD"]
    asked = subprocess.run(command, check=False, cwd=here, capture_output=True, text=True)
    random = Random(asked.stdout.strip() or "no repository")
    return [*failed, *(random.randrange(1 << 31) for _ in range(max(1, round(COUNT * share))))]
