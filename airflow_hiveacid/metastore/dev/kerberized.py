"""What makes a metastore on this machine ask its callers for Kerberos."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Kerberized:
    """With what a metastore proves who it is.

    Attributes:
        krb5_conf: Says where the KDC is.
        principal: The metastore's own, for example hive/localhost@EXAMPLE.COM.
        keytab: Holds its key.
        protection: What it insists on: authentication, integrity or privacy.
    """

    krb5_conf: Path
    principal: str
    keytab: Path
    protection: str = "authentication"

    @property
    def settings(self) -> Mapping[str, str]:
        """What is to be set in the metastore's configuration; both versions know these names."""
        return {
            "hive.metastore.sasl.enabled": "true",
            "hive.metastore.kerberos.principal": self.principal,
            "hive.metastore.kerberos.keytab.file": str(self.keytab),
        }

    @property
    def hadoop(self) -> Mapping[str, str]:
        """What is to be set in Hadoop's."""
        return {
            "hadoop.security.authentication": "kerberos",
            "hadoop.rpc.protection": self.protection,
        }

    @property
    def java_options(self) -> tuple[str, ...]:
        """Options of its Java."""
        return (f"-Djava.security.krb5.conf={self.krb5_conf}",)
