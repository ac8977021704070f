"""The files of one partition, or of a table without partitions, and what a snapshot reads of them."""

from collections.abc import Iterator, Sequence

from airflow_hiveacid.acid.directory import (
    AcidDirectory,
    FileStatus,
    Rules,
    acid_state,
    parse_metadata_file,
)
from airflow_hiveacid.acid.errors import UnsupportedFile
from airflow_hiveacid.acid.names import (
    METADATA_FILE,
    Base,
    BucketFile,
    Delta,
    parse_directory,
    parse_file,
)
from airflow_hiveacid.acid.write_ids import ValidTxnList, WriteIdList
from airflow_hiveacid.storage import ReadOnlyStorage


def list_files(storage: ReadOnlyStorage) -> list[FileStatus]:
    """List everything below a partition, hidden files included.

    A base without a file says something, too: that all rows before it are gone. It is listed by
    the name of its directory.
    """
    # Other writers' staging folders come and go meanwhile.
    files = storage.list_files(recursive=True, missing_ok=True)
    filled = {file.path.partition("/")[0] for file in files}
    directories = storage.list_directories(missing_ok=True)
    empty = [name for name in directories if name not in filled]
    return files + [FileStatus(f"{name}/", 0) for name in empty]


def read_state(
    storage: ReadOnlyStorage,
    files: Sequence[FileStatus],
    write_ids: WriteIdList,
    txns: ValidTxnList | None,
    *,
    rules: Rules,
    strict: bool = True,
) -> AcidDirectory:
    """Sort out the files of a partition by a snapshot; see ``acid_state``."""

    def data_format(directory: str) -> str:
        with storage.open_input(f"{directory}/{METADATA_FILE}") as marker:
            return parse_metadata_file(marker.read().decode(errors="replace"))

    return acid_state(files, write_ids, txns, rules=rules, metadata_acid=data_format, strict=strict)


def bucket_files(
    storage: ReadOnlyStorage, state: AcidDirectory
) -> Iterator[tuple[Base | Delta, int, FileStatus]]:
    """The files that are read, each with its directory and its bucket number.

    Raises:
        UnsupportedFile: A file has no row ids: it is older than the table's first write id, or it
            was loaded.
    """
    if state.originals:
        raise UnsupportedFile(
            f"{storage.location}/{state.originals[0]} is older than the table is transactional: "
            "its rows have no row ids.",
            remedy="Reading such files is not supported yet; major-compact the table first.",
        )
    for name in filter(None, (state.base, *state.deltas)):
        directory = parse_directory(name)
        assert directory is not None, name
        for file in state.files(name):
            if file.size == 0:
                continue
            bucket = parse_file(file.path.rpartition("/")[2])
            if not isinstance(bucket, BucketFile):
                raise UnsupportedFile(
                    f"{storage.location}/{file.path} was loaded, not inserted: "
                    "its rows have no row ids.",
                    remedy="Reading such files is not supported yet; major-compact the table first.",
                )
            yield directory, bucket.bucket, file
