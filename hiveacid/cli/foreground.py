"""Commands that are ended by signals: Ctrl-C, `kill`, and a terminal that is closed."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_FROM_OUTSIDE = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def interrupted_by_kill() -> Iterator[None]:
    """Raise KeyboardInterrupt in the body for `kill` and a closed terminal, as Ctrl-C does.

    Otherwise the interpreter ends at once, and leaves the transaction of the command open. The
    exception contains the number of the signal. Only the main thread can set handlers; in any other
    thread, the body runs without them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt(number)

    with _handled(_FROM_OUTSIDE, end):
        yield


@contextmanager
def until_ended() -> Iterator[None]:
    """Run the body until it ends by itself or by a signal, which is no error here.

    The first signal is a KeyboardInterrupt in the body; those after it are ignored, so that nothing
    keeps it from clearing up.
    """
    endings = (signal.SIGINT, *_FROM_OUTSIDE)

    def end(number: int, frame: FrameType | None) -> None:
        for ending in endings:
            signal.signal(ending, signal.SIG_IGN)
        raise KeyboardInterrupt(number)

    with _handled(endings, end):
        try:
            yield
        except KeyboardInterrupt:
            return


@contextmanager
def _handled(
    signals: tuple[signal.Signals, ...], handler: Callable[[int, FrameType | None], None]
) -> Iterator[None]:
    # A command started with nohup should outlive the terminal.
    hangup_is_ignored = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    watched = [each for each in signals if each != signal.SIGHUP or not hangup_is_ignored]
    before = {each: signal.signal(each, handler) for each in watched}
    try:
        yield
    finally:
        for each, previous in before.items():
            signal.signal(each, previous)
