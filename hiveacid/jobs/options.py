"""Connection of a job to its metastore: address, user, time limits, TLS and Kerberos."""

import os
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from hiveacid.dataclass import dataclass
from hiveacid.errors import InvalidJob, UserError
from hiveacid.jobs.fields import awaits_rendering, require_choice, require_text
from hiveacid.rules.features import AUTO_PROFILE, PROFILES
from hiveacid.rules.location import AllowedLocations
from hiveacid.rules.schema import ColumnMapping
from hiveacid.settings import setting

# How long jobs, sensors and triggers wait for a metastore that is away.
PATIENCE_SECONDS = 600.0

NO_PROOF, KERBEROS, DELEGATION_TOKEN = "NONE", "GSSAPI", "DIGEST-MD5"
# The environment variable with the uris of a metastore for the command line.
METASTORE_VARIABLE = "HIVEACID_METASTORE"
# Further settings of the environment are HIVEACID_AUTH_MECHANISM and so on.
FROM_ENVIRONMENT = (
    "auth_mechanism",
    "kerberos_service_name",
    "kerberos_principal",
    "kerberos_keytab",
    "kerberos_ccache",
    "kerberos_min_protection",
    "metastore_profile",
)
AUTH_MECHANISMS = (NO_PROOF, KERBEROS, DELEGATION_TOKEN)
AUTO, ALWAYS, NEVER = "auto", "always", "never"
WRITE_EVENTS = (AUTO, ALWAYS, NEVER)
METASTORE_PROFILES = (AUTO_PROFILE, *PROFILES)
# The values of hadoop.rpc.protection, the weakest first.
PROTECTIONS = ("authentication", "integrity", "privacy")
_OF_KERBEROS = ("kerberos_principal", "kerberos_keytab", "kerberos_ccache")


def settings_of_environment() -> dict[str, Any]:
    """Return the settings of a connection that the environment of this process has."""
    settings = {name: os.environ.get(f"HIVEACID_{name.upper()}") for name in FROM_ENVIRONMENT}
    return {name: value for name, value in settings.items() if value}


@dataclass(frozen=True, slots=True, kw_only=True)
class MetastoreOptions:
    """Options for the metastore connection. A token is referenced by name: no secret is stored.

    Example::

        MetastoreOptions(uris="thrift://one:9083,thrift://two:9083", tls_ca_file="/etc/ssl/ours.pem")

    Attributes:
        uris: "thrift://host:port[,thrift://host2:port]" or "http[s]://host[:port]/path"; without a
            port, it is 80 or 443.
        user: The user to act as; None is the user who runs the job. With Kerberos, the metastore
            uses the ticket instead, and this is only needed if its rules map the principal to a
            name other than its first part.
        connect_timeout_seconds: The time limit for one host to accept a connection.
        read_timeout_seconds: The time limit for one call as a whole, including a second attempt.
        patience_seconds: How long a job waits for a metastore that is away, for example restarting,
            before it begins a transaction and within it; 0 fails at once.
        tls: Use TLS for thrift, too; https always uses it.
        tls_ca_file: Certificates for the verification of the server's, in place of the system's;
            enables TLS for thrift.
        token_env: The name of an environment variable that holds a bearer token, or the delegation
            token.
        auth_mechanism: "GSSAPI" is Kerberos, and "DIGEST-MD5" a delegation token, which drivers in
            clusters get; "NONE" disables authentication.
        kerberos_service_name: The first part of the metastore's principal, or all of it:
            "hive/_HOST@REALM".
        kerberos_principal: The principal of the ticket; None uses the existing ticket.
        kerberos_keytab: A file with the principal's key, which needs no ticket; it is not copied.
        kerberos_ccache: The cache of tickets; None uses that of the environment.
        kerberos_min_protection: The minimum protection of connections with Kerberos or a delegation
            token: "authentication", "integrity" or "privacy", as in hadoop.rpc.protection; None
            accepts any.
        column_mapping: The mapping of columns in ORC files that were written before the columns
            changed: by "position" or by "name". None is Hive's default, where it is known: by
            position with Apache Hive 4, or as the profile states. The table property
            `hiveacid.column_mapping` overrides it.
        metastore_profile: The kind of metastore, which states the features that cannot be asked for: "hive-3.1",
            "hive-4", "cdp-7.1.7", "cdp-7.1.8", "cdp-7.1.9", "cdp-7.3", "hdp-3.1" or "mr3-3.1".
            "auto" asks for the others, and is careful about the rest.
        write_events: Whether a write reports its new files to the metastore's listeners, for
            replication and Impala. "auto" does so if the metastore's own configuration has
            listeners of transactions, or `hive.metastore.dml.events`.
        allowed_locations: The locations of tables and files that jobs may open: schemes, with hosts
            or buckets, such as "hdfs://nn1:8020, s3a://bucket". None allows all that the
            configuration of Airflow allows, which a job can only restrict further.
    """

    uris: str
    user: str | None = None
    connect_timeout_seconds: float = 10
    read_timeout_seconds: float = 300
    patience_seconds: float = PATIENCE_SECONDS
    tls: bool = False
    tls_ca_file: str | None = None
    token_env: str | None = None
    auth_mechanism: str = NO_PROOF
    kerberos_service_name: str = "hive"
    kerberos_principal: str | None = None
    kerberos_keytab: str | None = None
    kerberos_ccache: str | None = None
    kerberos_min_protection: str | None = None
    column_mapping: str | None = None
    metastore_profile: str = AUTO_PROFILE
    write_events: str = AUTO
    allowed_locations: str | None = None

    @classmethod
    def of(cls, options_or_uri: "str | MetastoreOptions") -> "MetastoreOptions":
        """Return valid options from options or from a bare uri.

        They allow no location that the configuration of this process forbids.
        """
        # First of all: nothing is done with a limit that cannot be read.
        limit = AllowedLocations.parse(configured := setting("allowed_locations"))
        options = cls(uris=options_or_uri) if isinstance(options_or_uri, str) else options_or_uri
        options.validate()
        if configured:
            allowed = AllowedLocations.parse(options.allowed_locations or "").within(limit)
            options = replace(options, allowed_locations=str(allowed))
        return options

    @classmethod
    def of_environment(cls) -> "MetastoreOptions":
        """Return the options that the environment of this process has, as for the command line.

        Raises:
            UserError: No metastore is named.
        """
        if not (uris := os.environ.get(METASTORE_VARIABLE)):
            raise UserError(
                "No metastore is named.",
                remedy=f'Write metastore="thrift://host:9083", or set {METASTORE_VARIABLE}.',
            )
        return cls(uris=uris, **settings_of_environment())

    def with_delegation_token(self, variable: str) -> "MetastoreOptions":
        """Return the options for a process with a delegation token in place of a ticket.

        Args:
            variable: The environment variable with the token.
        """
        return replace(
            self,
            auth_mechanism=DELEGATION_TOKEN,
            token_env=variable,
            kerberos_principal=None,
            kerberos_keytab=None,
            kerberos_ccache=None,
        )

    def validate(self) -> None:
        """Raise InvalidJob if the options are invalid."""
        if self.allowed_locations is not None:
            require_text(self.allowed_locations, "metastore.allowed_locations")
            AllowedLocations.parse(self.allowed_locations)
        require_text(self.uris, "metastore.uris")
        if not awaits_rendering(self.uris):
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
        self._validate_auth()
        if self.column_mapping is not None:
            require_choice(self.column_mapping, list(ColumnMapping), "metastore.column_mapping")
        require_choice(self.metastore_profile, METASTORE_PROFILES, "metastore.metastore_profile")
        require_choice(self.write_events, WRITE_EVENTS, "metastore.write_events")
        for name in ("user", "tls_ca_file", "token_env", *_OF_KERBEROS):
            if getattr(self, name) is not None:
                require_text(getattr(self, name), f"metastore.{name}")
                if not getattr(self, name).isprintable():
                    raise InvalidJob(f"metastore.{name} has a control character.")
        for name in ("connect_timeout_seconds", "read_timeout_seconds"):
            if not getattr(self, name) > 0:
                raise InvalidJob(f"metastore.{name} must be more than 0.")
        if not self.patience_seconds >= 0:
            raise InvalidJob("metastore.patience_seconds must be 0 or more.")

    def _validate_auth(self) -> None:
        require_choice(self.auth_mechanism, AUTH_MECHANISMS, "metastore.auth_mechanism")
        require_text(self.kerberos_service_name, "metastore.kerberos_service_name")
        if self.auth_mechanism != NO_PROOF and self.uris.startswith("http"):
            raise InvalidJob(
                f"metastore.auth_mechanism is {self.auth_mechanism}, and metastore.uris is HTTP: "
                f"{self.uris!r}.",
                remedy="Write thrift://, or use a bearer token.",
            )
        if self.kerberos_min_protection is not None:
            require_choice(
                self.kerberos_min_protection, PROTECTIONS, "metastore.kerberos_min_protection"
            )
            if self.auth_mechanism == NO_PROOF:
                raise InvalidJob(
                    "metastore.kerberos_min_protection is given, and there is no Kerberos.",
                    remedy='Set auth_mechanism to "GSSAPI".',
                )
        if self.auth_mechanism == DELEGATION_TOKEN and self.token_env is None:
            raise InvalidJob("metastore.token_env must name where the delegation token is.")
        if self.auth_mechanism != KERBEROS:
            for name in _OF_KERBEROS:
                if getattr(self, name) is not None:
                    raise InvalidJob(
                        f"metastore.{name} is given, and there is no Kerberos.",
                        remedy='Set auth_mechanism to "GSSAPI".',
                    )


def _require_uri(uri: str) -> None:
    """Raise InvalidJob unless the text is the address of a metastore, without a secret."""
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
    if "@" in parts.netloc + parts.path:
        raise InvalidJob(
            "metastore.uris must not hold a user or a password.",
            remedy="Use the user field, and token_env for a token.",
        )
    if parts.query or parts.fragment:
        raise InvalidJob(
            "metastore.uris must not hold parameters.", remedy="Use token_env for a token."
        )
