import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.errors import CorruptFile, UnsupportedFile
from hiveacid.orc.format.compression import Codec, Compression
from tests.orc.orc_tables import CODECS
from tests.samples import examples

PLAIN = st.one_of(st.binary(max_size=2000), st.binary(max_size=9).map(lambda data: data * 300))


@given(st.sampled_from(CODECS), st.integers(1, 700), PLAIN)
def test_a_stream_is_read_back_and_its_positions_lead_to_its_bytes(codec, block_size, plain):
    compression = Compression(Codec.named(codec), block_size)
    chunks = compression.chunks(plain)
    assert compression.decompress(chunks.data) == plain
    for offset in range(0, len(plain), 97):
        *chunk, rest = compression.position(chunks, offset)
        assert compression.decompress(chunks.data[sum(chunk) :])[rest:] == plain[offset:]


@given(PLAIN)
@examples(50)
def test_lz4_of_the_library_is_read(plain):
    block = pa.compress(plain, "lz4_raw", asbytes=True)
    stream = (len(block) << 1).to_bytes(3, "little") + block
    assert Compression(Codec.LZ4, 1 << 20).decompress(stream) == plain


@pytest.mark.parametrize("codec", ["zlib", "snappy", "zstd"])
def test_data_that_shrinks_is_stored_shrunk(codec):
    assert len(Compression(Codec.named(codec), 1 << 18).compress(b"again " * 1000)) < 1000


@pytest.mark.parametrize("codec", ["zlib", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("stream", [b"\x20\x00\x00garbage garbage", b"\xff\x00\x00short", b"\x08"])
def test_a_chunk_that_does_not_decode_is_corrupt(codec, stream):
    with pytest.raises(CorruptFile):
        Compression(Codec.named(codec), 1 << 18).decompress(stream)


def test_a_chunk_never_outgrows_its_header():
    compression = Compression(Codec.LZ4, 8 << 20)
    plain = bytes(9 << 20)
    assert compression.decompress(compression.compress(plain)) == plain


@pytest.mark.parametrize("name", ["ZLIB", " zlib ", "Zlib"])
def test_codecs_are_found_by_the_name_in_the_table_property(name):
    assert Codec.named(name) is Codec.ZLIB


def test_an_unknown_codec_is_named_in_the_error():
    with pytest.raises(UnsupportedFile, match="brotli"):
        Codec.named("brotli")
