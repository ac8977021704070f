"""A history by its workers' reports and the tables' content, and its errors."""

import json
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hiveacid.metastore.client import MetastoreClient
from tests.isolation.bank import problems_of_balances
from tests.isolation.checker import SERIALIZABILITY, Checker
from tests.isolation.transactions import Append, Outcome, Txn, committed
from tests.isolation.without_spark import PlainClient
from tests.isolation.work import ACCOUNTS, BANK, JOURNAL, TILLS, reads_of, table_of
from tests.isolation.workers import Place

Rows = Sequence[Mapping[str, str]]


@dataclass
class Verdict:
    """A history.

    Attributes:
        txns: All transactions.
        balances: The accounts that were read together, by their names and who has read them.
        counts: The actions, and their counts.
        problems: Errors besides the order of reads and appends.
    """

    txns: list[Txn] = field(default_factory=list)
    balances: dict[tuple[str, ...], dict[str, dict[str, int]]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, client: MetastoreClient, place: Place) -> "Verdict":
        """The history that took place somewhere, with a last read of everything."""
        verdict, reader = cls(), PlainClient(client, place.database)
        lines = _lines(place)
        begun = {line["begin"]: line for line in lines if "begin" in line}
        ended = {line["end"]: line for line in lines if "end" in line}
        notes = notes_in(reader, place)
        for name, line in begun.items():
            verdict._add(line, ended.get(name, {}), notes.get(name, ()))
        verdict._read_all(reader)
        for line in lines:
            if "escaped" in line:
                verdict.problems.append(line["escaped"])
            if "done" in line:
                verdict.counts[line["done"]] += line["count"]
            if "refused" in line:
                verdict.counts[f"not looked after: {line['refused']}"] += 1
            if line.get("done") == "travel":
                rows = [{"k": k, "v": v} for k, v in line["rows"]]
                verdict._add_balances(f"version {line['version']} at {line['at']}", rows)
        return verdict

    def forbidden(self) -> list[str]:
        """All that is wrong, in words; nothing, if the engine has kept its promises."""
        found = [str(each) for each in Checker(self.txns).forbidden()]
        found += [str(each) for each in self._alone().forbidden(SERIALIZABILITY)]
        for accounts, reads in self.balances.items():
            found += problems_of_balances(100 * len(accounts), reads, accounts)
        return self.problems + found

    def report(self) -> str:
        """Describe the history, and the findings."""
        counts = ", ".join(f"{what} {count}" for what, count in sorted(self.counts.items()))
        balances = sum(map(len, self.balances.values()))
        return "\n".join(
            [
                counts,
                f"{balances} reads of all accounts.",
                Checker(self.txns).report(),
                "Of strict jobs in one partition alone:",
                self._alone().report(SERIALIZABILITY),
            ]
        )

    def _alone(self) -> Checker:
        """Return the history of strict jobs of one partition, and of its readers."""
        return Checker(
            Txn(
                txn.name,
                tuple(read for read in txn.reads if table_of(read.key) == "alone"),
                tuple(append for append in txn.appends if table_of(append.key) == "alone"),
                txn.outcome,
                txn.began,
                txn.ended,
                txn.about,
            )
            for txn in self.txns
        )

    def _add(
        self, begun: Mapping[str, Any], ended: Mapping[str, Any], notes: Sequence[Rows]
    ) -> None:
        """Add a transaction: its note proves a commit, if it was to write any."""
        name, kind, policy = begun["begin"], begun["kind"], begun["policy"]
        told = Outcome(ended.get("outcome", Outcome.UNKNOWN))
        if not policy:
            rows = [{"k": k, "v": v} for k, v in ended.get("rows", ())]
        else:
            rows = [*notes[0]] if notes else []
            if len(notes) > 1 or (
                told is not Outcome.UNKNOWN and (told is Outcome.OK) != bool(notes)
            ):
                self.problems.append(f"{name} was told {told}, and has written {len(notes)} notes.")
        happened = told
        if told is Outcome.UNKNOWN:
            happened = Outcome.OK if notes else Outcome.FAILED
        self.counts[f"{kind} {policy or 'read'} {told}"] += 1
        if told is Outcome.FAILED:
            self.counts[f"failed by {ended['error']}"] += 1
        read = reads_of(begun["keys"], rows) if happened is Outcome.OK else ()
        self.txns.append(
            Txn(
                name,
                tuple(read),
                tuple(Append(*each) for each in begun["appends"]),
                happened,
                begun["at"],
                math.inf if told is Outcome.UNKNOWN else ended["at"],
                f"{kind}, {policy or 'a reader'}",
            )
        )
        self._add_balances(name, rows)

    def _add_balances(self, name: str, rows: Rows) -> None:
        values = {row["k"]: int(row["v"]) for row in rows if row["k"] in ACCOUNTS}
        for accounts in (BANK, TILLS):
            if values.keys() & accounts.keys():
                missing = accounts.keys() - values.keys()
                if missing:
                    self.problems.append(f"{name} read nothing of {', '.join(sorted(missing))}.")
                    continue
                chosen = {account: values[account] for account in accounts}
                self.balances.setdefault(tuple(accounts), {})[name] = chosen

    def _read_all(self, reader: PlainClient) -> None:
        """Read everything when all is over."""
        began = time.monotonic()
        keys = {append.key for txn in self.txns for append in txn.appends}
        found = reader.read(sorted({*keys, *ACCOUNTS}))
        rows = [{"k": k, "v": v} for k, v in found]
        last = Txn(
            "the last",
            tuple(reads_of(sorted(keys), rows)),
            (),
            Outcome.OK,
            began,
            time.monotonic(),
            "a reader",
        )
        self.txns.append(last)
        self._add_balances(last.name, rows)

    @property
    def committed(self) -> Counter[str]:
        """Return the number of committed transactions, by runner."""
        return Counter(txn.about.partition(",")[0] for txn in committed(self.txns))


def notes_in(reader: PlainClient, place: Place) -> dict[str, list[Rows]]:
    """Return the reads of committed transactions from their notes, by their names."""
    notes: dict[str, list[Rows]] = {}
    for _, v in reader.read([f"{JOURNAL}/{number}" for number in range(place.clients)]):
        for note in map(json.loads, v.splitlines()):
            notes.setdefault(note["txn"], []).append(note["rows"])
    return notes


def _lines(place: Place) -> list[dict[str, Any]]:
    """Return the reports of the workers; the last line of a killed one may be incomplete."""
    lines = []
    for path in sorted(place.folder.glob("*-*.jsonl")):
        text = path.read_text()
        lines += [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
    return lines
