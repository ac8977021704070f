"""Notes on runs that anyone who can write into the folder of a table can forge."""

from hiveacid.jobs.report import RunReport
from hiveacid.records.run_notes import NoteFile, RunNote, write_note
from hiveacid.rules.names import Delta
from hiveacid.storage.folder import Storage

RUN = "dag/run/task/-1"


def forge_note(table, location, token=RUN):
    """Write a note on a committed transaction, whose directory is at a location; its file."""
    client, name = table.client, table.ref.full_name
    txn_id = client.open_txn("writer", "localhost", None)
    write_id = client.allocate_write_id(txn_id, table.ref)
    client.commit_txn(txn_id)
    file = NoteFile.new(
        RunNote(
            run_token=token,
            txn_id=txn_id,
            write_id=write_id,
            identity=table.table.identity,
            directories=(f"{location}/{Delta(write_id, write_id, 0).name}",),
            report=RunReport(job="insert", target=name, txn_id=txn_id, files=1),
        )
    )
    write_note(Storage.of(table.table.folder), file)
    return file
