"""Which histories are tried: other ones after every commit, and again each that has ever failed."""

import os

from tests.samples import random_of_commit

COUNT = int(os.environ.get("HISTORIES", "6"))


def seeds(*failed: int, share: float = 1.0) -> list[int]:
    """Seeds that follow from the commit.

    Args:
        failed: Those that have found a mistake in the same test, which stay.
        share: How many others, of the usual number.
    """
    random = random_of_commit()
    return [*failed, *(random.randrange(1 << 31) for _ in range(max(1, round(COUNT * share))))]
