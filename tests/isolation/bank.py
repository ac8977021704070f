"""Whether accounts show that money was made, lost, or spent without being there."""

from collections.abc import Iterator, Mapping, Sequence


def problems_of_balances(
    total: int, reads: Mapping[str, Mapping[str, int]], never_negative: Sequence[str] = ()
) -> Iterator[str]:
    """What is wrong with balances that were read, in words.

    Args:
        total: The sum of all accounts.
        reads: What was read, by who has read it: the balance of each account.
        never_negative: Accounts of which nobody takes more than there is.
    """
    for reader, balances in reads.items():
        if sum(balances.values()) != total:
            yield f"{reader} read {dict(balances)}, which is {sum(balances.values())}, not {total}."
        for account in never_negative:
            if balances[account] < 0:
                yield f"{reader} read {balances[account]} as the balance of {account}."
