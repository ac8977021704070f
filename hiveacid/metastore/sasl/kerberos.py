"""The mechanism GSSAPI: Kerberos, by a ticket or a keytab of this machine."""

import ctypes
import hashlib
import os
import struct
import threading
from ctypes import POINTER, byref, c_char_p, c_int, c_size_t, c_uint32, c_void_p
from functools import cache
from typing import Any

from hiveacid.errors import (
    AuthenticationFailed,
    MetastoreError,
    NoTicket,
    SoftwareMissing,
)
from hiveacid.jobs.options import MetastoreOptions
from hiveacid.metastore.sasl.channel import Protection

# Translation of Kerberos failures into errors with a cause and a remedy


# The error numbers of MIT Kerberos and of the protocol, with the same base.
_BASE = 2529638912
_CLIENT_UNKNOWN = _BASE + 6
_SERVICE_UNKNOWN = _BASE + 7
_PREAUTH_FAILED = _BASE + 24
_NO_INTEGRITY = _BASE + 31
_EXPIRED = _BASE + 32
_NOT_YET_VALID = _BASE + 33
_SKEW = _BASE + 37
_WRONG_REALM = _BASE + 68
_REALM_UNKNOWN = _BASE + 154
_SERVICE_NOT_ALLOWED = _BASE + 155
_KDC_UNREACHABLE = _BASE + 156
_REALM_NOT_RESOLVED = _BASE + 220

_NO_SUCH_REALM = (_REALM_UNKNOWN, _REALM_NOT_RESOLVED, _WRONG_REALM)


class GssFailure(Exception):
    """A call of GSSAPI has failed.

    Attributes:
        minor: The mechanism's error number.
        message: The library's message.
    """

    def __init__(self, minor: int, message: str) -> None:
        super().__init__(message)
        self.minor = minor & 0xFFFFFFFF
        self.message = message.rstrip(".")

    def login_error(self, credentials: str, *, keytab: bool) -> MetastoreError:
        """The error for a failed login.

        Args:
            credentials: The credentials that were used.
            keytab: Whether a keytab was part of it.
        """
        message = f"There is no Kerberos ticket to log in with ({credentials}): {self.message}."
        if self.minor in (_KDC_UNREACHABLE, *_NO_SUCH_REALM):
            return self._of_realm()
        if self.minor == _CLIENT_UNKNOWN:
            return NoTicket(
                message, remedy="The KDC does not have this principal: correct kerberos_principal."
            )
        if self.minor in (_PREAUTH_FAILED, _NO_INTEGRITY):
            return NoTicket(
                message,
                remedy="The keytab does not contain the current key of the principal: "
                "export the keytab again.",
            )
        if self.minor == _SKEW:
            return self._of_clocks()
        if keytab:
            return NoTicket(
                message,
                remedy="Check that the keytab can be read here, and by klist -kt that it has a key "
                "of kerberos_principal, spelled with its realm.",
            )
        return NoTicket(message)

    def service_error(self, service: str) -> MetastoreError:
        """The error for a user with a ticket that gets no service ticket for the metastore.

        Args:
            service: The principal of the metastore.
        """
        if self.minor == _EXPIRED:
            return NoTicket(f"The Kerberos ticket has expired: {self.message}.")
        if self.minor in (_SKEW, _NOT_YET_VALID):
            return self._of_clocks()
        if self.minor in (_KDC_UNREACHABLE, *_NO_SUCH_REALM):
            return self._of_realm()
        message = f"Kerberos has no service ticket for {service}: {self.message}."
        if self.minor in (_SERVICE_UNKNOWN, _SERVICE_NOT_ALLOWED):
            return AuthenticationFailed(
                message,
                remedy="Use the host's name as the metastore's principal has it, never its address,"
                " in the metastore uri; and set kerberos_service_name to the principal's first part,"
                " or to all of it: hive/_HOST@REALM.",
            )
        return AuthenticationFailed(message)

    def _of_clocks(self) -> MetastoreError:
        return AuthenticationFailed(
            f"Kerberos finds the clocks too far apart: {self.message}.",
            remedy="Set the clocks of this machine, of the KDC and of the metastore by one source; "
            "five minutes are allowed.",
        )

    def _of_realm(self) -> MetastoreError:
        return NoTicket(
            f"No Kerberos server answers: {self.message}.",
            remedy="Check realms and kdc in /etc/krb5.conf, or in the file KRB5_CONFIG names.",
        )


# GSSAPI of the operating system: MIT Kerberos' own library, called without anything to build.
#
# No package with a wheel for Linux has GSSAPI.


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
            SoftwareMissing: The library is missing.
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
            return self._output(text).decode()
        finally:
            self._gss.gss_release_name(byref(minor), byref(name))

    def step(self, token: bytes) -> bytes:
        """Process a message of the other side and return the answer."""
        minor, answer, flags = c_uint32(), _Buffer(), c_uint32()
        requested_flags = _MUTUAL | _REPLAY | _SEQUENCE | _CONFIDENTIAL | _INTEGRITY
        major = self._gss.gss_init_sec_context(
            *(byref(minor), self._credential, byref(self._handle), self._target),
            *(byref(_KERBEROS), c_uint32(requested_flags), c_uint32(0), None),
            *(byref(_input_buffer(token)) if token else None, None),
            *(byref(answer), byref(flags), None),
        )
        result = self._output(answer)
        self._check(major, minor)
        self.complete = not major & _CONTINUE_NEEDED
        if self.complete and requested_flags & ~flags.value:
            raise ValueError("Kerberos did not agree to protect the conversation")
        return result

    def wrap(self, data: bytes, encrypt: bool) -> bytes:
        """Protect data."""
        minor, wrapped, encrypted = c_uint32(), _Buffer(), c_int()
        major = self._gss.gss_wrap(
            *(byref(minor), self._handle, c_int(encrypt), c_uint32(0)),
            *(byref(_input_buffer(data)), byref(encrypted), byref(wrapped)),
        )
        self._check(major, minor)
        protected = self._output(wrapped)
        if encrypt and not encrypted.value:
            raise ValueError("Kerberos did not encrypt")
        return protected

    def unwrap(self, data: bytes) -> tuple[bytes, bool]:
        """Check and open protected data; and whether it was encrypted."""
        minor, plain_buffer, encrypted = c_uint32(), _Buffer(), c_int()
        major = self._gss.gss_unwrap(
            *(byref(minor), self._handle, byref(_input_buffer(data))),
            *(byref(plain_buffer), byref(encrypted), None),
        )
        self._check(major, minor)
        return self._output(plain_buffer), bool(encrypted.value)

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
        name_buffer = _input_buffer(text.encode())
        major = self._gss.gss_import_name(
            byref(minor), byref(name_buffer), byref(kind), byref(name)
        )
        self._check(major, minor)
        return name

    def _output(self, buffer: _Buffer) -> bytes:
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
        text, message_context = _Buffer(), c_uint32()
        self._gss.gss_display_status(
            *(byref(c_uint32()), c_uint32(number), c_int(kind), byref(_KERBEROS)),
            *(byref(message_context), byref(text)),
        )
        return self._output(text).decode(errors="replace")


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
        raise SoftwareMissing(
            f"Kerberos needs {_LIBRARY}, which is not here.",
            remedy="Install libgssapi-krb5-2 (Debian) or krb5-libs (Red Hat).",
        ) from error
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


def _input_buffer(data: bytes) -> _Buffer:
    """Wrap data for the library; the buffer keeps the memory alive."""
    memory = ctypes.create_string_buffer(data, len(data))
    buffer = _Buffer(len(data), ctypes.cast(memory, c_void_p))
    buffer.memory = memory
    return buffer


# The bits of RFC 4752, the strongest first.
_OFFERS = ((4, Protection.PRIVACY), (2, Protection.INTEGRITY), (1, Protection.AUTH))
_BITS = {protection: bit for bit, protection in _OFFERS}
_MOST_BYTES = (1 << 24) - 1
# Of two concurrent logins into one ticket cache, one would temporarily see it empty.
_logging_in = threading.Lock()


class Kerberos:
    """The mechanism GSSAPI.

    Every connection looks up the ticket again: a cached credential expires with its ticket, whereas
    an open connection outlives it. So the process that renews the ticket, for example `airflow
    kerberos`, needs to notify no process; with a keytab, the library renews the ticket itself.
    """

    name = "GSSAPI"

    def __init__(self, options: MetastoreOptions, host: str, where: str) -> None:
        """Describe the caller and the metastore.

        Args:
            options: The source of the ticket and the metastore's service name.
            host: The metastore's host.
            where: The metastore, for errors.
        """
        self.done = False
        self.user = ""
        self.protection = Protection.AUTH
        self._options = options
        self._service = _service(options.kerberos_service_name, host)
        self._where = where
        self._context: SystemContext | None = None
        self._own_cache = _own_cache(options)

    def step(self, challenge: bytes) -> bytes:
        """Log in, authenticate, and negotiate the protection of the following frames."""
        if self._context is None:
            with _logging_in:
                self._context = self._logged_in()
                return self._establish(b"")
        if not self._context.complete:
            return self._establish(challenge)
        if self.done:
            raise ValueError("it continues after authentication is complete")
        return self._choose_protection(challenge)

    def refused(self, message: str) -> MetastoreError:
        """Report that the metastore rejects the ticket; only its log contains the reason."""
        with _logging_in:
            self._forget()
        return AuthenticationFailed(
            f"{self._where} refuses {self.user or 'the ticket'}: {message}.",
            remedy="Look into the metastore's log. Mostly its keytab is not that of the principal "
            f"that was asked for, {self._service}, or the clocks are more than five minutes apart.",
        )

    def wrap(self, data: bytes) -> bytes:
        """Protect a frame."""
        try:
            return self._open.wrap(data, self.protection is Protection.PRIVACY)
        except GssFailure as failure:
            raise ValueError(f"it cannot be protected: {failure.message}") from failure

    def unwrap(self, data: bytes) -> bytes:
        """Check and open a frame."""
        try:
            content, encrypted = self._open.unwrap(data)
        except GssFailure as failure:
            raise ValueError(f"it was changed on the way: {failure.message}") from failure
        if self.protection is Protection.PRIVACY and not encrypted:
            raise ValueError("it is not encrypted")
        return content

    @property
    def _open(self) -> SystemContext:
        assert self._context is not None
        return self._context

    def _logged_in(self) -> SystemContext:
        options = self._options
        store = {}
        if options.kerberos_keytab is not None:
            store["client_keytab"] = options.kerberos_keytab
        if cache := self._own_cache or options.kerberos_ccache:
            store["ccache"] = cache
        try:
            context = SystemContext(self._service, options.kerberos_principal, store)
            # Like Hadoop without a matching rule of its own.
            self.user = context.principal.partition("@")[0].partition("/")[0]
        except GssFailure as failure:
            keytab = options.kerberos_keytab is not None
            raise failure.login_error(_described(options), keytab=keytab) from failure
        return context

    def _establish(self, challenge: bytes) -> bytes:
        try:
            return self._open.step(challenge)
        except GssFailure as failure:
            if challenge:
                raise self._unproven(failure) from failure
            error = failure.service_error(self._service)
            if type(error) is AuthenticationFailed:
                self._forget()  # Only if new tickets can be obtained.
            raise error from failure

    def _forget(self) -> None:
        """Force a new login: the server may have replaced the keys of the current tickets."""
        if self._own_cache is not None:
            forget_tickets(self._own_cache)

    def _choose_protection(self, challenge: bytes) -> bytes:
        """Choose the strongest protection that the metastore offers."""
        try:
            offer, _ = self._open.unwrap(challenge)
        except GssFailure as failure:
            raise self._unproven(failure) from failure
        if len(offer) != 4:
            raise ValueError("it offers no protection")
        common = [protection for bit, protection in _OFFERS if offer[0] & bit]
        if not common:
            raise AuthenticationFailed(f"{self._where} offers no protection that is known here.")
        self.protection = common[0]
        size = 0 if self.protection is Protection.AUTH else _MOST_BYTES
        answer = self._open.wrap(struct.pack(">I", _BITS[self.protection] << 24 | size), False)
        self.done = True
        return answer

    def _unproven(self, failure: GssFailure) -> MetastoreError:
        return AuthenticationFailed(
            f"{self._where} did not prove that it is {self._service}: {failure.message}.",
            remedy="Another server may answer there: check the metastore uri.",
        )


def _service(name: str, host: str) -> str:
    """Return the metastore's principal: "hive@host" for Kerberos to complete, or a full one."""
    return name.replace("_HOST", host.lower()) if "/" in name else f"{name}@{host}"


def _own_cache(options: MetastoreOptions) -> str | None:
    """Return the cache for a keytab's tickets; the user's own cache may hold another principal's.

    The cache is in memory, one for each version of the keytab file: a replaced or removed file may
    belong to another principal, whose ticket is still valid.
    """
    keytab = options.kerberos_keytab
    if keytab is None or options.kerberos_ccache is not None:
        return None
    try:
        change_time = os.stat(keytab).st_ctime_ns
    except OSError:
        change_time = 0  # The library reports the error.
    login = f"{options.kerberos_principal}\0{keytab}\0{change_time}"
    return f"MEMORY:hiveacid-{hashlib.sha256(login.encode()).hexdigest()[:32]}"


def _described(options: MetastoreOptions) -> str:
    parts = {
        "principal": options.kerberos_principal,
        "keytab": options.kerberos_keytab,
        "cache": options.kerberos_ccache,
    }
    description = ", ".join(f"{name} {value}" for name, value in parts.items() if value)
    return description or "the default cache"
