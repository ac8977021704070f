"""Errors of this package as clients of Spark see them: with a condition and an SQLSTATE."""

import re

from pyspark.errors import AnalysisException, PySparkException

from hiveacid.errors import (
    AccessRefused,
    CheckFailed,
    ConflictError,
    DataError,
    HiveAcidError,
    MetastoreError,
    SoftwareMissing,
    SqlError,
    StorageError,
    TableExists,
    TableNotFound,
    TypeMismatch,
    UnknownColumn,
    UnsupportedTable,
    UserError,
)
from hiveacid.spark.spark_versions import error_condition

# The SQLSTATE of errors, by the first class that an error has.
_STATES: tuple[tuple[type[Exception], str], ...] = (
    (SqlError, "42601"),
    (TableNotFound, "42P01"),
    (TableExists, "42P07"),
    (UnknownColumn, "42703"),
    (TypeMismatch, "42804"),
    (AccessRefused, "42501"),
    (UnsupportedTable, "0A000"),
    (SoftwareMissing, "0A000"),
    (UserError, "42000"),
    (CheckFailed, "23514"),
    (DataError, "22000"),
    (ConflictError, "40001"),
    (MetastoreError, "08006"),
    (StorageError, "58030"),
    (Exception, "XX000"),
)


def client_error(error: Exception) -> dict[str, object]:
    """Return what an error is for a client of Spark, as values of JSON."""
    name = type(error).__name__
    text, condition, state = str(error), "", None
    if isinstance(error, PySparkException):
        condition, state = error_condition(error), error.getSqlState()
    elif not isinstance(error, HiveAcidError):
        text = f"{name}: {text}"
    return {
        "text": text,
        "condition": condition or "HIVE_ACID_" + re.sub("(?<=[a-z])(?=[A-Z])", "_", name).upper(),
        "state": state or next(state for kind, state in _STATES if isinstance(error, kind)),
        "of_user": isinstance(error, UserError | AnalysisException),
    }
