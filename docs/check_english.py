"""Check that docs, docstrings, comments, and messages use the words of technical English.

``python docs/check_english.py`` counts patterns that technical prose hardly uses, per 1,000 words,
and fails if a rate is above its limit: twice the highest rate in pyiceberg, structlog, sqlglot, and
pydantic. A rate is only a symptom: rewrite the sentences that the script lists.

It also counts the parameters and local variables of the code that are a pronoun, an adverb, or a
participle without a noun, per hundred: in these code bases 0.5 to 1.2.
"""

import ast
import io
import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
CODE = ("hiveacid", "airflow_hiveacid", "dbt/adapters", "spark_apps", "dags", "deploy", "docs")
NAMED = ("hiveacid", "airflow_hiveacid", "spark_apps")
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


# Names that do not name their content.
_NAMES_LIMIT = 2.0
_VAGUE_NAME = re.compile(
    r"_*("
    r"each|own|found|known|given|at|one|other|others|both|some|any|none|all|"
    r"most|more|less|few|several|another|same|such|that|these|those|it|its|they|"
    r"them|wanted|written|named|shown|kept|left|held|chosen|seen|done|gone|taken|"
    r"made|meant|needed|used|asked|listed|opened|stored|counted|described|changed|"
    r"replaced|planned|added|dropped|moved|lost|got|expected|applied|parsed|sent|"
    r"told|tried|picked|met|put|begun|ended|built|caught|cut|drawn|driven|"
    r"forgotten|hidden|joined|laid|let|paid|proven|said|stated|staged|encoded|"
    r"decoded|closed|aborted|committed|filled|before|after|later|then|since|here|"
    r"there|inside|outside|above|below|beside|still|already|once|twice|again|"
    r"almost|away|apart|together|yet|soon|what|who|whom|which|whose|when|why|how|"
    r"rest|unknown|spare"
    r")_*"
)


def _local_names(path: Path) -> Iterator[str]:
    """Yield the names of the parameters and local variables of a module."""
    functions = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    roots = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, functions)]
    nodes = {node for root in roots for node in ast.walk(root)}
    for node in nodes:
        if isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id


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


def check_names(files: list[Path]) -> bool:
    """Print the rate of vague names, and the files with most of them above the limit."""
    names = [(path, name) for path in files for name in _local_names(path)]
    vague = [path for path, name in names if _VAGUE_NAME.fullmatch(name)]
    rate = 100 * len(vague) / len(names)
    print(f"Names: {len(names)}\n{rate:8.2f} (at most {_NAMES_LIMIT:.2f}) in 100 are vague")
    if rate > _NAMES_LIMIT:
        for path, number in Counter(vague).most_common(SHOWN):
            print(f"  {path.relative_to(ROOT)}: {number}")
    return rate <= _NAMES_LIMIT


def main() -> int:
    """Check the code, the tests, and the pages separately; return the exit status."""
    code = [text for file in _files(CODE, ".py") for text in _of_module(file)]
    tests = [text for file in _files(TESTS, ".py") for text in _of_module(file)]
    pages = [text for file in _files(PAGES, ".md") for text in _of_page(file)]
    accepted = [check("Code", code), check("Tests", tests), check("Docs", pages)]
    accepted.append(check_names(_files(NAMED, ".py")))
    return 0 if all(accepted) else 1


if __name__ == "__main__":
    sys.exit(main())
