"""Hidden folders that one transaction takes over from another."""

from dataclasses import dataclass, field, replace

from hiveacid.errors import StorageError
from hiveacid.metastore.txn.transaction import Transaction
from hiveacid.rules.names import staging_txn
from hiveacid.storage.hidden_folder import HiddenFolder
from hiveacid.storage.staged_files import FlatFile


@dataclass(frozen=True)
class TakenFolders:
    """Renames hidden folders of a lost transaction to the name of an active transaction.

    Any cleaner may remove the folders of the lost transaction at any time. The renamed folders are
    removed when the active transaction ends.

    Attributes:
        txn: The active transaction.
    """

    txn: Transaction
    _names: dict[tuple[str, str], str] = field(default_factory=dict)

    def flat(self, file: FlatFile) -> FlatFile:
        """One of Spark's files at its new path."""
        return replace(file, path=self.path(file.root, file.path))

    def path(self, root: str, path: str) -> str:
        """The new path of a file; its folder is taken over with all its contents.

        Args:
            root: The folder that contains the hidden folder.
            path: The path below it, which begins with the hidden folder.

        Raises:
            StorageError: A cleaner has already removed the hidden folder.
        """
        name, _, rest = path.partition("/")
        if (root, name) not in self._names:
            folder = HiddenFolder.until_the_end_of(self.txn, root)
            if staging_txn(name) is None:
                raise StorageError(f"{root}/{name} is no hidden folder.")
            folder.storage.rename(name, folder.name)
            self._names[root, name] = folder.name
        return f"{self._names[root, name]}/{rest}"
