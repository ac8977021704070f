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
# An append that falls asleep before it publishes, for so long that a compaction passes it.
_ASLEEP = (*(f"0: {step}" for step in _STAGED), "metastore: time out 3", *_COMPACTED)


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


def _break(
    what: str, breaks: Invariant, *rules: str, roles: tuple[object, ...], **options: object
) -> Break:
    """One that leaves out some rules."""
    return Break(what, Model(roles, broken=frozenset(rules), **options), breaks)  # type: ignore[arg-type]


_CHANGES = (Writer(1, 1), Writer(2, 1))
_TRIES = (_APPEND, _APPEND)
_STRICT = tuple(Writer(n, 10 + n, changes=False, policy="strict") for n in (1, 2))
_ROWS = tuple(Writer(n, 1, policy="rows") for n in (1, 2))
_MAINTAINED = (_APPEND, Compactor(), Cleaner())
_READ = (Compactor(), Cleaner(), Reader())

BREAKS = (
    _break(
        "changes take the lock of an append, and are declared as appends",
        Invariant.NO_LOST_UPDATE,
        "changes lock each other out",
        "changes are declared as such",
        roles=_CHANGES,
    ),
    _break(
        "changes take the lock of an append, and are committed without the metastore's comparison",
        Invariant.NO_LOST_UPDATE,
        "changes lock each other out",
        "the metastore compares",
        "begin again when overtaken",
        roles=_CHANGES,
    ),
    _break(
        "the snapshot is taken before the lock, and nobody compares",
        Invariant.NO_LOST_UPDATE,
        "snapshot after the lock",
        "begin again when overtaken",
        "the metastore compares",
        roles=_CHANGES,
    ),
    _break(
        "changed rows are not looked for again under the lock (rows)",
        Invariant.NO_LOST_UPDATE,
        "rows are looked for again",
        roles=_ROWS,
    ),
    _break(
        "others may commit between the comparison and the commit (strict)",
        Invariant.MATRIX,
        "commit section",
        roles=_STRICT,
    ),
    _break(
        "nobody compares before the commit (strict)",
        Invariant.MATRIX,
        "compare before the commit",
        roles=_STRICT,
    ),
    _break(
        "a try looks for others only before it opens its transaction",
        Invariant.ONCE,
        "look again after opening",
        roles=_TRIES,
    ),
    _break(
        "no note is left before the commit",
        Invariant.ONCE,
        "a note before the commit",
        roles=_TRIES,
        faults=1,
    ),
    _break(
        "nobody looks for notes",
        Invariant.ONCE,
        "notes are looked for",
        roles=_TRIES,
    ),
    _break(
        "a commit whose answer got lost counts as failed",
        Invariant.ROWS_STAY,
        "ask after a lost answer",
        roles=(_APPEND,),
        faults=1,
    ),
    _break(
        "a cleaner takes notes on transactions that it does not know yet for garbage",
        Invariant.ONCE,
        "notes younger than the look stay",
        roles=(*_TRIES, Cleaner()),
        faults=1,
        before=("2: begin", *_PUBLISHED),
    ),
    _break(
        "a note is believed by its write id, and a cleaner leaves notes on aborted runs",
        Invariant.TRUE,
        "a write id proves nothing",
        "notes go before the metastore forgets",
        roles=(_APPEND, Compactor(), Cleaner(), _APPEND),
        faults=1,
        before=(*_LOST, *_COMPACTED),
    ),
    _break(
        "a compaction takes over open write ids",
        Invariant.ROWS_STAY,
        "nothing open is compacted",
        roles=(_APPEND, Compactor(), Writer(2, 12, changes=False)),
        before=(*_PUBLISHED, *(f"2: {step}" for step in (*_STAGED, "publish"))),
    ),
    _break(
        "a compaction takes over rows of aborted write ids",
        Invariant.NOTHING_COMES_BACK,
        "nothing aborted is compacted",
        roles=_MAINTAINED,
        faults=1,
        before=_LOST,
    ),
    _break(
        "a cleaner does not wait for readers",
        Invariant.READERS_READ,
        "readers are waited for",
        roles=_READ,
    ),
    _break(
        "a reader has no transaction",
        Invariant.READERS_READ,
        "readers have a transaction",
        roles=_READ,
    ),
    _break(
        "a cleaner asks who is there before it lists the folder",
        Invariant.READERS_READ,
        "list before asking for readers",
        roles=_READ,
        version=Version.HMS3,
    ),
    _break(
        "a cleaner takes a compaction for committed that is only ready for cleaning",
        Invariant.ROWS_STAY,
        "a compaction counts when it is committed",
        roles=(Compactor(), Cleaner()),
        faults=1,
    ),
    _break(
        "a cleaner removes what it does not see",
        Invariant.ROWS_STAY,
        "what is not seen stays",
        roles=(_APPEND, Cleaner()),
    ),
    _break(
        "a request is marked as cleaned before the directories are removed",
        Invariant.NOTHING_COMES_BACK,
        "mark as cleaned at last",
        roles=_MAINTAINED,
        faults=1,
        before=_LOST,
    ),
    _break(
        "a writer that was asleep publishes without asking, and its staged files are still there",
        Invariant.NOTHING_COMES_BACK,
        "ask before each rename",
        "staging of the dead goes",
        roles=_MAINTAINED,
        faults=1,
        before=_ASLEEP,
    ),
    _break(
        "a cleaner does not look once more before it marks a request as cleaned",
        Invariant.NOTHING_COMES_BACK,
        "look again before marking as cleaned",
        roles=_MAINTAINED,
        faults=1,
        before=_ASLEEP,
    ),
    _break(
        "a cleaner leaves the staging folders of the dead",
        Invariant.NOTHING_STAYS,
        "staging of the dead goes",
        roles=(_APPEND,),
        faults=1,
    ),
)
