"""Feeds a target with many inputs that are the same for the same seed, and judges how each ends.

A target takes bytes or a text from outside. It may return anything, and it may raise an error of
our tree. All else is a finding: another exception, more than a second, or more than a gigabyte.

    FUZZ_SEED=7 FUZZ_FIRST=34249 FUZZ_INPUTS=1 python -m pytest -m fuzz tests/fuzz -k write_id

An input depends on the seed and on its number alone. A test takes ``INPUTS``, so that it runs for a
moment in ``make test`` and for long, in parts that several processes share, in ``make fuzz``.
"""

import logging
import os
import random
import resource
import signal
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from hiveacid.errors import HiveAcidError

SECONDS = 1.0
BYTES = 1 << 30
SEED = int(os.environ.get("FUZZ_SEED", "1"))
FIRST = int(os.environ.get("FUZZ_FIRST", "0"))
LAST = FIRST + int(os.environ.get("FUZZ_INPUTS", "1000000"))
_PART = 50_000
INPUTS = pytest.mark.parametrize(
    "inputs",
    [
        pytest.param(range(300), id="few"),
        *(
            pytest.param(
                range(first, min(first + _PART, LAST)),
                id=f"from {first}",
                marks=[pytest.mark.fuzz, pytest.mark.timeout(0)],
            )
            for first in range(FIRST, LAST, _PART)
        ),
    ],
)

# Texts that break programs in any place: in names, in numbers and between them.
WORDS = (
    "", "\0", "\n", "\r", "\t", " ", "'", '"', "`", "\\", "\\u0000", "\ud800", "\u2028", "é", "😀", "٣",
    "%", "%00", "%2F", "..", "/", "//", ":", ",", "-", "=", ";", "(", ")", "[", "]", "{", "}", "/*", "*/",
    "--", "null", "None", "NaN", "1e999", "true", "0", "-1", "1", "2147483648", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "99999999999999999999999", "9" * 5000, "a" * 3000,
)  # fmt: skip


class Source:
    """Makes inputs; the same ones for the same seed."""

    def __init__(self, seed: int | str) -> None:
        self.random = random.Random(seed)

    def text(self, seeds: Sequence[str], words: Sequence[str] = WORDS) -> str:
        """One of the seeds, changed in a few places."""
        text = self.random.choice(seeds)
        for _ in range(self.random.choice((0, 1, 1, 1, 2, 3, 8))):
            text = self._changed(text, seeds, words)
        return text

    def data(self, seeds: Sequence[bytes]) -> bytes:
        """One of the seeds, changed in a few places."""
        data = self.random.choice(seeds)
        for _ in range(self.random.choice((0, 1, 1, 1, 2, 3, 8))):
            data = self._spoiled(data, seeds)
        return data

    def value(self, depth: int = 3) -> Any:
        """Any value that JSON can hold."""
        kind = self.random.randrange(10 if depth else 7)
        if kind < 2:
            return self.random.choice((None, True, False))
        if kind < 4:
            return self.random.choice((0, -1, 1, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, 1e308))
        if kind < 7:
            return self.random.choice(WORDS)
        if kind == 7:
            return [self.value(depth - 1) for _ in range(self.random.randrange(4))]
        return {self.random.choice(WORDS): self.value(depth - 1) for _ in range(kind - 7)}

    def json_like(self, value: Any) -> Any:
        """A value of JSON with a few of its parts replaced, dropped or added."""
        if self.random.random() < 0.04:
            return self.value()
        if isinstance(value, dict):
            parts = {
                key: self.json_like(part)
                for key, part in value.items()
                if self.random.random() > 0.03
            }
            if self.random.random() < 0.04:
                parts[self.random.choice((*WORDS, *value))] = self.value()
            return parts
        if isinstance(value, list):
            return [self.json_like(part) for part in value if self.random.random() > 0.03]
        return value

    def _changed(self, text: str, seeds: Sequence[str], words: Sequence[str]) -> str:
        at, end = self._span(len(text))
        match self.random.randrange(7):
            case 0:
                return text[:at] + text[end:]
            case 1:
                return text[:at] + self.random.choice(words) + text[at:]
            case 2:
                return text[:at] + self.random.choice(words) + text[end:]
            case 3:
                return text[:at] + chr(self.random.choice((0, 127, 255, 0x10FFFF, 0xDC80)))
            case 4:
                other = self.random.choice(seeds)
                begin, stop = self._span(len(other))
                return text[:at] + other[begin:stop] + text[end:]
            case 5:
                return text[:end] + text[at:end] * self.random.choice((1, 2, 50)) + text[end:]
            case _:
                return text[:at] + chr(self.random.randrange(32, 127)) + text[at + 1 :]

    def _spoiled(self, data: bytes, seeds: Sequence[bytes]) -> bytes:
        at, end = self._span(len(data))
        match self.random.randrange(8):
            case 0:
                return data[:at] + data[end:]
            case 1:
                return data[:at] + self.random.randbytes(self.random.randrange(1, 9)) + data[at:]
            case 2:
                octet = self.random.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF))
                return data[:at] + bytes([octet]) * min(end - at, 8) + data[at + min(end - at, 8) :]
            case 3:
                return data[:at]
            case 4:
                other = self.random.choice(seeds)
                begin, stop = self._span(len(other))
                return data[:at] + other[begin:stop] + data[end:]
            case 5:
                bit = 1 << self.random.randrange(8)
                return (
                    data[:at] + bytes(octet ^ bit for octet in data[at : at + 1]) + data[at + 1 :]
                )
            case 6:
                return data[:end] + data[at:end] * self.random.choice((1, 2, 50)) + data[end:]
            case _:
                return data[:at] + self.random.randbytes(1) + data[at + 1 :]

    def _span(self, length: int) -> tuple[int, int]:
        at = self.random.randrange(length + 1)
        return at, min(length, at + self.random.choice((1, 1, 2, 4, 16)))


class Finding(AssertionError):
    """An input that a target did not take as it should."""


class _TooSlow(BaseException):
    """Not an Exception, so that no target takes it for one of its own."""


def fuzz(
    target: Callable[[Any], object],
    make: Callable[[Source], Any],
    inputs: Iterable[int],
    seed: int = SEED,
) -> None:
    """Give a target its inputs, one after the other.

    Args:
        target: Takes an input; raises nothing but errors of our tree.
        make: Makes an input.
        inputs: Their numbers.
        seed: Decides on all inputs.

    Raises:
        Finding: With the number of the input, which reproduces it.
    """
    with _bounded():
        for number in inputs:
            given = make(Source(f"{seed}:{number}"))
            # Once more, because the delay may be a collection of the garbage of all tests.
            if all(_seconds(target, given, number) > SECONDS for _ in range(2)):
                raise _finding(f"It takes more than {SECONDS:.0f} s", number, given)


def _seconds(target: Callable[[Any], object], given: Any, number: int) -> float:
    """Return the process time of a target, as others may keep the machine busy."""
    begun = time.process_time()
    signal.setitimer(signal.ITIMER_PROF, 5 * SECONDS)
    try:
        target(given)
    except HiveAcidError as error:
        _say(error, given, number)
    except _TooSlow:
        raise _finding("It does not end", number, given) from None
    except Exception as error:
        raise _finding(f"{type(error).__name__}: {error}", number, given) from error
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return time.process_time() - begun


def _say(error: HiveAcidError, given: Any, number: int) -> None:
    """An error that cannot be shown is none."""
    try:
        said = str(error)
    except Exception as failure:
        raise _finding(f"The error has no text: {failure!r}", number, given) from failure
    if not said:
        raise _finding("The error has no text", number, given)


def _finding(what: str, number: int, given: Any) -> Finding:
    shown = repr(given)
    return Finding(f"{what}. Input {number}, {len(shown)} characters: {shown[:2000]}")


@contextmanager
def _bounded() -> Iterator[None]:
    """Let an input that wants a gigabyte end with MemoryError, and one that hangs be stopped."""

    def stop(*_: object) -> None:
        raise _TooSlow

    with open("/proc/self/statm") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    before = signal.signal(signal.SIGPROF, stop)
    resource.setrlimit(resource.RLIMIT_AS, (mapped + BYTES, hard))
    # The log of a library on an input need not be a text that can be sent from process to process.
    logging.disable()
    try:
        yield
    finally:
        logging.disable(logging.NOTSET)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGPROF, before)
