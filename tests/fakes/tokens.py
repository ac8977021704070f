"""The delegation tokens of the fake metastore, which live as long as a test wants."""

import time
from base64 import urlsafe_b64encode
from secrets import token_bytes

from hiveacid.metastore.sasl.delegation_token import DelegationToken
from hiveacid.metastore.thrift.idl_txns import MetaException


class Tokens:
    """Tokens, by their identifiers.

    Attributes:
        life: For how many seconds a token lives that is not renewed.
        most: For how many it does in all.
        ahead: By how many seconds the metastore's clock is. given, renewed, cancelled: The number
        of tokens.
    """

    def __init__(self) -> None:
        self.life = 86_400.0
        self.most = 7 * 86_400.0
        self.ahead = 0.0
        self.given = self.renewed = self.cancelled = 0
        self._known: dict[bytes, tuple[bytes, float]] = {}

    def password(self, identifier: bytes) -> bytes | None:
        """The secret of a token, while it lives."""
        password, end = self._known.get(identifier, (b"", 0.0))
        return password if self._now() < end else None

    def get_delegation_token(self, owner: str, renewer: str) -> str:
        self.given += 1
        now = self._now()
        dates = [_number(int(1000 * date)) for date in (now, now + self.most)]
        texts = [_block(text.encode()) for text in (f"{owner}@EXAMPLE.COM", renewer, "")]
        identifier = b"\x00" + b"".join([*texts, *dates]) + bytes([self.given, 1])
        password = token_bytes(20)
        self._known[identifier] = (password, now + self.life)
        parts = (identifier, password, b"HIVE_DELEGATION_TOKEN", b"")
        return urlsafe_b64encode(b"".join(map(_block, parts))).decode().rstrip("=")

    def renew_delegation_token(self, text: str) -> int:
        token = DelegationToken.parse(text)
        if self.password(token.identifier) is None:
            raise MetaException("the token is expired or was cancelled")
        self.renewed += 1
        end = min(self._now() + self.life, token.last_day / 1000)
        self._known[token.identifier] = (token.password, end)
        return int(1000 * end)

    def cancel_delegation_token(self, text: str) -> None:
        self.cancelled += 1
        self._known.pop(DelegationToken.parse(text).identifier, None)

    def _now(self) -> float:
        return time.time() + self.ahead


def _number(value: int) -> bytes:
    """As Hadoop writes numbers that take six bytes."""
    return bytes([256 - 118]) + value.to_bytes(6, "big")


def _block(data: bytes) -> bytes:
    assert len(data) < 128
    return bytes([len(data)]) + data
