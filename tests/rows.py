"""The rows that a table shows, read from its files without Spark."""

import io
import json
from contextlib import redirect_stdout
from typing import Any

from hiveacid.cli.main import main


def rows_of(metastore_uri: str, table: str, *options: str) -> list[dict[str, Any]]:
    """All visible rows, in the order of their values; an error fails the test."""
    rows = unordered_rows_of(metastore_uri, table, *options)
    return sorted(rows, key=lambda row: [*row.values()])


def unordered_rows_of(metastore_uri: str, table: str, *options: str) -> list[dict[str, Any]]:
    """All visible rows, which may have nulls; an error fails the test."""
    output = io.StringIO()
    with redirect_stdout(output):
        assert main(["cat", table, "--metastore", metastore_uri, "--json", *options]) == 0
    return [json.loads(line) for line in output.getvalue().splitlines()]
