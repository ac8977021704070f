"""The keys of a request: read from a source or from a program, as a set, and in a column of a table.

A set knows salted hashes of the keys, and the keys themselves where a process has read them.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import field
from decimal import Decimal
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import types

from hiveacid.dataclass import dataclass
from hiveacid.errors import EmptySource, InvalidJob, TypeMismatch
from hiveacid.foreign.text import parse_json
from hiveacid.jobs.sources import Source
from hiveacid.metastore.catalog import HiveColumn, HiveTable
from hiveacid.metastore.client import MetastoreClient
from hiveacid.metastore.table_rules import column_of
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.records.erasures import hash_of_key
from hiveacid.rules.schema import Char, HiveType, Primitive, Varchar, parse_type
from hiveacid.rules.schema import Decimal as DecimalType
from hiveacid.rules.texts import plural
from hiveacid.tables.visible_files import FilesReader
from hiveacid.worker.sources import source_of

Mask = np.ndarray[Any, np.dtype[np.bool_]]
_KEY_TYPES = frozenset({"tinyint", "smallint", "int", "bigint", "string", "date"})
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_INT64 = range(-(1 << 63), 1 << 63)
# Texts are searched for keys from this length on.
_SHORTEST_WORD = 6
_WORD = re.compile(r"[^\s\"'(),;:=\[\]{}<>]+")
_PART = re.compile("[^/]+")


def keys_of(client: MetastoreClient, source: Source, token: str) -> list[str]:
    """Read keys as sorted texts.

    Args:
        client: The metastore.
        source: A source with one column.
        token: The name of the transaction that reads a table.

    Raises:
        InvalidJob: The source has other columns.
        EmptySource: It has no keys.
        SparkNeeded: The source is not read without Spark.
    """
    rows = source_of(client, source, {})
    if len(rows.names) != 1:
        raise InvalidJob(
            f"The source of the keys has {plural(len(rows.names), 'column')}.",
            remedy='Select one: QuerySource("SELECT id FROM r", {"r": TableSource("privacy.r")}).',
        )
    if not rows.is_table:
        return _sorted_texts(rows.evaluate().column(0).chunks)
    # Version 4 hides a transaction without files, so that the next attempt could not end it.
    with Transaction(client, reads=rows.reads, keeps_files=True, run_token=token) as txn:
        return _sorted_texts(rows.evaluate(FilesReader(client, txn)).column(0).chunks)


def keys_of_program(keys: Any) -> list[str]:
    """Return values of a Python program, in a list or in a frame with one column, as sorted texts.

    Raises:
        InvalidJob: They are no keys of one type.
        EmptySource: No key is given.
    """
    try:
        return _sorted_texts([pa.array(_values(keys))])
    except (pa.ArrowInvalid, pa.ArrowTypeError, TypeError) as error:
        raise InvalidJob(
            f"These are no keys of one type: {type(keys).__name__}.",
            remedy="Give a list of values, or a frame with one column.",
        ) from error


def _values(keys: Any) -> list[Any]:
    if isinstance(keys, str):
        raise TypeError("Its letters are not meant.")
    if not hasattr(keys, "columns"):
        return list(keys)
    if type(keys).__module__.partition(".")[0] == "pandas":
        keys = pa.Table.from_pandas(keys, preserve_index=False)
    with pa.RecordBatchReader.from_stream(keys) as reader:
        rows = reader.read_all()
    if rows.num_columns != 1:
        raise TypeError("Only one column can have the keys.")
    values: list[Any] = rows.column(0).to_pylist()
    return values


def _sorted_texts(arrays: Iterable[pa.Array]) -> list[str]:
    texts = {text for values in arrays for text in key_texts(values).to_pylist()} - {None}
    if not texts:
        raise EmptySource("There are no keys.")
    return sorted(texts)


def is_key_type(type_: HiveType) -> bool:
    """Whether a column of a type can hold keys: integers, decimals, texts, and dates."""
    if isinstance(type_, Primitive):
        return type_.name in _KEY_TYPES
    return isinstance(type_, Char | Varchar | DecimalType)


def key_texts(values: pa.Array, *, padded: bool = False) -> pa.Array:
    """Return keys as texts, which are equal for equal keys of different types.

    Args:
        values: The values.
        padded: Whether spaces at the end of texts have no meaning, as in columns of type char.

    Raises:
        TypeMismatch: Values of this type are no keys.
    """
    kind = values.type
    if types.is_string(kind) or types.is_large_string(kind):
        texts = values.cast(pa.string())
        return pc.utf8_rtrim(texts, " ") if padded else texts
    if types.is_integer(kind) or types.is_date32(kind):
        return values.cast(pa.string())
    if types.is_decimal(kind):
        return pa.array([_decimal_text(value) for value in values.to_pylist()], pa.string())
    if types.is_null(kind):
        return values.cast(pa.string())
    raise TypeMismatch(
        f"Values of the type {kind} are no keys.",
        remedy="Keys are integers, decimals, texts, and dates.",
    )


def date_text(days: int) -> str:
    """Return a date of statistics, in days since 1970, as the text of a key."""
    return str(pa.array([days], pa.int64()).cast(pa.int32()).cast(pa.date32()).cast(pa.string())[0])


def _decimal_text(value: Decimal | None) -> str | None:
    if value is None:
        return None
    text = f"{value:f}"
    return (text.rstrip("0").rstrip(".") or "0") if "." in text else text


@dataclass(frozen=True)
class KeySet:
    """A set of keys.

    Attributes:
        salt: The salt of the hashes.
        hashes: The salted hashes.
        texts: The keys, where these are known: then no value needs to be hashed.
    """

    salt: bytes
    hashes: frozenset[str]
    texts: frozenset[str] | None = field(default=None, repr=False)

    @classmethod
    def of(cls, salt: bytes, texts: Iterable[str]) -> Self:
        """Return a set of known keys."""
        keys = frozenset(texts)
        return cls(salt, frozenset(hash_of_key(salt, key) for key in keys), keys)

    @property
    def record(self) -> str:
        """The hashes as a record stores them."""
        return " ".join(sorted(self.hashes))

    def __contains__(self, text: str) -> bool:
        if self.texts is not None:
            return text in self.texts
        return hash_of_key(self.salt, text) in self.hashes

    def mask(self, values: pa.Array, *, padded: bool = False) -> Mask:
        """Return which of some values are keys; see ``key_texts``.

        Raises:
            TypeMismatch: Values of this type are no keys.
        """
        if self._arrays is not None and types.is_integer(values.type):
            hits = pc.is_in(values.cast(pa.int64()), self._arrays[0])
            return np.asarray(hits.fill_null(False))
        if self._arrays is not None:
            hits = pc.is_in(key_texts(values, padded=padded), self._arrays[1])
            return np.asarray(pc.and_(hits, values.is_valid()))
        dictionary = values.dictionary_encode()
        texts = key_texts(dictionary.dictionary, padded=padded).to_pylist()
        matches = np.array(
            [text is not None and text in self for text in texts] + [False], np.bool_
        )
        mask: Mask = matches[np.asarray(dictionary.indices.fill_null(len(texts)))]
        return mask

    def is_named_in(self, content: bytes) -> bool:
        """Whether a key is a text in JSON, or a word of a text.

        Shorter keys are not searched there, and neither are numbers in JSON, which are counters and
        times of this package: almost every small number is one.
        """
        try:
            text = content.decode()
        except UnicodeDecodeError:
            return True  # Not a text: it may contain anything.
        try:
            leaves = _texts_in(parse_json(text))
        except (ValueError, RecursionError):
            leaves = iter([text])
        return any(self._is_in(leaf) for leaf in leaves)

    def _is_in(self, leaf: str) -> bool:
        return any(part in self for part in _parts(leaf) if len(part) >= _SHORTEST_WORD)

    @cached_property
    def _arrays(self) -> tuple[pa.Array, pa.Array] | None:
        """The integers among the keys, and all keys."""
        if self.texts is None:
            return None
        numbers = [int(text) for text in self.texts if _INTEGER.fullmatch(text)]
        return (
            pa.array([number for number in numbers if number in _INT64], pa.int64()),
            pa.array(sorted(self.texts), pa.string()),
        )


def _parts(leaf: str) -> Iterator[str]:
    """Yield a text, its words, and their parts, which may be millions."""
    yield leaf
    for word in _WORD.finditer(leaf):
        yield word[0]
        yield word[0].strip(".,'`")
        yield from (part[0] for part in _PART.finditer(word[0]))


def _texts_in(value: object) -> Iterator[str]:
    """Yield the texts in parsed JSON, and the names in its objects."""
    if isinstance(value, dict):
        for key, entry in value.items():
            yield str(key)
            yield from _texts_in(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _texts_in(entry)
    elif isinstance(value, str):
        yield value


@dataclass(frozen=True)
class KeyHolder:
    """A table that holds keys in a column.

    Attributes:
        table: The table.
        column: The column.
        keys: The keys.
    """

    table: HiveTable
    column: HiveColumn
    keys: KeySet

    @classmethod
    def of(cls, table: HiveTable, column: str, keys: KeySet) -> Self:
        """Look up the column by its name.

        Raises:
            UnknownColumn: There is no such column.
        """
        return cls(table, column_of(table, column), keys)

    @property
    def name(self) -> str:
        """The name of the table, "database.table"."""
        return self.table.ref.full_name

    @cached_property
    def is_padded(self) -> bool:
        """Whether spaces at the end of its values have no meaning."""
        return isinstance(parse_type(self.column.type), Char)

    def mask(self, values: pa.Array) -> Mask:
        """Return which values of the column are keys."""
        return self.keys.mask(values, padded=self.is_padded)
