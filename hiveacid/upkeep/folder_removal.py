"""The removal of the garbage of one folder: hidden, then deleted or put back."""

from dataclasses import dataclass, field, replace

from hiveacid.rules.cleaning import KeptPath
from hiveacid.storage.folder import Storage
from hiveacid.storage.removal import Removal
from hiveacid.upkeep.inspection import Garbage, InspectedFolder


@dataclass
class FolderRemoval:
    """The removal of the garbage of one folder.

    Attributes:
        inspected: The inspected folder.
        storage: The opened folder.
        hidden: The garbage with public names.
        garbage: The garbage that is removed.
        keep: The garbage that must stay.
    """

    inspected: InspectedFolder
    storage: Storage
    hidden: Removal
    garbage: list[Garbage] = field(default_factory=list)
    keep: list[KeptPath] = field(default_factory=list)

    def is_hidden(self, garbage: Garbage) -> bool:
        """Return whether garbage is hidden before it is deleted; stores cannot rename."""
        return garbage.is_public and self.storage.renames_at_once

    def path(self, garbage: Garbage) -> str:
        """Return the current path of garbage below the folder."""
        return self.hidden.path(garbage.path) if self.is_hidden(garbage) else garbage.path

    def put_back(self, why: str) -> None:
        """Remove nothing, and give everything hidden its name again."""
        self.hidden.put_back()
        self.keep += [KeptPath(each.path, why) for each in self.garbage] or [KeptPath("", why)]
        self.garbage.clear()

    @property
    def result(self) -> InspectedFolder:
        """The removed files and directories, and the remaining ones."""
        inspected = self.inspected
        plan = None if self.keep else inspected.plan
        keep = (*inspected.keep, *self.keep)
        return replace(inspected, garbage=tuple(self.garbage), keep=keep, plan=plan)
