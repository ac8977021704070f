"""Check that docs, docstrings, comments, and messages use the words of technical English.

``python docs/check_english.py`` counts patterns that technical prose hardly uses, per 1,000 words,
and fails if a rate is above its limit: twice the highest rate in pyiceberg, structlog, sqlglot, and
pydantic. A rate is only a symptom: rewrite the sentences that the script lists.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
CODE = ("hiveacid", "airflow_hiveacid", "dbt/adapters", "spark_apps", "dags", "deploy", "docs")
TESTS = ("tests", "bench", "dbt/acceptance")
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "docs", "deploy")
SHOWN = 10


class Pattern(NamedTuple):
    """A pattern with the highest accepted rate per 1,000 words, and the reason to avoid it."""

    name: str
    regex: re.Pattern[str]
    limit: float
    reason: str


class Text(NamedTuple):
    """A docstring, a comment, a message, or a paragraph."""

    place: str
    words: str


def _pattern(name: str, regex: str, limit: float, reason: str) -> Pattern:
    return Pattern(name, re.compile(regex), limit, reason)


PATTERNS = (
    _pattern(
        "what, whatever, whoever",
        r"(?i)\b(what|whatever|whoever|whom)\b",
        0.76,
        "A clause with `what` hides the subject of the sentence: name the thing.",
    ),
    _pattern(
        "say, tell",
        r"(?i)\b(say|says|said|saying|tell|tells|told|telling)\b",
        0.32,
        "Software reports, stores, returns, raises, or logs.",
    ),
    _pattern(
        "somebody, nobody",
        r"(?i)\b(somebody|nobody|someone|everybody|anybody)\b",
        0.54,
        "Name the role: owner, caller, reader, writer, administrator.",
    ),
    _pattern(
        "stand, lie",
        r"(?i)\b(stands?|stood|lies|lay|lain)\b",
        0.1,
        "Files are, exist, or are stored in a place.",
    ),
    _pattern(
        "of which, by whom",
        r"(?i)\b(of|to|in|by|from|with) (which|whom|whose)\b",
        0.68,
        "A second sentence with a subject of its own is shorter.",
    ),
    _pattern(
        "texts that start with What, Where, How, Which, Who, When",
        r"^(What|Where|How|Which|Who|When) ",
        7.6,
        "A docstring starts with a verb or a noun phrase.",
    ),
)


def _of_module(path: Path) -> Iterator[Text]:
    """Yield the docstrings, the messages, and the comments of a module."""
    source = path.read_text()
    tree = ast.parse(source)
    docstrings = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            first = node.body[0] if node.body else None
            if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
                docstrings.add(first.value)
    for node in ast.walk(tree):
        if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
            continue
        # Shorter literals are names, keys, and parts of statements.
        if node in docstrings or len(node.value.split()) > 3:
            yield Text(f"{path.relative_to(ROOT)}:{node.lineno}", node.value.strip())
    yield from _comments(path, source)


def _comments(path: Path, source: str) -> Iterator[Text]:
    """Yield the comments of a module; consecutive lines are one text."""
    lines: list[str] = []
    start = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            start = start if lines else token.start[0]
            lines.append(token.string.lstrip("#: "))
        elif lines and token.type not in (tokenize.NL, tokenize.NEWLINE):
            yield Text(f"{path.relative_to(ROOT)}:{start}", " ".join(lines))
            lines = []


def _of_page(path: Path) -> Iterator[Text]:
    """Yield the lines of a page without its code and the addresses of its links."""
    blank = re.sub(
        r"```.*?```", lambda block: "\n" * block[0].count("\n"), path.read_text(), flags=re.S
    )
    for number, line in enumerate(blank.splitlines(), 1):
        words = re.sub(r"`[^`]*`", "X", re.sub(r"\]\([^)]*\)", "]", line)).strip("#|*- ")
        if len(words.split()) > 3:
            yield Text(f"{path.relative_to(ROOT)}:{number}", words)


def _files(names: tuple[str, ...], suffix: str) -> list[Path]:
    roots = [ROOT / name for name in names]
    return sorted(
        file
        for root in roots
        for file in ([root] if root.is_file() else root.rglob(f"*{suffix}"))
        if "data" not in file.relative_to(ROOT).parts
    )


def check(subject: str, texts: list[Text]) -> bool:
    """Print the rates, and the texts above a limit; return whether all rates are accepted."""
    words = sum(len(text.words.split()) for text in texts)
    print(f"{subject}: {words} words")
    accepted = True
    for pattern in PATTERNS:
        hits = [(text, hit) for text in texts for hit in pattern.regex.finditer(text.words)]
        rate = 1000 * len(hits) / words
        print(f"{rate:8.2f} (at most {pattern.limit:.2f}) {pattern.name}")
        if rate > pattern.limit:
            accepted = False
            print(pattern.reason)
            for text, hit in hits[:SHOWN]:
                print(
                    f"  {text.place}: {' '.join(text.words[max(0, hit.start() - 40) :].split())[:100]}"
                )
    return accepted


def main() -> int:
    """Check the code, the tests, and the pages separately; return the exit status."""
    code = [text for file in _files(CODE, ".py") for text in _of_module(file)]
    tests = [text for file in _files(TESTS, ".py") for text in _of_module(file)]
    pages = [text for file in _files(PAGES, ".md") for text in _of_page(file)]
    accepted = [check("Code", code), check("Tests", tests), check("Docs", pages)]
    return 0 if all(accepted) else 1


if __name__ == "__main__":
    sys.exit(main())
