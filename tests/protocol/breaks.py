"""The protocol with a rule left out, or two where one alone is made good by another one.

The search must find each break as a violated guarantee: this shows that the model is strong enough.
"""

from dataclasses import dataclass, replace
from typing import Any

from tests.protocol.cleaner import Cleaner
from tests.protocol.compactor import Compactor
from tests.protocol.identities.change_feeds import ChangeFeeds, Consumer
from tests.protocol.identities.removals import Removals
from tests.protocol.identities.row_numbers import NEW_KEY, RowNumbers
from tests.protocol.identities.row_numbers import Writer as RowWriter
from tests.protocol.identities.runs import Runs
from tests.protocol.identities.scripts import Scripts
from tests.protocol.identities.second_commits import SecondCommits
from tests.protocol.identities.small_model import Promise, SmallModel
from tests.protocol.identities.streams import Streams
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
        *("publish", "commit", "compacted", "remember"),
    )
)


def _judged(number: int) -> tuple[str, ...]:
    """The steps of a cleaner up to its decision."""
    return tuple(f"{number}: {step}" for step in ("begin", "sweep", "list", "decide"))


# An append that falls asleep before it publishes, for so long that a compaction passes it.
_ASLEEP = (*(f"0: {step}" for step in _STAGED), "metastore: time out 3", *_COMPACTED)


@dataclass(frozen=True)
class Break:
    """A deliberate mistake.

    Attributes:
        what: The action, in words.
        model: The model.
        breaks: The guarantee that is violated.
    """

    what: str
    model: Any
    breaks: Invariant | Promise

    @property
    def whole(self) -> Any:
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
        "an attempt looks for others only before it opens its transaction",
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
        "a reader whose transaction was aborted returns what it has listed",
        Invariant.READERS_READ,
        "a read is verified",
        roles=_READ,
        faults=1,
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
        "a cleaner that has lost its lock puts back what it has hidden",
        Invariant.NOTHING_COMES_BACK,
        "without a lock the hidden stays hidden",
        roles=(*_MAINTAINED, Cleaner()),
        faults=2,
        before=(*_LOST, *_COMPACTED, *_judged(2), *_judged(3)),
    ),
    _break(
        "a cleaner leaves what another one has hidden",
        Invariant.NOTHING_STAYS,
        "hidden directories of the dead go",
        roles=(Compactor(), Cleaner()),
        faults=1,
    ),
    _break(
        "a cleaner leaves the staging folders of the dead",
        Invariant.NOTHING_STAYS,
        "staging of the dead goes",
        roles=(_APPEND,),
        faults=1,
    ),
)

_CONSUMER = Consumer("c", "t", "p")
_CHANGES_OF_ROWS = (RowWriter("update", 2), RowWriter("delete", 2))
_INSERTS = (RowWriter("insert", NEW_KEY), RowWriter("insert", NEW_KEY), RowWriter("append", 3))
_OWN_REWRITES = frozenset({"compaction", "rebalance", "ordered rebalance"})
REWRITES = _OWN_REWRITES | {"rebalance of Hive"}
# The small models with all rules, each with every step that its breaks need.
SMALL_MODELS: dict[str, SmallModel] = {
    "second commits": SecondCommits(),
    "row numbers, changes": RowNumbers(writers=_CHANGES_OF_ROWS, maintenance=REWRITES),
    "row numbers, inserts": RowNumbers(
        writers=_INSERTS, maintenance=frozenset({"compaction", "ordered rebalance"})
    ),
    "a consumer": ChangeFeeds(consumers=(_CONSUMER,)),
    "consumers of two tables": ChangeFeeds(consumers=(_CONSUMER, Consumer("d", "u", "p"))),
    "consumers of one table": ChangeFeeds(consumers=(_CONSUMER, Consumer("d", "t", "p"))),
    "a consumer with two targets": ChangeFeeds(consumers=(_CONSUMER, Consumer("c", "t", "q"))),
    "runs": Runs(),
    "streams": Streams(),
    "streams, one note": Streams(notes=1),
    "removals by a cleaner": Removals(),
    "removals by a cleaner, drops without a lock": Removals(drops_without_lock=True),
    "removals by a writer": Removals(by="writer"),
    "removals by a cleaner, and a user": Removals(is_used=True),
    "removals by a writer, and a user": Removals(by="writer", is_used=True),
    "scripts": Scripts(),
}


def _small(
    what: str, name: str, breaks: Promise, *rules: str, model: SmallModel | None = None
) -> Break:
    return Break(what, replace(model or SMALL_MODELS[name], broken=frozenset(rules)), breaks)


# Breaks that use a row id, a name, a number or a position as an identity, or an empty record as
# evidence.
IDENTITY_BREAKS = (
    _small(
        "a second commit takes an empty record of reads for evidence",
        "second commits",
        Promise.COMPLETE_READ,
        "alive after the last read",
    ),
    _small(
        "a transaction is confirmed alive before its last read",
        "second commits",
        Promise.COMPLETE_READ,
        "confirm after the last read",
    ),
    _small(
        "a second commit does not compare versions",
        "second commits",
        Promise.NO_LOST_UPDATE,
        "a second commit compares versions",
    ),
    _small(
        "a second commit does not compare the creation of its tables",
        "second commits",
        Promise.OTHER_TABLE,
        "a second commit compares tables",
    ),
    _small(
        "row ids are searched for after a rewrite that is not proved to keep them",
        "row numbers, changes",
        Promise.RIGHT_ROWS,
        "renumbered rows are refused",
    ),
    _small(
        "new rows are searched for by write id after an ordered rebalance",
        "row numbers, inserts",
        Promise.RIGHT_ROWS,
        "renumbered rows are refused",
    ),
    _small(
        "row ids are searched for, and a rebalance of this provider reuses them",
        "",
        Promise.RIGHT_ROWS,
        "renumbered rows are refused",
        "a rebalance never reuses row ids",
        model=RowNumbers(writers=_CHANGES_OF_ROWS, maintenance=_OWN_REWRITES),
    ),
    _small(
        "a compaction removes the evidence of a rebalance before it",
        "row numbers, changes",
        Promise.RIGHT_ROWS,
        "a compaction keeps the evidence of earlier rewrites",
    ),
    _small(
        "an exported range does not name the creation of its table",
        "a consumer",
        Promise.EXPORTED,
        "a range names its table",
    ),
    _small(
        "an exported range names neither table nor consumer, and two tables share a folder",
        "consumers of two tables",
        Promise.EXPORTED,
        "a range names its table",
        "a range names its consumer",
    ),
    _small(
        "an exported range does not name its consumer",
        "consumers of one table",
        Promise.EXPORTED,
        "a range names its consumer",
    ),
    _small(
        "a cursor is used for another creation of its table",
        "a consumer",
        Promise.EXPORTED,
        "a cursor is of one creation",
    ),
    _small(
        "a cursor is used for another target",
        "a consumer with two targets",
        Promise.EXPORTED,
        "a cursor has one target",
    ),
    _small(
        "a cursor is stored in the definition of the table",
        "a consumer",
        Promise.DEFINITION,
        "a cursor is stored beside the definition",
    ),
    _small(
        "only the table of the first statement has a note",
        "runs",
        Promise.ONCE,
        "a note in each table",
    ),
    _small(
        "a note is judged by all tables of its run",
        "runs",
        Promise.ONCE,
        "a table proves alone",
    ),
    _small(
        "a note does not name the creation of its table",
        "",
        Promise.TRUE,
        "a note names the creation of its table",
        model=Runs(recreated=2),
    ),
    _small(
        "a note is proved by the name of a directory",
        "runs",
        Promise.TRUE,
        "a note names the creation of its table",
        "a directory is known by its transaction",
    ),
    _small(
        "neither note nor position has the digest of a batch",
        "streams",
        Promise.NO_ROW_LOST,
        "a note has the digest of its batch",
        "the position has a digest",
    ),
    _small(
        "a note has no digest of its batch",
        "streams",
        Promise.NO_ROW_LOST,
        "a note has the digest of its batch",
    ),
    _small(
        "a batch before the position is skipped without its note",
        "streams, one note",
        Promise.NO_ROW_LOST,
        "a batch without its note is refused",
    ),
    _small(
        "a cleaner deletes under public names",
        "removals by a cleaner",
        Promise.OTHER_TABLE,
        "nothing is deleted under its public name",
    ),
    _small(
        "a cleaner does not confirm its lock and the table after hiding",
        "removals by a cleaner",
        Promise.OTHER_TABLE,
        "confirm what is hidden",
    ),
    _small(
        "a cleaner confirms its lock but not the table",
        "removals by a cleaner, drops without a lock",
        Promise.OTHER_TABLE,
        "the table is confirmed",
    ),
    _small(
        "a cleaner puts nothing back",
        "removals by a cleaner",
        Promise.HIDDEN_COME_BACK,
        "hidden directories of another table are put back",
    ),
    _small(
        "a cleaner takes over hidden directories of another table before it puts them back",
        "removals by a cleaner",
        Promise.OTHER_TABLE,
        "hidden directories keep the label of their judgement",
    ),
    *(
        _small(
            f"a table is listed without what a {by} has hidden",
            f"removals by a {by}, and a user",
            Promise.ALL_ROWS,
            "hidden directories of another table are a part of a table",
        )
        for by in ("cleaner", "writer")
    ),
    _small(
        "a writer that has failed deletes under public names",
        "removals by a writer",
        Promise.OTHER_TABLE,
        "nothing is deleted under its public name",
    ),
    _small(
        "a writer that has failed does not read the note of what it has hidden",
        "removals by a writer",
        Promise.OTHER_TABLE,
        "confirm what is hidden",
    ),
    _small(
        "a retry of a script applies all statements",
        "scripts",
        Promise.STATEMENT_ONCE,
        "an applied statement is not applied again",
    ),
    _small(
        "a retry of a script does not look for applied statements that it lacks",
        "scripts",
        Promise.STATEMENT_ONCE,
        "a script without an applied statement is refused",
    ),
    _small(
        "a script drops a table before it uses it",
        "scripts",
        Promise.SCRIPT_COMPLETE,
        "a dropped table is not named by a later statement",
    ),
)
