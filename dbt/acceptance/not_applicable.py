"""The suites of dbt-tests-adapter that do not apply, with the reasons."""

_FUNCTIONS = "the functions of a metastore are classes of Java, and a bare metastore runs none"
_REFRESHED = "materialized views need a server that refreshes them"
_GRANTS = "a bare metastore has no rights of its own: `grants` is refused"
_CASE = "names in a metastore have no upper case"
NOT_APPLICABLE = {
    "grants.*": _GRANTS,
    "functions.*": _FUNCTIONS,
    "materialized_view.*": _REFRESHED,
    "dbt_clone.BaseClonePossible": "tables have no clones: the suite for views passes",
    "utils.TestListagg": "`listagg` of dbt-spark, from which it comes, has no order",
    "persist_docs.TestPersistDocsQuotedDescriptionNotAppliedOnMismatch": _CASE,
}
# The numbers of these suites, and of all.
LEFT_OUT, ALL = 32, 214


def reason(key: str) -> str | None:
    """Return why a suite does not apply; None if it applies."""
    folder = key.partition(".")[0]
    return NOT_APPLICABLE.get(key) or NOT_APPLICABLE.get(f"{folder}.*")
