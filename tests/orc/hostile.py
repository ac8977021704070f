"""Files with false claims: each is valid except for one value."""

import io
from collections.abc import Callable, Sequence
from dataclasses import replace

import pyarrow as pa
from pyarrow import orc

from hiveacid.orc.format.envelope import TypeField, TypeKind
from hiveacid.orc.format.protobuf import Message, pack
from hiveacid.orc.format.streams import StreamKind
from hiveacid.orc.format.tail import OrcTail
from tests.orc.orc_tables import flat_file, table, with_tail

# Kind, column and bytes of the streams of a stripe.
Streams = list[tuple[int, int, bytes]]


def rewritten(
    file: io.BytesIO,
    change: Callable[[Streams], Streams] = lambda streams: streams,
    encodings: Callable[[Sequence[Message]], Sequence[Message]] = lambda found: found,
    zone: bytes = b"GMT",
    **tail: object,
) -> io.BytesIO:
    """Return a file of one stripe with other streams, encodings, or metadata."""
    old = OrcTail.read(file)
    (stripe,) = old.stripes
    footer = old.stripe_footer(file, stripe)
    streams: Streams = []
    offset = stripe.offset
    for stream in footer.all_messages(1):
        kind, column, length = (stream.number(field) for field in (1, 2, 3))
        plain = old.compression.decompress(file.getvalue()[offset : offset + length])
        streams.append((kind, column, plain))
        offset += length
    new = Message()
    body, index_length = b"", 0
    for kind, column, plain in change(streams):
        data = old.compression.compress(plain)
        body += data
        index_length += len(data) if StreamKind.is_index(kind) else 0
        listed = Message().add_number(1, kind).add_number(2, column).add_number(3, len(data))
        new.add_data(1, listed.encode())
    for encoding in encodings(footer.all_messages(2)):
        new.add_data(2, encoding.encode())
    new.add_data(3, zone)
    encoded = old.compression.compress(new.encode())
    placed = replace(
        stripe,
        offset=3,
        index_length=index_length,
        data_length=len(body) - index_length,
        footer_length=len(encoded),
    )
    end = 3 + len(body) + len(encoded)
    changed = replace(old, stripes=(placed,), **tail)
    return io.BytesIO(b"ORC" + body + encoded + changed.encode(end))


def one_length(value: int) -> Callable[[Streams], Streams]:
    """Put a length in front of all others."""
    run = bytes((0x40 | 31 << 1, 0)) + (value % (1 << 64)).to_bytes(8, "big")

    def change(streams: Streams) -> Streams:
        return [
            (kind, column, run + plain if kind == StreamKind.LENGTH else plain)
            for kind, column, plain in streams
        ]

    return change


def with_type(file: io.BytesIO, column: int, change: Callable[[Message], Message]) -> io.BytesIO:
    """Return a file with another type of a column."""
    types = list(OrcTail.read(file).types)
    types[column] = change(Message.decode(types[column])).encode()
    return rewritten(file, types=tuple(types))


def texts(codec: str = "none") -> io.BytesIO:
    return flat_file(pa.table({"a": [f"v{number}" for number in range(50)]}), codec)


def dictionary() -> io.BytesIO:
    file = io.BytesIO()
    rows = pa.table({"a": ["x", "yy"] * 500})
    orc.write_table(rows, file, dictionary_key_size_threshold=0.9, compression="uncompressed")
    return file


def lists() -> io.BytesIO:
    return flat_file(pa.table({"a": [[number] for number in range(50)]}), "none")


def maps() -> io.BytesIO:
    return flat_file(table(50, columns=["counts"]), "none")


def decimals(precision: int, scale: int) -> io.BytesIO:
    digits = {TypeField.PRECISION: precision, TypeField.SCALE: scale}
    file = flat_file(table(50, columns=["price"]), "none")
    return with_type(file, 1, lambda type_: type_.with_numbers(digits))


def scales(run: bytes, version: int = 2, precision: int = 20) -> io.BytesIO:
    """Decimals whose scales begin with the ones of a run."""
    digits = {TypeField.PRECISION: precision}
    rows = pa.table({"a": pa.array([1] * 50, pa.decimal128(20, 4))})
    return rewritten(
        with_type(flat_file(rows, "none"), 1, lambda type_: type_.with_numbers(digits)),
        lambda streams: [
            (kind, column, run + plain if kind == StreamKind.SECONDARY else plain)
            for kind, column, plain in streams
        ],
        lambda found: [found[0], *(each.with_numbers({1: version}) for each in found[1:])],
    )


def nested(depth: int) -> io.BytesIO:
    """Structs within structs."""
    struct = Message().add_number(TypeField.KIND, TypeKind.STRUCT)
    types = [
        Message([*struct.fields]).add_data(2, pack([number + 1])).add_data(3, b"x").encode()
        for number in range(depth)
    ]
    types.append(Message().add_number(TypeField.KIND, TypeKind.INT).encode())
    tail = replace(
        OrcTail.read(texts()),
        types=tuple(types),
        stripes=(),
        stripe_statistics=(),
        file_statistics=(b"",) * len(types),
    )
    return io.BytesIO(b"ORC" + tail.encode(3))


def rows(count: int) -> io.BytesIO:
    file = texts()
    tail = OrcTail.read(file)
    return with_tail(file, replace(tail, stripes=(replace(tail.stripes[0], rows=count),)))


def nothing_but_rows(count: int) -> io.BytesIO:
    """A struct without fields needs no bytes at all."""
    file = rewritten(
        texts(),
        lambda streams: [each for each in streams if each[1] == 0],
        lambda encodings: encodings[:1],
        types=(Message().add_number(TypeField.KIND, TypeKind.STRUCT).encode(),),
        file_statistics=(b"",),
        stripe_statistics=((b"",),),
    )
    tail = OrcTail.read(file)
    return with_tail(file, replace(tail, stripes=(replace(tail.stripes[0], rows=count),)))


def blocks(size: int) -> io.BytesIO:
    file = texts("zlib")
    tail = OrcTail.read(file)
    postscript = tail.postscript.with_numbers({3: size})
    return with_tail(file, replace(tail, postscript=postscript))


def twice_the_same_stripe() -> io.BytesIO:
    file = texts()
    tail = OrcTail.read(file)
    return with_tail(file, replace(tail, stripes=tail.stripes * 1000))


def _other_subtypes(*columns: int) -> Callable[[Message], Message]:
    return lambda type_: type_.without(TypeField.SUBTYPES).add_data(2, pack(columns))


HOSTILE: dict[str, Callable[[], io.BytesIO]] = {
    **{
        f"{name} of {length}": lambda make=make, length=length: rewritten(
            make(), one_length(length)
        )
        for name, make in {
            "text": texts,
            "packed text": lambda: texts("zlib"),
            "dictionary entry": dictionary,
            "list": lists,
            "map": maps,
        }.items()
        for length in (3 << 30, 1 << 40, 1 << 62, -5, -(1 << 40))
    },
    **{
        f"dictionary of {size}": lambda size=size: rewritten(
            dictionary(),
            encodings=lambda found: [
                each.with_numbers({2: size}) if each.number(1) in (1, 3) else each for each in found
            ],
        )
        for size in (3, (1 << 32) - 1)
    },
    **{f"types {n} deep": lambda n=n: nested(n) for n in (200, 20_000, 60_000)},
    "too many columns": lambda: nested(70_000),
    **{f"{n} rows": lambda n=n: rows(n) for n in (1 << 40, 1 << 62, (1 << 64) - 1)},
    "rows of nothing": lambda: nothing_but_rows(1 << 50),
    **{f"blocks of {n}": lambda n=n: blocks(n) for n in (0, (8 << 20) + 1, 1 << 40, 1 << 63)},
    **{
        f"decimal of {digits}": lambda digits=digits: decimals(*digits)
        for digits in ((39, 2), (38, 39), (5, 6), (1 << 31, 0), (76, 2))
    },
    **{
        f"scales of {name}": lambda arguments=arguments: scales(*arguments)
        for name, arguments in {
            "-1, repeated": (bytes((0, 1)),),
            "-7 in steps": (bytes((0xC0, 13, 13, 0)),),
            "-64, packed": (bytes((0x40 | 6 << 1, 1, 127, 0)),),
            "-1, patched": (bytes((0x80 | 1 << 1, 2, 0, 1, 0x81, 0, 0x40)),),
            "2 ** 30": (bytes((0x18, 0x80, 0, 0, 0)),),
            "-5 of old writers": (bytes((47, 0, 9)), 0),
            "-5 one by one": (bytes((206, *[9] * 50)), 0),
            "-5 of Hive 0.11": (bytes((0, 9)), 2, 0),
        }.items()
    },
    "few encodings": lambda: rewritten(texts(), encodings=lambda found: found[:1]),
    "unknown encoding": lambda: rewritten(
        texts(), encodings=lambda found: [each.with_numbers({1: 65_536}) for each in found]
    ),
    "dictionary of numbers": lambda: rewritten(
        flat_file(table(50, columns=["number"]), "none"),
        encodings=lambda found: [each.with_numbers({1: 3, 2: 5}) for each in found],
    ),
    "stream of nobody": lambda: rewritten(texts(), lambda streams: [*streams, (1, 77, b"")]),
    "the same stripe again": twice_the_same_stripe,
    "map of one": lambda: with_type(maps(), 1, _other_subtypes(2)),
    "map of itself": lambda: with_type(maps(), 1, _other_subtypes(1, 1)),
    "map of nothing": lambda: with_type(maps(), 1, _other_subtypes(2, 99)),
    "text of types": lambda: with_type(texts(), 1, _other_subtypes(1)),
    "no names": lambda: with_type(texts(), 0, lambda type_: type_.without(3)),
    "names of bytes": lambda: with_type(
        texts(), 0, lambda type_: type_.without(3).add_data(3, b"\xff\xfe")
    ),
    "no types": lambda: with_tail(texts(), replace(OrcTail.read(texts()), types=())),
}
