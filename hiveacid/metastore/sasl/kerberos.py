"""The mechanism GSSAPI: Kerberos, by a ticket or a keytab of this machine."""

import hashlib
import os
import struct
import threading

from hiveacid.errors import AuthenticationFailed, MetastoreError
from hiveacid.jobs.options.metastore_options import MetastoreOptions
from hiveacid.metastore.sasl.channel import Protection
from hiveacid.metastore.sasl.gss_failure import GssFailure
from hiveacid.metastore.sasl.system_gssapi import SystemContext, forget_tickets

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
            opened, encrypted = self._open.unwrap(data)
        except GssFailure as failure:
            raise ValueError(f"it was changed on the way: {failure.message}") from failure
        if self.protection is Protection.PRIVACY and not encrypted:
            raise ValueError("it is not encrypted")
        return opened

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
        changed = os.stat(keytab).st_ctime_ns
    except OSError:
        changed = 0  # The library reports the error.
    login = f"{options.kerberos_principal}\0{keytab}\0{changed}"
    return f"MEMORY:hiveacid-{hashlib.sha256(login.encode()).hexdigest()[:32]}"


def _described(options: MetastoreOptions) -> str:
    parts = {
        "principal": options.kerberos_principal,
        "keytab": options.kerberos_keytab,
        "cache": options.kerberos_ccache,
    }
    described = ", ".join(f"{name} {value}" for name, value in parts.items() if value)
    return described or "the default cache"
