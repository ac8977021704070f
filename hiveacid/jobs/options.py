"""Connection of a job to its metastore: address, user, time limits, TLS and Kerberos."""

import configparser
import hashlib
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, Self, get_args
from urllib.parse import urlsplit

from hiveacid.errors import AccessRefused, InvalidJob, UserError
from hiveacid.jobs.fields import awaits_rendering, require_choice, require_text
from hiveacid.rules.features import AUTO_PROFILE, PROFILES
from hiveacid.rules.location import Location
from hiveacid.rules.locks import ConflictPolicy
from hiveacid.rules.schema import ColumnMapping

# How long jobs, sensors and triggers wait for a metastore that is away.
PATIENCE_SECONDS = 600.0


# Settings of the section `[hive_acid]`, read where Airflow reads them, also without Airflow


_SECTION = "hive_acid"


def setting(name: str) -> str:
    """Return a setting of this process: notebooks and the command line do not load Airflow.

    Args:
        name: The name of the setting.

    Returns:
        Its value; "" if it is not set.

    Raises:
        AccessRefused: Airflow's configuration cannot be read.
    """
    given = os.environ.get(setting_variable(name))
    if given is None:
        home = os.environ.get("AIRFLOW_HOME") or "~/airflow"
        file = os.environ.get("AIRFLOW_CONFIG") or f"{home}/airflow.cfg"
        given = _read(Path(os.path.expandvars(file)).expanduser()).get(name, "")
    return given.strip()


def setting_variable(name: str) -> str:
    """Return the environment variable of a setting."""
    return f"AIRFLOW__{_SECTION.upper()}__{name.upper()}"


@cache
def _read(file: Path) -> dict[str, str]:
    parser = configparser.ConfigParser(interpolation=None, strict=False)
    try:
        parser.read_string(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, configparser.Error) as error:
        raise AccessRefused(
            f"{file} cannot be read, so whether it limits accesses is not known: {error}.",
            remedy=f"Make the file readable, or set AIRFLOW__{_SECTION.upper()}__AUTHORIZER and"
            f" AIRFLOW__{_SECTION.upper()}__ALLOWED_LOCATIONS; empty means no limit.",
        ) from error
    return dict(parser[_SECTION]) if parser.has_section(_SECTION) else {}


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
    given = {name: os.environ.get(f"HIVEACID_{name.upper()}") for name in FROM_ENVIRONMENT}
    return {name: value for name, value in given.items() if value}


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
    def of(cls, given: "str | MetastoreOptions") -> "MetastoreOptions":
        """Return valid options from options or from a bare uri.

        They allow no location that the configuration of this process forbids.
        """
        # First of all: nothing is done with a limit that cannot be read.
        limit = AllowedLocations.parse(configured := setting("allowed_locations"))
        options = cls(uris=given) if isinstance(given, str) else given
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


# Tokens of connections, stored in this process and not in its environment


_kept: dict[str, str] = {}


def keep_token(variable: str, token: str) -> None:
    """Store a token under the name of a Spark driver's environment variable for it.

    The environment of a triggerer or of an API server is passed to every process that it starts.
    """
    _kept[variable] = token


def token_of(variable: str) -> str | None:
    """Return the token stored under a name, or else the value of the environment variable."""
    return _kept.get(variable) or os.environ.get(variable)


def kept_tokens() -> Mapping[str, str]:
    """Return all stored tokens, as variables for a Spark driver on this machine."""
    return dict(_kept)


# Run tokens: names of a run in the metastore and in notes of this package.
#
# A token is "dag/run/task/map index", prefixed by the id of the Airflow instance if one is
# configured. The engine adds a digest of the statement in a script, and a mark of the job's
# tables: two Airflow instances on one metastore may have equal DAGs, and ending the earlier
# attempts of a run must not affect a run on other tables.


# The metastore stores 128 characters of an agent info and 128 of a host name, which must hold both,
# the key of a statement and the mark of the tables.
_LONGEST_RUN = 60
_DIGEST_LENGTH = 16
_MARK_LENGTH = 8
STATEMENT_LENGTH = 12
_STATEMENT = rf"#(?:[0-9]+|[0-9a-f]{{{STATEMENT_LENGTH}}}(?:\.[0-9]+)?)"
_TOKEN = re.compile(rf"(.*?)({_STATEMENT})?(@[0-9a-f]{{{_MARK_LENGTH}}})?", re.DOTALL)


def statement_token(run_token: str, key: str | int) -> str:
    """Return the run token of one statement of a script, or of one batch of a stream.

    Args:
        run_token: The token of the script or the stream.
        key: A digest of the statement, with ".2" and so on for equal statements; or the batch.
    """
    return f"{run_token}#{key}"


def marked_token(run_token: str, tables: Iterable[str]) -> str:
    """Return a run token with a mark of the tables that the job writes.

    Args:
        run_token: The token.
        tables: Their full names; case and order are ignored.
    """
    names = ",".join(sorted({name.lower() for name in tables}))
    return f"{run_token}@{hashlib.sha256(names.encode()).hexdigest()[:_MARK_LENGTH]}"


def source_token(token: str) -> str:
    """Return the name of the transactions that keep the sources of a run while another one writes.

    These transactions change nothing. An attempt ends those that exist at its start, but not those
    that other attempts, or it itself, have opened since.

    Args:
        token: The run token, marked or not.
    """
    return f"source of {token}"


def unmarked_token(token: str) -> str:
    """Return a token for display, without the mark of its tables.

    Args:
        token: A run token, or the stored part of it in the metastore.
    """
    run, statement, _ = _parts(token)
    return run + statement


def task_and_run(token: str) -> tuple[str, str]:
    """Split a token for display into "dag.task", with the index of a mapped task, and its run.

    Args:
        token: A run token, or the stored part of it in the metastore. One that no task of Airflow
            has is the run of no task.
    """
    run = run_of(token).removeprefix("source of ")
    dag, *between = run.split("/")
    if len(between) >= 3:
        *run_id, task, index = between
        return f"{dag}.{task}{'' if index == '-1' else f'[{index}]'}", "/".join(run_id)
    return "", unmarked_token(token)


def dag_of(token: str, instance: str) -> str | None:
    """Return the DAG of a token's run; None if the DAG is not of this Airflow.

    Args:
        token: A run token, or the stored part of it in the metastore.
        instance: The id of this Airflow; "" if it is not configured.
    """
    dag, slash, _ = token.removeprefix("source of ").partition("/")
    known, colon, own = dag.rpartition(":")
    # A truncated token keeps its DAG if a slash follows.
    return own if slash and known == instance and bool(colon) == bool(instance) else None


def is_same_run(token: str, other: str) -> bool:
    """Whether two tokens are of one run, possibly of different statements of its script.

    Args:
        token: A token, marked or not.
        other: Another one.
    """
    return _parts(token)[0] == _parts(other)[0]


def run_of(token: str) -> str:
    """Return a token without the digest of the statement and the mark of the tables.

    Args:
        token: A token of a run, or the stored part of it in the metastore.
    """
    return _parts(token)[0]


def agent_info(token: str) -> str:
    """Return a token in the form and length that the metastore can store.

    Args:
        token: A run token of any length, marked or not.
    """
    run, statement, mark = _parts(token)
    return _shortened(run) + statement + mark


def transaction_host(machine: str, token: str, nonce: str) -> str:
    """Return the host name that a transaction stores in the metastore: "machine~nonce/token".

    HMS 4 returns the agent info of a transaction only with its locks, which do not exist between
    opening and locking.

    Args:
        machine: The machine, in at most 33 characters.
        token: The run token, as ``agent_info`` returns it.
        nonce: Six characters that distinguish this transaction from others with the same token.
    """
    return f"{machine}~{nonce}/{token}"


def split_transaction_host(host: str) -> tuple[str, str]:
    """Split the stored host name of a transaction into its machine and its run token.

    Args:
        host: The host name; that of another engine has no token, and that of an earlier version of
            this package no nonce.
    """
    machine, slash, token = host.partition("/")
    return machine.rpartition("~")[0] or machine if slash else machine, token


def _shortened(run: str) -> str:
    """Replace the end of a long token, or only the run id of a task's, by a digest of the token."""
    if len(run) <= _LONGEST_RUN:
        return run
    digest = hashlib.sha256(run.encode()).hexdigest()[:_DIGEST_LENGTH]
    dag, _, rest = run.partition("/")
    _, *task = rest.rsplit("/", 2)
    named = "/".join([dag, f"~{digest}", *task])
    if len(task) == 2 and len(named) <= _LONGEST_RUN:
        return named
    return f"{run[: _LONGEST_RUN - _DIGEST_LENGTH - 1]}~{digest}"


def _parts(token: str) -> tuple[str, str, str]:
    match = _TOKEN.fullmatch(token)
    assert match is not None
    return match[1], match[2] or "", match[3] or ""


# Options of a run for jobs, writes in Python, and streams


# The processes that work on rows: those of the task or command, an application, or as they fit.
Place = Literal["auto", "worker", "spark"]
# The handling of sources without rows; see RowJob.
OnEmpty = Literal["fail", "skip", "ok"]
OrcCodec = Literal["none", "zlib", "snappy", "lz4", "zstd"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """Options of a run.

    Attributes:
        run_token: The name of the run's transactions; runs with the same name apply a change once.
        run_id: The run of the DAG, for display, where ``once_per`` replaces it in run_token.
        lock_wait_seconds: The maximum waiting time for locks.
        max_restarts: The maximum number of restarts if the table changed before the work began.
        conflict_policy: The treatment of concurrent commits in the same partitions:
            "hive" applies the rules of the metastore; "strict" also refuses the combinations that
            `hiveacid plan --conflicts` shows; "rows" permits changes of different rows.
        orc_codec: "zlib", "snappy", "lz4", "zstd" or "none"; None takes the table's orc.compress,
            else zlib. Only Hive 4 reads zstd.
    """

    run_token: str | None = None
    run_id: str | None = None
    lock_wait_seconds: float = 300
    max_restarts: int = 5
    conflict_policy: ConflictPolicy | str = "hive"
    orc_codec: OrcCodec | str | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The options by name, without other fields of a subclass."""
        return {field.name: getattr(self, field.name) for field in fields(RunOptions)}

    @property
    def known_run_token(self) -> str:
        """The run token of a run that has one.

        Raises:
            InvalidJob: The run has no token.
        """
        if self.run_token is None:
            raise InvalidJob("The job has no run token.")
        return self.run_token

    @property
    def source_token(self) -> str | None:
        """The name of the run's transactions that only read or keep a source.

        The next attempt ends them, so that it does not wait for their locks.
        """
        return None if self.run_token is None else source_token(self.run_token)

    def validate_options(self) -> None:
        """Raise InvalidJob if an option has an invalid value."""
        if self.run_token is not None:
            require_text(self.run_token, "run_token")
        if self.run_id is not None:
            require_text(self.run_id, "run_id")
        if self.lock_wait_seconds < 0:
            raise InvalidJob("lock_wait_seconds must not be negative.")
        if self.max_restarts < 0:
            raise InvalidJob("max_restarts must not be negative.")
        require_choice(self.conflict_policy, get_args(ConflictPolicy), "conflict_policy")
        if self.orc_codec is not None:
            require_choice(self.orc_codec, get_args(OrcCodec), "orc_codec")


# Locations of the metastore that a process may open


_RULE = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)(?:://(?P<host>[^/\s]*))?")
_LOCATION = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<host>[^/]*))?.*", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class AllowedLocations:
    """Allowed schemes, and hosts or buckets.

    Attributes:
        rules: Pairs of a scheme and a host; None means all hosts. Without any rule every
            location is allowed.
    """

    rules: tuple[tuple[str, str | None], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``hdfs://nn1:8020, s3a://bucket, gs``.

        Raises:
            InvalidJob: The text has another form.
        """
        rules = []
        for number, part in enumerate(text.split(",") if text.strip() else (), start=1):
            match = _RULE.fullmatch(part.strip().lower().rstrip("/"))
            # Also an empty one: without any rule, all locations would be allowed.
            if match is None:
                raise InvalidJob(
                    f"Entry {number} of allowed_locations, {part.strip()!r}, does not define allowed "
                    "locations.",
                    remedy="Write schemes, with hosts or buckets: hdfs://nn1:8020, s3a://bucket, gs.",
                )
            rules.append((match["scheme"], match["host"]))
        return cls(tuple(rules))

    def __str__(self) -> str:
        """The text that ``parse`` reads."""
        return ", ".join(
            scheme if host is None else f"{scheme}://{host}" for scheme, host in self.rules
        )

    def within(self, limit: Self) -> Self:
        """Return the locations that a limit allows, too.

        Raises:
            InvalidJob: No location is left.
        """
        if not self.rules or not limit.rules:
            return self if self.rules else limit
        common = [
            (scheme, hosts if other_hosts is None else other_hosts)
            for scheme, hosts in self.rules
            for other_scheme, other_hosts in limit.rules
            if scheme == other_scheme and (hosts == other_hosts or None in (hosts, other_hosts))
        ]
        if not common:
            raise InvalidJob(
                f"The allowed_locations {self} are outside of those of the configuration: {limit}.",
                remedy="Leave allowed_locations out of the options of the metastore.",
            )
        return type(self)(tuple(dict.fromkeys(common)))

    def require(self, location: str) -> Location:
        """Return a location for opening it, unless it is not allowed.

        Raises:
            AccessRefused: The location is not allowed.
        """
        match = _LOCATION.fullmatch(location)
        scheme = ((match and match["scheme"]) or "file").lower()
        host = ((match and match["host"]) or "").lower()
        if self.rules and not any(
            scheme == allowed and hosts in (None, host) for allowed, hosts in self.rules
        ):
            raise AccessRefused(
                f"{location!r} is not among the locations that may be opened here.",
                remedy="If it should be, add its scheme and host to allowed_locations (for jobs) or "
                "page_locations (for the page) in the section hive_acid of Airflow's configuration.",
            )
        return Location(location)
