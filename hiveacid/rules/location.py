"""The locations that a process may open.

The type is the permission: only a location of this type can be opened. The few functions that make one
have checked it: the definitions of tables and partitions that the client of the metastore returns,
``AllowedLocations.require``, and the files of an Iceberg catalog. ``tests/test_doors.py`` lists them.
"""

import re
from typing import NewType, Self

from hiveacid.dataclass import dataclass
from hiveacid.errors import AccessRefused, InvalidJob, MalformedName

Location = NewType("Location", str)


def below(location: Location, *path: str) -> Location:
    """Return a location inside another one.

    Args:
        location: The other one.
        path: The parts of the path; empty parts are left out.

    Raises:
        MalformedName: The path leads out of it.
    """
    parts = [*filter(None, path)]
    if any(".." in part.split("/") for part in parts):
        raise MalformedName(f"{'/'.join(parts)!r} leaves {location}.")
    return Location("/".join([location.rstrip("/"), *parts])) if parts else location


def split(path: Location) -> tuple[Location, str]:
    """Split the full path of a file in a location into its folder and its name."""
    folder, _, name = path.rpartition("/")
    return Location(folder), name


_RULE = re.compile(r"(?P<scheme>[a-z][a-z0-9+.-]*)(?:://(?P<host>[^/\s]*))?")
_LOCATION = re.compile(
    r"(?:(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*):)?(?://(?P<host>[^/]*))?.*", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class AllowedLocations:
    """Allowed schemes, and hosts or buckets.

    Attributes:
        rules: Pairs of a scheme and a host; None means all hosts. Without any rule every
            location is allowed.
    """

    rules: tuple[tuple[str, str | None], ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse ``hdfs://nn1:8020, s3a://bucket, gs``.

        Raises:
            InvalidJob: The text has another form.
        """
        rules = []
        for number, part in enumerate(text.split(",") if text.strip() else (), start=1):
            match = _RULE.fullmatch(part.strip().lower().rstrip("/"))
            # Also an empty one: without any rule, all locations would be allowed.
            if match is None:
                raise InvalidJob(
                    f"Entry {number} of allowed_locations, {part.strip()!r}, does not define allowed "
                    "locations.",
                    remedy="Write schemes, with hosts or buckets: hdfs://nn1:8020, s3a://bucket, gs.",
                )
            rules.append((match["scheme"], match["host"]))
        return cls(tuple(rules))

    def __str__(self) -> str:
        """The text that ``parse`` reads."""
        return ", ".join(
            scheme if host is None else f"{scheme}://{host}" for scheme, host in self.rules
        )

    def within(self, limit: Self) -> Self:
        """Return the locations that a limit allows, too.

        Raises:
            InvalidJob: No location is left.
        """
        if not self.rules or not limit.rules:
            return self if self.rules else limit
        common = [
            (scheme, hosts if other_hosts is None else other_hosts)
            for scheme, hosts in self.rules
            for other_scheme, other_hosts in limit.rules
            if scheme == other_scheme and (hosts == other_hosts or None in (hosts, other_hosts))
        ]
        if not common:
            raise InvalidJob(
                f"The allowed_locations {self} are outside of those of the configuration: {limit}.",
                remedy="Leave allowed_locations out of the options of the metastore.",
            )
        return type(self)(tuple(dict.fromkeys(common)))

    def require(self, location: str) -> Location:
        """Return a location for opening it, unless it is not allowed.

        Raises:
            AccessRefused: The location is not allowed.
        """
        match = _LOCATION.fullmatch(location)
        scheme = ((match and match["scheme"]) or "file").lower()
        host = ((match and match["host"]) or "").lower()
        if self.rules and not any(
            scheme == allowed and hosts in (None, host) for allowed, hosts in self.rules
        ):
            raise AccessRefused(
                f"{location!r} is not among the locations that may be opened here.",
                remedy="If it should be, add its scheme and host to allowed_locations (for jobs) or "
                "page_locations (for the page) in the section hive_acid of Airflow's configuration.",
            )
        return Location(location)
