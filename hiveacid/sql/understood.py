"""The syntax of CREATE TABLE that becomes part of a job.

sqlglot reads the clauses of many databases. Every node and argument of a tree is either listed here or
refused, so that no clause is ignored.
"""

from collections.abc import Mapping

from sqlglot import exp

from hiveacid.sql.statement import SqlStatement

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
    for node in tree.walk(prune=lambda each: each is query):
        if node is query:
            continue
        if isinstance(node.parent, exp.Properties) and type(node) not in _REPEATED:
            if type(node) in clauses:
                statement.refuse(node, f"CREATE TABLE has {_words(node)} twice.")
            clauses.add(type(node))
        if type(node) not in UNDERSTOOD:
            statement.refuse(node, f"CREATE TABLE with {_words(node)} is not supported.")
        what = "CREATE TABLE" if node is tree else _words(node)
        statement.only(node, UNDERSTOOD[type(node)], what)


def _words(node: exp.Expr) -> str:
    """Return the name of a clause in capitals."""
    return node.key.removesuffix("property").removesuffix("columnconstraint").upper()
