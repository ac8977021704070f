"""The declarations, read and written by Thrift's C codec and by its Python codec."""

from typing import Any

import pytest
from thrift.protocol.TBinaryProtocol import (
    TBinaryProtocol,
    TBinaryProtocolAccelerated,
)
from thrift.transport.TTransport import TMemoryBuffer

from hiveacid.metastore.thrift import idl_tables, idl_txns
from hiveacid.metastore.thrift.idl import call, struct

CODECS = [TBinaryProtocol, TBinaryProtocolAccelerated]
TABLE = idl_tables.Table(
    tableName="t",
    createTime=-1,
    sd=idl_tables.StorageDescriptor(
        cols=[idl_tables.FieldSchema("naïve ☃", "int", None)],
        compressed=False,
        skewedInfo=idl_tables.SkewedInfo(
            skewedColNames=["a", "b"],
            skewedColValues=[["1", "2"]],
            skewedColValueLocationMaps={("1", "2"): "/skewed"},
        ),
    ),
    parameters={"transactional": "true"},
    writeId=2**62,
    accessType=8,
    fileMetadata=idl_tables.FileMetadata(1, 2, [b"\x00\xff"]),
)


def encode(value: Any, codec: Any) -> bytes:
    buffer = TMemoryBuffer()
    value.write(codec(buffer))
    return buffer.getvalue()


def decode(kind: Any, encoded: bytes, codec: Any) -> Any:
    value = kind()
    value.read(codec(TMemoryBuffer(encoded)))
    return value


@pytest.mark.parametrize("writer", CODECS)
@pytest.mark.parametrize("reader", CODECS)
@pytest.mark.parametrize(
    "value",
    [
        TABLE,
        idl_txns.HeartbeatTxnRangeResponse(aborted={1, 2}, nosuch=set()),
        idl_txns.GetOpenTxnsResponse(5, [1, 2], None, b"\x02"),
        idl_txns.TxnAbortedException("Transaction txnid:1 already aborted"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_both_codecs_read_what_either_wrote(value: Any, writer: Any, reader: Any) -> None:
    assert decode(type(value), encode(value, writer), reader) == value


def test_a_field_without_a_value_is_not_sent() -> None:
    request = idl_txns.CommitTxnRequest(txnid=1)
    assert b"\x02\x00\x06" not in encode(request, TBinaryProtocolAccelerated)
    request.exclWriteEnabled = False
    # A bool, field 6, false: version 4 takes silence for true.
    assert b"\x02\x00\x06\x00" in encode(request, TBinaryProtocolAccelerated)


@pytest.mark.parametrize("codec", CODECS)
def test_fields_of_a_newer_server_are_skipped(codec: Any) -> None:
    newer = struct("Newer", "1:list<i64> txn_ids, 2:map<string,list<i64>> more, 3:string text")
    encoded = encode(newer([7], {"a": [1]}, "b"), codec)
    assert decode(idl_txns.OpenTxnsResponse, encoded, codec).txn_ids == [7]


@pytest.mark.parametrize("fields", ["1;i64 x", "1:i64", "1:Unheard x", "1:list<Unheard> x"])
def test_a_misspelt_declaration_is_found_at_once(fields: str) -> None:
    with pytest.raises(ValueError, match=r"declaration|declared"):
        struct("Misspelt", fields)


def test_a_misspelt_field_is_found_at_once() -> None:
    with pytest.raises(TypeError, match="txnId"):
        idl_txns.CommitTxnRequest(txnId=1)
    with pytest.raises(TypeError, match="no field"):
        idl_txns.AbortTxnRequest(1, 2)


def test_a_call_without_a_word_on_repeating_it_is_found_at_once() -> None:
    with pytest.raises(ValueError, match="whether drop_everything can be repeated"):
        call("drop_everything")
