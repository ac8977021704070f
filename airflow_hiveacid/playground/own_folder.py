"""A folder that is ours, so that it may be emptied."""

import fcntl
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hiveacid.errors import UserError

_MARK = "_hiveacid_demo"


@contextmanager
def own_folder(folder: Path, *, fresh: bool) -> Iterator[None]:
    """Hold a folder that no other process uses, and that contains only our own files.

    Args:
        folder: The folder; it is created if it is missing.
        fresh: Whether to empty it first.

    Raises:
        UserError: The folder contains other files, or is in use.
    """
    mark = folder / _MARK
    if folder.exists() and not mark.exists() and any(folder.iterdir()):
        raise UserError(
            f"{folder} contains other files, which may be lost.",
            remedy="Name a folder that is empty or not there yet.",
        )
    folder.mkdir(parents=True, exist_ok=True)
    with mark.open("a") as lock:
        try:
            # The kernel gives it back when we end, however that happens.
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UserError(
                f"Another process already works in {folder}.",
                remedy="End that, or name another folder.",
            ) from None
        if fresh:
            for entry in folder.iterdir():
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                elif entry != mark:
                    entry.unlink()
        yield
