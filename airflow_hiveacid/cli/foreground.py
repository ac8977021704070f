"""Commands that run until they are stopped."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

# Ctrl-C, `kill`, and a terminal that is closed.
_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def until_ended() -> Iterator[None]:
    """Run the body until it ends by itself or by a signal, which is no error here.

    The first signal is a KeyboardInterrupt in the body; those after it are ignored, so that nothing
    keeps it from clearing up.
    """
    # A command started with nohup should outlive the terminal.
    hangup_is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    watched = [each for each in _ENDINGS if each != signal.SIGHUP or not hangup_is_ignored]

    def end(number: int, frame: FrameType | None) -> None:
        for ending in watched:
            signal.signal(ending, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {ending: signal.signal(ending, end) for ending in watched}
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        for ending, handler in before.items():
            signal.signal(ending, handler)
