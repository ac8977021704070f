"""Data of each partition that a statement would read: base, deltas, files and buckets."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor

from hiveacid.cli.answers import Answer, Cell, Rows
from hiveacid.errors import DataError
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.locations import partition_locations
from hiveacid.metastore.txn.snapshot import Snapshot
from hiveacid.rules.directory import AcidDirectory, Rules
from hiveacid.rules.names import original_bucket, parse_file
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import list_files, read_state

_COLUMNS = ("partition", "base", "base_bytes", "deltas", "delta_bytes", "files")
# An object store takes its time for each listing.
_LISTERS = 8


def partitions_to_read(
    client: MetastoreClient, table: HiveTable, names: Sequence[str] | None
) -> Answer:
    """List the data that a new reader sees in some partitions.

    Args:
        client: The metastore.
        table: The table.
        names: The partitions; None for an unpartitioned table.
    """
    places: list[tuple[str | None, str]] = [(None, table.folder)]
    if names is not None:
        known = partition_locations(client, table) if names else {}
        places = [(name, known[name]) for name in sorted(names) if name in known]
    snapshot = Snapshot.take(client, [table.ref])
    write_ids = snapshot.write_ids[table.ref.full_name]
    rules = Rules.of(client.version)
    bucketed = table.num_buckets > 0

    def cells_of(place: tuple[str | None, str]) -> tuple[Cell, ...] | str:
        storage = ReadOnlyStorage.of(place[1])
        try:
            state = read_state(storage, list_files(storage), write_ids, snapshot.txns, rules=rules)
        except DataError as error:
            return str(error)
        cells = (place[0] or "", *_sizes(state))
        return (*cells, ranges(_buckets(state))) if bucketed else cells

    with ThreadPoolExecutor(_LISTERS) as pool:
        listed = [*zip(places, pool.map(cells_of, places), strict=True)]
    rows: Rows = [found for _, found in listed if not isinstance(found, str)]
    problems: dict[str, Cell] = {
        name or "table": found for (name, _), found in listed if isinstance(found, str)
    }
    columns = (*_COLUMNS, "buckets") if bucketed else _COLUMNS
    return Answer(columns, rows, {"cannot be read": problems} if problems else {})


def _sizes(state: AcidDirectory) -> tuple[Cell, ...]:
    base = state.files(state.base or "")
    deltas = [file for name in state.deltas for file in state.files(name)]
    return (
        state.base or ("original files" if base else None),
        sum(file.size for file in base),
        len(state.deltas),
        sum(file.size for file in deltas),
        len(base) + len(deltas),
    )


def _buckets(state: AcidDirectory) -> set[int]:
    found = {original_bucket(file.path) for file in state.files("")}
    for name in filter(None, (state.base, *state.deltas)):
        for file in state.files(name):
            named = parse_file(file.path.rpartition("/")[2])
            found.add(None if named is None else named.bucket)
    return {bucket for bucket in found if bucket is not None}


def ranges(numbers: Iterable[int]) -> str:
    """Numbers as text, as "0-3, 7"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and runs[-1][1] == number - 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
