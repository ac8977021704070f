"""Write docs/reference from the code: ``python docs/generate_reference.py``.

All text comes from docstrings, signatures, the command line's own help and the provider's metadata,
so that it matches the code. A test compares the existing files with the generated ones.
"""

import argparse
import ast
import dataclasses
import inspect
import re
import runpy
import textwrap
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from airflow_hiveacid.provider_info import PACKAGES
from hiveacid.public_names import homes

FOLDER = Path(__file__).parent / "reference"
SQL_PAGE = FOLDER.parent / "sql.md"
# The table of statements is between these lines of that page.
STATEMENTS = "<!-- Written by docs/generate_reference.py from hiveacid/parser/statements.py. -->"
END_OF_STATEMENTS = "<!-- End of the statements. -->"
METRICS_PAGE = FOLDER.parent / "operating.md"
# The table of metrics is between these lines of that page.
METRICS = "<!-- Written by docs/generate_reference.py from hiveacid/upkeep/metrics.py. -->"
END_OF_METRICS = "<!-- End of the metrics. -->"
ERRORS_PAGE = FOLDER.parent / "errors.md"
# The table of exit statuses is between these lines of that page.
STATUSES = "<!-- Written by docs/generate_reference.py from hiveacid/errors.py. -->"
END_OF_STATUSES = "<!-- End of the exit statuses. -->"
# The sections of that page as `hiveacid errors` prints them.
ERROR_TEXTS = Path(__file__).parents[1] / "hiveacid" / "cli" / "errors.txt"
WORKER_PAGE = FOLDER.parent / "worker.md"
# The table of expressions is between these lines of that page.
EXPRESSIONS = "<!-- Written by docs/generate_reference.py from hiveacid/worker/expressions.py. -->"
END_OF_EXPRESSIONS = "<!-- End of the expressions. -->"
CHECKS_PAGE = FOLDER.parent / "checks.md"
# The table of kinds of checks is between these lines of that page.
CHECKS = "<!-- Written by docs/generate_reference.py from hiveacid/jobs/checks.py. -->"
END_OF_CHECKS = "<!-- End of the kinds. -->"
DBT_PAGE = FOLDER.parent / "dbt.md"
# The table of suites that do not apply is between these lines of that page.
SUITES = "<!-- Written by docs/generate_reference.py from dbt/acceptance/not_applicable.py. -->"
END_OF_SUITES = "<!-- End of the suites. -->"
NOT_APPLICABLE = Path(__file__).parents[1] / "dbt" / "acceptance" / "not_applicable.py"
PLATFORMS_PAGE = FOLDER.parent / "platforms.md"
# The table of members of others that are not public is between these lines of that page.
PRIVATE = "<!-- Written by docs/generate_reference.py from hiveacid/spark and hiveacid/iceberg. -->"
END_OF_PRIVATE = "<!-- End of the private members. -->"
# The table of versions of other software is between these lines of that page.
TESTED = "<!-- Written by docs/generate_reference.py from docs/tested_versions.toml. -->"
END_OF_TESTED = "<!-- End of the tested versions. -->"
TESTED_VERSIONS = FOLDER.parent / "tested_versions.toml"
# Code has the layout of the docstrings, which ruff does not format.
NOTE = (
    "<!-- Written by docs/generate_reference.py from the code; `make docs` writes it again. -->\n"
    "<!-- fmt: off -->"
)

_OURS = ("hiveacid.", "airflow_hiveacid.")
# A page has the public names of some modules, after those that all of them build on.
PAGES = {
    "operators": (
        "Operators",
        ("airflow_hiveacid.operators.", "airflow_hiveacid.decorators."),
        ("airflow_hiveacid.operators.job.HiveAcidJobOperator",),
    ),
    "sensors": (
        "Sensors and event triggers",
        ("airflow_hiveacid.sensors.", "airflow_hiveacid.triggers."),
        ("airflow_hiveacid.sensors.compaction.HiveAcidCompactionSensor",),
    ),
    "jobs": (
        "Jobs, sources, clauses and policies",
        ("hiveacid.jobs.", "hiveacid.rules."),
        ("hiveacid.jobs.job.Job", "hiveacid.jobs.checks.Check"),
    ),
    "python": (
        "In Python: tables, hooks, assets and retries",
        ("",),
        ("hiveacid.api.changes.MergeBuilder",),
    ),
}
_PARAMETER = re.compile(r"^:(?:param (?P<name>\w+)|(?P<other>\w+)[^:]*):", re.MULTILINE)
_SECTION = re.compile(r"^(Attributes|Args|Raises|Returns|Yields):$", re.MULTILINE)


def main() -> None:
    """Write all pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
    written_parts = (
        (SQL_PAGE, with_statements),
        (METRICS_PAGE, with_metrics),
        (WORKER_PAGE, with_expressions),
        (CHECKS_PAGE, with_checks),
        (ERRORS_PAGE, with_statuses),
        (DBT_PAGE, with_suites),
        (PLATFORMS_PAGE, with_private_members),
        (PLATFORMS_PAGE, with_tested_versions),
    )
    for page, written in written_parts:
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
    ERROR_TEXTS.write_text(error_texts(ERRORS_PAGE.read_text(encoding="utf-8")), encoding="utf-8")


def with_statements(page: str) -> str:
    """Return the page on SQL with the table of the statements that the parser knows."""
    from hiveacid.parser.statements import documented

    rows = [
        f"| `{kind.syntax.replace('|', chr(92) + '|')}` | {kind.effect} |" for kind in documented()
    ]
    table = "\n".join(["| Statement | Effect |", "|---|---|", *rows])
    return _between(page, STATEMENTS, END_OF_STATEMENTS, table)


def with_metrics(page: str) -> str:
    """Return the page on operations with the table of all metrics."""
    from hiveacid.upkeep import metrics

    rows = []
    for metric in metrics.ALL:
        places = [
            place
            for place, names in (("Prometheus", metrics.EXPORTED), ("Airflow", metrics.EMITTED))
            if metric in names
        ]
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        rows.append(f"| `{metric.name}` | {labels} | {', '.join(places)} | {metric.help} |")
    table = "\n".join(["| Metric | Labels | Exported to | |", "|---|---|---|---|", *rows])
    return _between(page, METRICS, END_OF_METRICS, table)


def with_expressions(page: str) -> str:
    """Return the page on the worker with the table of the expressions that it evaluates."""
    from hiveacid.worker.expressions import SUBSET

    rows = [f"| {name} | {values} |" for name, values in SUBSET.items()]
    table = "\n".join(["| Expression | |", "|---|---|", *rows])
    return _between(page, EXPRESSIONS, END_OF_EXPRESSIONS, table)


def with_checks(page: str) -> str:
    """Return the page on checks with the table of their kinds."""
    from hiveacid.jobs.checks import Check

    kinds = [(kind.__name__, inspect.getdoc(kind) or "") for kind in Check.kinds()]
    rows = [f"| `{name}` | {text.splitlines()[0].rstrip('.')} |" for name, text in kinds]
    table = "\n".join(["| Kind | Content |", "|---|---|", *rows])
    return _between(page, CHECKS, END_OF_CHECKS, table)


def with_statuses(page: str) -> str:
    """Return the page on errors with the table of exit statuses and retries."""
    from hiveacid.cli.commands.errors import known_errors

    groups: dict[tuple[int, bool], list[str]] = {}
    for error in known_errors():
        link = f"[{error.__name__}](#{error.__name__.lower()})"
        groups.setdefault((error.exit_code, error.retryable), []).append(link)
    rows = [
        f"| {status} | {'yes' if retried else 'no'} | {', '.join(groups[status, retried])} |"
        for status, retried in sorted(groups)
    ]
    table = "\n".join(["| Exit status | Retried | Errors |", "|---|---|---|", *rows])
    return _between(page, STATUSES, END_OF_STATUSES, table)


def with_suites(page: str) -> str:
    """Return the page on dbt with the table of the suites that do not apply to its adapter."""
    listed = runpy.run_path(str(NOT_APPLICABLE))
    reasons: dict[str, list[str]] = {}
    for suite, reason in listed["NOT_APPLICABLE"].items():
        reasons.setdefault(reason, []).append(f"`{suite}`")
    rows = [f"| {', '.join(suites)} | {reason} |" for reason, suites in reasons.items()]
    share = f"{listed['LEFT_OUT']} of {listed['ALL']} suites:"
    table = "\n".join([share, "", "| Suites | Reason |", "|---|---|", *rows])
    return _between(page, SUITES, END_OF_SUITES, table)


def with_private_members(page: str) -> str:
    """Return the page on platforms with the members of PySpark and pyiceberg that are not public."""
    root = Path(__file__).parents[1]
    trees = {
        file.relative_to(root).as_posix(): ast.parse(file.read_text(encoding="utf-8"))
        for file in sorted((root / "hiveacid").rglob("*.py"))
    }
    own = {name for tree in trees.values() for name in _defined(tree)}
    rows = []
    for file, tree in trees.items():
        of_iceberg = file.startswith("hiveacid/iceberg/")
        nodes = [*ast.walk(tree)] if of_iceberg or file.startswith("hiveacid/spark/") else []
        private = {
            node.attr
            for node in nodes
            if isinstance(node, ast.Attribute) and re.match("_[a-z]", node.attr)
        } - own
        imported = {
            name.name
            for node in nodes
            if isinstance(node, ast.ImportFrom) and node.module
            for name in node.names
            if node.module == "py4j.java_gateway"
            or (node.module.startswith("pyiceberg") and name.name.startswith("_"))
        }
        overridden = _overridden(file) - imported if of_iceberg else set()
        if used := sorted(private | overridden) + sorted(imported):
            rows.append(f"| `{file}` | {', '.join(f'`{name}`' for name in used)} |")
    table = "\n".join(["| Module | Members |", "|---|---|", *rows])
    return _between(page, PRIVATE, END_OF_PRIVATE, table)


def _overridden(file: str) -> set[str]:
    """Return the private methods of pyiceberg that classes of a module override."""
    module = import_module(file.removesuffix(".py").removesuffix("/__init__").replace("/", "."))
    return {
        name
        for kind in vars(module).values()
        if isinstance(kind, type) and kind.__module__ == module.__name__
        for base in kind.__mro__
        if base.__module__.startswith("pyiceberg.")
        for name in vars(kind)
        if re.match("_[a-z]", name) and not name.startswith("_abc") and name in vars(base)
    }


def with_tested_versions(page: str) -> str:
    """Return the page on platforms with the versions of other software, and the days of the last tests."""
    found = tomllib.loads(TESTED_VERSIONS.read_text(encoding="utf-8"))["version"]
    rows = [
        f"| {each['of']} {each['version']} | {each.get('published', '')} | {each['tested']} | {each['by']} |"
        for each in found
    ]
    table = "\n".join(["| Software | Published | Last test | By |", "|---|---|---|---|", *rows])
    return _between(page, TESTED, END_OF_TESTED, table)


def _defined(tree: ast.AST) -> Iterator[str]:
    """Yield the names that a module defines, also as attributes."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and ast.unparse(node).startswith("self._"):
            yield from () if isinstance(node.ctx, ast.Load) else (node.attr,)


def error_texts(page: str) -> str:
    """Return the sections of the page on errors as plain text, for terminals."""
    sections = re.findall(r"^### (\w+)\n\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    plain = {name: re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text) for name, text in sections}
    return "\n\n".join(f"{name}\n{text.strip().replace('**', '')}" for name, text in plain.items())


def _between(page: str, start: str, end: str, text: str) -> str:
    """Replace the lines of a page between two others."""
    before, _, rest = page.partition(start)
    _, _, after = rest.partition(end)
    return f"{before}{start}\n{text}\n{end}{after}"


def pages() -> dict[str, str]:
    """The pages, by the names of their files."""
    written = {f"{name}.md": class_page(name) for name in PAGES}
    written["cli.md"] = command_page()
    written["airflow.md"] = provider_page()
    return written


# Classes and functions


def class_page(name: str) -> str:
    """A page of classes and functions."""
    title, _, bases = PAGES[name]
    things = [_load(base) for base in bases]
    things += [_load(path) for path in _public() if _page_of(path) == name]
    return _page(title, "\n\n".join(map(describe, things)))


def describe(thing: Any) -> str:
    """A section on a class or a function."""
    parsed = Docstring(inspect.getdoc(thing) or "")
    lines = [f"## {thing.__name__}", "", f"`from {_import_of(thing)} import {thing.__name__}`", ""]
    text = parsed.text
    if not inspect.isclass(thing):
        text = f"{_call(thing.__name__, thing)}: {text}"
    elif not _is_dataclass(thing) and _own_methods(thing):
        text = f"{_call(thing.__name__, thing.__init__)}: {text}"
    lines += [text, "", *parameter_table(thing, parsed)]
    for method, function in _own_methods(thing) if inspect.isclass(thing) else ():
        described = Docstring(inspect.getdoc(function) or "")
        lines += [f"### {thing.__name__}.{method}", ""]
        text = f"{_call(method, function)}: {described.text}"
        lines += [text, "", *parameter_table(function, described)]
    return "\n".join(lines).strip()


def _call(name: str, function: Callable[..., Any]) -> str:
    """A call as one would write it, in a line with its default values."""
    parameters = [p for p in inspect.signature(function).parameters.values() if p.name != "self"]
    shown = [str(p.replace(annotation=p.empty)) for p in parameters]
    stars = [p.kind is p.KEYWORD_ONLY for p in parameters]
    if True in stars and not any(p.kind is p.VAR_POSITIONAL for p in parameters):
        shown.insert(stars.index(True), "*")
    return f"`{name}({', '.join(shown)})`"


def parameter_table(thing: Any, parsed: "Docstring") -> list[str]:
    """Return the parameters of a class or a function: name, default, meaning."""
    meanings = {**_fields(thing), **parsed.parameters}
    meanings = {name: text for name, text in meanings.items() if not name.startswith("_")}
    if not meanings:
        return []
    defaults = _defaults(thing)
    rows = [
        f"| `{name}` | {_cell(defaults.get(name))} | {meaning or ''} |"
        for name, meaning in meanings.items()
    ]
    return [*_inherited(thing), "| | Default | |", "|---|---|---|", *rows, ""]


@dataclasses.dataclass
class Docstring:
    """A docstring in Markdown, with the parameters apart.

    Attributes:
        docstring: As ``inspect.getdoc`` returns it.
    """

    docstring: str

    @property
    def text(self) -> str:
        """Return all but the parameters; text after ``::`` is code."""
        ends = [match.start() for match in (_PARAMETER.search(self.docstring),) if match]
        ends += [match.start() for match in (_SECTION.search(self.docstring),) if match]
        text = self.docstring[: min(ends)] if ends else self.docstring
        text = re.sub(
            r"^(.*)::\n\n((?:(?: {4}.*)?\n)+)",
            lambda code: f"{code[1]}:\n\n{_block(textwrap.dedent(code[2]).strip())}\n\n",
            text.rstrip() + "\n",
            flags=re.MULTILINE,
        )
        return _markdown(re.sub(r"\n{3,}", "\n\n", text)).strip()

    @property
    def parameters(self) -> dict[str, str]:
        """Name to meaning, from ``:param x:`` or from a section of the style of Google."""
        return dict(self._sphinx()) or dict(self._google())

    def _sphinx(self) -> Iterator[tuple[str, str]]:
        found = list(_PARAMETER.finditer(self.docstring))
        ends = [match.start() for match in found[1:]] + [len(self.docstring)]
        for match, end in zip(found, ends, strict=False):
            if match["name"]:
                yield match["name"], _one_line(self.docstring[match.end() : end])

    def _google(self) -> Iterator[tuple[str, str]]:
        match = re.search(r"^(?:Attributes|Args):\n((?:(?: {4}.*)?\n?)+)", self.docstring, re.M)
        entries = textwrap.dedent(match[1]) if match else ""
        for entry in re.finditer(r"^\*{0,2}(\w+): ((?:.*\n?)(?:(?: +.*)?\n?)*)", entries, re.M):
            yield entry[1], _one_line(entry[2])


# The command line, the provider


# An argument of a command in the page: its name, its meaning, and the title of its group.
Argument = tuple[str, str, str]
# Options of at least this number of commands are described once.
_OFTEN = 8


def command_page() -> str:
    """Return the arguments of the commands of ``hiveacid``."""
    commands = dict(_commands(command_parser()))
    arguments = {name: _arguments(command) for name, command in commands.items()}
    counts = Counter(each[:2] for some in arguments.values() for each in some)
    common = [each for each, count in counts.items() if count >= _OFTEN]
    parts = [
        "`airflow hiveacid …` has the same commands. Each shows its arguments by `--help`.",
        "## Options of most commands",
        _argument_table([(*each, "") for each in common]),
    ]
    for name, command in commands.items():
        own = [each for each in arguments[name] if each[:2] not in common]
        shared = [each for each in common if each in {one[:2] for one in arguments[name]}]
        left_out = [option for option, _ in common if option not in dict(shared)]
        described = " ".join((command.description or "").split())
        has_own_commands = any(other.startswith(f"{name} ") for other in commands)
        if not shared and not has_own_commands:
            described += " It has none of the options of most commands."
        elif left_out and len(left_out) < len(common) // 2:
            described += f" It has no {', '.join(map(_code_of, left_out))}."
        parts += [f"## {name}", described, *([_argument_table(own)] if own else [])]
    return _page("The command hiveacid", "\n\n".join(parts))


def _arguments(command: argparse.ArgumentParser) -> list[Argument]:
    """The arguments of a command, those of a group behind its title."""
    formatter = argparse.HelpFormatter(command.prog, width=10_000)
    found = []
    for group in command._action_groups:
        titled = group.title not in ("positional arguments", "options")
        for action in group._group_actions:
            if isinstance(action, argparse._HelpAction | argparse._SubParsersAction):
                continue
            meaning = formatter._expand_help(action) if action.help else ""
            found.append(
                (_invocation(formatter, action), meaning, (group.title or "") if titled else "")
            )
    return found


def _invocation(formatter: argparse.HelpFormatter, action: argparse.Action) -> str:
    """The argument as a command line has it; Pythons differ in the layout of their own help."""
    value = formatter._format_args(action, (action.dest if action.option_strings else "").upper())
    if not action.option_strings:
        return formatter._format_args(
            action, formatter._metavar_formatter(action, action.dest)(1)[0]
        )
    return " ".join(filter(None, (", ".join(action.option_strings), value)))


def _argument_table(arguments: Sequence[Argument]) -> str:
    rows = [
        f"| {_code_of(name)} | {_one_line(f'{title}: {meaning}' if title else meaning)} |"
        for name, meaning, title in arguments
    ]
    return "\n".join(["| Argument | Meaning |", "|---|---|", *rows])


def _code_of(text: str) -> str:
    return f"`{_cell(text)}`"


def command_parser() -> argparse.ArgumentParser:
    """Return the argument parser of ``hiveacid``."""
    from hiveacid.cli.main import DESCRIPTION, all_commands

    parser = argparse.ArgumentParser(prog="hiveacid", description=DESCRIPTION)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for command in all_commands():
        command.configure(
            commands.add_parser(command.name, help=command.help, description=command.description)
        )
    return parser


def _commands(
    parser: argparse.ArgumentParser, before: str = ""
) -> Iterator[tuple[str, argparse.ArgumentParser]]:
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, command in action.choices.items():
                yield f"{before}{name}", command
                yield from _commands(command, f"{before}{name} ")


def provider_page() -> str:
    """Return Airflow's information on the provider."""
    from airflow_hiveacid.provider_info import get_provider_info

    info = get_provider_info()
    parts = []
    for connection in info["connection-types"]:
        behaviour = connection.get("ui-field-behaviour", {})
        parts.append(f"## Connection type `{connection['connection-type']}`\n")
        named = behaviour.get("relabeling", {})
        rows = [f"| `{field}` | {label} | |" for field, label in named.items()]
        for name, field in connection.get("conn-fields", {}).items():
            default = field["schema"].get("default")
            shown = "" if default is None else f" Default: `{default}`."
            rows.append(f"| extra `{name}` | {field['label']} | {field['description']}{shown} |")
        parts.append("\n".join(["| Field | Label | |", "|---|---|---|", *rows, ""]))
    for section, config in info.get("config", {}).items():
        parts.append(f"## Configuration section `[{section}]`\n\n{config['description']}\n")
        rows = [
            f"| `{name}` | {option['type']} | {_cell(option.get('default'))} "
            f"| {_one_line(option['description'])} |"
            for name, option in config["options"].items()
        ]
        parts.append("\n".join(["| Option | Type | Default | |", "|---|---|---|---|", *rows, ""]))
    rows = [f"- `{path}`" for path in info.get("extra-links", ())]
    rows += [f"- `{path}`" for path in info.get("notifications", ())]
    rows += [f"- `@task.{each['name']}`" for each in info.get("task-decorators", ())]
    rows += [
        f"- `{scheme}://…`" for each in info.get("asset-uris", ()) for scheme in each["schemes"]
    ]
    parts.append("\n".join(["## Links, notifiers, decorators and asset uris\n", *rows]))
    return _page("In Airflow: connection, configuration, links", "\n".join(parts))


# Small things


def _public() -> list[str]:
    paths = {f"{home}.{name}" for package in PACKAGES for name, home in homes(package).items()}
    # In the order of the packages' own names.
    return sorted(
        (path for path in paths if not path.startswith("hiveacid.errors.")),
        key=lambda path: path.partition(".")[2],
    )


def _page_of(path: str) -> str:
    return next(
        name for name, (_, prefixes, _) in PAGES.items() if path.startswith(tuple(prefixes))
    )


def _load(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def _import_of(thing: Any) -> str:
    public = (package for package in PACKAGES if thing.__name__ in homes(package))
    return next(public, thing.__module__)


def _own_methods(thing: type) -> list[tuple[str, Callable[..., Any]]]:
    """Return the public methods of classes with called methods; operators and jobs have none."""
    if not thing.__module__.startswith(
        ("hiveacid.api.", "hiveacid.spark.", "airflow_hiveacid.hooks.metastore")
    ):
        return []
    ours = [base for base in thing.__mro__ if base.__module__.startswith(_OURS)]
    members = {name: member for base in reversed(ours) for name, member in vars(base).items()}
    return [
        (name, member)
        for name, member in members.items()
        if inspect.isfunction(member) and not name.startswith("_")
    ]


def _is_dataclass(thing: Any) -> bool:
    """Return whether it is one itself: operators inherit from one."""
    return "__dataclass_fields__" in vars(thing) if inspect.isclass(thing) else False


def _fields(thing: Any) -> dict[str, str | None]:
    """The fields of a dataclass and of those of its bases that have no entry of their own."""
    if not _is_dataclass(thing):
        return {}
    known = {field.name for field in dataclasses.fields(thing)}
    own = dict.fromkeys(name for name in vars(thing).get("__annotations__", ()) if name in known)
    described = _described()
    for base in thing.__mro__[1:]:
        if base in described:
            break
        if _is_dataclass(base):
            own |= Docstring(inspect.getdoc(base) or "").parameters
    return own


def _described() -> set[Any]:
    """The bases that have an entry of their own."""
    return {_load(path) for _, _, bases in PAGES.values() for path in bases}


def _defaults(thing: Any) -> dict[str, str]:
    if _is_dataclass(thing):
        return {field.name: _field_default(field) for field in dataclasses.fields(thing)}
    functions = [thing]
    if inspect.isclass(thing):
        ours = [each for each in thing.__mro__ if each.__module__.startswith(_OURS)]
        functions = [vars(each)["__init__"] for each in reversed(ours) if "__init__" in vars(each)]
    return {
        name: "required" if parameter.default is parameter.empty else _code(parameter.default)
        for function in functions
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    }


def _inherited(thing: Any) -> list[str]:
    if not _is_dataclass(thing):
        return []
    described = _described()
    bases = [base.__name__ for base in thing.__mro__[1:] if base in described]
    return [f"On top of the fields of {bases[0]}:", ""] if bases else []


def _field_default(field: "dataclasses.Field[Any]") -> str:
    if field.default is not dataclasses.MISSING:
        return _code(field.default)
    if field.default_factory is dataclasses.MISSING:
        return "required"
    return _code(field.default_factory())


def _code(value: object) -> str:
    shown = repr(value)
    # Of a whole policy it is enough to know which one.
    return f"`{type(value).__name__}()`" if len(shown) > 60 else f"`{shown}`"


def _cell(text: object) -> str:
    return "" if text is None else str(text).replace("|", "\\|")


def _block(code: str) -> str:
    # With prompts it is a session, and no program.
    return f"```{'pycon' if code.startswith('>>>') else 'python'}\n{code}\n```"


def _one_line(text: str) -> str:
    return _markdown(" ".join(text.split())).replace("|", "\\|")


def _markdown(text: str) -> str:
    return re.sub(r"(?<!`)``(?!`)", "`", re.sub(r":class:`(\w+)`", r"`\1`", text))


def _page(title: str, text: str) -> str:
    return f"{NOTE}\n\n# {title}\n\n{text.rstrip()}\n"


if __name__ == "__main__":
    main()
