"""Detection of file formats by the first bytes."""

HEAD = 512
_MAGIC = (
    (b"PAR1", "a Parquet file"),
    (b"PARE", "an encrypted Parquet file"),
    (b"ORC", "an ORC file"),
    (b"Obj\x01", "an Avro file"),
    (b"SEQ\x06", "a SequenceFile"),
    (b"\x1f\x8b", "a gzip file"),
    (b"BZh", "a bzip2 file"),
    (b"PK\x03\x04", "a zip file"),
)
_RIGHT = {"orc": (b"ORC",), "parquet": (b"PAR1", b"PARE")}
_NAMES = {"orc": "an ORC file", "parquet": "a Parquet file"}
_TEXT = {9, 10, 13, *range(32, 127), *range(128, 256)}


def kind_of_file(head: bytes) -> str | None:
    """Return the format of a file, as "a Parquet file"; None if its beginning does not show it.

    Args:
        head: Its first bytes.
    """
    if not head:
        return "empty"
    for magic, kind in _MAGIC:
        if head.startswith(magic):
            return kind
    if not _TEXT.issuperset(head):
        return None
    return "a text file, maybe JSON" if head.lstrip()[:1] in (b"{", b"[") else "a text file"


def mistaken_for(format_: str, head: bytes) -> str | None:
    """Describe a file that is read as a wrong format: "is a Parquet file, not an ORC file".

    Args:
        format_: The expected format: "orc" or "parquet"; other formats are not checked.
        head: Its first bytes.

    Returns:
        None if the file may have the expected format.
    """
    if format_ not in _RIGHT or head.startswith(_RIGHT[format_]):
        return None
    kind = kind_of_file(head)
    return None if kind is None else f"is {kind}, not {_NAMES[format_]}"
