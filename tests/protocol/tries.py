"""The handling of other attempts of the same run by an attempt: ended, found, or uncertain."""

from tests.protocol.metastore import abort, snapshot
from tests.protocol.roles import FAILED, FOUND, UNPROVEN, Model
from tests.protocol.state import ABORTED, OPEN, Note, State


def end_other_tries(
    model: Model, state: State, number: int, run: int, before: int = 0
) -> tuple[State, str]:
    """Abort the open transactions of other attempts, and find out whether one has committed.

    Args:
        model: The model.
        state: The state.
        number: The caller of the search.
        run: The run token.
        before: Its own transaction: that and younger ones are left alone.

    Returns:
        The state after it; and how the try that has looked ends, or nothing if it goes on.
    """
    for txn, other in enumerate(state.txns, 1):
        mine = other.owner == number or other.owner < 0
        if mine or getattr(model.roles[other.owner], "run", None) != run:
            continue
        # Those that only read or keep files have another name, which only the first search uses.
        if before and other.aside:
            continue
        if other.state == OPEN and (txn < before or not before):
            state = abort(state, txn)
    seen = snapshot(state, model.version)
    # Staged files of other runs are spared: they may be about to commit them once more.
    gone = {
        txn
        for txn in state.staged
        if seen.is_over(txn)
        and state.txn(txn).state == ABORTED
        and getattr(model.roles[state.txn(txn).owner], "run", None) == run
    }
    state = state._replace(staged=state.staged - gone)
    believed = {note: _judge(model, state, note) for note in sorted(state.notes) if note.run == run}
    applied = next((note for note, belief in believed.items() if belief == FOUND), None)
    if applied is not None and model.keeps("notes are looked for"):
        notes = state.notes - {applied} | {applied._replace(marked=True)}
        return state._replace(notes=notes), FOUND
    return state, UNPROVEN if UNPROVEN in believed.values() else ""


def _judge(model: Model, state: State, note: Note) -> str:
    """Return the outcome that a note proves."""
    txn = state.txn(note.txn)
    if note.marked:
        return FOUND
    if txn.state in (OPEN, ABORTED):
        return FAILED
    if not model.keeps("a write id proves nothing"):
        return FOUND
    own = any(each.txn == note.txn and not each.compacted for each in state.directories)
    return FOUND if own else UNPROVEN
