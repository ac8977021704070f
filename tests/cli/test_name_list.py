import pytest

from hiveacid.rules.names import first_names


@pytest.mark.parametrize(
    ("names", "text"),
    [([], ""), (["a"], "a"), (["a", "b"], "a, b"), (["a", "b", "c", "d"], "a, b and 2 more")],
)
def test_a_long_list_ends_with_the_number_of_the_others(names: list[str], text: str) -> None:
    assert first_names(names, 2) == text
