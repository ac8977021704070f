"""All suites of dbt-tests-adapter, on a real metastore."""

import overrides
from not_applicable import reason
from suites import leaves

for _suite in leaves():
    if reason(_suite.key) is None:
        _name = f"Test_{_suite.folder}_{_suite.name}"
        globals()[_name] = getattr(overrides, _suite.name, _suite.cls)
