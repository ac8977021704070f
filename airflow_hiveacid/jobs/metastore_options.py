"""How a job reaches its metastore: address, user, time limits and TLS."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from airflow_hiveacid.errors import InvalidJob
from airflow_hiveacid.jobs.field_checks import (
    is_template,
    require_text,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreOptions:
    """How the metastore is reached. Holds no secret: a token is named, not carried.

    Example::

        MetastoreOptions(uris="thrift://one:9083,thrift://two:9083", tls_ca_file="/etc/ssl/ours.pem")

    Attributes:
        uris: "thrift://host:port[,thrift://host2:port]" or "http[s]://host:port/path".
        user: The user to act as; None is the one who runs the job.
        connect_timeout_seconds: How long one host may take to accept a connection.
        read_timeout_seconds: How long one call may take as a whole, a second try included.
        tls: Use TLS for thrift, too; https has it anyway.
        tls_ca_file: Certificates that the server's is checked against, in place of the system's;
            switches TLS on for thrift.
        token_env: The name of an environment variable that holds a bearer token.
    """

    uris: str
    user: str | None = None
    connect_timeout_seconds: float = 10
    read_timeout_seconds: float = 300
    tls: bool = False
    tls_ca_file: str | None = None
    token_env: str | None = None

    @classmethod
    def of(cls, given: "str | MetastoreOptions") -> "MetastoreOptions":
        """The options that are given, or those of a bare uri, once they are found to be usable."""
        options = cls(uris=given) if isinstance(given, str) else given
        options.validate()
        return options

    def validate(self) -> None:
        """Raise InvalidJob when the options cannot be used."""
        require_text(self.uris, "metastore.uris")
        if not is_template(self.uris):
            uris = [uri.strip() for uri in self.uris.split(",")]
            for uri in uris:
                _require_uri(uri)
            if len({uri.startswith("thrift:") for uri in uris}) > 1:
                raise InvalidJob(f"metastore.uris mixes thrift and http: {self.uris!r}.")
            if self.tls and any(uri.startswith("http:") for uri in uris):
                raise InvalidJob(
                    f"metastore.tls is on, and metastore.uris is without TLS: {self.uris!r}.",
                    remedy="Write https://.",
                )
        for name in ("user", "tls_ca_file", "token_env"):
            if getattr(self, name) is not None:
                require_text(getattr(self, name), f"metastore.{name}")
                if not getattr(self, name).isprintable():
                    raise InvalidJob(f"metastore.{name} has a control character.")
        for name in ("connect_timeout_seconds", "read_timeout_seconds"):
            if not getattr(self, name) > 0:
                raise InvalidJob(f"metastore.{name} must be more than 0.")


def _require_uri(uri: str) -> None:
    """Raise InvalidJob unless it is the address of a metastore, without a secret."""
    try:
        parts = urlsplit(uri)
        port = parts.port
    except ValueError as error:
        raise InvalidJob(f"metastore.uris: {uri!r} cannot be read: {error}.") from error
    if parts.scheme not in ("thrift", "http", "https") or not parts.hostname:
        raise InvalidJob(
            f"metastore.uris: {uri!r} is not the address of a metastore.",
            remedy='Write "thrift://host:port" or "https://host:port/path".',
        )
    if parts.scheme == "thrift" and port is None:
        raise InvalidJob(f"metastore.uris: {uri!r} has no port.", remedy="Mostly it is 9083.")
    if parts.username is not None or parts.password is not None:
        raise InvalidJob(
            "metastore.uris must not hold a user or a password.",
            remedy="Use the user field, and token_env for a token.",
        )
