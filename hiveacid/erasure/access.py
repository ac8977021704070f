"""The accesses of an erasure that a record or a certificate names, instead of a job."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from hiveacid.jobs.erase_job import EraseJob
from hiveacid.jobs.job import Access
from hiveacid.metastore.client import MetastoreClient
from hiveacid.tables.locations import require_job_access


@dataclass(frozen=True)
class _Opened:
    """The opened tables, and locations outside of their folders."""

    tables: Sequence[str]
    paths_read: Sequence[str]

    def own_accesses(self) -> Iterator[Access]:
        for table in self.tables:
            yield Access(table.lower(), None, EraseJob.tag)


def require_erasure_access(
    client: MetastoreClient, users: Iterable[str], tables: Sequence[str], locations: Sequence[str]
) -> None:
    """Ask the authorizer whether users may erase tables, and read other locations.

    Args:
        client: The metastore.
        users: The users, as the authorizer knows them.
        tables: The names of the tables.
        locations: Folders of mirrors, and of files outside of the tables' folders.

    Raises:
        AccessRefused: A location is not allowed, or the authorizer refuses an access of a user.
    """
    for user in users:
        require_job_access(client, user, _Opened(tuple(tables), tuple(locations)))
