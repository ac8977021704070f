"""Names enter SQL through one function for each dialect."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from hiveacid.errors import MalformedName
from hiveacid.rules.sql_names import quoted, quoted_in_duckdb, unquoted

ROOT = Path(__file__).parents[2]
HOME = ROOT / "hiveacid" / "rules" / "sql_names.py"
HOSTILE = ["a`; DROP TABLE t; --", "``", "`", 'a"b', "a.b", "a b", "ä\n", "--", "/*"]


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_is_one_token_and_is_read_back(name: str) -> None:
    from hiveacid.parser.script import tokens_of

    tokens = [*tokens_of(f"SELECT {quoted(name)}")]
    assert len(tokens) == 2
    assert unquoted(quoted(name)) == name


def test_each_part_of_a_path_is_quoted() -> None:
    assert quoted("a.b", "c`d") == "`a.b`.`c``d`"
    assert quoted_in_duckdb("a.b", 'c"d') == '"a.b"."c""d"'


@pytest.mark.parametrize("quote", [quoted, quoted_in_duckdb])
def test_an_empty_name_is_refused(quote: object) -> None:
    with pytest.raises(MalformedName, match="empty"):
        quote("")  # type: ignore[operator]


def test_a_name_without_quotes_is_itself() -> None:
    assert [unquoted(text) for text in ("a", "`", "``", "a`b`")] == ["a", "`", "", "a`b`"]


# The list of other places that put quotes around a name


def other_places(code: str) -> Iterator[str]:
    """The expressions that put quotes around a value, or double quotes in it."""
    tree = ast.parse(code)
    prose = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        match node:
            case ast.JoinedStr(values=parts):
                texts = [each.value if isinstance(each, ast.Constant) else None for each in parts]
                for before, value, after in zip(texts, texts[1:], texts[2:], strict=False):
                    around = str(before)[-1:] + str(after)[:1]
                    if value is None and before is not None and around == "``":
                        yield ast.unparse(node)
            case ast.Constant(value=str(text)) if (
                re.search(r"`(\{\w*\}|%s)`", text) and id(node) not in prose
            ):
                yield text
            case ast.BinOp(left=ast.Constant(value="`")) | ast.BinOp(right=ast.Constant(value="`")):
                yield ast.unparse(node)
            case ast.Call(func=ast.Attribute(attr="replace" | "strip"), args=[first, *_]) if (
                isinstance(first, ast.Constant) and first.value in ("`", "``")
            ):
                yield ast.unparse(node)
            case ast.Call(
                func=ast.Attribute(attr="replace"),
                args=[ast.Constant(value='"'), ast.Constant(value='""')],
            ):
                yield ast.unparse(node)


@pytest.mark.parametrize(
    "code",
    [
        "f'SELECT `{name}`'",
        "'`{}`'.format(name)",
        "'`%s`' % name",
        "'`' + name + '`'",
        "name.replace('`', '``')",
        "name.strip('`')",
        "name.replace('\"', '\"\"')",
    ],
)
def test_the_scan_finds_other_places(code: str) -> None:
    assert [*other_places(code)]


@pytest.mark.thorough
def test_no_other_place_puts_quotes_around_a_name() -> None:
    files = [
        file
        for folder in ("hiveacid", "airflow_hiveacid", "dbt/adapters", "dags", "spark_apps")
        for file in (ROOT / folder).rglob("*.py")
        if file != HOME
    ]
    assert len(files) > 300
    found = {
        f"{file.relative_to(ROOT)}: {place}"
        for file in files
        for place in other_places(file.read_text())
    }
    assert not found, "Use hiveacid.rules.sql_names."


def test_no_macro_of_dbt_puts_quotes_around_a_name() -> None:
    macros = [*(ROOT / "dbt" / "include").rglob("*.sql")]
    assert len(macros) > 4
    found = [file for file in macros if re.search(r"[`\"]\{\{|\}\}[`\"]", file.read_text())]
    assert not found, "Use adapter.quote, or column.quoted."
