"""File with samples of the readers of tables, which successive plans continue."""

import os
import tempfile
from pathlib import Path

from airflow_hiveacid.acid.read_rates import ReadSamples
from airflow_hiveacid.errors import InvalidJob, UserError
from airflow_hiveacid.jobs import codec

_MOST_BYTES = 64 << 20


def load_samples(path: Path) -> ReadSamples:
    """Read the samples of earlier plans; a missing file contains none.

    Raises:
        UserError: The file cannot be read, or contains something else.
    """
    remedy = "Name a file that only this option uses, or delete it."
    try:
        if path.stat().st_size > _MOST_BYTES:
            raise UserError(f"{path} is too large for samples of readers.", remedy=remedy)
        return codec.from_bytes(ReadSamples, path.read_bytes(), "samples")
    except FileNotFoundError:
        return ReadSamples()
    except (OSError, InvalidJob) as error:
        raise UserError(f"{path} contains no samples of readers: {error}", remedy=remedy) from error


def save_samples(path: Path, samples: ReadSamples) -> None:
    """Replace the file at once, so that a killed plan leaves the earlier one.

    Raises:
        UserError: The file cannot be written.
    """
    content = codec.to_bytes(samples)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.replace(name, path)
        except BaseException:
            os.unlink(name)
            raise
    except OSError as error:
        raise UserError(f"The samples of readers cannot be written to {path}: {error}") from error
