"""ALTER, CONVERT and RESTORE TABLE as jobs, and questions, read word by word.

sqlglot has no tree for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from sqlglot.tokenizer_core import Token, TokenType

from airflow_hiveacid.acid.as_of import AsOf
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.names import partition_name
from airflow_hiveacid.errors import HiveAcidError, InvalidJob
from airflow_hiveacid.jobs.ddl_jobs import ConvertJob
from airflow_hiveacid.jobs.maintenance_jobs import CompactJob
from airflow_hiveacid.jobs.write_jobs import RestoreJob
from airflow_hiveacid.sql.statement import SqlStatement

_COMPACTIONS = ("MINOR", "MAJOR")
_SHOWN = 100


@dataclass(frozen=True, slots=True)
class Question:
    """A statement that only asks something about a table.

    Attributes:
        table: The table's full name.
        limit: How many entries of its history are wanted; None asks for its details.
    """

    table: str
    limit: int | None = None


def question_of(statement: SqlStatement) -> Question:
    """SHOW HISTORY ... [LIMIT n], or DESCRIBE DETAIL ..."""
    words = _Words(statement)
    if words.take("SHOW"):
        words.expect("HISTORY")
        table = words.table()
        limit = words.count("lines") if words.take("LIMIT") else _SHOWN
        words.end()
        return Question(table, limit)
    if not words.take("DESC"):
        words.expect("DESCRIBE")
    words.expect("DETAIL")
    table = words.table()
    words.end()
    return Question(table)


def alter_job(statement: SqlStatement) -> CompactJob | ConvertJob:
    """ALTER TABLE ... COMPACT, or ... SET TBLPROPERTIES ('transactional'='true')."""
    words = _Words(statement)
    words.expect("ALTER")
    words.expect("TABLE")
    target = words.table()
    partition = words.partition() if words.take("PARTITION") else None
    if words.take("COMPACT"):
        return _compact(statement, words, target, partition)
    if partition is None and words.take("SET"):
        words.expect("TBLPROPERTIES")
        at = words.next
        if words.properties() == {"transactional": "true"}:
            words.end()
            return ConvertJob(target=target)
        statement.refuse(at, "Of the table properties, only 'transactional'='true' can be set.")
    statement.refuse(words.next, f"ALTER TABLE ... {words.text()} is not supported.")


def convert_job(statement: SqlStatement) -> ConvertJob:
    """CONVERT TABLE ... [TO ACID]."""
    words = _Words(statement)
    words.expect("CONVERT")
    words.expect("TABLE")
    target = words.table()
    if words.take("TO"):
        words.expect("ACID")
    words.end()
    return ConvertJob(target=target)


def restore_job(statement: SqlStatement) -> RestoreJob:
    """RESTORE TABLE ... TO VERSION AS OF 7, or TO SYSTEM_TIME AS OF '2026-03-01 12:00:00'."""
    words = _Words(statement)
    words.expect("RESTORE")
    words.expect("TABLE")
    target = words.table()
    words.expect("TO")
    by_write_id = words.take("VERSION")
    # TIMESTAMP is another word for SYSTEM_TIME.
    if not by_write_id and not words.take("TIMESTAMP"):
        words.expect("SYSTEM_TIME")
    words.expect("AS")
    words.expect("OF")
    if not by_write_id:
        words.take("TIMESTAMP")
    as_of = str(words.count("a version")) if by_write_id else words.time()
    words.end()
    return RestoreJob(target=target, as_of=as_of)


def _compact(
    statement: SqlStatement, words: "_Words", target: str, partition: str | None
) -> CompactJob:
    at = words.next
    kind = words.string().upper()
    if kind not in _COMPACTIONS:
        statement.refuse(at, f"A compaction is 'minor' or 'major', not {kind.lower()!r}.")
    if words.take("AND"):
        words.expect("WAIT")
    if not words.done:
        statement.refuse(words.next, f"COMPACT with {words.text()} is not supported.")
    return CompactJob(
        target=target,
        type=kind.lower(),
        partitions=None if partition is None else (partition,),
    )


class _Words:
    """The words of a statement, from left to right."""

    def __init__(self, statement: SqlStatement) -> None:
        self._statement = statement
        self._tokens: Sequence[Token] = statement.tokens
        self._at = 0

    @property
    def done(self) -> bool:
        return self._at == len(self._tokens)

    @property
    def next(self) -> Token:
        """The next word; the last one when there is none left."""
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    def text(self) -> str:
        return "the end" if self.done else self.next.text.upper()

    def take(self, word: str) -> bool:
        is_next = not self.done and self.next.text.upper() == word
        self._at += is_next
        return is_next

    def expect(self, word: str) -> None:
        if not self.take(word):
            self._statement.refuse(self.next, f"Expected {word} before {self.text()!r}.")

    def end(self) -> None:
        if not self.done:
            self._statement.refuse(self.next, f"Expected the end before {self.text()!r}.")

    def table(self) -> str:
        at = self.next
        parts = [self._name()]
        while self.take("."):
            parts.append(self._name())
        if len(parts) > 2:
            self._statement.refuse(at, "A table of another catalog is not supported.")
        try:
            return TableRef.parse(".".join([self._statement.database, *parts][-2:])).full_name
        except HiveAcidError as error:
            raise self._statement.error(at, error.what, error.remedy) from error

    def partition(self) -> str:
        """The name of the partition that the values of a PARTITION clause make."""
        keys, values = [], []
        self.expect("(")
        while True:
            keys.append(self._name().lower())
            self.expect("=")
            values.append(self._value())
            if not self.take(","):
                break
        self.expect(")")
        return partition_name(keys, values)

    def properties(self) -> dict[str, str]:
        values = {}
        self.expect("(")
        while True:
            name = self.string().lower()
            self.expect("=")
            values[name] = self.string().lower()
            if not self.take(","):
                break
        self.expect(")")
        return values

    def string(self) -> str:
        return self._of(TokenType.STRING)

    def time(self) -> str:
        """A time in ISO form; nothing but digits, as 20260301, would be a write id elsewhere."""
        at = self.next
        try:
            return str(AsOf.of_time(self.string()).time)
        except InvalidJob as error:
            raise self._statement.error(at, error.what, error.remedy) from error

    def count(self, of: str) -> int:
        at = self.next
        number = self._of(TokenType.NUMBER)
        if not number.isdecimal() or len(number) > 9:
            self._statement.refuse(at, f"{number} is no number of {of}.")
        return int(number)

    def _name(self) -> str:
        if not self.done and self.next.token_type is not TokenType.STRING:
            word = self.next.text
            if self.next.token_type is TokenType.IDENTIFIER or word.replace("_", "a").isalnum():
                self._at += 1
                return word
        self._statement.refuse(self.next, f"Expected a name before {self.text()!r}.")

    def _value(self) -> str | None:
        if self.take("NULL"):
            return None
        sign = "-" if self.take("-") else ""
        if not sign and not self.done and self.next.token_type is TokenType.STRING:
            return self.string()
        return sign + self._of(TokenType.NUMBER)

    def _of(self, kind: TokenType) -> str:
        if self.done or self.next.token_type is not kind:
            what = "a text in quotes" if kind is TokenType.STRING else "a value"
            self._statement.refuse(self.next, f"Expected {what} before {self.text()!r}.")
        self._at += 1
        return self._tokens[self._at - 1].text
