"""The partitions of a plan that a command prints."""

from collections.abc import Sequence

from hiveacid.rules.compaction_decision import Decision


def first_decisions(decisions: Sequence[Decision], limit: int) -> list[Decision]:
    """Select the first decisions, and those on unreadable partitions, which need attention."""
    unreadable = [each for each in decisions[limit:] if each.size.problem is not None]
    return [*decisions[:limit], *unreadable]


def print_rest(number: int) -> None:
    """Print the number of partitions that are not shown, if there are any."""
    if number:
        print(f"{number} more partition{'' if number == 1 else 's'}; --limit N shows more.")
