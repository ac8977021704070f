"""Misspelled types in the text of a statement that cannot be read."""

from collections.abc import Iterator, Sequence
from itertools import pairwise

from sqlglot.tokenizer_core import Token, TokenType

TYPES = (
    *("boolean", "tinyint", "smallint", "int", "integer", "bigint", "float", "real", "double"),
    *("decimal", "dec", "numeric", "string", "char", "varchar", "binary", "date", "timestamp"),
    *("timestamplocaltz", "void"),
    *("array", "map", "struct", "uniontype"),
)
_OPENING = (TokenType.L_PAREN, TokenType.COMMA)
_BEFORE_ELEMENT = (TokenType.LT, TokenType.COLON, TokenType.COMMA)


def unknown_type(tokens: Sequence[Token], start: int) -> Token | None:
    """Return the first word in the place of a type that names none, if any.

    Args:
        tokens: The words of a statement that sqlglot cannot read.
        start: The offset of the word that it cannot read; a struct, from its first field.
    """
    for word in _words_for_types(tokens, start):
        known = word.token_type is not TokenType.VAR or word.text.lower() in TYPES
        if not known and word.start >= start:
            return word
    return None


def _words_for_types(tokens: Sequence[Token], start: int) -> Iterator[Token]:
    """The words behind CAST(... AS, behind the names of columns, and in the brackets of types."""
    defines = bool(tokens) and tokens[0].token_type is TokenType.CREATE
    angles, before = 0, None
    for token, word in pairwise(tokens):
        kind = token.token_type
        if kind is TokenType.ALIAS:
            defines = False
            if word.start == start:
                yield word
        elif defines:
            angles += (kind is TokenType.LT) - (kind is TokenType.GT)
            is_name = kind in (TokenType.VAR, TokenType.IDENTIFIER)
            if (angles > 0 and kind in _BEFORE_ELEMENT and not _names_field(tokens, word)) or (
                angles == 0 and is_name and before in _OPENING
            ):
                yield word
        before = kind


def _names_field(tokens: Sequence[Token], word: Token) -> bool:
    after = tokens.index(word) + 1
    return after < len(tokens) and tokens[after].token_type is TokenType.COLON
