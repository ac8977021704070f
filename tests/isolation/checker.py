"""Check whether snapshot isolation allows a history of reads and appends: Elle's rules.

Every element is appended once. So a read of a list determines the order of its appends, and each
transaction depends on others in three ways: it appended next after another one (ww), it read the
append of another one (wr), or another one appended an element that it had not seen (rw). With who
began when another one was over (rt) that is a graph, and in a history that is as it should be its
cycles are of certain kinds, or there are none. A set has no known order, and no edges ww.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from tests.isolation.cycles import REALTIME, RW, WR, WW, Edge, Graph, name_of
from tests.isolation.transactions import Append, Outcome, Read, Txn, committed

# Two transactions that each have read an object that the other one changes: write skew.
SNAPSHOT_ISOLATION = frozenset({"G2-item", "G2-item-realtime"})
SERIALIZABILITY: frozenset[str] = frozenset()
# The edges, and the kind of edge that distinguishes a new cycle.
_SEARCHES = [
    ({WW}, WW, False),
    ({WW, WR}, WR, False),
    ({WW, WR, RW}, RW, False),
    ({WW, WR, REALTIME}, REALTIME, False),
    ({WW, WR, RW, REALTIME}, RW, False),
    ({WW, WR, RW}, RW, True),
    ({WW, WR, RW, REALTIME}, RW, True),
]


@dataclass(frozen=True)
class Anomaly:
    """Something that is not as in a serial history.

    Attributes:
        name: Its name: G0, G1a, lost update and so on.
        what: The description.
        cycle: The edges of a cycle.
    """

    name: str
    what: str
    cycle: tuple[Edge, ...] = ()

    def __str__(self) -> str:
        return "\n".join([f"{self.name}: {self.what}", *(f"  {edge.why}" for edge in self.cycle)])


class Checker:
    """Finds the anomalies of a history.

    Args:
        txns: All known transactions.
    """

    def __init__(self, txns: Iterable[Txn]) -> None:
        self._all = [*txns]
        self._committed = committed(self._all)
        self._writer: dict[Append, Txn] = {}
        for txn in self._all:
            for append in txn.appends:
                if append in self._writer:
                    raise ValueError(f"{append} is of {txn.name} and {self._writer[append].name}")
                self._writer[append] = txn
        # The committed readers of each key.
        self._reads: dict[str, list[tuple[Txn, Read]]] = defaultdict(list)
        for txn in self._committed:
            for read in txn.reads:
                self._reads[read.key].append((txn, read))

    def anomalies(self) -> list[Anomaly]:
        """All that is not as in a serial history, the worst first."""
        return [
            *self._wrong_reads(),
            *self._wrong_orders(),
            *self._lost_appends(),
            *self._lost_updates(),
            *self._cycles(),
        ]

    def report(self, allowed: Collection[str] = SNAPSHOT_ISOLATION) -> str:
        """Describe the findings."""
        found = self.anomalies()
        lines = [
            f"{len(self._all)} transactions, of which {len(self._committed)} have committed;"
            f" {sum(len(reads) for reads in self._reads.values())} reads of {len(self._reads)} keys.",
        ]
        for name, count in Counter(anomaly.name for anomaly in found).items():
            lines.append(f"{name}: {count}, {'allowed' if name in allowed else 'FORBIDDEN'}")
        lines += [str(anomaly) for anomaly in found if anomaly.name not in allowed]
        lines += [str(anomaly) for anomaly in found if anomaly.name in allowed][:3]
        return "\n".join(lines)

    def forbidden(self, allowed: Collection[str] = SNAPSHOT_ISOLATION) -> list[Anomaly]:
        """Return the anomalies that a level of isolation forbids."""
        return [anomaly for anomaly in self.anomalies() if anomaly.name not in allowed]

    def edges(self) -> list[Edge]:
        """All dependencies of committed transactions."""
        return [*self._dependencies(), *self._realtime()]

    def _wrong_reads(self) -> Iterator[Anomaly]:
        for key, reads in self._reads.items():
            for txn, read in reads:
                text = _told(txn, read)
                for element, times in Counter(read.seen).items():
                    writer = self._writer.get(Append(key, element))
                    if times > 1:
                        yield Anomaly("duplicate", f"{text}, {element} {times} times.")
                    if writer is None:
                        yield Anomaly(
                            "garbage", f"{text}, and no transaction has appended {element}."
                        )
                    elif writer.outcome is Outcome.FAILED:
                        yield Anomaly("G1a", f"{text}, and {_who(writer)} has failed.")
                for writer in {
                    txn.name: txn
                    for element in read.seen
                    if (txn := self._writer.get(Append(key, element))) is not None
                }.values():
                    missing = [e for e in writer.appended_to(key) if e not in read.seen]
                    if missing:
                        yield Anomaly(
                            "G1b", f"{text}, without {', '.join(missing)} of {_who(writer)}."
                        )
            for (_, first), (txn, read) in _twice(reads):
                if read.seen != first.seen:
                    yield Anomaly("fuzzy read", f"{_told(txn, first)}, and then {_elements(read)}.")

    def _wrong_orders(self) -> Iterator[Anomaly]:
        for key, reads in self._reads.items():
            order = self._order(key)
            for txn, read in reads:
                if isinstance(read.seen, tuple) and order[: len(read.seen)] != read.seen:
                    yield Anomaly(
                        "incompatible order",
                        f"{_told(txn, read)}, and others [{' '.join(order)}].",
                    )

    def _lost_appends(self) -> Iterator[Anomaly]:
        """Return appends that no later reader sees."""
        seen = {(key, e) for key, reads in self._reads.items() for _, r in reads for e in r.seen}
        for append, writer in self._writer.items():
            if writer.outcome is Outcome.OK and (append.key, append.element) not in seen:
                for txn, read in self._reads[append.key]:
                    if txn.began > writer.ended:
                        what = (
                            f"{_who(writer)} has appended {append.element}, but {_told(txn, read)}"
                        )
                        yield Anomaly("lost append", f"{what}.")
                        break

    def _lost_updates(self) -> Iterator[Anomaly]:
        """Appends to a list by those who have read the same of it."""
        for key, reads in self._reads.items():
            by_version: dict[object, dict[str, Txn]] = defaultdict(dict)
            for txn, read in reads:
                if isinstance(read.seen, tuple) and txn.appended_to(key):
                    by_version[read.seen][txn.name] = txn
            for version, txns in by_version.items():
                if len(txns) > 1:
                    names = " and ".join(map(_who, txns.values()))
                    yield Anomaly(
                        "lost update", f"{names} have appended to {key} when it was {version}."
                    )

    def _cycles(self) -> Iterator[Anomaly]:
        edges, known = self.edges(), set()
        for kinds, through, adjacent in _SEARCHES:
            for found in Graph(edges, kinds, adjacent=adjacent).cycles(through):
                cycle = _without_moments(found)
                name, names = name_of(cycle), frozenset(edge.source for edge in cycle)
                if (name, names) not in known:
                    known.add((name, names))
                    yield Anomaly(name, f"a cycle of {len(names)} transactions.", tuple(cycle))

    def _order(self, key: str) -> tuple[str, ...]:
        """Return the elements of a list in the order of their appends, as far as they were read."""
        lists = [read.seen for _, read in self._reads[key] if isinstance(read.seen, tuple)]
        return max(lists, key=len, default=())

    def _dependencies(self) -> Iterator[Edge]:
        names = {txn.name for txn in self._committed}
        all_of: dict[str, list[tuple[str, Txn]]] = defaultdict(list)
        for append, txn in self._writer.items():
            if txn.name in names:
                all_of[append.key].append((append.element, txn))
        for key, reads in self._reads.items():
            order = [
                (element, txn)
                for element in self._order(key)
                if (txn := self._writer.get(Append(key, element))) is not None
            ]
            writers = [txn for _, txn in order]
            for (first, one), (second, other) in pairwise(order):
                if one.name != other.name:
                    why = f"{_who(other)} appended {second} to {key} after {first} of {one.name}"
                    yield Edge(one.name, other.name, WW, why)
            for txn, read in reads:
                if isinstance(read.seen, tuple):
                    last, after = writers[: len(read.seen)][-1:], order[len(read.seen) :][:1]
                else:
                    elements = all_of[key]
                    last = [writer for element, writer in elements if element in read.seen]
                    after = [each for each in elements if each[0] not in read.seen]
                for writer in last:
                    if writer.name != txn.name:
                        why = f"{_told(txn, read)}, appended to by {_who(writer)}"
                        yield Edge(writer.name, txn.name, WR, why)
                for element, writer in after:
                    if writer.name != txn.name:
                        why = f"{_told(txn, read)}, without {element} of {_who(writer)}"
                        yield Edge(txn.name, writer.name, RW, why)

    def _realtime(self) -> Iterator[Edge]:
        """From those that were over to those that began then, by way of the moments between."""
        ended = sorted(
            (txn for txn in self._committed if txn.outcome is Outcome.OK),
            key=lambda txn: txn.ended,
        )
        began = sorted(self._committed, key=lambda txn: txn.began)
        moment = 0
        for txn in began:
            while moment < len(ended) and ended[moment].ended < txn.began:
                if moment:
                    yield Edge(f"{_MOMENT}{moment}", f"{_MOMENT}{moment + 1}", REALTIME)
                moment += 1
                yield Edge(ended[moment - 1].name, f"{_MOMENT}{moment}", REALTIME)
            if moment:
                yield Edge(f"{_MOMENT}{moment}", txn.name, REALTIME)


_MOMENT = "@"


def _without_moments(cycle: Sequence[Edge]) -> list[Edge]:
    """Return a cycle in which an edge rt connects transactions directly."""
    start = next(n for n, edge in enumerate(cycle) if not edge.source.startswith(_MOMENT))
    edges: list[Edge] = []
    for edge in [*cycle[start:], *cycle[:start]]:
        if edge.source.startswith(_MOMENT):
            first = edges.pop()
            why = f"{edge.target} began when {first.source} was over"
            edges.append(Edge(first.source, edge.target, REALTIME, why))
        else:
            edges.append(edge)
    return edges


def _twice(
    reads: Sequence[tuple[Txn, Read]],
) -> Iterator[tuple[tuple[Txn, Read], tuple[Txn, Read]]]:
    """The first read of a transaction beside each other one of the same key."""
    for _, group in groupby(reads, key=lambda read: read[0].name):
        first, *others = group
        for other in others:
            yield first, other


def _who(txn: Txn) -> str:
    return f"{txn.name} ({txn.about})" if txn.about else txn.name


def _elements(read: Read) -> str:
    text = " ".join(read.elements)
    return f"[{text}]" if isinstance(read.seen, tuple) else f"{{{text}}}"


def _told(txn: Txn, read: Read) -> str:
    return f"{_who(txn)} read {read.key} as {_elements(read)}"
