"""Streams of Arrow from a server, which could be compressed; those of Spark Connect are not."""

from hiveacid.foreign.budget import spend


def text_of_stream(stream: bytes) -> str:
    """Return the only value of a stream.

    Args:
        stream: The stream; its length is limited by the function that has read it.

    Raises:
        ValueError: It has other content.
        TooLarge: It exceeds the budget of the request.
    """
    import pyarrow as pa
    import pyarrow.ipc

    spend(len(stream), "The answer of the server")
    with pa.ipc.open_stream(stream) as reader:
        batch = reader.read_next_batch()
    if batch.num_rows != 1 or batch.num_columns != 1 or not isinstance(batch[0][0].as_py(), str):
        raise ValueError(f"it has the columns {batch.schema.names}, and {batch.num_rows} rows")
    return str(batch[0][0])
