"""ORC files from outside: tails, stripes, row indexes, row ids, chunks, and all of it together."""

import ctypes
import io
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest

from hiveacid.orc.copying.assemble import Part, assemble
from hiveacid.orc.copying.reencode import reencode
from hiveacid.orc.copying.spark_files import copy_readable
from hiveacid.orc.copying.transplant import transplant
from hiveacid.orc.format.batches import Lengths, read_batches
from hiveacid.orc.format.compression import Codec, Compression
from hiveacid.orc.format.envelope import KEY_INDEX, parse_key_index
from hiveacid.orc.format.layout import Layout
from hiveacid.orc.format.protobuf import DATA, Field, Message
from hiveacid.orc.format.statistics import merge, reliable_index, reliable_statistics
from hiveacid.orc.format.streams import StripeFooter
from hiveacid.orc.format.tail import MAGIC, OrcTail, Stripe
from hiveacid.orc.row_keys.delete_file import write_delete_file
from hiveacid.orc.row_keys.key_stream import read_deletes, read_keys, read_row_id_range
from hiveacid.orc.row_keys.keys import Keys
from hiveacid.orc.row_keys.verify import verify_file
from hiveacid.rules.row_id import encode_bucket
from tests.fuzz.driver import INPUTS, Source, fuzz
from tests.orc.hostile import HOSTILE
from tests.orc.orc_tables import CODECS, flat_file, table

GOLDEN = Path(__file__).parent.parent / "data"
BUCKET = encode_bucket(0)
COLUMNS = (
    ["flag", "tiny", "number", "real"],
    ["text", "blob", "day", "moment"],
    ["price", "tags", "counts"],
    ["place"],
)
# Numbers at which lengths, counts and offsets turn over.
EDGES = (
    *(0, 1, 2, 3, 127, 128, 255, 256, 10_000, 65_535, 65_536, 1 << 20, (1 << 23) - 1, 1 << 23),
    *((1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, 1 << 40, (1 << 63) - 1, 1 << 63, (1 << 64) - 1),
)  # fmt: skip
# Names of the C library.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
BOMB = zlib.compressobj(9, zlib.DEFLATED, -15)
BOMB_BODY = BOMB.compress(bytes(64 << 20)) + BOMB.flush()


@pytest.fixture(autouse=True, scope="module")
def _memory():
    """Arrow's own memory pools map more than they use, which the driver counts."""
    before = pa.default_memory_pool()
    pa.set_memory_pool(pa.system_memory_pool())
    # A megabyte for each stream that it writes takes longer to map than all else takes.
    for option, size in ((M_TRIM_THRESHOLD, 1 << 30), (M_MMAP_THRESHOLD, 32 << 20)):
        ctypes.CDLL(None).mallopt(option, size)
    # Modules and processes that are loaded and started once.
    for file in flat_files():
        read_all(io.BytesIO(file))
    yield
    pa.set_memory_pool(before)


@cache
def flat_files() -> tuple[bytes, ...]:
    """Mostly of few columns, as it is one place that is changed, and each column takes time."""
    return tuple(
        flat_file(table(60, columns=columns), codec, stride=20).getvalue()
        for columns in (None, *COLUMNS)
        for codec in CODECS
    )


@cache
def acid_files() -> tuple[bytes, ...]:
    files = []
    for flat in flat_files():
        sink = io.BytesIO()
        transplant([io.BytesIO(flat)], sink, write_id=3, bucket=BUCKET)
        files.append(sink.getvalue())
    sink = io.BytesIO()
    types = OrcTail.read(io.BytesIO(flat_files()[0])).types
    write_delete_file(
        sink, [Keys.deletes([3] * 9, [BUCKET] * 9, range(9), write_id=4)], row_types=types
    )
    return (*files, sink.getvalue())


@cache
def all_files() -> tuple[bytes, ...]:
    """Ours, and those of Hive and Trino that are small."""
    golden = [
        path.read_bytes()
        for path in sorted(GOLDEN.rglob("*"))
        if path.is_file() and path.stat().st_size < 6000
    ]
    return (*flat_files(), *acid_files(), *(each for each in golden if each.startswith(MAGIC)))


def edited(source: Source, data: bytes, depth: int = 3) -> bytes:
    """A message with one of its numbers, fields or inner messages changed."""
    try:
        fields = Message.decode(data).fields
    except Exception:  # noqa: BLE001
        fields = []
    if not fields or source.random.random() < 0.05:
        return source.data([data])
    at = source.random.randrange(len(fields))
    number, wire_type, value = fields[at]
    changed: list[Field]
    match source.random.randrange(8):
        case 0:
            changed = []
        case 1:
            changed = [fields[at]] * source.random.choice((2, 50))
        case 2:
            changed = [(source.random.randrange(1, 14), wire_type, value)]
        case 3 if isinstance(value, bytes):
            changed = [(number, DATA, source.data([value]))]
        case _ if isinstance(value, int):
            changed = [(number, wire_type, source.random.choice((*EDGES, value + 1, value - 1)))]
        case _ if depth and wire_type == DATA:
            changed = [(number, DATA, edited(source, value, depth - 1))]
        case _:
            changed = [(number, DATA, source.data([value]))]
    return Message([*fields[:at], *changed, *fields[at + 1 :]]).encode()


class Taken:
    """A file in its parts, which thousands of inputs have in common."""

    def __init__(self, data: bytes) -> None:
        file = io.BytesIO(data)
        self.tail = OrcTail.read(file)
        self.streams: list[list[tuple[Message, bytes]]] = []
        self.footers: list[Message] = []
        for stripe in self.tail.stripes:
            footer = self.tail.stripe_footer(file, stripe)
            file.seek(stripe.offset)
            self.streams.append(
                [(stream, file.read(stream.number(3))) for stream in footer.all_messages(1)]
            )
            self.footers.append(footer.without(1))
        self.stripes = [
            self.stripe(number, [part for _, part in streams])
            for number, streams in enumerate(self.streams)
        ]
        end = self.tail.encode(0)
        self.postscript = Message.decode(end[-1 - end[-1] : -1])
        metadata, footer = (self.postscript.number(field) for field in (5, 1))
        self.metadata = end[:metadata]
        plain = self.tail.compression.decompress(end[metadata : metadata + footer])
        self.footer = Message.decode(plain).without(1, 2, 3)

    def stripe(
        self,
        number: int,
        parts: Sequence[bytes],
        change: Callable[[bytes], bytes] = lambda footer: footer,
    ) -> tuple[Stripe, bytes]:
        """A stripe of other streams, and perhaps with another footer."""
        index_length = 0
        fields: list[Field] = []
        for (stream, _), part in zip(self.streams[number], parts, strict=True):
            fields.append((1, DATA, stream.with_numbers({3: len(part)}).encode()))
            index_length += len(part) if stream.number(1) in (6, 7, 8) else 0
        footer = change(Message([*fields, *self.footers[number].fields]).encode())
        encoded = self.tail.compression.compress(footer)
        placed = replace(
            self.tail.stripes[number],
            index_length=index_length,
            data_length=sum(map(len, parts)) - index_length,
            footer_length=len(encoded),
        )
        return placed, b"".join(parts) + encoded

    def file(self, stripes: Sequence[tuple[Stripe, bytes]]) -> tuple[bytes, bytes]:
        """A file of other stripes but for its tail, and its footer."""
        body, footer = bytearray(MAGIC), Message().add_number(1, len(MAGIC))
        listed: list[Field] = []
        for stripe, data in stripes:
            listed.append((3, DATA, replace(stripe, offset=len(body)).encode()))
            body += data
        footer.add_number(2, len(body))
        return bytes(body), Message([*footer.fields, *listed, *self.footer.fields]).encode()

    def end(self, metadata: bytes, footer: bytes) -> tuple[bytes, bytes]:
        """The tail of a file, and its post script."""
        encoded = self.tail.compression.compress(footer)
        lengths = {1: len(encoded), 5: len(metadata)}
        return metadata + encoded, self.postscript.with_numbers(lengths).encode()


taken = cache(Taken)


def rebuilt(source: Source, data: bytes) -> bytes:
    """Return a file with one part changed, and all lengths adapted to it."""
    old = taken(data)
    compression = old.tail.compression
    stripes, metadata = list(old.stripes), old.metadata
    wanted = source.random.choice(("stream", "stripe", "tail", "tail"))
    if stripes and wanted in ("stream", "stripe"):
        chosen = source.random.randrange(len(stripes))
        parts = [part for _, part in old.streams[chosen]]
        if wanted == "stripe":
            stripes[chosen] = old.stripe(chosen, parts, lambda footer: edited(source, footer))
        elif parts:
            hit = source.random.randrange(len(parts))
            parts[hit] = spoilt_stream(source, compression, *old.streams[chosen][hit])
            stripes[chosen] = old.stripe(chosen, parts)
    body, footer = old.file(stripes)
    part = source.random.choice(("metadata", "post script", "footer", "footer"))
    if (wanted, part) == ("tail", "metadata"):
        metadata = compression.compress(edited(source, compression.decompress(metadata)))
    elif (wanted, part) == ("tail", "footer"):
        footer = edited(source, footer)
    end, postscript = old.end(metadata, footer)
    if (wanted, part) == ("tail", "post script"):
        postscript = edited(source, postscript)[:255]
    return body + end + postscript + bytes((len(postscript),))


def spoilt_stream(
    source: Source, compression: Compression, described: Message, stream: bytes
) -> bytes:
    if source.random.random() < 0.05:
        return (len(BOMB_BODY) << 1).to_bytes(3, "little") + BOMB_BODY
    plain = compression.decompress(stream)
    if described.number(1) == 6 and source.random.random() < 0.7:
        return compression.compress(edited(source, plain))
    return compression.compress(source.data([plain]))


def spoilt(source: Source, files: tuple[bytes, ...]) -> bytes:
    data = source.random.choice(files)
    return rebuilt(source, data) if source.random.random() < 0.8 else source.data([data])


def read_tail(data: bytes) -> None:
    file = io.BytesIO(data)
    tail = OrcTail.read(file)
    parse_key_index(tail.user_metadata.get(KEY_INDEX, b""))
    for number, stripe in enumerate(tail.stripes):
        tail.int_range(number, 2)
        StripeFooter.read(file, tail, stripe)
    Layout.joint([("file", tail)], like=tail).tail(tail.block_size, (0, 6)).encode(3)
    tail.encode(3)


def read_all(file: io.BytesIO) -> None:
    for batch in read_batches(file, OrcTail.read(file)):
        batch.validate()


@INPUTS
def test_tails(inputs):
    fuzz(read_tail, lambda source: spoilt(source, all_files()), inputs)


@INPUTS
def test_rows(inputs):
    fuzz(
        lambda data: read_all(io.BytesIO(data)), lambda source: spoilt(source, all_files()), inputs
    )


@INPUTS
def test_row_ids_and_deletes(inputs):
    def read(data):
        file = io.BytesIO(data)
        tail = OrcTail.read(file)
        if not tail.is_acid:
            return
        for number in range(len(tail.stripes)):
            read_row_id_range(file, tail, number)
        for _ in read_keys(file, tail):
            pass
        for _ in read_deletes([(file, tail), (io.BytesIO(acid_files()[-1]), tail)]):
            pass

    fuzz(read, lambda source: spoilt(source, acid_files()), inputs)


@INPUTS
def test_verifying(inputs):
    def make(source):
        return source.random.choice(("insert", "delete")), spoilt(source, acid_files())

    def verify(given):
        kind, data = given
        verify_file(io.BytesIO(data), kind=kind, bucket=0, write_ids=range(1, 9))

    fuzz(verify, make, inputs)


@INPUTS
def test_copying(inputs):
    def copy(data):
        file = io.BytesIO(data)
        tail = OrcTail.read(file)
        copy_readable(file, tail, io.BytesIO())
        if tail.is_acid:
            assemble([Part(file, tail), Part(file, tail, range(1))], io.BytesIO())
        else:
            transplant([file], io.BytesIO(), write_id=1, bucket=BUCKET)

    fuzz(copy, lambda source: spoilt(source, all_files()), inputs)


@INPUTS
def test_rewriting(inputs):
    files, some = acid_files(), len(CODECS)
    same = [files[at : at + some] for at in range(0, len(files) - 1, some)]
    same[0] += files[-1:]

    @cache
    def layout_of(data):
        tail = OrcTail.read(io.BytesIO(data))
        return Layout.joint([("file", tail)], like=tail)

    def make(source):
        kind = source.random.choice(same)
        other = source.random.choice(same) if source.random.random() < 0.1 else kind
        return layout_of(source.random.choice(other[:some])), spoilt(source, kind)

    def write(given):
        layout, data = given
        file = io.BytesIO(data)
        tail = OrcTail.read(file)
        if tail.is_acid:
            places = [(file, tail, range(len(tail.stripes)))]
            reencode(places, io.BytesIO(), layout=layout, deletes=[], aborted_ids=[7])

    fuzz(write, make, inputs)


@INPUTS
def test_chunks(inputs):
    names = {Codec.LZ4: "lz4_raw", Codec.SNAPPY: "snappy", Codec.ZSTD: "zstd"}
    plains = (b"", b"a" * 9000, bytes(range(256)) * 9, b"abcabcab" * 40, flat_files()[0])

    def make(source):
        codec = source.random.choice((Codec.ZLIB, *names))
        plain = source.random.choice(plains)
        if codec is Codec.ZLIB:
            deflate = zlib.compressobj(6, zlib.DEFLATED, -15)
            body = deflate.compress(plain) + deflate.flush()
        else:
            body = pa.compress(plain, names[codec], asbytes=True)
        if source.random.random() < 0.05:
            codec, body = Codec.ZLIB, BOMB_BODY
        chunk = (len(body) << 1).to_bytes(3, "little") + body
        block = source.random.choice((100, 8192, 1 << 18, 1 << 23))
        return codec, block, source.data([chunk, chunk * 3])

    def read(given):
        codec, block, stream = given
        plain = Compression(codec, block).decompress(stream)
        assert len(plain) <= block * (len(stream) // 3)

    fuzz(read, make, inputs)


@INPUTS
def test_row_indexes_statistics_and_lengths(inputs):
    file = io.BytesIO(acid_files()[0])
    tail = OrcTail.read(file)
    footer = StripeFooter.read(file, tail, tail.stripes[0])
    indexes = [acid_files()[0][each.offset :][: each.length] for each in footer.index]
    lengths = [
        acid_files()[0][each.offset :][: each.length] for each in footer.data if each.kind == 2
    ]

    def make(source):
        return (
            edited(source, source.random.choice(indexes)),
            edited(source, source.random.choice(tail.file_statistics)),
            source.data(lengths),
        )

    def read(given):
        index, statistics, numbers = given
        reliable_index(index)
        reliable_statistics(statistics)
        merge([Message.decode(statistics), Message.decode(tail.file_statistics[10])])
        Lengths.of(numbers, version=1 + len(numbers) % 2)

    fuzz(read, make, inputs)


def test_every_known_trick():
    for made in [make().getvalue() for make in HOSTILE.values()]:
        for read in (read_tail, lambda data: read_all(io.BytesIO(data))):
            fuzz(read, lambda _, made=made: made, [0])
