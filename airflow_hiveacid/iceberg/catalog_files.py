"""Files of Iceberg's metadata, also on HDFS, where pyiceberg's own access would start Java."""

from typing import Any, BinaryIO

from pyarrow.fs import FileInfo
from pyiceberg.io.pyarrow import PyArrowFileIO

from airflow_hiveacid.storage.filesystems import filesystem_of
from airflow_hiveacid.storage.hdfs import HdfsFileSystem


class CatalogFiles(PyArrowFileIO):
    """pyiceberg's access to files, with the client of HDFS that Hive's files are read with."""

    def _initialize_hdfs_fs(self, scheme: str, netloc: str | None) -> Any:
        return _Hdfs(f"{scheme}://{netloc or ''}")


class _Hdfs:
    """The methods of a file system of Arrow that pyiceberg calls."""

    def __init__(self, url: str) -> None:
        self._url = url

    def get_file_info(self, path: str) -> FileInfo:
        found = self._of(path).get_file_info(path)
        assert isinstance(found, FileInfo)
        return found

    def open_input_file(self, path: str) -> BinaryIO:
        return self._of(path).open_input_file(path)

    def open_input_stream(self, path: str, buffer_size: int) -> BinaryIO:
        return self._of(path).open_input_file(path)

    def open_output_stream(self, path: str, buffer_size: int) -> BinaryIO:
        folder = path.rpartition("/")[0]
        self._of(path).create_dir(folder)
        return self._of(path).open_output_stream(path)

    def delete_file(self, path: str) -> None:
        self._of(path).delete_file(path)

    def _of(self, path: str) -> HdfsFileSystem:
        found, _ = filesystem_of(f"{self._url}{path}")
        assert isinstance(found, HdfsFileSystem)
        return found
