"""The check of the English of texts reports unusual words with their places."""

from pathlib import Path

import pytest

from docs.check_english import Text, check, check_names

PLAIN = [Text(f"module.py:{line}", "Return the number of rows in a file.") for line in range(50)]


def test_plain_texts_are_accepted(capsys: pytest.CaptureFixture[str]) -> None:
    assert check("Code", PLAIN)
    assert "Code: 400 words" in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        "The file tells what it holds.",
        "Somebody has to remove the file.",
        "The file lies in a folder.",
        "The folder of which the file is a part.",
    ],
)
def test_unusual_words_are_reported_with_their_place(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert not check("Code", [*PLAIN, Text("odd.py:7", words)])
    assert "odd.py:7: " in capsys.readouterr().out


def test_files_with_vague_names_are_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("docs.check_english.ROOT", tmp_path)
    good, vague = tmp_path / "good.py", tmp_path / "vague.py"
    good.write_text("def f(path):\n    lines = path\n    return [line for line in lines]\n")
    vague.write_text(
        "def f(path, given=1):\n    found = path\n    return [each for each in found]\n"
    )
    assert check_names([good])
    capsys.readouterr()
    assert not check_names([good, vague])
    assert "vague.py: 3\n" in capsys.readouterr().out
