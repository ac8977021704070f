"""GSSAPI of the operating system: MIT Kerberos' own library, called without anything to build.

No package with a wheel for Linux has GSSAPI.
"""

import ctypes
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from functools import cache
from typing import Any

from hiveacid.errors import KerberosLibraryMissing
from hiveacid.metastore.sasl.gss_failure import GssFailure

_LIBRARY = "libgssapi_krb5.so.2"
# Constants of RFC 2744: the kind of number for gss_display_status, and the usage of a credential.
_OF_GSSAPI, _OF_MECHANISM = 1, 2
_INITIATE = 1
_CONTINUE_NEEDED = 1
_MUTUAL, _REPLAY, _SEQUENCE, _CONFIDENTIAL, _INTEGRITY = 2, 4, 8, 16, 32
# The numbers of errors are in the upper half.
_ERRORS = 0xFFFF0000


class _Buffer(ctypes.Structure):
    _fields_ = (("length", c_size_t), ("value", c_void_p))


class _Oid(ctypes.Structure):
    _fields_ = (("length", c_uint32), ("elements", c_char_p))


class _OidSet(ctypes.Structure):
    _fields_ = (("count", c_size_t), ("elements", POINTER(_Oid)))


class _Element(ctypes.Structure):
    _fields_ = (("key", c_char_p), ("value", c_char_p))


class _Store(ctypes.Structure):
    _fields_ = (("count", c_uint32), ("elements", POINTER(_Element)))


_KERBEROS = _Oid(9, b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02")
_SERVICE_AT_HOST = _Oid(10, b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x01\x04")
_PRINCIPAL = _Oid(10, b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02\x01")


class SystemContext:
    """One side of a Kerberos connection.

    Attributes:
        complete: Whether both sides are authenticated.
    """

    def __init__(self, target: str, principal: str | None, store: dict[str, str]) -> None:
        """Log in.

        Args:
            target: The service, "hive@host" or a whole principal.
            principal: The owner of the ticket; by default the existing ticket.
            store: The locations of tickets and keys, by MIT Kerberos's names: "ccache" and
                "client_keytab".

        Raises:
            KerberosLibraryMissing: The library is missing.
            GssFailure: A ticket is missing and cannot be obtained.
        """
        self.complete = False
        self._handle, self._credential, self._target = c_void_p(), c_void_p(), c_void_p()
        self._gss = _library()
        kind = _PRINCIPAL if "/" in target else _SERVICE_AT_HOST
        self._target = self._name(target, kind)
        self._log_in(principal, store)

    def __del__(self) -> None:
        # The library owns the memory that it returns.
        minor = c_uint32()
        if self._handle:
            self._gss.gss_delete_sec_context(byref(minor), byref(self._handle), None)
        if self._credential:
            self._gss.gss_release_cred(byref(minor), byref(self._credential))
        if self._target:
            self._gss.gss_release_name(byref(minor), byref(self._target))

    @property
    def principal(self) -> str:
        """The principal that has logged in."""
        name, minor = c_void_p(), c_uint32()
        credential = self._credential
        self._check(
            self._gss.gss_inquire_cred(byref(minor), credential, byref(name), None, None, None),
            minor,
        )
        text = _Buffer()
        try:
            self._check(self._gss.gss_display_name(byref(minor), name, byref(text), None), minor)
            return self._taken(text).decode()
        finally:
            self._gss.gss_release_name(byref(minor), byref(name))

    def step(self, token: bytes) -> bytes:
        """Process a message of the other side and return the answer."""
        minor, answer, flags = c_uint32(), _Buffer(), c_uint32()
        wanted = _MUTUAL | _REPLAY | _SEQUENCE | _CONFIDENTIAL | _INTEGRITY
        major = self._gss.gss_init_sec_context(
            *(byref(minor), self._credential, byref(self._handle), self._target),
            *(byref(_KERBEROS), c_uint32(wanted), c_uint32(0), None),
            *(byref(_given(token)) if token else None, None),
            *(byref(answer), byref(flags), None),
        )
        result = self._taken(answer)
        self._check(major, minor)
        self.complete = not major & _CONTINUE_NEEDED
        if self.complete and wanted & ~flags.value:
            raise ValueError("Kerberos did not agree to protect the conversation")
        return result

    def wrap(self, data: bytes, encrypt: bool) -> bytes:
        """Protect data."""
        minor, wrapped, encrypted = c_uint32(), _Buffer(), c_int()
        major = self._gss.gss_wrap(
            *(byref(minor), self._handle, c_int(encrypt), c_uint32(0)),
            *(byref(_given(data)), byref(encrypted), byref(wrapped)),
        )
        self._check(major, minor)
        protected = self._taken(wrapped)
        if encrypt and not encrypted.value:
            raise ValueError("Kerberos did not encrypt")
        return protected

    def unwrap(self, data: bytes) -> tuple[bytes, bool]:
        """Check and open protected data; and whether it was encrypted."""
        minor, opened, encrypted = c_uint32(), _Buffer(), c_int()
        major = self._gss.gss_unwrap(
            *(byref(minor), self._handle, byref(_given(data))),
            *(byref(opened), byref(encrypted), None),
        )
        self._check(major, minor)
        return self._taken(opened), bool(encrypted.value)

    def _log_in(self, principal: str | None, store: dict[str, str]) -> None:
        minor = c_uint32()
        elements = [_Element(name.encode(), place.encode()) for name, place in store.items()]
        places = _Store(len(elements), (_Element * max(1, len(elements)))(*elements))
        mechanisms = _OidSet(1, ctypes.pointer(_KERBEROS))
        name = c_void_p() if principal is None else self._name(principal, _PRINCIPAL)
        try:
            major = self._gss.gss_acquire_cred_from(
                *(byref(minor), name, c_uint32(0), byref(mechanisms), c_int(_INITIATE)),
                *(byref(places) if elements else None, byref(self._credential), None, None),
            )
            self._check(major, minor)
        finally:
            if name:
                self._gss.gss_release_name(byref(c_uint32()), byref(name))

    def _name(self, text: str, kind: _Oid) -> c_void_p:
        minor, name = c_uint32(), c_void_p()
        given = _given(text.encode())
        major = self._gss.gss_import_name(byref(minor), byref(given), byref(kind), byref(name))
        self._check(major, minor)
        return name

    def _taken(self, buffer: _Buffer) -> bytes:
        """Copy the library's output and release its memory."""
        data = ctypes.string_at(buffer.value, buffer.length) if buffer.length else b""
        self._gss.gss_release_buffer(byref(c_uint32()), byref(buffer))
        return data

    def _check(self, major: int, minor: c_uint32) -> None:
        if major & _ERRORS:
            # Kerberos's own message is more specific, if present.
            kind, number = (_OF_MECHANISM, minor.value) if minor.value else (_OF_GSSAPI, major)
            raise GssFailure(minor.value, self._described(number, kind))

    def _described(self, number: int, kind: int) -> str:
        text, more = _Buffer(), c_uint32()
        self._gss.gss_display_status(
            *(byref(c_uint32()), c_uint32(number), c_int(kind), byref(_KERBEROS)),
            *(byref(more), byref(text)),
        )
        return self._taken(text).decode(errors="replace")


def forget_tickets(cache: str) -> None:
    """Drop all tickets in a cache; with a keytab, the next login gets new ones.

    Args:
        cache: Its name in MIT Kerberos: "MEMORY:name".
    """
    library = _library()
    # GSSAPI has no call for it, but the underlying Kerberos library has one.
    context, tickets = c_void_p(), c_void_p()
    if library.krb5_init_context(byref(context)) != 0:
        return
    try:
        if library.krb5_cc_resolve(context, cache.encode(), byref(tickets)) == 0:
            library.krb5_cc_destroy(context, tickets)
    finally:
        library.krb5_free_context(context)


@cache
def _library() -> Any:
    try:
        library = ctypes.CDLL(_LIBRARY)
    except OSError as error:
        raise KerberosLibraryMissing(f"Kerberos needs {_LIBRARY}, which is not here.") from error
    for name in _CALLS:
        function = getattr(library, name)
        function.restype = c_uint32
    return library


_CALLS = (
    "gss_acquire_cred_from",
    "gss_delete_sec_context",
    "gss_display_name",
    "gss_display_status",
    "gss_import_name",
    "gss_init_sec_context",
    "gss_inquire_cred",
    "gss_release_buffer",
    "gss_release_cred",
    "gss_release_name",
    "gss_unwrap",
    "gss_wrap",
)


def _given(data: bytes) -> _Buffer:
    """Wrap data for the library; the buffer keeps the memory alive."""
    memory = ctypes.create_string_buffer(data, len(data))
    buffer = _Buffer(len(data), ctypes.cast(memory, c_void_p))
    buffer.memory = memory
    return buffer
