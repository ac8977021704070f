"""Only our own folder is emptied, and no process works in another one's folder."""

from pathlib import Path

import pytest

from airflow_hiveacid.playground.local_airflow import own_folder
from hiveacid.errors import UserError


def test_foreign_files_are_kept_and_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(UserError, match="contains other files"), own_folder(tmp_path, fresh=True):
        pass
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("fresh", [True, False])
def test_ours_is_gone_on_with_or_emptied(fresh: bool, tmp_path: Path) -> None:
    folder, outside = tmp_path / "demo", tmp_path / "outside"
    outside.mkdir()
    (outside / "file").touch()
    with own_folder(folder, fresh=fresh):
        (folder / "tables").mkdir()
        (folder / "tables" / "file").touch()
        (folder / "link").symlink_to(outside)
    with own_folder(folder, fresh=fresh):
        assert (folder / "tables" / "file").exists() is not fresh
    assert (outside / "file").exists()


def test_two_do_not_work_in_one_folder(tmp_path: Path) -> None:
    with (
        own_folder(tmp_path, fresh=False),
        pytest.raises(UserError, match="already works"),
        own_folder(tmp_path, fresh=True),
    ):
        pass
    with own_folder(tmp_path, fresh=True):
        pass
