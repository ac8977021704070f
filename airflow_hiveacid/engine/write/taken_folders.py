"""Hidden folders that one transaction takes over from another one."""

from dataclasses import dataclass, field, replace

from airflow_hiveacid.acid.names import staging_txn
from airflow_hiveacid.engine.hidden_folder import HiddenFolder
from airflow_hiveacid.engine.write.staged_files import FlatFile
from airflow_hiveacid.errors import StorageError
from airflow_hiveacid.metastore.txn.transaction import Transaction


@dataclass(frozen=True)
class TakenFolders:
    """Gives hidden folders of a lost transaction the name of one that is alive.

    Any cleaner may remove the former at any time. Those that have another name go when the
    transaction ends.

    Attributes:
        txn: The transaction.
    """

    txn: Transaction
    _names: dict[tuple[str, str], str] = field(default_factory=dict)

    def flat(self, file: FlatFile) -> FlatFile:
        """A file of Spark's at its new path."""
        return replace(file, path=self.path(file.root, file.path))

    def path(self, root: str, path: str) -> str:
        """The new path of a file; its folder is taken over with all that is in it.

        Args:
            root: The folder that the hidden folder lies in.
            path: The path below it, which begins with the hidden folder.

        Raises:
            StorageError: A cleaner was there before.
        """
        name, _, rest = path.partition("/")
        if (root, name) not in self._names:
            folder = HiddenFolder.until_the_end_of(self.txn, root)
            if staging_txn(name) is None:
                raise StorageError(f"{root}/{name} is no hidden folder.")
            folder.storage.rename(name, folder.name)
            self._names[root, name] = folder.name
        return f"{self._names[root, name]}/{rest}"
