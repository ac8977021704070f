"""Evidence of a committed write in the directories of its table, if its note on the run is unreadable.

The note in a directory states the transaction and the run; the note of a compaction repeats this
for the writes that it merged. A directory proves the commit once the transaction has ended:
every cleaner removes the directories of an aborted transaction before the metastore may forget
the abort.
"""

from collections.abc import Iterator, Sequence

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob
from hiveacid.foreign.budget import Threads
from hiveacid.jobs.report import RunReport, TableReport
from hiveacid.metastore.catalog import HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.locations import partition_locations
from hiveacid.rules.location import Location
from hiveacid.rules.names import SIDECAR_FILE
from hiveacid.rules.notes import WriteFacts, is_own, merged_writes, parse_note, whole
from hiveacid.rules.run_tokens import unmarked_token
from hiveacid.rules.write_ids import ValidWriteIdList
from hiveacid.storage.folder import ReadOnlyStorage

_READERS = 8


@dataclass(frozen=True, slots=True)
class WriteEvidence:
    """Evidence of a committed write.

    Attributes:
        report: The report of the run, as far as it is known.
        is_whole: Whether it contains everything that the run reported about the table, apart from
            the names of partitions. A compaction only takes over the numbers.
    """

    report: RunReport
    is_whole: bool


def find_evidence(
    client: MetastoreClient,
    table: HiveTable,
    token: str,
    txn_id: int,
    write_ids: ValidWriteIdList,
) -> WriteEvidence | None:
    """Search all directories of a table for a write of a transaction of a run.

    Args:
        client: The metastore.
        table: The table.
        token: The run token.
        txn_id: The transaction, which has ended and is not known to be aborted.
        write_ids: A list of the table's write ids from after its end.
    """
    locations = [table.folder]
    if table.partition_keys:
        locations = [*partition_locations(client, table).values()]

    def evidence_in(location: Location) -> Sequence[WriteEvidence]:
        writes = _written_in(ReadOnlyStorage.of(location), table.ref.full_name)
        return [
            _evidence(table.ref.full_name, facts, report)
            for facts, report in writes
            if (facts.txn_id, facts.run_token) == (txn_id, unmarked_token(token))
            and write_ids.is_valid(facts.write_id)
        ]

    with Threads(_READERS) as pool:
        evidences = [
            candidate for evidence in pool.map(evidence_in, locations) for candidate in evidence
        ]
    return max(evidences, key=lambda candidate: candidate.is_whole, default=None)


def _written_in(
    storage: ReadOnlyStorage, table: str
) -> Iterator[tuple[WriteFacts, RunReport | None]]:
    """Yield the writes that the notes in a folder describe, each with the report of its run."""
    for name in storage.list_directories(missing_ok=True):
        content = storage.read_small(f"{name}/{SIDECAR_FILE}")
        note = None if content is None else parse_note(content)
        if note is None:
            continue
        for facts in merged_writes(name, note):
            yield facts, None
        write_id = whole(note.get("write_id"))
        if write_id and is_own(name, write_id):
            yield WriteFacts.of_note(note, write_id, table), _report(note.get("report"))


def _report(record: object) -> RunReport | None:
    try:
        return RunReport.from_dict(record) if isinstance(record, dict) else None
    except InvalidJob:
        return None


def _evidence(table: str, facts: WriteFacts, report: RunReport | None) -> WriteEvidence:
    if report is not None and report.txn_id == facts.txn_id:
        return WriteEvidence(report, is_whole=True)
    table_report = TableReport(
        table=table,
        rows_inserted=facts.rows_inserted or 0,
        rows_updated=facts.rows_updated or 0,
        rows_deleted=facts.rows_deleted or 0,
        files=facts.files or 0,
        bytes=facts.bytes or 0,
    )
    run_report = RunReport(
        job=facts.operation or "",
        target=table,
        txn_id=facts.txn_id,
        write_ids={table: facts.write_id},
        rows_inserted=table_report.rows_inserted,
        rows_updated=table_report.rows_updated,
        rows_deleted=table_report.rows_deleted,
        files=table_report.files,
        bytes=table_report.bytes,
        tables=(table_report,),
    )
    return WriteEvidence(run_report, is_whole=False)
