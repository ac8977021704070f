"""Translates Spark's errors into errors of this package, with problem, location, and remedy, and back."""

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress

from py4j.protocol import Py4JError
from pyspark.errors import (
    AnalysisException,
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
    ParseException,
    PySparkException,
)

from hiveacid.errors import (
    CheckFailed,
    ClusterUnreachable,
    CorruptFile,
    DiskFull,
    EmptySource,
    HiveAcidError,
    InvalidConnection,
    InvalidJob,
    JobFailed,
    PermissionRefused,
    StorageError,
    StorageUnreachable,
    TableReplaced,
    TypeMismatch,
    UnknownColumn,
    UnsupportedTable,
    UserError,
)
from hiveacid.jobs.fields import HEADER_REMEDY
from hiveacid.rules.constraints import VIOLATION_REMEDY
from hiveacid.rules.directory import HEAD, ORC_FILE, kind_of_file
from hiveacid.rules.location import Location, split
from hiveacid.rules.schema import STATE_MAPPING
from hiveacid.spark.own_columns import OWN_COLUMNS
from hiveacid.spark.spark_versions import error_condition
from hiveacid.storage.filesystems import filesystem_of, translated_errors
from hiveacid.storage.folder import ReadOnlyStorage
from hiveacid.storage.listing import read_tail

# Marks in the text of errors that are raised inside of a Spark expression.
MISMATCH = "hiveacid-type-mismatch:"
CORRUPT = "hiveacid-corrupt-file:"
REPLACED = "hiveacid-replaced-file:"
MALFORMED = "hiveacid-malformed-line:"
VIOLATED = "hiveacid-constraint-violated:"
UNMAPPED = "hiveacid-unknown-mapping:"

LINE_REMEDY = (
    "Correct it, or read such lines into a column for a table of rejected lines (option"
    " columnNameOfCorruptRecord), or as nulls (option mode: PERMISSIVE)."
)
_MARKED: dict[str, tuple[type[HiveAcidError], str | None]] = {
    MISMATCH: (TypeMismatch, None),
    CORRUPT: (CorruptFile, None),
    REPLACED: (TableReplaced, "Read the table again."),
    MALFORMED: (CorruptFile, LINE_REMEDY),
    VIOLATED: (CheckFailed, VIOLATION_REMEDY),
    UNMAPPED: (UnsupportedTable, STATE_MAPPING),
}

# Classes 21 and 22 of SQL: the data is invalid for the expression, such as a division by zero, or a
# scalar subquery with several rows. P0001 is raise_error().
_DATA_ERROR = re.compile(
    r"\[[A-Z_.]+\] .*SQLSTATE: (?:2[12]\w{3}|P0001)"
    # Messages of Spark 3.5 have no class.
    r"|(?<=SparkArithmeticException: )\[[A-Z_.]+\] .*|(?<=SparkDateTimeException: )\[[A-Z_.]+\] .*"
    r"|(?<=SparkArrayIndexOutOfBoundsException: )\[[A-Z_.]+\] .*"
    r"|\[SCALAR_SUBQUERY_TOO_MANY_ROWS\] .*"
    # Spark 4.0 knows scripts, but does not run them.
    r"|\[UNSUPPORTED_FEATURE[A-Z_.]*\] .*"
)
_DATA_ERRORS = (
    ArithmeticException,
    ArrayIndexOutOfBoundsException,
    DateTimeException,
    NumberFormatException,
)

_UNKNOWN_COLUMN = {
    "UNRESOLVED_COLUMN.WITH_SUGGESTION",
    "UNRESOLVED_COLUMN.WITHOUT_SUGGESTION",
    "UNRESOLVED_FIELD.WITH_SUGGESTION",
    "FIELD_NOT_FOUND",
}

# A line of a Java error with the failure; the last one is the cause of all others.
_CAUSE = re.compile(r"^[\s:]*(?:Caused by: )?([\w.$]*(?:Error|Exception): .*)$", re.MULTILINE)
# A NameNode's message on a quota, for any request.
_QUOTA = re.compile(r"(?:The \w+ quota|Quota by storage type)[^\n]*? is exceeded[\w =.:]+")
# Messages of Hadoop's client on a NameNode that is unreachable or has just started, and the
# corresponding error of this package in a task.
_AWAY = re.compile(
    r"Call From \S+ to \S+ failed on [^\n;]+|(?:SafeMode|Retriable|Standby)Exception\)?: [^\n]+"
    r"|StorageUnreachable: [^\n]+"
)
# Spark 3.5 passes on the messages of the ORC library.
_UNREADABLE = re.compile(
    "FAILED_READ_FILE|Malformed ORC file|Not a valid ORC file|Problem opening stripe"
    "|orc.protobuf.InvalidProtocolBufferException"
)
_CSV_HEADER = re.compile(
    r"(?:CSV header does not conform to the schema|Number of column in CSV header is not equal)"
    r"(?:.*\n){1,4}?\s*CSV file: (?P<file>.*)"
)
_FILES = re.compile(r"^(org\.apache\.hadoop\.(fs|hdfs)|java\.(nio\.file|io))\.")


@contextmanager
def translated_spark_errors(subject: str) -> Iterator[None]:
    """Translate Spark errors of the body.

    Args:
        subject: The name of the operation, at the beginning of the message: "The merge condition".
    """
    try:
        yield
    except HiveAcidError:
        raise
    except (PySparkException, Py4JError) as error:
        raise translate(error, subject) from error


class _Failure:
    """An error of Spark with the texts that messages are made of.

    Attributes:
        what: The name of the operation.
        text: All that Spark says, often a page.
        found: The part of it that a rule has found.
    """

    def __init__(self, error: BaseException, subject: str) -> None:
        self.what, self.text, self.found = subject, str(error), ""
        lines = (line.strip() for line in self.text.splitlines())
        self.line = OWN_COLUMNS.sub("", next(filter(None, lines), repr(error)))

    @property
    def cause(self) -> str:
        """The last exception of Java in the text, which is the cause of all others."""
        causes = _CAUSE.findall(self.text)
        return causes[-1].strip() if causes else self.line

    @property
    def reading(self) -> str:
        """The file that cannot be read, if the text names it."""
        return _reading(self.text, self.cause) or f"{self.cause.rstrip('.')}."

    @property
    def header(self) -> str:
        """The CSV file whose header differs, and how."""
        names = re.search(r"Expected: (.*) but found: (.*)", self.found)
        difference = (
            f": it has {names[2]} instead of {names[1]}" if names else " in the number of columns"
        )
        file = self.found.rpartition("CSV file: ")[2]
        return f"the header of {file} differs from the schema{difference}"


# What Spark says, the error of this package, its message, and its remedy; the first rule applies.
_RULES: Sequence[tuple[re.Pattern[str], type[HiveAcidError], str, str | None]] = [
    (re.compile(pattern), kind, message, remedy)
    for pattern, kind, message, remedy in (
        (
            "stopped SparkContext|All masters are unresponsive",
            ClusterUnreachable,
            "{0.what}: Spark was stopped from outside: its master does not answer, or the cluster has"
            " ended the application.",
            "Check the master in the Spark connection, and the messages of the cluster.",
        ),
        (
            "Could not parse Master URL: '[^']*'",
            InvalidConnection,
            "{0.what}: {0.found}.",
            "Check the Spark connection.",
        ),
        (_QUOTA, DiskFull, "{0.what}: {0.found}.", None),
        (
            "No space left on device",
            DiskFull,
            "{0.what}: there is no space left to write to.",
            None,
        ),
        (
            ".*(?:Permission denied|AccessControlException).*",
            PermissionRefused,
            "{0.what}: {0.found}.",
            None,
        ),
        (_AWAY, StorageUnreachable, "{0.what}: {0.found}.", None),
        ("CAST_INVALID_INPUT|CAST_OVERFLOW", TypeMismatch, "{0.what}: {0.line}", None),
        (_DATA_ERROR, InvalidJob, "{0.what}: {0.found}.", None),
        (_CSV_HEADER, UnknownColumn, "{0.what}: {0.header}.", HEADER_REMEDY),
        (
            _UNREADABLE,
            CorruptFile,
            "{0.what}: {0.reading}",
            f"{CorruptFile.default_remedy} For a source, check its format as well.",
        ),
    )
]


def translate(error: BaseException, subject: str) -> HiveAcidError:
    """Translate one error of Spark into an error of this package."""
    failure = _Failure(error, subject)
    if isinstance(error, ParseException):
        return InvalidJob(f"{subject} does not parse: {failure.line}")
    if isinstance(error, AnalysisException):
        return _translate_analysis(error, subject, failure.line)
    for mark, (marked, marked_remedy) in _MARKED.items():
        if mark in failure.text:
            match = re.search(re.escape(mark) + r"(.*?)(?:\n| SQLSTATE|$)", failure.text)
            return marked(match.group(1).strip() if match else failure.line, remedy=marked_remedy)
    for pattern, kind, message, remedy in _RULES:
        if found := pattern.search(failure.text):
            failure.found = found[0].strip().rstrip(" .")
            return kind(message.format(failure), remedy=remedy)
    if isinstance(error, _DATA_ERRORS):
        return InvalidJob(f"{subject}: {failure.line}")
    if _FILES.search(failure.cause):
        return StorageError(f"{subject}: {failure.cause}", remedy="Look at the table's folder.")
    return JobFailed(f"{subject} failed in Spark: {failure.cause}")


def _translate_analysis(error: AnalysisException, subject: str, first_line: str) -> HiveAcidError:
    condition = error_condition(error)
    if condition in _UNKNOWN_COLUMN:
        return UnknownColumn(f"{subject} names an unknown column: {first_line}")
    if condition.startswith("DATATYPE_MISMATCH"):
        return TypeMismatch(f"{subject}: {first_line}")
    if condition in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
        return EmptySource(f"{subject}: {first_line}", remedy="Check the path of the source.")
    if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        return InvalidJob(
            f"{subject} names a table that is not among its inputs: {first_line}",
            remedy="Give every table of the query a name in the source's inputs.",
        )
    return InvalidJob(f"{subject} does not resolve: {first_line}")


def _reading(text: str, cause: str) -> str:
    match = re.search(r"(?:reading file|stripe \d+ footer in) (\S+)", text)
    if match is None:
        return ""
    # Spark has read it for this process.
    file = Location(match.group(1).rstrip("."))
    kind = _kind_of(file)
    if kind == ORC_FILE:
        return f"{_damage(file) or f'{file} cannot be read as ORC: {cause}'.rstrip('.')}."
    return f"{file} cannot be read{f': by its first bytes it is {kind}' if kind else ''}."


def _damage(file: Location) -> str:
    """Return what the worker says about the tail of an ORC file; "" if it is whole or unreadable."""
    folder, name = split(file)
    try:
        read_tail(ReadOnlyStorage.of(folder), name)
    except CorruptFile as error:
        return error.what.rstrip(".")
    except HiveAcidError:
        pass
    return ""


def _kind_of(file: Location) -> str | None:
    """Detect a file's kind by its first bytes; None if unknown or unreadable for the driver."""
    with suppress(HiveAcidError), translated_errors(file):
        filesystem, path = filesystem_of(file)
        with filesystem.open_input_file(path) as source:
            return kind_of_file(source.read(HEAD))
    return None


def client_error(error: Exception) -> dict[str, object]:
    """Return what an error is for a client of Spark, as values of JSON."""
    name = type(error).__name__
    condition = "HIVE_ACID_" + re.sub("(?<=[a-z])(?=[A-Z])", "_", name).upper()
    text, state = str(error), HiveAcidError.sql_state
    if isinstance(error, HiveAcidError):
        state = error.sql_state
    elif isinstance(error, PySparkException):
        condition, state = error_condition(error) or condition, error.getSqlState() or state
    else:
        text = f"{name}: {text}"
    return {
        "text": text,
        "condition": condition,
        "state": state,
        "of_user": isinstance(error, UserError | AnalysisException),
    }
