"""Names of the columns that this package adds to the rows of users."""

import re
import secrets

# Functions that tasks run get these names as arguments: the interpreter of a task has another text.
_OF_PROCESS = secrets.token_hex(8)
# These columns in a list of columns that Spark suggests for an unknown one.
OWN_COLUMNS = re.compile(rf",? ?(`[^`]*`\.)*`_acid_\w+_{_OF_PROCESS}\w*`")


def own_column(purpose: str) -> str:
    """Return the name of a column that neither a table nor a source has.

    Users' columns may have any fixed name, and expressions of users must not find these columns. So
    the name contains a random number of this process.
    """
    return f"_acid_{purpose}_{_OF_PROCESS}"
