"""The histories of a run: different ones after every commit, and all that have ever failed."""

import os

from tests.samples import random_of_commit

COUNT = int(os.environ.get("HISTORIES", "6"))


def seeds(*failed: int, share: float = 1.0) -> list[int]:
    """Seeds that follow from the commit.

    Args:
        failed: Those that have found a mistake in the same test, which stay.
        share: The number of others, relative to the usual one.
    """
    random = random_of_commit()
    return [*failed, *(random.randrange(1 << 31) for _ in range(max(1, round(COUNT * share))))]
