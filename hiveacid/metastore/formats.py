"""Storage formats of tables: the Java classes that Hive uses to read and write them."""

from dataclasses import dataclass
from enum import Enum
from typing import Self

from hiveacid.errors import UnsupportedTable

_TEXT_INPUT = "org.apache.hadoop.mapred.TextInputFormat"
_TEXT_OUTPUT = "org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat"
_ORC = "org.apache.hadoop.hive.ql.io.orc"
_PARQUET = "org.apache.hadoop.hive.ql.io.parquet"
_SERDE = "org.apache.hadoop.hive.serde2"


@dataclass(frozen=True, slots=True)
class JavaClasses:
    """The metastore's description of a format.

    Attributes:
        input_format: The class that splits and reads files.
        output_format: The class that writes files.
        serde: The class that converts records into rows; new tables get this one.
        also: Serdes of the same format that tables may have instead.
    """

    input_format: str
    output_format: str
    serde: str
    also: tuple[str, ...] = ()


class StorageFormat(Enum):
    """A format of files, by its name in STORED AS; CSV is that of OpenCSVSerde."""

    ORC = JavaClasses(f"{_ORC}.OrcInputFormat", f"{_ORC}.OrcOutputFormat", f"{_ORC}.OrcSerde")
    PARQUET = JavaClasses(
        f"{_PARQUET}.MapredParquetInputFormat",
        f"{_PARQUET}.MapredParquetOutputFormat",
        f"{_PARQUET}.serde.ParquetHiveSerDe",
    )
    TEXTFILE = JavaClasses(_TEXT_INPUT, _TEXT_OUTPUT, f"{_SERDE}.lazy.LazySimpleSerDe")
    CSV = JavaClasses(_TEXT_INPUT, _TEXT_OUTPUT, f"{_SERDE}.OpenCSVSerde")
    JSON = JavaClasses(
        _TEXT_INPUT,
        _TEXT_OUTPUT,
        f"{_SERDE}.JsonSerDe",
        also=("org.apache.hive.hcatalog.data.JsonSerDe",),
    )

    @property
    def is_text(self) -> bool:
        """Return whether each row is a line of text."""
        return self.value.input_format == _TEXT_INPUT

    @classmethod
    def of(cls, serde: str | None, table: str) -> Self:
        """Return the format of a table by its serde.

        Args:
            serde: The Java class.
            table: The table, for the error.

        Raises:
            UnsupportedTable: The serde is unknown.
        """
        for form in cls:
            if serde == form.value.serde or serde in form.value.also:
                return form
        raise UnsupportedTable(
            f"{table} is stored through {serde}, which is not supported.",
            remedy=f"Use a table of one of the formats {', '.join(form.name for form in cls)}.",
        )
