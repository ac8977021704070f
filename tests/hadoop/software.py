"""Hadoop's servers as files, and how they start."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from hiveacid.metastore.dev.distribution import find_java
from tests.ivy import fetched

VERSION = "3.4.2"


def java_command(conf: Path, main: str, *arguments: str, options: Sequence[str] = ()) -> list[str]:
    """The command line of one of the servers.

    Args:
        conf: The folder of its configuration.
        main: The class to run.
        *arguments: Its arguments.
        options: Options for Java.
    """
    return [
        *(find_java(), "--add-opens=java.base/java.lang=ALL-UNNAMED", "-Xmx256m"),
        *("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", *options),
        *("-cp", f"{conf}{os.pathsep}{libraries()}/*", main, *arguments),
    ]


def write_configuration(conf: Path, sites: Mapping[str, Mapping[str, str]]) -> None:
    """Write the settings of the servers.

    Args:
        conf: The folder.
        sites: Names of files, like core-site.xml, to their settings.
    """
    conf.mkdir(parents=True, exist_ok=True)
    for name, settings in sites.items():
        properties = "".join(
            f"<property><name>{escape(key)}</name><value>{escape(value)}</value></property>\n"
            for key, value in settings.items()
        )
        (conf / name).write_text(f"<configuration>\n{properties}</configuration>\n")
    (conf / "log4j.properties").write_text(
        "log4j.rootLogger=WARN,console\n"
        "log4j.appender.console=org.apache.log4j.ConsoleAppender\n"
        "log4j.appender.console.layout=org.apache.log4j.PatternLayout\n"
        "log4j.appender.console.layout.ConversionPattern=%d %p %c: %m%n\n"
    )


def libraries() -> Path:
    """The folder of Hadoop's jars, fetched if need be."""
    return fetched(f"hadoop-{VERSION}", 75, Path(__file__).with_name("servers-ivy.xml"))
