"""The files of dbt-tests-adapter, which are written for PostgreSQL, with the SQL of Hive and Spark."""

import importlib.machinery
import re
import sys
from collections.abc import Sequence
from types import CodeType, ModuleType
from typing import Any

PACKAGE = "dbt.tests.adapter"
_RULES = [
    # The metastore has no level above databases, and so a profile has neither that nor a host.
    (r"\{\{\s*(?:target|this)\.database\s*\}\}\.", ""),
    (r"\{(?:project\.)?database\}\.(?=\{)", ""),
    (r"\{\{ target\.dbname \}\}", "dbt"),
    (r"\{\{ target\.user \}\}", "root"),
    (r'ctx\["target_host"\] == host', 'ctx["target_host"] == ""'),
    (r"results\[0\]\[0\] == project\.database", "results[0][0] == str(project.database)"),
    (r'\["target_type"\] == "postgres"', '["target_type"] == "hiveacid"'),
    (r'\["database", "schema", "identifier"\]', '["schema", "identifier"]'),
    # The compiled text of views, which have no names for the time before they are complete
    (r'"dbt"\."test_test_ephemeral"\."(\w+?)(?:__dbt_tmp)?"', r"test_test_suites.\1"),
    (r"test_test_ephemeral", "test_test_suites"),
    (r"create view (test_test_suites\.\w+) as \(", r"create or replace view \1 as "),
    (r'^(\s+)"\);"$', r'\1""'),
    (r"target\.type == 'postgres'", "target.type == 'hiveacid'"),
    (r"'09/(01|12)/2023'", r"'2023-09-\1'"),
    # Types
    (r"(?<!input, )\bnull as (actual|expected)\b", r"cast(null as int) as \1"),
    (r"::\s*(?:text|varchar)\b(?!\()", "::string"),
    (r"(?<=\s)(?:TEXT|text)(?=\s*(?:,|\)|\n|not null|primary))", "string"),
    (r"::double precision", "::double"),
    (r"(?i)timestamp without time zone", "timestamp"),
    (r"('[^'\n]*'|\b[\w.]+)::\s*(\{\{[^}\n]*\}\}|\w+(?:\(\d+\))?)", r"cast(\1 as \2)"),
    (r"(?<!data_)type: integer", "type: bigint"),
    # Names in quotes
    (r"'\"\{\}\"'\.format", "'`{}`'.format"),
    (r'"(seed_id|first_name|email|ip_address|birthday)"(?=,"|\)$)', r"`\1`"),
    (r'(?<=as )"GROUP"', "`GROUP`"),
    (r'(?<=as )"from"|\("from"|(?<=\')"from"(?=\')', lambda match: match[0].replace('"', "`")),
    (r'"varchar"', '"string"'),
    # Statements
    (
        r"test_valid_to from \{schema\}\.snapshot_actual",
        "test_valid_to from {schema}.snapshot_actual order by id, test_valid_to",
    ),
    (
        r"project\.get_tables_in_schema\(\)",
        'dict.fromkeys(row[0] for row in project.run_sql("show tables in {schema}", fetch="all"))',
    ),
    (r"\{% do alter_relation_add_remove_columns\(my_seed, none, \[my_column\]\) %\}", ""),
    (r"set session time zone '", "set time zone '"),
    (r"current_setting\('timezone'\)", "current_timezone()"),
    (r"vacuum (\{\{ this(?:\.schema)? \}\}(?:\.\w+)?)", r"analyze table \1 compute statistics"),
    (r"(?i)\badd column (\w+ [\w()]+)( default [^;\n]+)?(?=[;\"])", r"add columns (\1)"),
]
_COMPILED: list[tuple[re.Pattern[str], Any]] = [
    (re.compile(rule, re.MULTILINE), new) for rule, new in _RULES
]


def translated(text: str) -> str:
    """Return a text with all rules applied."""
    for pattern, replacement in _COMPILED:
        text = pattern.sub(replacement, text)
    return text


class _Loader(importlib.machinery.SourceFileLoader):
    def get_code(self, fullname: str) -> CodeType:
        """Compile the translated source, past the cache of the original one."""
        source = self.get_data(self.path).decode()
        return compile(translated(source), self.path, "exec")


class _Finder:
    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> Any:
        """Find a module of dbt-tests-adapter."""
        if not name.startswith(f"{PACKAGE}."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and isinstance(spec.loader, importlib.machinery.SourceFileLoader):
            spec.loader = _Loader(name, spec.loader.path)
        return spec


def install() -> None:
    """Translate all modules of dbt-tests-adapter that are imported from now on."""
    sys.meta_path.insert(0, _Finder)  # type: ignore[arg-type]
