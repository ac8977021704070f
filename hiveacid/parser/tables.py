"""CREATE TABLE as jobs."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from sqlglot import exp
from sqlglot.tokenizer_core import Token

from hiveacid.errors import UnsupportedTable
from hiveacid.jobs.definition_jobs import (
    FORMATS,
    ColumnSpec,
    CreateTableAsJob,
    CreateTableJob,
    CreateTableLikeJob,
)
from hiveacid.parser.relations import Inputs
from hiveacid.parser.statement import SqlStatement
from hiveacid.parser.words import Words
from hiveacid.rules.schema import parse_type
from hiveacid.rules.sql_names import quoted

# The syntax of CREATE TABLE that becomes part of a job.
#
# sqlglot reads the clauses of many databases. Every node and argument of a tree is either listed
# here or refused, so that no clause is ignored.


UNDERSTOOD: Mapping[type[exp.Expr], tuple[str, ...]] = {
    exp.Boolean: ("this",),
    exp.ClusteredByProperty: ("expressions", "buckets", "sorted_by"),
    exp.Column: ("this",),
    exp.ColumnConstraint: ("kind",),
    exp.ColumnDef: ("this", "kind", "constraints"),
    exp.CommentColumnConstraint: ("this",),
    exp.Create: ("this", "kind", "exists", "properties", "expression"),
    exp.DataType: ("this", "expressions", "nested"),
    exp.DataTypeParam: ("this",),
    exp.FileFormatProperty: ("this", "hive_format"),
    exp.Identifier: ("this", "quoted"),
    exp.LikeProperty: ("this",),
    exp.Literal: ("this", "is_string"),
    exp.LocationProperty: ("this",),
    exp.Neg: ("this",),
    exp.Ordered: ("this", "nulls_first", "desc"),
    exp.PartitionedByProperty: ("this",),
    exp.Properties: ("expressions",),
    exp.Property: ("this", "value"),
    exp.RowFormatDelimitedProperty: (
        *("fields", "escaped", "collection_items", "map_keys", "lines", "null"),
    ),
    exp.RowFormatSerdeProperty: ("this", "serde_properties"),
    exp.Schema: ("this", "expressions"),
    exp.SchemaCommentProperty: ("this",),
    exp.SerdeProperties: ("expressions", "with_"),
    exp.Table: ("this", "db", "catalog"),
    exp.Var: ("this",),
}
# Of these a statement can have several.
_REPEATED = (exp.Property,)


def require_understood(statement: SqlStatement, tree: exp.Expr) -> None:
    """Refuse a tree with a node or an argument that is not listed.

    The query of CREATE TABLE ... AS is not checked: Spark gets its text.

    Raises:
        SqlError: A clause is not supported, or there twice.
    """
    query = tree.args.get("expression")
    clauses: set[type[exp.Expr]] = set()
    for node in tree.walk(prune=lambda child: child is query):
        if node is query:
            continue
        if isinstance(node.parent, exp.Properties) and type(node) not in _REPEATED:
            if type(node) in clauses:
                statement.refuse(node, f"CREATE TABLE has {_words(node)} twice.")
            clauses.add(type(node))
        if type(node) not in UNDERSTOOD:
            statement.refuse(node, f"CREATE TABLE with {_words(node)} is not supported.")
        subject = "CREATE TABLE" if node is tree else _words(node)
        statement.only(node, UNDERSTOOD[type(node)], subject)


def _words(node: exp.Expr) -> str:
    """Return the name of a clause in capitals."""
    return node.key.removesuffix("property").removesuffix("columnconstraint").upper()


# Hive's keywords for the delimiters of a row, and the serde's names for them.
_DELIMITERS = {
    "fields": "field.delim",
    "escaped": "escape.delim",
    "collection_items": "collection.delim",
    "map_keys": "mapkey.delim",
    "lines": "line.delim",
    "null": "serialization.null.format",
}
_SERDES = {
    "org.apache.hadoop.hive.serde2.opencsvserde": "CSV",
    "org.apache.hadoop.hive.serde2.jsonserde": "JSON",
    "org.apache.hive.hcatalog.data.jsonserde": "JSON",
    "org.apache.hadoop.hive.serde2.lazy.lazysimpleserde": "TEXTFILE",
    "org.apache.hadoop.hive.ql.io.orc.orcserde": "ORC",
    "org.apache.hadoop.hive.ql.io.parquet.serde.parquethiveserde": "PARQUET",
}
# Hive's names of types that sqlglot has other names for.
_TYPE_NAMES = {
    exp.DType.TEXT: "string",
    exp.DType.TIMESTAMPTZ: "timestamp",
    exp.DType.TIMESTAMPLTZ: "timestamp with local time zone",
}
# sqlglot takes others for these.
_TYPES = {
    *(exp.DType.BOOLEAN, exp.DType.TINYINT, exp.DType.SMALLINT, exp.DType.INT, exp.DType.BIGINT),
    *(exp.DType.FLOAT, exp.DType.DOUBLE, exp.DType.DECIMAL, exp.DType.BINARY, exp.DType.DATE),
    *(exp.DType.TEXT, exp.DType.CHAR, exp.DType.VARCHAR, exp.DType.TIMESTAMPTZ),
    *(exp.DType.TIMESTAMPLTZ, exp.DType.ARRAY, exp.DType.MAP, exp.DType.STRUCT),
}
# The numbers of arguments that types can have; sqlglot replaces or drops others.
_ARGUMENTS = {exp.DType.CHAR: (1,), exp.DType.VARCHAR: (1,), exp.DType.DECIMAL: (0, 1, 2)}
# The clauses of a table that is created LIKE another one.
_OF_LIKE = (exp.Property, exp.LocationProperty, exp.SchemaCommentProperty)
_FILE_FORMATS = {"jsonfile": "JSON", **{name.lower(): name for name in FORMATS}}


def create_job(
    statement: SqlStatement, tree: exp.Create
) -> CreateTableJob | CreateTableLikeJob | CreateTableAsJob:
    """CREATE TABLE of a transactional table, also LIKE another one, or AS a query."""
    if tree.args.get("kind") != "TABLE":
        statement.refuse(tree, f"CREATE {tree.args.get('kind')} is not supported.")
    require_understood(statement, tree)
    table = _Table(statement)
    like: exp.Expr | None = None
    for property_ in tree.args["properties"].expressions if tree.args.get("properties") else ():
        if isinstance(property_, exp.LikeProperty):
            like = property_
        else:
            table.take(property_)
    if tree.expression is not None:
        return table.of_query(tree, like)
    if like is not None:
        return table.like(tree, like)
    if not isinstance(tree.this, exp.Schema):
        statement.refuse(tree, "CREATE TABLE needs columns.")
    return table.job(tree, tree.this)


class _Table:
    """The settings of the clauses after the columns, processed one by one."""

    def __init__(self, statement: SqlStatement) -> None:
        self._statement = statement
        self._format: str | None = None
        self._serde: str | None = None
        self._serde_parameters: dict[str, str] = {}
        self._properties: dict[str, str] = {}
        self._keys: Sequence[exp.Expr] = ()
        self._buckets: tuple[tuple[str, ...], int] = ((), -1)
        self._location: str | None = None

    def take(self, node: exp.Expr) -> None:
        """Understand one clause."""
        match node:
            case exp.SchemaCommentProperty():
                self._properties["comment"] = _text(node.this)
            case exp.LocationProperty():
                self._location = _text(node.this)
            case exp.PartitionedByProperty():
                self._keys = node.this.expressions
            case exp.ClusteredByProperty():
                self._clustered(node)
            case exp.FileFormatProperty():
                self._stored_as(node)
            case exp.RowFormatDelimitedProperty():
                self._serde = "TEXTFILE"
                for name, value in node.args.items():
                    if value is not None:
                        self._serde_parameters[_DELIMITERS[name]] = _text(value)
            case exp.RowFormatSerdeProperty():
                self._row_format(node)
            case exp.SerdeProperties():
                self._serde_parameters |= _pairs(node.expressions)
            case exp.Property() if type(node) is exp.Property:
                ((name, value),) = _pairs([node]).items()
                if name in self._properties:
                    self._statement.refuse(node, f"The property {name!r} is there twice.")
                # All new tables have this version.
                if (name.lower(), value) != ("bucketing_version", "2"):
                    self._properties[name] = value
            case _:
                part = node.key.removesuffix("property").upper()
                self._statement.refuse(node, f"CREATE TABLE with {part} is not supported.")

    def job(self, tree: exp.Create, schema: exp.Schema) -> CreateTableJob:
        """The job, when all clauses are taken."""
        return CreateTableJob(
            target=self._statement.table(schema.this, "Creating"),
            columns=tuple(columns_of(self._statement, schema.expressions)),
            partition_keys=tuple(columns_of(self._statement, self._keys)),
            **self._described(tree),
        )

    def of_query(self, tree: exp.Create, like: exp.Expr | None) -> CreateTableAsJob:
        """The job of a table that gets the columns and the rows of a query."""
        query = tree.expression
        if like is not None:
            self._statement.refuse(like, "A table is created LIKE another one or AS a query.")
        if isinstance(tree.this, exp.Schema):
            self._statement.refuse(tree.this, "AS a query, it has the columns of the query alone.")
        if not isinstance(query, exp.Query | exp.Values):
            self._statement.refuse(query, "AS needs a SELECT or VALUES.")
        for column in query.selects if isinstance(query, exp.Query) else ():
            if not _has_name(column):
                self._statement.refuse(
                    column, "This column of the query has no name.", "Write AS and a name after it."
                )
        for key in self._keys:
            if not isinstance(key, exp.Identifier):
                self._statement.refuse(
                    key, "AS a query, a partition key is the name of one of its columns alone."
                )
        return CreateTableAsJob(
            target=self._statement.table(tree.this, "Creating"),
            partition_keys=tuple(key.name.lower() for key in self._keys),
            source=Inputs(self._statement, query).query(self.query_tokens()),
            **self._described(tree),
        )

    def query_tokens(self) -> Sequence[Token]:
        """Return the tokens behind the AS of the query; others are in brackets or before names."""
        words = Words(self._statement)
        while True:
            words.until("AS")
            words.expect("AS")
            if words.keyword in ("SELECT", "WITH", "VALUES", "FROM", "TABLE", "("):
                return words.rest()

    def _described(self, tree: exp.Create) -> dict[str, Any]:
        """Return the settings of all clauses except the columns."""
        form = self._format or self._serde or "ORC"
        if form == "TEXTFILE" and self._serde in ("CSV", "JSON"):
            form = self._serde
        elif self._serde is not None and self._serde != form:
            self._statement.refuse(
                tree, f"The row format is one of {self._serde}, but the files are {form}."
            )
        self._require_transactional(tree)
        properties = {name.lower(): value for name, value in self._properties.items()}
        kind = properties.get("transactional_properties")
        if kind not in (None, "default", "insert_only"):
            self._statement.refuse(tree, f"There is no 'transactional_properties'={kind!r}.")
        return {
            "bucket_columns": self._buckets[0],
            "num_buckets": self._buckets[1],
            # As in Hive 4, tables that cannot be full ACID become insert-only.
            "insert_only": kind == "insert_only" or (kind is None and form != "ORC"),
            "format": form,
            "serde_parameters": self._serde_parameters,
            "properties": {
                name: value
                for name, value in self._properties.items()
                if not name.lower().startswith("transactional")
            },
            "location": self._location,
            "if_not_exists": bool(tree.args.get("exists")),
        }

    def like(self, tree: exp.Create, like: exp.Expr) -> CreateTableLikeJob:
        """Return the job of a table with the definition of another one."""
        for clause in tree.args["properties"].expressions:
            if clause is not like and type(clause) not in _OF_LIKE:
                self._statement.refuse(
                    like, "LIKE takes the keys, buckets, format and serde of the other table."
                )
        self._require_transactional(tree)
        return CreateTableLikeJob(
            target=self._statement.table(tree.this, "Creating"),
            like=self._statement.table(like.this, "LIKE"),
            location=self._location,
            properties={
                name: value
                for name, value in self._properties.items()
                if name.lower() != "transactional"
            },
            if_not_exists=bool(tree.args.get("exists")),
        )

    def _require_transactional(self, tree: exp.Create) -> None:
        for name, value in self._properties.items():
            if name.lower() == "transactional" and value.lower() != "true":
                self._statement.refuse(
                    tree,
                    "Only transactional tables can be created, also with 'transactional'='false'.",
                    "Leave the property out, or create a plain table with Spark or Hive.",
                )

    def _clustered(self, node: exp.ClusteredByProperty) -> None:
        if node.args.get("sorted_by"):
            self._statement.refuse(
                node, "SORTED BY is not supported: rows of ACID tables are in the order of row ids."
            )
        names = tuple(column.name.lower() for column in node.expressions)
        self._buckets = (names, int(node.args["buckets"].name))

    def _stored_as(self, node: exp.FileFormatProperty) -> None:
        name = node.this.name if isinstance(node.this, exp.Var | exp.Literal) else ""
        if name.lower() not in _FILE_FORMATS:
            self._statement.refuse(
                node,
                f"The format {name or 'by INPUTFORMAT'} is not supported.",
                f"Use one of {', '.join(FORMATS)}.",
            )
        self._format = _FILE_FORMATS[name.lower()]

    def _row_format(self, node: exp.RowFormatSerdeProperty) -> None:
        serde = _text(node.this)
        if serde.lower() not in _SERDES:
            self._statement.refuse(node, f"The serde {serde} is not supported.")
        self._serde = _SERDES[serde.lower()]
        if (serde_properties := node.args.get("serde_properties")) is not None:
            self._serde_parameters |= _pairs(serde_properties.expressions)


def _has_name(column: exp.Expr) -> bool:
    """Whether a column of a query has an explicit name."""
    if column.is_star or isinstance(column, exp.Aliases):
        return True
    return bool(column.output_name) and not isinstance(column, exp.Literal)


def columns_of(statement: SqlStatement, nodes: Sequence[exp.Expr]) -> list[ColumnSpec]:
    """The columns that are named with their types."""
    columns = []
    for node in nodes:
        if not isinstance(node, exp.ColumnDef) or node.kind is None:
            statement.refuse(node, "A column is a name and a type.")
        statement.refuse_name_in_double_quotes(node.this.meta.get("start", 0))
        comment = None
        for constraint in node.constraints:
            kind = constraint.args.get("kind")
            if not isinstance(kind, exp.CommentColumnConstraint):
                words = re.findall("[A-Z][a-z]+", type(kind).__name__.partition("Column")[0])
                statement.refuse(node, f"{' '.join(words).upper()} is not supported.")
            comment = _text(kind.this)
        columns.append(ColumnSpec(node.name.lower(), _type(statement, node), comment))
    return columns


def _type(statement: SqlStatement, node: exp.ColumnDef) -> str:
    """A type in Hive's words."""
    kind = node.kind
    assert kind is not None
    for part in kind.find_all(exp.DataType):
        if part.this not in _TYPES:
            name = getattr(part.this, "name", part.this)
            statement.refuse(node, f"The column {node.name}: the type {name} is not supported.")
        arguments = [
            expression
            for expression in part.expressions
            if isinstance(expression, exp.DataTypeParam)
        ]
        if len(arguments) not in _ARGUMENTS.get(part.this, (0,)):
            statement.refuse(
                node,
                f"The column {node.name}: a type in it has too few or too many arguments.",
                "Write char(n), varchar(n), decimal(p, s), and other types without arguments.",
            )
    try:
        return str(parse_type(_type_text(kind)))
    except UnsupportedTable as error:
        raise statement.error(node, f"The column {node.name}: {error.what}") from error


def _type_text(kind: exp.Expr) -> str:
    if isinstance(kind, exp.DataTypeParam):
        return str(kind.name)
    if isinstance(kind, exp.ColumnDef) and kind.kind is not None and not kind.constraints:
        return f"{quoted(kind.name)}: {_type_text(kind.kind)}"
    if not isinstance(kind, exp.DataType):
        raise UnsupportedTable("A field of a struct is a name and a type.")
    name: str = _TYPE_NAMES.get(kind.this, kind.this.value)
    if not kind.expressions:
        return name
    opening, closing = "<>" if kind.args.get("nested") else "()"
    return f"{name}{opening}{', '.join(map(_type_text, kind.expressions))}{closing}"


def _pairs(nodes: Sequence[exp.Expr]) -> dict[str, str]:
    return {_text(node.this): _text(node.args["value"]) for node in nodes}


def _text(node: exp.Expr) -> str:
    return str(node.name if isinstance(node, exp.Literal | exp.Var | exp.Identifier) else node)
