"""Properties of Hadoop's configuration, as this process finds it."""

import os
from pathlib import Path
from xml.etree import ElementTree as ET

from hiveacid.errors import StorageError

_FILES = ("core-site.xml", "hdfs-site.xml", "viewfs-mount-table.xml")


def hadoop_properties() -> dict[str, str]:
    """Read the properties of HADOOP_CONF_DIR; empty without it.

    Raises:
        StorageError: A file cannot be read.
    """
    folder = os.environ.get("HADOOP_CONF_DIR")
    if folder is None and (home := os.environ.get("HADOOP_HOME")):
        folder = str(Path(home, "etc", "hadoop"))
    properties: dict[str, str] = {}
    for file in (Path(folder, name) for name in _FILES) if folder else ():
        if not file.exists():
            continue
        try:
            root = ET.parse(file).getroot()
        except (OSError, ET.ParseError) as error:
            raise StorageError(f"Hadoop's configuration {file} cannot be read: {error}.") from error
        for entry in root.iter("property"):
            name, value = entry.findtext("name"), entry.findtext("value")
            if name and value:
                properties[name.strip()] = value.strip()
    return properties
