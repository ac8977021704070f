"""The check of the English of texts reports unusual words with their places."""

import pytest

from docs.check_english import Text, check

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
