"""The keys of a request as a set: by their salted hashes, and by their values where these are known."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, Self

import numpy as np
import pyarrow as pa
from pyarrow import compute as pc
from pyarrow import types

from hiveacid.errors import TypeMismatch
from hiveacid.foreign.text import parse_json
from hiveacid.records.erasures import hash_of_key
from hiveacid.rules.schema import Char, HiveType, Primitive, Varchar
from hiveacid.rules.schema import Decimal as DecimalType

Mask = np.ndarray[Any, np.dtype[np.bool_]]
_KEY_TYPES = frozenset({"tinyint", "smallint", "int", "bigint", "string", "date"})
_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")
_INT64 = range(-(1 << 63), 1 << 63)
# Texts are searched for keys from this length on.
_SHORTEST_WORD = 6
_WORD = re.compile(r"[^\s\"'(),;:=\[\]{}<>]+")
_PART = re.compile("[^/]+")


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
        return pa.array([_decimal_text(each) for each in values.to_pylist()], pa.string())
    if types.is_null(kind):
        return values.cast(pa.string())
    raise TypeMismatch(
        f"Values of the type {kind} are no keys.",
        remedy="Keys are integers, decimals, texts, and dates.",
    )


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
        known = frozenset(texts)
        return cls(salt, frozenset(hash_of_key(salt, text) for text in known), known)

    def __contains__(self, text: str) -> bool:
        if self.texts is not None:
            return text in self.texts
        return hash_of_key(self.salt, text) in self.hashes

    def mask(self, values: pa.Array, *, padded: bool = False) -> Mask:
        """Return which of some values are keys.

        Args:
            values: The values.
            padded: See ``key_texts``.

        Raises:
            TypeMismatch: Values of this type are no keys.
        """
        if self._known is not None and types.is_integer(values.type):
            found = pc.is_in(values.cast(pa.int64()), self._known[0])
            return np.asarray(found.fill_null(False))
        if self._known is not None:
            found = pc.is_in(key_texts(values, padded=padded), self._known[1])
            return np.asarray(pc.and_(found, values.is_valid()))
        encoded = values.dictionary_encode()
        texts = key_texts(encoded.dictionary, padded=padded).to_pylist()
        hits = np.array([text is not None and text in self for text in texts] + [False], np.bool_)
        places = np.asarray(encoded.indices.fill_null(len(texts)))
        found_hits: Mask = hits[places]
        return found_hits

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
    def _known(self) -> tuple[pa.Array, pa.Array] | None:
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
