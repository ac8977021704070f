"""The protocol with a rule left out, or two where one alone is made good by another one.

Each break must be found by the search, as a promise that does not hold: this is what shows that the
model is strong enough to notice.
"""

from dataclasses import dataclass, replace

from tests.protocol.cleaner import Cleaner
from tests.protocol.compactor import Compactor
from tests.protocol.invariants import Invariant
from tests.protocol.metastore import Version
from tests.protocol.reader import Reader
from tests.protocol.roles import Model
from tests.protocol.writer import Writer

_APPEND = Writer(1, 11, changes=False)
# An append up to its commit, and one that dies there.
_STAGED = ("look", "open", "allocate", "again", "lock", "snapshot", "stage", "note")
_PUBLISHED = tuple(f"0: {step}" for step in (*_STAGED, "publish"))
_LOST = (*_PUBLISHED, "0: die", "metastore: time out 3")
_COMPACTED = tuple(
    f"1: {step}"
    for step in (
        *("begin", "lock", "snapshot", "write", "record"),
        *("publish", "compacted", "commit", "remember"),
    )
)


@dataclass(frozen=True)
class Break:
    """A deliberate mistake.

    Attributes:
        what: What somebody does, in words.
        model: In which model.
        breaks: Which promise does not hold any more.
    """

    what: str
    model: Model
    breaks: Invariant

    @property
    def whole(self) -> Model:
        """The same model with all rules."""
        return replace(self.model, broken=frozenset())


def _without(*rules: str, roles: tuple[object, ...], **options: object) -> Model:
    return Model(roles, broken=frozenset(rules), **options)  # type: ignore[arg-type]


_CHANGES = (Writer(1, 1), Writer(2, 1))
_TRIES = (_APPEND, _APPEND)
_STRICT = tuple(Writer(n, 10 + n, changes=False, policy="strict") for n in (1, 2))
_ROWS = tuple(Writer(n, 1, policy="rows") for n in (1, 2))
_MAINTAINED = (Writer(1, 1), Compactor(), Cleaner())

BREAKS = (
    Break(
        "changes take the lock of an append, and are declared as appends",
        _without("changes lock each other out", "changes are declared as such", roles=_CHANGES),
        Invariant.NO_LOST_UPDATE,
    ),
    Break(
        "changes take the lock of an append, and are committed without the metastore's comparison",
        _without(
            "changes lock each other out",
            "the metastore compares",
            "begin again when overtaken",
            roles=_CHANGES,
        ),
        Invariant.NO_LOST_UPDATE,
    ),
    Break(
        "the snapshot is taken before the lock, and nobody compares",
        _without(
            "snapshot after the lock",
            "begin again when overtaken",
            "the metastore compares",
            roles=_CHANGES,
        ),
        Invariant.NO_LOST_UPDATE,
    ),
    Break(
        "changed rows are not looked for again under the lock (rows)",
        _without("rows are looked for again", roles=_ROWS),
        Invariant.NO_LOST_UPDATE,
    ),
    Break(
        "others may commit between the comparison and the commit (strict)",
        _without("commit section", roles=_STRICT),
        Invariant.MATRIX,
    ),
    Break(
        "nobody compares before the commit (strict)",
        _without("compare before the commit", roles=_STRICT),
        Invariant.MATRIX,
    ),
    Break(
        "a try looks for others only before it opens its transaction",
        _without("look again after opening", roles=_TRIES),
        Invariant.ONCE,
    ),
    Break(
        "no note is left before the commit",
        _without("a note before the commit", roles=_TRIES, faults=1),
        Invariant.ONCE,
    ),
    Break(
        "nobody looks for notes",
        _without("notes are looked for", roles=_TRIES),
        Invariant.ONCE,
    ),
    Break(
        "a commit whose answer got lost counts as failed",
        _without("ask after a lost answer", roles=(_APPEND,), faults=1),
        Invariant.ROWS_STAY,
    ),
    Break(
        "a cleaner takes notes on transactions that it does not know yet for garbage",
        _without(
            "notes younger than the look stay",
            roles=(*_TRIES, Cleaner()),
            faults=1,
            before=("2: begin", *_PUBLISHED),
        ),
        Invariant.ONCE,
    ),
    Break(
        "a note is believed by its write id, and a cleaner leaves notes on aborted runs",
        _without(
            "a write id proves nothing",
            "notes go before the metastore forgets",
            roles=(_APPEND, Compactor(), Cleaner(), _APPEND),
            faults=1,
            before=(*_LOST, *_COMPACTED),
        ),
        Invariant.TRUE,
    ),
    Break(
        "a compaction takes over open write ids",
        _without(
            "nothing open is compacted",
            roles=(_APPEND, Compactor(), Writer(2, 12, changes=False)),
            before=(*_PUBLISHED, *(f"2: {step}" for step in (*_STAGED, "publish"))),
        ),
        Invariant.ROWS_STAY,
    ),
    Break(
        "a compaction takes over rows of aborted write ids",
        _without(
            "nothing aborted is compacted",
            roles=(_APPEND, Compactor(), Cleaner()),
            faults=1,
            before=_LOST,
        ),
        Invariant.NOTHING_COMES_BACK,
    ),
    Break(
        "a cleaner does not wait for readers",
        _without("readers are waited for", roles=(Compactor(), Cleaner(), Reader())),
        Invariant.READERS_READ,
    ),
    Break(
        "a reader has no transaction",
        _without("readers have a transaction", roles=(Compactor(), Cleaner(), Reader())),
        Invariant.READERS_READ,
    ),
    Break(
        "a cleaner asks who is there before it lists the folder",
        _without(
            "list before asking for readers",
            roles=(Compactor(), Cleaner(), Reader()),
            version=Version.HMS3,
        ),
        Invariant.READERS_READ,
    ),
    Break(
        "a cleaner takes a compaction for committed that is only ready for cleaning",
        _without(
            "a compaction counts when it is committed", roles=(Compactor(), Cleaner()), faults=1
        ),
        Invariant.ROWS_STAY,
    ),
    Break(
        "a cleaner removes what it does not see",
        _without("what is not seen stays", roles=(_APPEND, Cleaner())),
        Invariant.ROWS_STAY,
    ),
    Break(
        "a request is marked as cleaned before the directories are removed",
        _without(
            "mark as cleaned at last",
            roles=(_APPEND, Compactor(), Cleaner()),
            faults=1,
            before=_LOST,
        ),
        Invariant.NOTHING_COMES_BACK,
    ),
    Break(
        "a writer that was asleep publishes without asking, and its staged files are still there",
        _without(
            "ask before each rename",
            "staging of the dead goes",
            roles=(_APPEND, Compactor(), Cleaner()),
            faults=1,
            before=(
                *(f"0: {step}" for step in _STAGED),
                "metastore: time out 3",
                *_COMPACTED,
            ),
        ),
        Invariant.NOTHING_COMES_BACK,
    ),
    Break(
        "a cleaner does not look once more before it marks a request as cleaned",
        _without(
            "look again before marking as cleaned",
            roles=(_APPEND, Compactor(), Cleaner()),
            faults=1,
            before=(
                *(f"0: {step}" for step in _STAGED),
                "metastore: time out 3",
                *_COMPACTED,
            ),
        ),
        Invariant.NOTHING_COMES_BACK,
    ),
    Break(
        "a cleaner leaves the staging folders of the dead",
        _without("staging of the dead goes", roles=(_APPEND,), faults=1),
        Invariant.NOTHING_STAYS,
    ),
)
