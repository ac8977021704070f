"""Translates Spark's errors into errors of this package, with problem, location, and remedy."""

import re
from collections.abc import Iterator
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
    BadCondition,
    ClusterUnreachable,
    ConstraintViolated,
    CorruptFile,
    DiskFull,
    HiveAcidError,
    InvalidConnection,
    InvalidJob,
    PermissionRefused,
    SparkJobFailed,
    StorageError,
    StorageUnreachable,
    TypeMismatch,
    UnknownColumn,
)
from hiveacid.jobs.fields import HEADER_REMEDY
from hiveacid.rules.directory import HEAD, kind_of_file
from hiveacid.spark.own_columns import OWN_COLUMNS
from hiveacid.spark.spark_versions import error_condition
from hiveacid.storage.filesystems import filesystem_of, translated_errors

# Marks in the text of errors that are raised inside of a Spark expression.
MISMATCH = "hiveacid-type-mismatch:"
CORRUPT = "hiveacid-corrupt-file:"
VIOLATED = "hiveacid-constraint-violated:"

_MARKED: dict[str, type[HiveAcidError]] = {
    MISMATCH: TypeMismatch,
    CORRUPT: CorruptFile,
    VIOLATED: ConstraintViolated,
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
_UNREADABLE = re.compile("Malformed ORC file|FAILED_READ_FILE|Problem opening stripe")
_CSV_HEADER = re.compile(
    r"(?:CSV header does not conform to the schema|Number of column in CSV header is not equal)"
    r"(?:.*\n){1,4}?\s*CSV file: (?P<file>.*)"
)
_FILES = re.compile(r"^(org\.apache\.hadoop\.(fs|hdfs)|java\.(nio\.file|io))\.")


@contextmanager
def translated_spark_errors(what: str) -> Iterator[None]:
    """Translate Spark errors of the body.

    Args:
        what: The name of the operation, at the beginning of the message: "The merge condition".
    """
    try:
        yield
    except HiveAcidError:
        raise
    except (PySparkException, Py4JError) as error:
        raise translate(error, what) from error


def translate(error: BaseException, what: str) -> HiveAcidError:
    """Translate one error of Spark into an error of this package."""
    text = str(error)
    first_line = next((line.strip() for line in text.splitlines() if line.strip()), repr(error))
    first_line = OWN_COLUMNS.sub("", first_line)
    if isinstance(error, ParseException):
        return BadCondition(f"{what} does not parse: {first_line}")
    if isinstance(error, AnalysisException):
        return _translate_analysis(error, what, first_line)
    for mark, kind in _MARKED.items():
        if mark in text:
            match = re.search(re.escape(mark) + r"(.*?)(?:\n| SQLSTATE|$)", text)
            return kind(match.group(1).strip() if match else first_line)
    if "stopped SparkContext" in text or "All masters are unresponsive" in text:
        return ClusterUnreachable(
            f"{what}: Spark was stopped from outside: its master does not answer, or the cluster has "
            "ended the application.",
            remedy="Check the master in the Spark connection, and the messages of the cluster.",
        )
    if bad_master := re.search(r"Could not parse Master URL: '[^']*'", text):
        return InvalidConnection(f"{what}: {bad_master[0]}.", remedy="Check the Spark connection.")
    if quota := _QUOTA.search(text):
        return DiskFull(f"{what}: {quota[0].rstrip(' .')}.")
    if "No space left on device" in text:
        return DiskFull(f"{what}: there is no space left to write to.")
    if "Permission denied" in text or "AccessControlException" in text:
        denied = next(
            line.strip() for line in text.splitlines() if "ermission" in line or "Access" in line
        )
        return PermissionRefused(f"{what}: {denied}")
    if away := _AWAY.search(text):
        return StorageUnreachable(f"{what}: {away[0].rstrip(' .')}.")
    if "CAST_INVALID_INPUT" in text or "CAST_OVERFLOW" in text:
        return TypeMismatch(f"{what}: {first_line}")
    if data_error := _DATA_ERROR.search(text):
        return BadCondition(f"{what}: {data_error.group()}")
    if isinstance(error, _DATA_ERRORS):
        return BadCondition(f"{what}: {first_line}")
    if header := _CSV_HEADER.search(text):
        return UnknownColumn(
            f"{what}: the header of {header['file']} differs from the schema"
            f"{_of_header(header[0])}.",
            remedy=HEADER_REMEDY,
        )
    if _UNREADABLE.search(text):
        return CorruptFile(f"{what}: {_reading(text) or first_line}")
    causes = _CAUSE.findall(text)
    cause = causes[-1].strip() if causes else first_line
    if _FILES.search(cause):
        return StorageError(f"{what}: {cause}", remedy="Look at the table's folder.")
    return SparkJobFailed(f"{what} failed in Spark: {cause}")


def _translate_analysis(error: AnalysisException, what: str, first_line: str) -> HiveAcidError:
    condition = error_condition(error)
    if condition in _UNKNOWN_COLUMN:
        return UnknownColumn(f"{what} names an unknown column: {first_line}")
    if condition.startswith("DATATYPE_MISMATCH"):
        return TypeMismatch(f"{what}: {first_line}")
    if condition in ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA"):
        return StorageError(f"{what}: {first_line}", remedy="Check the path of the source.")
    if condition.startswith("TABLE_OR_VIEW_NOT_FOUND"):
        return InvalidJob(
            f"{what} names a table that is not among its inputs: {first_line}",
            remedy="Give every table of the query a name in the source's inputs.",
        )
    return BadCondition(f"{what} does not resolve: {first_line}")


def _of_header(text: str) -> str:
    names = re.search(r"Expected: (.*) but found: (.*)", text)
    return f": it has {names[2]} instead of {names[1]}" if names else " in the number of columns"


def _reading(text: str) -> str:
    match = re.search(r"(?:reading file|stripe \d+ footer in) (\S+)", text)
    if match is None:
        return ""
    file = match.group(1).rstrip(".")
    kind = _kind_of(file)
    return f"{file} cannot be read{f': by its first bytes it is {kind}' if kind else ''}."


def _kind_of(file: str) -> str | None:
    """Detect a file's kind by its first bytes; None if unknown or unreadable for the driver."""
    with suppress(HiveAcidError), translated_errors(file):
        filesystem, path = filesystem_of(file)
        with filesystem.open_input_file(path) as source:
            return kind_of_file(source.read(HEAD))
    return None
