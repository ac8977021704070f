"""The statement by which a client of Spark's SQL gives a job to the door."""

import re

from hiveacid.dataclass import dataclass
from hiveacid.errors import SqlError
from hiveacid.jobs.job import Job
from hiveacid.jobs.job_json import to_json
from hiveacid.parser.statement import SqlStatement
from hiveacid.parser.words import Words

# Other statements need no parser here.
_BEGINNING = re.compile(r"\bcall\s+hiveacid\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Call:
    """A job in a statement.

    Attributes:
        job: The job as JSON.
        for_program: Whether the caller reads a report as JSON, also that of a failure.
    """

    job: str
    for_program: bool = False


def call_text(job: Job) -> str:
    """Return the statement that runs a job for a program: ``CALL hiveacid.report('{…}')``."""
    # Spark would replace ${…} in a statement, and a quote would end the text.
    text = to_json(job).replace("$", r"\u0024").replace("'", r"\u0027")
    return "CALL hiveacid.report('{}')".format(text.replace("\\", "\\\\"))


def read_call(text: str) -> Call | None:
    """Return the call that a statement is; None for another statement.

    Raises:
        SqlError: The call is malformed; the message contains the position.
    """
    if not _BEGINNING.search(text):
        return None
    try:
        words = Words(SqlStatement.of(text, ""))
    except SqlError:
        return None  # Spark itself reports a quote that does not end.
    if not words.take_all("CALL", "HIVEACID"):
        return None
    words.expect(".")
    for_program = words.take("REPORT")
    if not for_program:
        words.expect("RUN")
    words.expect("(")
    job = words.string()
    words.expect(")")
    words.take(";")
    words.end()
    return Call(job, for_program)
