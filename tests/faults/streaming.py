"""Structured Streaming without Spark: queries over a folder of files, with a checkpoint like Spark's."""

import json
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from pyspark.sql.types import StructType

from tests.faults.rows import Row
from tests.places import place_of


class NoStreams:
    """The session of a stream: the options of a query, then the query."""

    def __init__(self) -> None:
        self._options: dict[str, str] = {}

    @property
    def conf(self) -> Self:
        return self

    readStream = writeStream = conf  # noqa: N815

    def set(self, name: str, value: Any) -> None:
        """Settings of Spark change nothing here."""

    def get(self, name: str) -> None:
        """No setting has a value."""

    def getConf(self) -> Self:  # noqa: N802
        return self

    def getAll(self) -> list[tuple[str, str]]:  # noqa: N802
        return []

    def option(self, name: str, value: str) -> Self:
        self._options[name] = value
        return self

    def foreachBatch(self, called: Callable[[Any, int], None]) -> Self:  # noqa: N802
        self._called = called
        return self

    def format(self, *_: Any, **options: Any) -> Self:
        self._options |= options
        return self

    options = schema = queryName = trigger = format  # noqa: N815

    def load(self, *_: Any) -> "Frame":
        return Frame(self)

    def start(self) -> "Query":
        source = place_of(self._options["path"])
        query = Query(source, place_of(self._options["checkpointLocation"]), self._called)
        query.run()
        return query


class Frame:
    """The rows of a query, without columns that are read in a way of their own."""

    schema = StructType()

    def __init__(self, session: NoStreams) -> None:
        self.writeStream = session


class Batch(list[Row]):
    """The rows of a batch."""

    def persist(self) -> Self:
        return self

    def unpersist(self) -> None:
        """There is no cache."""


class Query:
    """A query that has ended: it takes all files that are there, in one batch."""

    isActive = False  # noqa: N815

    def __init__(self, source: Path, checkpoint: Path, called: Callable[[Any, int], None]) -> None:
        self._source = source
        self._checkpoint = checkpoint
        self._called = called
        self._error: BaseException | None = None

    def run(self) -> None:
        """Apply the batch that was planned last, unless it is committed; then plan new files."""
        for folder in ("offsets", "commits"):
            (self._checkpoint / folder).mkdir(parents=True, exist_ok=True)
        if not (metadata := self._checkpoint / "metadata").exists():
            metadata.write_text(json.dumps({"id": str(uuid.uuid4())}))
        try:
            while (batch := self._next()) is not None:
                number, rows = batch
                self._called(rows, number)
                (self._checkpoint / "commits" / str(number)).write_text('v1\n{"nextBatch": 0}')
        except Exception as error:  # noqa: BLE001 - the stream raises it
            self._error = error

    def exception(self) -> BaseException | None:
        return self._error

    @property
    def _jsq(self) -> Self:
        return self

    def recentProgress(self) -> list[Any]:  # noqa: N802
        return []

    def awaitTermination(self, *_: Any) -> None:  # noqa: N802
        """It has ended."""

    stop = awaitTermination

    def _next(self) -> tuple[int, Batch] | None:
        planned = len(list((self._checkpoint / "offsets").iterdir()))
        done = len(list((self._checkpoint / "commits").iterdir()))
        log = self._checkpoint / "sources" / "0"
        log.mkdir(parents=True, exist_ok=True)
        if planned == done:
            logged = {path for entry in log.iterdir() for path in _paths(entry)}
            files = [path for path in map(str, self._source.iterdir()) if path not in logged]
            if not files:
                return None
            entries = [{"path": path, "timestamp": 0, "batchId": planned} for path in sorted(files)]
            (log / str(planned)).write_text("\n".join(["v1", *map(json.dumps, entries)]))
            offsets = f'v1\n{{"batchTimestampMs": {planned}}}\n{{"logOffset": {planned}}}'
            (self._checkpoint / "offsets" / str(planned)).write_text(offsets)
            planned += 1
        rows = Batch()
        for path in _paths(log / str(planned - 1)):
            lines = Path(path).read_text().splitlines()
            rows += [Row(*json.loads(line).values()) for line in lines]
        return planned - 1, rows


def _paths(entry: Path) -> list[str]:
    """The files of an entry in the log of a source."""
    return [json.loads(line)["path"] for line in entry.read_text().splitlines()[1:]]
