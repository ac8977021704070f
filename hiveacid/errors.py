"""All errors that this package raises, with texts that contain no secrets.

Each error names the problem, the object and the remedy.

HiveAcidError
├── UserError               exit 20  the job asks for something that cannot be done
├── DataError               exit 30  the rows or the files are unsuitable for the job
├── ConflictError           exit 10  a concurrent change was first; a retry can help
├── MetastoreError          exit 40  the metastore did not carry out a call
├── StorageError            exit 50  files could not be read, written or moved
├── ClusterUnreachable      exit 60  the cluster that runs Spark did not answer
├── JobFailed               exit 1   Spark, the worker, or a local server failed for another reason
└── TaskKilled              exit 1   the task of Airflow was killed
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import ClassVar, TypeVar
from urllib.parse import quote, quote_plus, unquote

# Texts without their secrets: the one rule for errors, reports, logs, and shown jobs.
#
# A secret is recognized by the name before it, by its place in an address, by its form, or because
# the caller knows it. When in doubt, too much is hidden.


HIDDEN = "***"
# Names whose values are secret even if they look like words.
_CERTAIN = (
    r"secret|passw(?:or)?d|pwd|passphrase|jaas|connection[._-]?string|authorization"
    r"|(?:access|private|keystore|account|api)[._-]?key|shared[._-]?access[._-]?signature"
)
_NAME = rf"(?:{_CERTAIN}|token|credential|(?<![a-z])(?:sas|sig|signature)(?![a-z]))"
_SECRET_NAME = re.compile(_NAME, re.IGNORECASE)
# The end of a quoted value: its quote, after as many backslashes as before the first one.
_CLOSED = r"(?<!\\)(?P=escape)(?P=quote)"
# A name with its value: quoted, or up to a space or the next parameter of an address.
_PAIR = re.compile(
    rf"(?P<name>{_NAME}[\w.-]{{0,80}})(?P<sign>\\*[\"']?\s{{0,3}}(?P<mark>=>?|:)\s{{0,3}})"
    r"(?P<value>(?P<escape>\\*)(?P<quote>[\"'])"
    rf"(?:(?P=quote)(?P=quote)|(?!{_CLOSED})[\s\S])*(?:{_CLOSED}|$)"
    r"|(?:(?:bearer|basic)\s+)?[^\s&]+)",
    re.IGNORECASE,
)
_SURE = re.compile(_CERTAIN, re.IGNORECASE)
_WORD = re.compile(r"[A-Za-z]{1,15}[.,;:!]?")
_ADDRESS = re.compile(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]{0,15})://(?P<rest>(?:(?![a-z][a-z0-9+.-]{0,15}://)\S)*)",
    re.IGNORECASE,
)
_WITH_KEYS = ("s3", "s3a", "s3n", "http", "https")
# Their addresses have no passwords: a colon precedes a port.
_WITHOUT_PASSWORDS = ("hdfs", "webhdfs", "swebhdfs", "viewfs", "thrift", "spark", "file")
_PORT = re.compile(r"[^:]*:[0-9]{1,5}")
# A header with credentials, a JSON web token, and the id of a key of Amazon's.
_FORMS = re.compile(
    r"(?P<before>\b(?:bearer|basic)\s+)(?=\S{16}|\S*\d)[\w.~+/=-]{8,}"
    r"|\beyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)?|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    re.IGNORECASE,
)
# A shorter text is in many words.
_SHORTEST = 4
_Value = TypeVar("_Value")


def without_secrets(text: str, secrets: Iterable[str] = ()) -> str:
    """Return a text without its secrets.

    Args:
        text: Any text.
        secrets: Secrets that the text may quote in any place, also encoded for addresses or JSON.
    """
    for secret in sorted(set(secrets), key=len, reverse=True):
        if len(secret) >= _SHORTEST:
            for form in dict.fromkeys(_encoded(secret)):
                text = text.replace(form, HIDDEN)
    text = _PAIR.sub(_without_value, address_without_secrets(text))
    return _FORMS.sub(lambda match: f"{match['before'] or ''}{HIDDEN}", text)


def address_without_secrets(text: str) -> str:
    """Return a text with addresses without passwords and keys."""
    return _ADDRESS.sub(_without_login, text)


def options_without_secrets(options: _Value) -> _Value | dict[str, object]:
    """Return options without secrets, for display.

    Args:
        options: Names to values; a value other than a mapping is returned unchanged.
    """
    if not isinstance(options, Mapping):
        return options
    return {name: _shown(str(name), value) for name, value in options.items()}


def secrets_of(options: Mapping[str, object]) -> Iterator[str]:
    """Yield the secrets in options: the values of secret names, and passwords in addresses."""
    for name, value in options.items():
        if isinstance(value, Mapping):
            yield from secrets_of(value)
            continue
        text = str(value)
        if _SECRET_NAME.search(name):
            yield text
            # An id and its secret, as the catalogs of Iceberg have them.
            if (secret := text.partition(":")[2].strip()) and "://" not in text:
                yield secret
            continue
        for address in _ADDRESS.finditer(text):
            _, login, _ = _login(address)
            if secret := login.partition(":")[2]:
                yield secret
                yield unquote(secret)


def _shown(name: str, value: object) -> object:
    if _SECRET_NAME.search(name):
        return HIDDEN
    return without_secrets(value) if isinstance(value, str) else value


def _encoded(secret: str) -> Iterator[str]:
    yield from (secret, quote(secret, safe=""), quote(secret), quote_plus(secret))
    yield from (json.dumps(secret)[1:-1], repr(secret)[1:-1])


def _login(address: re.Match[str]) -> tuple[str, str, str]:
    """Split an address into its scheme, the user with the password or "", and the rest.

    A password may contain slashes: the user and the password end at the last "@".
    """
    scheme, remainder = address["scheme"].lower(), address["rest"]
    login, at_sign, place = remainder.rpartition("@")
    host = re.split(r"[/?#]", remainder, maxsplit=1)[0]
    if not at_sign or ("@" not in host and ":" not in host):
        return scheme, "", remainder
    if "@" not in host and scheme in _WITHOUT_PASSWORDS and _PORT.fullmatch(host):
        return scheme, "", remainder
    return scheme, login, place


def _without_login(address: re.Match[str]) -> str:
    scheme, login, remainder = _login(address)
    user, colon, _ = login.partition(":")
    if not colon and scheme not in _WITH_KEYS:
        return address[0]
    if not login:
        return address[0]
    visible_login = (
        HIDDEN if scheme in _WITH_KEYS and not (colon and scheme.startswith("http")) else user
    )
    return f"{address['scheme']}://{visible_login}{colon and f':{HIDDEN}'}@{remainder}"


def _without_value(pair: re.Match[str]) -> str:
    value = pair["value"]
    prose = pair["mark"] == ":" and _WORD.fullmatch(value) and not _SURE.search(pair["name"])
    return pair[0] if prose else f"{pair['name']}{pair['sign']}{HIDDEN}"


class HiveAcidError(Exception):
    """Root of every error this package raises on purpose.

    Attributes:
        remedy: The action that the message suggests to its reader.
        retryable: Whether the same job may succeed when it is run again unchanged.
        exit_code: The exit status of an application that ends with this error.
        sql_state: The SQLSTATE for clients of SQL.
    """

    retryable: bool = False
    exit_code: ClassVar[int] = 1
    sql_state: ClassVar[str] = "XX000"
    default_remedy: ClassVar[str] = ""

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        self.what = without_secrets(
            message
        )  # Servers quote what they were given, such as passwords.
        self.remedy = self.default_remedy if remedy is None else without_secrets(remedy)
        super().__init__(self.what)

    def __str__(self) -> str:
        return f"{self.what} {self.remedy}".strip()

    def after(self, sentence: str) -> None:
        """Add the earlier commits of a job with several steps to the error of a later step.

        Args:
            sentence: A sentence; "" adds nothing.
        """
        self.what = f"{self.what} {sentence}".strip()

    @property
    def id(self) -> str:
        """The stable name of this kind of error, for programs."""
        return type(self).__name__


class ClusterUnreachable(HiveAcidError):
    """The cluster that runs a Spark application did not answer, or answered unexpectedly."""

    retryable = True
    exit_code = 60
    default_remedy = "Check its address in the Spark connection and that the service runs."


class JobFailed(HiveAcidError):
    """Spark, the worker, or a local server failed for a reason without a class of its own."""

    retryable = True


class TaskKilled(HiveAcidError):
    """The task was killed, and starts nothing any more."""

    retryable = True


class UserError(HiveAcidError):
    """The job asks for something that cannot be done as written."""

    sql_state = "42000"
    exit_code = 20


class AccessRefused(UserError):
    """The authorizer, or the list of allowed locations, refuses an access."""

    sql_state = "42501"


class InvalidConnection(UserError):
    """An Airflow connection is missing or incomplete."""


class InvalidJob(UserError):
    """A job is malformed, a condition does not parse or resolve, or SQL does more than it may."""


class PositionMismatch(UserError):
    """The position of a reader belongs to other data: a checkpoint, a cursor, or an export."""


class SoftwareMissing(UserError):
    """Software that the job requires is not installed, or has an unsupported version."""

    sql_state = "0A000"


class IcebergRefused(UserError):
    """A catalog of Iceberg, or its library, refuses a call, or a mirror cannot follow any more."""


class NothingToCompact(UserError):
    """Compaction would have no effect."""


class WrongTableKind(UserError):
    """The table is not transactional, or takes inserts only, and the job requires more."""

    default_remedy = "Use a table created with TBLPROPERTIES ('transactional'='true')."


class SharedLocation(UserError):
    """Two tables, or two partitions, share one location."""

    default_remedy = "Give each of them a separate folder."


class SparkNeeded(UserError):
    """The job is limited to the worker, and a part of it requires Spark."""

    default_remedy = "Run it with run_in='auto' or run_in='spark'."


class SqlError(UserError):
    """A statement cannot be parsed, or uses an unsupported feature."""

    sql_state = "42601"


class TableExists(UserError):
    """A table to be created already exists."""

    sql_state = "42P07"
    default_remedy = "Write IF NOT EXISTS to keep it."


class TableNotFound(UserError):
    """The database or the table does not exist."""

    sql_state = "42P01"


class TypeMismatch(UserError):
    """A value cannot be stored in its column."""

    sql_state = "42804"


class UnknownColumn(UserError):
    """A column is not part of the table or of the source."""

    sql_state = "42703"


class UnsupportedTable(UserError):
    """The table has a shape that cannot be written."""

    sql_state = "0A000"


class VersionUnknown(UserError):
    """A requested version of a table does not exist, or cannot be determined."""


class DataError(HiveAcidError):
    """The rows or the files are unsuitable for the job."""

    sql_state = "22000"
    exit_code = 30


class CheckFailed(DataError):
    """Rows violate a check, a constraint, the keys of a merge, a certificate, or a comparison."""

    sql_state = "23514"
    default_remedy = (
        "Nothing became visible. Correct the source; or change the check, or its severity to"
        ' "warn", if such rows are valid.'
    )


class CorruptFile(DataError):
    """The content of a file does not match its name and location."""

    default_remedy = (
        "Bring the file back from a copy, a snapshot of the file system or its trash; without it,"
        " rows are lost."
    )


class DirectoryMissing(DataError):
    """The directory of a table or a partition, which the metastore knows, does not exist."""

    default_remedy = (
        "Bring it back from a copy, a snapshot of the file system or its trash; or drop the table, or"
        " overwrite or drop the partition, if the rows are not needed."
    )


class MalformedName(DataError):
    """A name or a list of write ids is malformed, or a path leads out of the folder of its table."""


class NewerRecord(DataError):
    """A record that this version would have to understand was written by a newer one."""

    default_remedy = "Upgrade this package here to the version that wrote it, or to a newer one."


class OutOfOrder(DataError):
    """The rows of files that belong together are not in ascending order of row ids."""


class ProofFailed(DataError):
    """The output of a compaction differs from its input."""

    default_remedy = "Nothing was published. Please report it, with the log."


class UnprovenRun(DataError):
    """An earlier attempt of the run may have been applied, or a statement that its script has lost."""

    default_remedy = (
        "Look whether its rows are there. If they are not, delete the notes and run the task again; "
        "if they are, mark the task as successful."
    )


class UnsupportedFile(DataError):
    """A file is valid but uses an unsupported feature."""


class VersionGone(DataError):
    """The directories of a version of a table, or of a snapshot, were compacted away, and cleaned."""

    default_remedy = "Read a newer version."


class TooLarge(UnsupportedFile):
    """A file of others, or a text, would need more memory or time than a reader spends on it."""

    default_remedy = (
        "If it is damaged or forged, remove it, or bring it back from a copy. If it is valid, read it"
        " with Spark."
    )


class BeyondArrow(UnsupportedFile):
    """A file holds values that only Spark, not Arrow, can represent or convert to a new type."""


class ConflictError(HiveAcidError):
    """A concurrent change was first; a retry can help."""

    sql_state = "40001"
    retryable = True
    exit_code = 10


class AlreadyCompacting(ConflictError):
    """Another process compacts the same partition, or has a request to do so."""

    default_remedy = "Run the job again when that is done."


class HiddenFiles(ConflictError):
    """Files are hidden by a removal for an earlier table, which was killed or is in progress."""

    default_remedy = "Clean the table: this puts the files back."


class LockTimeout(ConflictError):
    """The locks were not granted within the job's limit."""


class OverlapRefused(ConflictError):
    """Another writer committed first, and the job's conflict policy refuses both changes."""

    default_remedy = (
        "Nothing of this transaction is visible; run the job again on the rows of the other one."
    )


class SnapshotMoved(ConflictError):
    """The table kept changing while the job tried to start."""

    default_remedy = "Run the job again when fewer others write there, or raise max_restarts."


class StagedChangeRefused(ConflictError):
    """A staged change can no longer be published."""

    retryable = False
    default_remedy = "Nothing of it is visible; discard it, and stage the change again."


class StreamOvertaken(ConflictError):
    """Another driver of the same stream has applied more batches than this one."""

    retryable = False
    default_remedy = "No batch is applied twice. Let only one driver run the stream."


class TableReplaced(ConflictError):
    """The table, or its mirror, was created again or changed by others while a job worked on it."""

    default_remedy = "Nothing of the new one was touched; run the job again if it is still wanted."


class TransactionAborted(ConflictError):
    """The metastore aborted the transaction, or no longer has it."""

    default_remedy = "Nothing of this transaction is visible; run the job again."


class WriteConflict(ConflictError):
    """Another transaction committed a change of the same rows first."""

    default_remedy = OverlapRefused.default_remedy


class MetastoreError(HiveAcidError):
    """The metastore did not carry out a call."""

    sql_state = "08006"
    exit_code = 40


class AuthenticationFailed(MetastoreError):
    """The metastore rejects the caller's identity or way to prove it, or has not proved its own."""


class NoTicket(AuthenticationFailed):
    """No valid Kerberos ticket or delegation token is available for the login."""

    retryable = True
    default_remedy = (
        "Get one with kinit, or let airflow kerberos renew it, and check that KRB5CCNAME names "
        "the cache it is in; or set kerberos_keytab and kerberos_principal."
    )


class AnswerLost(MetastoreError):
    """A call has no answer that can be read; it is unknown whether the call was carried out.

    Attributes:
        garbled: Whether there is an answer, which cannot be parsed.
    """

    retryable = True
    garbled: bool = False


class CommitUncertain(MetastoreError):
    """The metastore became unavailable during a commit; its outcome is unknown."""

    retryable = True
    default_remedy = "Look for the rows, or run the job again once the metastore is back."


class MetastoreCallFailed(MetastoreError):
    """The metastore answered a call with an error without a class of its own."""


class MetastoreTroubled(MetastoreCallFailed):
    """The metastore had an internal failure, usually of its database."""

    retryable = True
    default_remedy = "Look into the metastore's log, and run the job again."


class MetastoreUnreachable(MetastoreError):
    """No metastore host answered, or no catalog of Iceberg."""

    retryable = True
    default_remedy = "Check the metastore uri, that the service runs and that the port is open."


class UnsupportedMetastore(MetastoreError):
    """The server is not a supported Hive Metastore."""


class StorageError(HiveAcidError):
    """Files could not be read, written or moved."""

    sql_state = "58030"
    exit_code = 50


class DiskFull(StorageError):
    """No space is left for the job's files."""

    default_remedy = "Free space on the file system of the table, then run the job again."


class EmptySource(StorageError):
    """A source has no file, no bytes, or no rows.

    It is not retryable if its job skips such a source: then a task is skipped.
    """

    retryable = True
    default_remedy = (
        "Nothing was changed: run the task again once the rows are there, or set on_empty if none are"
        " no error."
    )


class NotAFile(StorageError):
    """Something that is neither a file nor a directory is in the place of one."""

    default_remedy = (
        "It may be a link that leads nowhere, for example to a disk that is not mounted: bring back its"
        " target. Remove it only if it is foreign: the file in its place is missing then."
    )


class PermissionRefused(StorageError):
    """The file system refuses access."""

    default_remedy = "Give the user who runs the job access to the table's folder."


class StorageUnreachable(StorageError):
    """The file system does not answer, does not accept changes yet, or cannot identify the caller."""

    retryable = True
