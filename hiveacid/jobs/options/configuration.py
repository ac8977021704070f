"""Settings of the section `[hive_acid]`, read where Airflow reads them, also without Airflow."""

import configparser
import os
from functools import cache
from pathlib import Path

from hiveacid.errors import AccessRefused

_SECTION = "hive_acid"


def setting(name: str) -> str:
    """Return a setting of this process: notebooks and the command line do not load Airflow.

    Args:
        name: The name of the setting.

    Returns:
        Its value; "" if it is not set.

    Raises:
        AccessRefused: Airflow's configuration cannot be read.
    """
    variable = f"AIRFLOW__{_SECTION.upper()}__{name.upper()}"
    given = os.environ.get(variable)
    if given is None:
        home = os.environ.get("AIRFLOW_HOME") or "~/airflow"
        file = os.environ.get("AIRFLOW_CONFIG") or f"{home}/airflow.cfg"
        given = _read(Path(os.path.expandvars(file)).expanduser()).get(name, "")
    return given.strip()


@cache
def _read(file: Path) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, configparser.Error) as error:
        raise AccessRefused(
            f"{file} cannot be read, so whether it limits accesses is not known: {error}.",
            remedy=f"Make the file readable, or set AIRFLOW__{_SECTION.upper()}__AUTHORIZER and"
            f" AIRFLOW__{_SECTION.upper()}__ALLOWED_LOCATIONS; empty means no limit.",
        ) from error
    return dict(parser[_SECTION]) if parser.has_section(_SECTION) else {}
