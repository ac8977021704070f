"""A table of Iceberg, and others who must not get more than data."""

import json
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyiceberg
from pyiceberg.table import Table

from hiveacid.errors import HiveAcidError
from hiveacid.iceberg.lake import Lake
from hiveacid.iceberg.mirror_state import lineage_of
from hiveacid.jobs.iceberg_job import IcebergExportJob
from hiveacid.jobs.options import MetastoreOptions
from tests.iceberg.hostile.watch import MODULE, SECRET, Watch

_WORDS = (
    "token|credential|uri|auth|ssl|ugi|type|scope|audience|resource|warehouse|location|prefix|echo"
)
_NAME = re.compile(rf"""["']([a-z0-9_]+(?:[.-][a-zA-Z0-9_-]+)+|{_WORDS})["']""")
OPTIONS = MetastoreOptions(uris="thrift://127.0.0.1:1")


def property_names() -> list[str]:
    """All texts in pyiceberg's source that may be the name of a property."""
    source = Path(pyiceberg.__file__).parent
    texts = (path.read_text() for path in sorted(source.rglob("*.py")))
    return sorted({name for text in texts for name in _NAME.findall(text)})


NAMES = property_names()


@dataclass
class Lakehouse:
    """A table, and what others must not reach."""

    folder: Path
    table: Table
    watch: Watch

    @property
    def warehouse(self) -> str:
        return f"file://{self.folder}/lake"

    @property
    def metadata(self) -> dict[str, Any]:
        path = self.table.metadata_location.removeprefix("file://")
        found: dict[str, Any] = json.loads(Path(path).read_text())
        return found

    def values(self, name: str) -> list[Any]:
        """The values of a property that name code, addresses, and files."""
        code = f"{MODULE}.run"
        address = f"http://127.0.0.1:{self.watch.trap.port}"
        custom = {"type": "custom", "impl": code, "custom": {}}
        more = [custom] if name == "auth" else []
        return [
            code,
            address,
            f"hdfs://127.0.0.1:{self.watch.trap.port}/x",
            str(self.watch.file),
            *more,
        ]

    def read(self, options: dict[str, str], *, must_be_refused: bool = False, **fields: Any) -> str:
        """Read all metadata of a table, as jobs do, and return the message of an error."""
        given = {"table": "ns.t", "catalog": "lake", "metastore": OPTIONS, **fields}
        job = IcebergExportJob(target="a.b", catalog_options=options, **given)
        try:
            table = Lake(job).table()
            assert table is not None
            for snapshot in lineage_of(table):
                for manifest in snapshot.manifests(table.io):
                    manifest.fetch_manifest_entry(table.io)
            # Also texts that are no booleans.
            with suppress(ValueError):
                table.location_provider()
            message = ""
        except HiveAcidError as error:
            message = str(error)
        assert SECRET not in message
        assert message or not must_be_refused
        return message
