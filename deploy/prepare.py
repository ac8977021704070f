"""Lay out the jars that the services need: ``python deploy/prepare.py FOLDER``.

``FOLDER/metastore`` becomes a Hive Metastore 4 that can use PostgreSQL, ``FOLDER/s3a`` holds
Hadoop's file system for S3 stores. The image runs this once; so do the tests of these services.
"""

import argparse
import shutil
import subprocess
from pathlib import Path

from hiveacid.metastore.dev.distribution import (
    Distribution,
    cache_folder,
    ivy_command,
    prepare,
    require_checksums,
    spark_jars,
)

HIVE = "4.0.1"
IVY_FILE = Path(__file__).parent / "jars.xml"


def main() -> None:
    """Lay out everything below the folder that the command line names."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder: Path = parser.parse_args().folder.absolute()
    distribution = prepare(HIVE, print)
    fetch_jars(folder)
    lay_out_metastore(distribution, folder / "metastore")
    print(f"{folder} is ready.")


def fetch_jars(folder: Path) -> None:
    """Fetch the jars that jars.xml lists, into one folder for each of its configurations."""
    print(f"Fetching the jars of {IVY_FILE.name} (18 MB) ...", flush=True)
    command = ivy_command(
        *("-ivy", str(IVY_FILE), "-types", "jar"),
        *("-retrieve", f"{folder}/[conf]/[artifact]-[revision](-[classifier]).[ext]"),
        home=cache_folder() / "ivy-deploy",
    )
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode != 0:
        raise SystemExit(f"The jars could not be fetched:\n{answer.stdout[-3000:]}{answer.stderr}")
    require_checksums(folder.glob("*/*.jar"), IVY_FILE.with_suffix(".sha256"))


def lay_out_metastore(distribution: Distribution, home: Path) -> None:
    """Put the metastore, the jars of Spark's that it lacks and the driver into one place."""
    lib = home / "lib"
    lib.mkdir(parents=True, exist_ok=True)
    shared = ("hadoop-client-api", "hadoop-client-runtime", *distribution.release.spark_jars)
    jars = [
        *(distribution.home / "lib").glob("*.jar"),
        *spark_jars(*shared),
        *(home.parent / "postgres").glob("*.jar"),
    ]
    for jar in jars:
        shutil.copy2(jar, lib / jar.name)
    shutil.copytree(distribution.home / "scripts", home / "scripts", dirs_exist_ok=True)


if __name__ == "__main__":
    main()
