"""Settings of this process.

They are those of the section ``[hive_acid]`` of Airflow's configuration, which limits notebooks and the
command line on its machines as well. The library imports nothing of Airflow: this module reads the
environment and the file itself, and is the only one that knows their names.
"""

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
    value = os.environ.get(setting_variable(name))
    if value is None:
        home = os.environ.get("AIRFLOW_HOME") or "~/airflow"
        file = os.environ.get("AIRFLOW_CONFIG") or f"{home}/airflow.cfg"
        value = _read(Path(os.path.expandvars(file)).expanduser()).get(name, "")
    return value.strip()


def setting_variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"AIRFLOW__{_SECTION.upper()}__{name.upper()}"


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
