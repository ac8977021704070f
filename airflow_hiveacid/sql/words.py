"""The words of a statement, from left to right, for what sqlglot has no tree for."""

from collections.abc import Sequence

from sqlglot.tokenizer_core import Token, TokenType

from airflow_hiveacid.acid.as_of import AsOf
from airflow_hiveacid.acid.locks import TableRef
from airflow_hiveacid.acid.names import partition_name
from airflow_hiveacid.acid.sort_order import SortColumn
from airflow_hiveacid.errors import HiveAcidError, InvalidJob
from airflow_hiveacid.sql.statement import SqlStatement


class Words:
    """The words of a statement, from left to right."""

    def __init__(self, statement: SqlStatement) -> None:
        self._statement = statement
        self._tokens: Sequence[Token] = statement.tokens
        self._at = 0

    @property
    def done(self) -> bool:
        """Whether there is none left."""
        return self._at == len(self._tokens)

    @property
    def next(self) -> Token:
        """The next word; the last one when there is none left."""
        return self._tokens[min(self._at, len(self._tokens) - 1)]

    def text(self) -> str:
        """The next word in capitals."""
        return "the end" if self.done else self.next.text.upper()

    def take(self, word: str) -> bool:
        """Go on if this is the next word."""
        return self.take_all(word)

    def take_all(self, *words: str) -> bool:
        """Go on if these are the next words."""
        following = self._tokens[self._at : self._at + len(words)]
        are_next = [token.text.upper() for token in following] == list(words)
        self._at += len(words) * are_next
        return are_next

    def skip(self) -> Token:
        """Go on, whatever the next word is."""
        self._at += 1
        return self._tokens[self._at - 1]

    def take_one_of(self, words: Sequence[str]) -> bool:
        """Go on if one of these is the next word."""
        return any(self.take(word) for word in words)

    def expect(self, word: str) -> None:
        """Go on; anything else is refused."""
        if not self.take(word):
            self._statement.refuse(self.next, f"Expected {word} before {self.text()!r}.")

    def expect_one_of(self, words: Sequence[str]) -> None:
        """Go on with one of these; anything else is refused."""
        if not self.take_one_of(words):
            self._statement.refuse(
                self.next, f"Expected {' or '.join(words)} before {self.text()!r}."
            )

    def end(self) -> None:
        """Refuse any more words."""
        if not self.done:
            self._statement.refuse(self.next, f"Expected the end before {self.text()!r}.")

    def table(self) -> str:
        """The full name of a table."""
        at = self.next
        parts = [self.name()]
        while self.take("."):
            parts.append(self.name())
        if len(parts) > 2:
            self._statement.refuse(at, "A table of another catalog is not supported.")
        try:
            return TableRef.parse(".".join([self._statement.database, *parts][-2:])).full_name
        except HiveAcidError as error:
            raise self._statement.error(at, error.what, error.remedy) from error

    def partition(self) -> str:
        """The name of the partition that the values of a PARTITION clause make."""
        keys = self.keys()
        return partition_name([key for key, _ in keys], [value for _, value in keys])

    def keys(self) -> tuple[tuple[str, str | None], ...]:
        """The keys of a PARTITION clause with their values."""
        return tuple(self._keys(all_have_values=True))

    def some_keys(self) -> tuple[tuple[str, str | None], ...]:
        """The keys of a PARTITION clause that have values; the others stand for all of theirs."""
        return tuple(self._keys(all_have_values=False))

    def _keys(self, *, all_have_values: bool) -> list[tuple[str, str | None]]:
        keys = []
        self.expect("(")
        while True:
            key = self.name().lower()
            if all_have_values or self.text() == "=":
                self.expect("=")
                keys.append((key, self._value()))
            if not self.take(","):
                break
        self.expect(")")
        return keys

    def properties(self) -> dict[str, str]:
        """Texts with their values, in brackets."""
        values: dict[str, str] = {}
        self.expect("(")
        while True:
            at, name = self.next, self.string()
            if name in values:
                self._statement.refuse(at, f"The property {name!r} is there twice.")
            self.expect("=")
            values[name] = self.string()
            if not self.take(","):
                break
        self.expect(")")
        return values

    def strings(self) -> tuple[str, ...]:
        """Texts in brackets."""
        self.expect("(")
        texts = [self.string()]
        while self.take(","):
            texts.append(self.string())
        self.expect(")")
        return tuple(texts)

    def names(self) -> tuple[str, ...]:
        """Names that commas separate."""
        names = [self.name()]
        while self.take(","):
            names.append(self.name())
        return tuple(names)

    def brackets(self) -> Sequence[Token]:
        """All words up to the bracket that closes the next one."""
        start = self._at
        self.expect("(")
        depth = 1
        while depth:
            if self.done:
                self._statement.refuse(self.next, "A bracket is not closed.")
            depth += (self.next.text == "(") - (self.next.text == ")")
            self._at += 1
        return self._tokens[start : self._at]

    def order_by(self) -> tuple[str, ...]:
        """The columns of an ORDER BY, if there is one, each with its direction."""
        if not self.take("ORDER BY"):
            return ()
        columns = []
        while True:
            name, nulls_last = self.name(), None
            descending = not self.take("ASC") and self.take("DESC")
            if self.take("NULLS"):
                nulls_last = not self.take("FIRST")
                if nulls_last:
                    self.expect("LAST")
            columns.append(str(SortColumn(name, descending, nulls_last)))
            if not self.take(","):
                return tuple(columns)

    def string(self) -> str:
        """A text in quotes."""
        return self._of(TokenType.STRING)

    def time(self) -> str:
        """A time in ISO form; nothing but digits, as 20260301, would be a write id elsewhere."""
        at = self.next
        try:
            return str(AsOf.of_time(self.string()).time)
        except InvalidJob as error:
            raise self._statement.error(at, error.what, error.remedy) from error

    def count(self, of: str) -> int:
        """A whole number."""
        at = self.next
        number = self._of(TokenType.NUMBER)
        if not number.isdecimal() or len(number) > 9:
            self._statement.refuse(at, f"{number} is no number of {of}.")
        return int(number)

    def name(self) -> str:
        """A name of one word."""
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
