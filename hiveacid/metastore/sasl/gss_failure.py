"""Translation of Kerberos failures into errors with a cause and a remedy."""

from hiveacid.errors import (
    AuthenticationFailed,
    KdcUnreachable,
    MetastoreError,
    NoTicket,
)

# The error numbers of MIT Kerberos and of the protocol, with the same base.
_BASE = 2529638912
_CLIENT_UNKNOWN = _BASE + 6
_SERVICE_UNKNOWN = _BASE + 7
_PREAUTH_FAILED = _BASE + 24
_INTEGRITY = _BASE + 31
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

    def login_error(self, who: str, *, keytab: bool) -> MetastoreError:
        """The error for a failed login.

        Args:
            who: The credentials that were used.
            keytab: Whether a keytab was part of it.
        """
        what = f"There is no Kerberos ticket to log in with ({who}): {self.message}."
        if self.minor in (_KDC_UNREACHABLE, *_NO_SUCH_REALM):
            return self._of_realm()
        if self.minor == _CLIENT_UNKNOWN:
            return NoTicket(
                what, remedy="The KDC does not have this principal: correct kerberos_principal."
            )
        if self.minor in (_PREAUTH_FAILED, _INTEGRITY):
            return NoTicket(
                what,
                remedy="The keytab does not contain the current key of the principal: "
                "export the keytab again.",
            )
        if self.minor == _SKEW:
            return self._of_clocks()
        if keytab:
            return NoTicket(
                what,
                remedy="Check that the keytab can be read here, and by klist -kt that it has a key "
                "of kerberos_principal, spelled with its realm.",
            )
        return NoTicket(what)

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
        what = f"Kerberos has no service ticket for {service}: {self.message}."
        if self.minor in (_SERVICE_UNKNOWN, _SERVICE_NOT_ALLOWED):
            return AuthenticationFailed(
                what,
                remedy="Use the host's name as the metastore's principal has it, never its address,"
                " in the metastore uri; and set kerberos_service_name to the principal's first part,"
                " or to all of it: hive/_HOST@REALM.",
            )
        return AuthenticationFailed(what)

    def _of_clocks(self) -> MetastoreError:
        return AuthenticationFailed(
            f"Kerberos finds the clocks too far apart: {self.message}.",
            remedy="Set the clocks of this machine, of the KDC and of the metastore by one source; "
            "five minutes are allowed.",
        )

    def _of_realm(self) -> MetastoreError:
        return KdcUnreachable(f"No Kerberos server answers: {self.message}.")
