"""The secret key of the installation, by which records are known as its own.

Each writer of a folder of records can forge one. With a key, a record without its signature
is invalid; without a key, a record is evidence only, and its statements are verified again.
"""

import hashlib
import hmac
from dataclasses import field
from pathlib import Path
from typing import Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob
from hiveacid.settings import setting

KEY_SETTING = "signing_key_file"
_ALGORITHM = "HMAC-SHA256"
_SHORTEST_KEY = 16
_HASHES = b"hiveacid hashes of keys\0"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signature:
    """The signature of a record.

    Attributes:
        algorithm: Its algorithm.
        value: Its value.
    """

    algorithm: str
    value: str


@dataclass(frozen=True, slots=True)
class SigningKey:
    """The key.

    Attributes:
        secret: Its bytes.
    """

    secret: bytes = field(repr=False)

    @classmethod
    def configured(cls) -> Self | None:
        """Return the key; None if no file with a key is configured.

        Raises:
            InvalidJob: The file cannot be read, or the key is too short.
        """
        path = setting(KEY_SETTING)
        if not path:
            return None
        try:
            secret = Path(path).read_bytes().strip()
        except OSError as error:
            raise InvalidJob(
                f"The key of signatures cannot be read: {error}.",
                remedy=f"Set {KEY_SETTING} of [hive_acid] to a readable file, also on the nodes of drivers"
                " in a cluster, or remove it.",
            ) from error
        if len(secret) < _SHORTEST_KEY:
            raise InvalidJob(f"The key in {path} has less than {_SHORTEST_KEY} bytes.")
        return cls(secret)

    @classmethod
    def readable(cls) -> Self | None:
        """Return the key if this process has it, for records that are only shown.

        The key is a file of the workers, which a web server need not have.
        """
        try:
            return cls.configured()
        except InvalidJob:
            return None

    def sign(self, content: bytes) -> Signature:
        """Return the signature of a content."""
        return Signature(algorithm=_ALGORITHM, value=self._digest(content).hex())

    def has_signed(self, signature: Signature | None, content: bytes) -> bool:
        """Whether a signature is that of a content."""
        if signature is None or signature.algorithm != _ALGORITHM:
            return False
        # A forged value need not be ASCII.
        value = signature.value.encode(errors="surrogatepass")
        return hmac.compare_digest(value, self._digest(content).hex().encode())

    def of_hashes(self, salt: bytes) -> bytes:
        """Return the key of salted hashes that nobody can compute from the salt alone."""
        return self._digest(_HASHES + salt)

    def _digest(self, content: bytes) -> bytes:
        return hmac.digest(self.secret, content, hashlib.sha256)


def key_of_hashes(salt: str, key: SigningKey | None) -> bytes:
    """Return the key of the hashes in a record.

    Args:
        salt: The salt of the record, in hexadecimal digits.
        key: The key of the installation; without one, the salt is the key.
    """
    salted = bytes.fromhex(salt)
    return salted if key is None else key.of_hashes(salted)
