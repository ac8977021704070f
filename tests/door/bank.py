"""A bank whose customers are sessions of JDBC, while engines are killed and statements cancelled."""

import contextlib
import re
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from random import Random

from tests.door.jdbc import Jdbc, JdbcError, JdbcSession
from tests.door.servers import Rows, Server

ACCOUNTS, MONEY = 12, 100
# The errors of statements that were cancelled, or whose engine was killed: they may be committed.
_UNKNOWN = re.compile(
    "cancel|has ended during a statement|Invalid SessionHandle|Invalid OperationHandle"
    "|connection|Connection|TTransportException|SASL|Statement is closed|Could not create ResultSet"
    "|Broken pipe|Socket"
)
# Their errors if others are faster, or the engine is killed before they begin.
_REFUSED = re.compile("HIVE_ACID_(WRITE_CONFLICT|LOCK_TIMEOUT|OVERLAP_REFUSED)|did not start")


@dataclass
class Transfer:
    """A change by one statement.

    Attributes:
        source: The account that gives.
        target: The account that gets.
        amount: The money.
        kind: The statement.
        outcome: "done", "refused", or "unknown".
    """

    source: int
    target: int
    amount: int
    kind: str
    outcome: str = "unknown"


@dataclass
class Bank:
    """The tables, and the transfers of the customers.

    Attributes:
        server: The Thrift server.
        database: The database of the tables.
        customers: The number of sessions.
    """

    server: Server
    database: str
    customers: int
    transfers: dict[int, Transfer] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    over: threading.Event = field(default_factory=threading.Event)

    def tables(self) -> list[str]:
        """All tables; each customer has one that no other one may change."""
        names = ["accounts", "given", *(f"taken_of_user{n}" for n in range(self.customers))]
        return [f"{self.database}.{name}" for name in names]

    def begin(self, session: JdbcSession) -> None:
        accounts, *journals = self.tables()
        kind = "TBLPROPERTIES ('transactional' = 'true')"
        session.run(f"CREATE TABLE {accounts} (id int, money int, log string) {kind}")
        for journal in journals:
            session.run(f"CREATE TABLE {journal} (transfer int, amount int) {kind}")
        session.run(f"INSERT INTO {accounts} SELECT int(id), {MONEY}, '' FROM range({ACCOUNTS})")

    def statement(self, number: int, customer: int, transfer: Transfer) -> tuple[str, Rows]:
        """The text of a transfer, and the rows of its report: targets with the changed rows."""
        accounts, given, *taken = self.tables()
        log = f"log = concat(log, ',{number}')"
        match transfer.kind:
            case "merge":
                text = (
                    f"MERGE INTO {accounts} t USING moved m ON t.id = m.id"
                    f" WHEN MATCHED THEN UPDATE SET money = t.money + m.amount, {log}"
                )
                return text, [["merge", accounts, "0", "2", "0"]]
            case "update":
                text = (
                    f"UPDATE {accounts} SET money = money + CASE id WHEN {transfer.source}"
                    f" THEN -{transfer.amount} ELSE {transfer.amount} END, {log}"
                    f" WHERE id IN ({transfer.source}, {transfer.target})"
                )
                return text, [["update", accounts, "0", "2", "0"]]
        text = (
            f"FROM moved INSERT INTO {given} SELECT {number}, amount WHERE amount < 0"
            f" INSERT INTO {taken[customer]} SELECT {number}, amount WHERE amount > 0"
        )
        return text, [["transaction", name, "1", "0", "0"] for name in (given, taken[customer])]

    def questions(self) -> Iterator[tuple[str, Rows]]:
        """Queries with the rows that they always have."""
        accounts, *journals = self.tables()
        yield (
            f"SELECT count(*), sum(money) FROM {accounts}",
            [[f"{ACCOUNTS}", f"{ACCOUNTS * MONEY}"]],
        )
        both = " UNION ALL ".join(f"SELECT amount FROM {name}" for name in journals)
        yield f"SELECT coalesce(sum(amount), 0) FROM ({both})", [["0"]]

    def open_for(self, seconds: float, kill_every: float, jdbc: Jdbc, seed: int) -> None:
        """Let the customers work, and kill the engine again and again."""
        customers = [
            threading.Thread(target=Customer(self, jdbc, number, seed).work)
            for number in range(self.customers)
        ]
        for customer in customers:
            customer.start()
        end, dice = time.monotonic() + seconds, Random(seed)
        while (rest := end - time.monotonic()) > 0:
            time.sleep(min(rest, kill_every * dice.uniform(0.5, 1.5)))
            if time.monotonic() < end and self.server.kill_engine():
                self.counts["killed engines"] += 1
        self.over.set()
        for customer in customers:
            customer.join(300)
            assert not customer.is_alive(), self.counts

    def verify(self, session: JdbcSession) -> None:
        """Compare the tables with the reports to the customers."""
        accounts, *journals = self.tables()
        logs = {
            int(id): (int(money), [int(number) for number in log.split(",")[1:]])
            for id, money, log in session.run(f"SELECT id, money, log FROM {accounts}")
        }
        notes = [
            int(number)
            for name in journals
            for (number,) in session.run(f"SELECT transfer FROM {name}")
        ]
        applied = Counter(notes) + Counter(n for _, log in logs.values() for n in log)
        problems = [*self.problems]
        expected = dict.fromkeys(range(ACCOUNTS), MONEY)
        for number, transfer in self.transfers.items():
            times = {"done": {2}, "refused": {0}, "unknown": {0, 2}}[transfer.outcome]
            if applied[number] not in times:
                problems.append(f"{transfer} changed {applied[number]} rows")
            if applied[number] and transfer.kind != "insert":
                expected[transfer.source] -= transfer.amount
                expected[transfer.target] += transfer.amount
        balances = {id: money for id, (money, _) in logs.items()}
        if balances != expected:
            problems.append(f"The balances are {balances}, not {expected}")
        assert not problems, "\n".join(problems)


class Customer:
    """A session with temporary views and a user of its own, or one after the other."""

    def __init__(self, bank: Bank, jdbc: Jdbc, number: int, seed: int) -> None:
        self._bank = bank
        self._jdbc = jdbc
        self._number = number
        self._dice = Random(f"{seed} {number}")
        self._made = 0

    def work(self) -> None:
        """Transfer money and look at it until the bank closes."""
        while not self._bank.over.is_set():
            try:
                self._work_in(self._jdbc.connect(self._bank.server, f"user{self._number}"))
            except Exception as error:  # noqa: BLE001
                self._bank.problems.append(f"user{self._number}: {type(error).__name__}: {error}")
                return

    def _work_in(self, session: JdbcSession) -> None:
        for text, expected in self._bank.questions():
            with self._expecting_kills():
                session.run(f"CREATE OR REPLACE TEMPORARY VIEW money AS {text}")
                self._look(session, "SELECT * FROM money", expected)
        while not self._bank.over.is_set():
            if self._dice.random() < 0.3:
                text, expected = self._dice.choice([*self._bank.questions()])
                with self._expecting_kills():
                    self._look(session, text, expected)
            elif not self._transfer(session):
                return
        session.close()

    def _look(self, session: JdbcSession, text: str, expected: Rows) -> None:
        answer = session.run(text)
        self._bank.counts["reads"] += 1
        if answer != expected:
            self._bank.problems.append(f"user{self._number} read {answer}, not {expected}: {text}")

    @contextlib.contextmanager
    def _expecting_kills(self) -> Iterator[None]:
        try:
            yield
        except JdbcError as error:
            if not re.search("has ended during a statement|did not start", str(error)):
                raise
            self._bank.counts["killed reads"] += 1

    def _transfer(self, session: JdbcSession) -> bool:
        """Transfer money; return whether the session still is one."""
        dice, bank = self._dice, self._bank
        self._made += 1
        number = self._made * bank.customers + self._number
        source, target = dice.sample(range(ACCOUNTS), 2)
        transfer = Transfer(
            source, target, dice.randint(1, 9), dice.choice(["merge", "update", "insert"])
        )
        view = (
            "CREATE OR REPLACE TEMPORARY VIEW moved AS SELECT * FROM VALUES"
            f" ({source}, -{transfer.amount}), ({target}, {transfer.amount}) AS v(id, amount)"
        )
        is_there = False
        with self._expecting_kills():
            session.run(view)
            is_there = True
        if not is_there:
            # The engine was killed while it read the statement.
            return True
        bank.transfers[number] = transfer
        text, expected = bank.statement(number, self._number, transfer)
        # The statement takes some seconds beside those of others.
        end = dice.choice([None, None, session.cancel, session.close])
        timer = threading.Timer(dice.uniform(0, 6), self._end, [end])
        timer.start()
        try:
            answer = [row[:5] for row in session.run(text)]
            transfer.outcome = "done"
            if sorted(answer) != sorted(expected):
                bank.problems.append(f"{text} reported {answer}, not {expected}")
        except JdbcError as error:
            if _REFUSED.search(str(error)):
                transfer.outcome = "refused"
            elif not _UNKNOWN.search(str(error)):
                bank.problems.append(f"{text}: {error}")
            bank.counts[str(error)[:150]] += 1
        finally:
            timer.cancel()
            timer.join()
        bank.counts[f"{transfer.kind} {transfer.outcome}"] += 1
        return end != session.close or not timer.finished.is_set()

    @staticmethod
    def _end(end: object) -> None:
        if callable(end):
            # The statement may have ended just before.
            with contextlib.suppress(JdbcError):
                end()
