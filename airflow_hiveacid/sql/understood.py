"""The syntax of CREATE TABLE and TRUNCATE that becomes part of a job.

sqlglot reads the clauses of many databases. Every node and argument of a tree is either listed here or
refused, so that no clause is ignored.
"""

from collections.abc import Mapping

from sqlglot import exp

from airflow_hiveacid.sql.statement import SqlStatement

UNDERSTOOD: Mapping[type[exp.Expr], tuple[str, ...]] = {
    exp.Boolean: ("this",),
    exp.Cast: ("this", "to"),
    exp.ClusteredByProperty: ("expressions", "buckets", "sorted_by"),
    exp.Column: ("this",),
    exp.ColumnConstraint: ("kind",),
    exp.ColumnDef: ("this", "kind", "constraints"),
    exp.CommentColumnConstraint: ("this",),
    exp.Create: ("this", "kind", "exists", "properties", "expression"),
    exp.DataType: ("this", "expressions", "nested"),
    exp.DataTypeParam: ("this",),
    exp.EQ: ("this", "expression"),
    exp.FileFormatProperty: ("this", "hive_format"),
    exp.Identifier: ("this", "quoted"),
    exp.LikeProperty: ("this",),
    exp.Literal: ("this", "is_string"),
    exp.LocationProperty: ("this",),
    exp.Neg: ("this",),
    exp.Null: (),
    exp.Ordered: ("this", "nulls_first", "desc"),
    exp.Partition: ("expressions",),
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
    exp.TruncateTable: ("expressions", "partition"),
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
    kind = "CREATE TABLE" if isinstance(tree, exp.Create) else "TRUNCATE"
    clauses: set[type[exp.Expr]] = set()
    for node in tree.walk(prune=lambda each: each is query):
        if node is query:
            continue
        if isinstance(node.parent, exp.Properties) and type(node) not in _REPEATED:
            if type(node) in clauses:
                statement.refuse(node, f"{kind} has {_words(node)} twice.")
            clauses.add(type(node))
        if type(node) not in UNDERSTOOD:
            statement.refuse(node, f"{kind} with {_words(node)} is not supported.")
        statement.only(node, UNDERSTOOD[type(node)], _words(node) if node is not tree else kind)


def _words(node: exp.Expr) -> str:
    """Return the name of a clause in capitals."""
    return node.key.removesuffix("property").removesuffix("columnconstraint").upper()
