"""All suites of dbt-tests-adapter, on a real metastore."""

import overrides
from not_applicable import ALL, LEFT_OUT, NOT_APPLICABLE, reason
from suites import leaves

_SUITES = [*leaves()]
for _suite in _SUITES:
    if reason(_suite.key) is None:
        _name = f"Test_{_suite.folder}_{_suite.name}"
        globals()[_name] = getattr(overrides, _suite.name, _suite.cls)


def test_the_list_of_suites_that_do_not_apply_is_correct():
    left_out = [each.key for each in _SUITES if reason(each.key) is not None]
    assert (len(left_out), len(_SUITES)) == (LEFT_OUT, ALL)
    assert len(left_out) <= 0.15 * len(_SUITES)
    known = {each.key for each in _SUITES} | {f"{each.folder}.*" for each in _SUITES}
    assert set(NOT_APPLICABLE) <= known
    own = {
        n for n, each in vars(overrides).items() if getattr(each, "__module__", "") == "overrides"
    }
    assert {name for name in own if name[0] != "_"} - {each.name for each in _SUITES} == set()
