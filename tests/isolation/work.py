"""The work of clients: transactions over lists, sets and accounts, with notes on their reads.

Every table has the columns id, v and p, its partition. A list is a row, whose v has the elements in
their order; updates append to it. A set is all rows of one id, each with an element; inserts add to
it. An account is a row, too, whose v is its balance. A transaction writes its reads into the
journal, in the same transaction: so a note exists if, and only if, the transaction has committed.
"""

import itertools
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import NamedTuple

from tests.isolation.transactions import Append, Read

# Two tables of four partitions, and one of a single partition, which is left to strict jobs.
TABLES = ("one", "two", "alone")
# Accounts in the partitions of a table, and in two tables.
BANK = {f"bank/{number}": "100" for number in range(4)}
TILLS = {f"{table}/{number}": "100" for table in ("till", "vault") for number in range(2)}
ACCOUNTS = BANK | TILLS
JOURNAL = "journal"
# From this id on, all rows of an id are a set.
FIRST_SET = 1000
# The number of concurrently used lists and sets of a table, and their approximate length.
_AT_A_TIME, _LENGTH = 4, 12


class Row(NamedTuple):
    """A row of any of the tables."""

    id: int
    v: str
    p: str


@dataclass(frozen=True)
class Transfer:
    """Moves money from one account to another one, if there is enough."""

    source: str
    target: str
    amount: int


@dataclass(frozen=True)
class Work:
    """One transaction.

    Attributes:
        name: Its name.
        client: The client, with its own row and partition of the journal.
        policy: The policy on overlapping transactions.
        keys: The lists, sets or accounts that it reads.
        appends: The appends to lists and sets.
        transfer: The moved amounts.
    """

    name: str
    client: int
    policy: str
    keys: Sequence[str]
    appends: Sequence[Append] = ()
    transfer: Transfer | None = None

    @property
    def writes(self) -> bool:
        """Return whether it changes anything; read-only ones write no note."""
        return bool(self.appends or self.transfer)

    @property
    def reads(self) -> list[str]:
        """The tables that it reads."""
        return sorted({table_of(key) for key in self.keys})

    def updates(self) -> dict[str, dict[str, list[str]]]:
        """Return the appends to lists: the elements, by table and key."""
        found: dict[str, dict[str, list[str]]] = {}
        for append in self.appends:
            if not is_set(append.key):
                lists = found.setdefault(table_of(append.key), {})
                lists.setdefault(append.key, []).append(append.element)
        return found

    def inserts(self) -> list[Append]:
        """Return the additions to sets, by one statement each."""
        return [append for append in self.appends if is_set(append.key)]

    def transfers(self) -> dict[str, dict[str, int]]:
        """Return the additions to accounts, by table and key."""
        found: dict[str, dict[str, int]] = {}
        if self.transfer is not None:
            for key, sign in ((self.transfer.source, -1), (self.transfer.target, 1)):
                found.setdefault(table_of(key), {})[key] = sign * self.transfer.amount
        return found

    def note(self, rows: Sequence[tuple[str, str]]) -> str:
        """The line of the journal.

        Args:
            rows: The key and the v of each row that was read.
        """
        return json.dumps({"txn": self.name, "rows": [{"k": k, "v": v} for k, v in rows]})


def table_of(key: str) -> str:
    """The name of the table of a key, "table/id"."""
    return key.partition("/")[0]


def id_of(key: str) -> int:
    """The id of its rows."""
    return int(key.partition("/")[2])


def is_set(key: str) -> bool:
    """Return whether it is a set, and not a list or an account."""
    return id_of(key) >= FIRST_SET


def partition_of(key: str) -> str:
    """The partition of its rows."""
    if table_of(key) == JOURNAL:
        return partition_of_client(id_of(key))
    return "a" if table_of(key) == "alone" else "abcd"[id_of(key) % 4]


def partition_of_client(client: int) -> str:
    """The partition of the row of a client in the journal."""
    return f"c{client}"


def reads_of(keys: Sequence[str], rows: Sequence[Mapping[str, str]]) -> Iterator[Read]:
    """Return the reads of lists and sets, by the rows of a note."""
    for key in keys:
        values = [row["v"] for row in rows if row["k"] == key]
        if key in ACCOUNTS:
            continue
        if is_set(key):
            # A set would not show a row that is there twice.
            again = [f"{v} once more" for v, count in Counter(values).items() if count > 1]
            yield Read(key, frozenset([*values, *again]))
        else:
            yield Read(key, tuple(" ".join(values).split()))


def first_rows(lists: int, clients: int) -> dict[str, list[Row]]:
    """Return the initial content of the tables.

    Args:
        lists: The number of lists in each table.
        clients: The highest number of clients.
    """
    rows = {table: [_row(f"{table}/{number}", "") for number in range(lists)] for table in TABLES}
    for account, balance in ACCOUNTS.items():
        rows.setdefault(table_of(account), []).append(_row(account, balance))
    rows[JOURNAL] = [Row(number, "", partition_of_client(number)) for number in range(clients)]
    return rows


def _row(key: str, v: str) -> Row:
    return Row(id_of(key), v, partition_of(key))


@dataclass
class Plan:
    """Draws one transaction after the other.

    Args:
        dice: The random numbers.
        client: The client of the transactions.
        lists: The number of lists.
        policies: Those of its transactions.
    """

    dice: Random
    client: int
    lists: int
    policies: Sequence[str] = ("hive", "rows", "strict")

    def __post_init__(self) -> None:
        self._numbers = itertools.count()

    def draw(self) -> Work:
        """The next transaction; one without appends and transfer only reads, without the journal."""
        number = next(self._numbers)
        name = f"t{self.client}.{number}"
        kind = self.dice.choices(["append", "alone", "transfer", "read"], [6, 2, 2, 10])[0]
        policy = self.dice.choice(self.policies)
        if kind == "transfer":
            accounts = list(self.dice.choice([BANK, TILLS]))
            source, target = self.dice.sample(accounts, 2)
            transfer = Transfer(source, target, self.dice.randrange(1, 60))
            return Work(name, self.client, policy, accounts, transfer=transfer)
        tables = ["alone"] if kind == "alone" else ["one", "two"]
        keys = [f"{table}/{n}" for table in tables for n in self._ids(number)]
        if kind == "read":
            return Work(name, self.client, policy, [*keys, *ACCOUNTS])
        chosen = self.dice.sample(keys, self.dice.randrange(1, 4))
        appends = [
            Append(key, f"{name}.{index}")
            for index, key in enumerate(key for key in chosen for _ in range(self._times()))
        ]
        read = {*self.dice.sample(keys, len(keys) // 2), *chosen}
        return Work(
            name,
            self.client,
            "strict" if kind == "alone" else policy,
            # Some append without having looked.
            sorted(read if self.dice.random() < 0.8 else read - {*chosen}),
            appends,
        )

    def _ids(self, number: int) -> list[int]:
        """Return the keys that all clients use at about the same time."""
        first = number // (_LENGTH * _AT_A_TIME // 4) * 2
        lists = [(first + each) % self.lists for each in range(_AT_A_TIME)]
        return [*lists, *(FIRST_SET + first + each for each in range(2))]

    def _times(self) -> int:
        return self.dice.choice([1, 1, 2])
