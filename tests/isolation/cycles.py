"""Dependencies between transactions, and the cycles in them."""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

WW, WR, RW, REALTIME = "ww", "wr", "rw", "rt"
# In a large component any short cycle is as good as the shortest.
_MOST_STARTS = 40


@dataclass(frozen=True)
class Edge:
    """One comes before another one.

    Attributes:
        source: The name of the first.
        target: The name of the second.
        why: The same in words.
    """

    source: str
    target: str
    kind: str
    why: str = ""


class _Node(NamedTuple):
    """A transaction, and whether it was reached by an edge rw that none may follow."""

    name: str
    after_rw: bool


class Graph:
    """Transactions, and the edges of some kinds between them.

    Args:
        edges: All edges.
        kinds: Those that count.
        adjacent: Whether two edges rw may be adjacent. Snapshot isolation allows only cycles with
            two adjacent ones.
    """

    def __init__(self, edges: Iterable[Edge], kinds: Collection[str], *, adjacent: bool) -> None:
        self._next: dict[_Node, list[tuple[_Node, Edge]]] = {}
        for edge in edges:
            if edge.kind not in kinds:
                continue
            after = edge.kind == RW and not adjacent
            target = _Node(edge.target, after)
            for before in (False, True) if not adjacent else (False,):
                if not (before and edge.kind == RW):
                    self._next.setdefault(_Node(edge.source, before), []).append((target, edge))

    def cycles(self, through: str) -> Iterator[list[Edge]]:
        """The shortest cycle of each strongly connected component, through an edge of a kind."""
        for component in strong_components(
            {node: [target for target, _ in edges] for node, edges in self._next.items()}
        ):
            starts = [
                (node, target, edge)
                for node in sorted(component)
                for target, edge in self._next.get(node, ())
                if edge.kind == through and target in component
            ]
            found = [
                [edge, *self._path(target, node, component)]
                for node, target, edge in starts[:_MOST_STARTS]
            ]
            if found:
                yield min(found, key=len)

    def _path(self, start: _Node, end: _Node, within: Collection[_Node]) -> list[Edge]:
        """The shortest path from one node of a component to another."""
        came: dict[_Node, tuple[_Node, Edge] | None] = {start: None}
        waiting = deque([start])
        while waiting and end not in came:
            node = waiting.popleft()
            for target, edge in self._next.get(node, ()):
                if target in within and target not in came:
                    came[target] = node, edge
                    waiting.append(target)
        path, at = [], came[end]
        while at is not None:
            path.append(at[1])
            at = came[at[0]]
        return path[::-1]


def strong_components(graph: Mapping[_Node, Sequence[_Node]]) -> Iterator[set[_Node]]:
    """The strongly connected components of more than one node, by Tarjan's algorithm."""
    index: dict[_Node, int] = {}
    low: dict[_Node, int] = {}
    stack: list[_Node] = []
    on_stack: set[_Node] = set()
    for root in graph:
        # The calls of the algorithm, which are deeper than Python's may be.
        calls: list[tuple[_Node, Iterator[_Node]]] = []
        entering = [] if root in index else [root]
        while entering or calls:
            for node in entering:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
                calls.append((node, iter(graph.get(node, ()))))
            entering = []
            node, targets = calls[-1]
            for target in targets:
                if target not in index:
                    entering = [target]
                    break
                if target in on_stack:
                    low[node] = min(low[node], index[target])
            else:
                calls.pop()
                if calls:
                    low[calls[-1][0]] = min(low[calls[-1][0]], low[node])
                if low[node] == index[node]:
                    component = set(stack[(first := stack.index(node)) :])
                    del stack[first:]
                    on_stack -= component
                    if len(component) > 1:
                        yield component


def name_of(cycle: Sequence[Edge]) -> str:
    """Return Adya's name for a cycle, which Elle also uses."""
    kinds = [edge.kind for edge in cycle]
    realtime = "-realtime" if REALTIME in kinds else ""
    if RW not in kinds:
        return ("G1c" if WR in kinds else "G0") + realtime
    if kinds.count(RW) == 1:
        return "G-single" + realtime
    following = kinds[1:] + kinds[:1]
    if (RW, RW) in zip(kinds, following, strict=True):
        return "G2-item" + realtime
    return "G-nonadjacent" + realtime
