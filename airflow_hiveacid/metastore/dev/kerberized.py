"""Settings that make a metastore on this machine require Kerberos."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Kerberized:
    """The Kerberos identity of a metastore.

    Attributes:
        krb5_conf: The configuration file with the address of the KDC.
        principal: The metastore's own, for example hive/localhost@EXAMPLE.COM.
        keytab: The file with its key.
        protection: The required protection: authentication, integrity or privacy.
    """

    krb5_conf: Path
    principal: str
    keytab: Path
    protection: str = "authentication"

    @property
    def settings(self) -> Mapping[str, str]:
        """Settings for the metastore's configuration; both versions support these names."""
        return {
            "hive.metastore.sasl.enabled": "true",
            "hive.metastore.kerberos.principal": self.principal,
            "hive.metastore.kerberos.keytab.file": str(self.keytab),
        }

    @property
    def hadoop(self) -> Mapping[str, str]:
        """Settings for Hadoop's configuration."""
        return {
            "hadoop.security.authentication": "kerberos",
            "hadoop.rpc.protection": self.protection,
        }

    @property
    def java_options(self) -> tuple[str, ...]:
        """Options of its Java."""
        return (f"-Djava.security.krb5.conf={self.krb5_conf}",)
