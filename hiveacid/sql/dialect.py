"""The dialect that sqlglot reads: Spark's own, with every function left as it is."""

from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.spark import Spark
from sqlglot.parsers.hive import HiveParser
from sqlglot.parsers.spark import SparkParser
from sqlglot.tokenizer_core import TokenType

from hiveacid.errors import SqlError

# Limit of the parser's steps; typical statements take two steps per word.
_STEPS, _STEPS_PER_WORD = 5_000, 20
# Those whose arguments are no list: CAST(a AS int), EXTRACT(year FROM a).
_OWN_SYNTAX = ("CAST", "EXTRACT", "OVERLAY", "POSITION", "SUBSTR", "SUBSTRING", "TRIM", "TRY_CAST")


class HiveAcidSql(Spark):
    """Spark's SQL dialect, which is read and never written: Spark gets the text of the author.

    sqlglot translates between databases, and interprets functions. All functions of this dialect are
    unknown.
    """

    class Tokenizer(Spark.Tokenizer):
        """Splits every statement into words; sqlglot keeps the rest of some as one text."""

        KEYWORDS: ClassVar[dict[str, TokenType]] = {
            word: kind
            for word, kind in Spark.Tokenizer.KEYWORDS.items()
            if kind is not TokenType.COMMAND
        }
        COMMANDS: ClassVar[set[TokenType]] = set()

    class Parser(SparkParser):
        """Takes every function for one that it does not know."""

        FUNCTIONS: ClassVar[dict[str, Any]] = {}
        NO_PAREN_FUNCTIONS: ClassVar[dict[Any, Any]] = {}
        # Else the elements of array(1, 2)[0] get lost: it is taken for the literal of a list.
        ARRAY_CONSTRUCTORS: ClassVar[dict[str, Any]] = {}
        FUNCTION_PARSERS: ClassVar[dict[str, Any]] = {
            name: parser
            for name, parser in SparkParser.FUNCTION_PARSERS.items()
            if name in _OWN_SYNTAX
        }
        # Those of Spark that sqlglot does not know.
        VERSION_PHRASES: ClassVar[dict[tuple[str, ...], str]] = {
            **SparkParser.VERSION_PHRASES,
            ("FOR", "SYSTEM_VERSION"): "VERSION",
            ("SYSTEM_VERSION", "AS", "OF"): "VERSION",
            ("SYSTEM_TIME", "AS", "OF"): "TIMESTAMP",
        }
        _steps = 0

        def _advance(self, times: int = 1) -> None:
            # The parser reads an ambiguous part several times, and nested ambiguous parts
            # exponentially often: some texts of a hundred words would take years.
            self._steps += 1
            if self._steps > _STEPS_PER_WORD * len(self._tokens) + _STEPS:
                raise SqlError("It can be read in too many ways.", remedy="Use brackets.")
            super()._advance(times)

        def _warn_unsupported(self) -> None:
            """Log nothing: a statement that becomes a command is refused."""

        def _parse_types(
            self,
            check_func: bool = False,
            schema: bool = False,
            allow_identifiers: bool = True,
            with_collation: bool = False,
        ) -> exp.Expr | None:
            # Not the parser of Hive, which replaces char and varchar by string in a CAST. Spark does
            # so itself, but CREATE TABLE ... AS gives the columns the lengths of casts.
            return super(HiveParser, self)._parse_types(
                check_func, schema, allow_identifiers, with_collation
            )
