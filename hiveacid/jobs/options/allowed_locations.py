"""Locations of the metastore that a process may open."""

import re
from dataclasses import dataclass
from typing import Self

from hiveacid.errors import AccessRefused, InvalidJob

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
        for part in filter(None, (rule.strip().lower().rstrip("/") for rule in text.split(","))):
            if (match := _RULE.fullmatch(part)) is None:
                raise InvalidJob(
                    f"{part!r} does not define allowed locations.",
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

    def require(self, location: str) -> None:
        """Refuse a location that is not allowed.

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
