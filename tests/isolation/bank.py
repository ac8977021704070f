"""Checks whether accounts show that money was created, lost, or overspent."""

from collections.abc import Iterator, Mapping, Sequence


def problems_of_balances(
    total: int, reads: Mapping[str, Mapping[str, int]], never_negative: Sequence[str] = ()
) -> Iterator[str]:
    """Return the errors in balances that were read, in words.

    Args:
        total: The sum of all accounts.
        reads: The balances of each account, by reader.
        never_negative: Accounts that must never be overdrawn.
    """
    for reader, balances in reads.items():
        if sum(balances.values()) != total:
            yield f"{reader} read {dict(balances)}, which is {sum(balances.values())}, not {total}."
        for account in never_negative:
            if balances[account] < 0:
                yield f"{reader} read {balances[account]} as the balance of {account}."
