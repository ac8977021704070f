package org.hiveacid.spark;

import java.io.EOFException;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFileSystem;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.FileFormatException;
import org.apache.orc.OrcFile;
import org.apache.orc.Reader;
import org.apache.orc.TypeDescription;

/** The columns around the row in an ACID file. */
final class Envelope {
  static final String[] NAMES = {
    "operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row"
  };
  static final int OPERATION = 0;
  static final int WRITE_ID = 1;
  static final int BUCKET = 2;
  static final int ROW_ID = 3;
  static final int CURRENT = 4;
  static final int ROW = 5;

  /** The operation of inserted rows; older versions of Hive also wrote updated ones. */
  static final int[] ROWS = {0, 1};

  static final int[] DELETES = {2};

  private static final List<TypeDescription.Category> CATEGORIES =
      Arrays.asList(
          TypeDescription.Category.INT,
          TypeDescription.Category.LONG,
          TypeDescription.Category.INT,
          TypeDescription.Category.LONG,
          TypeDescription.Category.LONG,
          TypeDescription.Category.STRUCT);

  private Envelope() {}

  /**
   * Opens the valid part of a file.
   *
   * <p>A table that was created again may have a file of the same name and size.
   *
   * @param modified The second of its last write when it was listed, if known.
   */
  static Reader open(Path path, long size, long modified, Configuration conf) throws IOException {
    FileSystem files = files(path, conf);
    if (modified != ScanPlan.UNKNOWN
        && Math.floorDiv(files.getFileStatus(path).getModificationTime(), 1000L) != modified) {
      throw new IllegalStateException(
          "hiveacid-replaced-file:" + path + " was written after the snapshot that reads it.");
    }
    OrcFile.ReaderOptions options = OrcFile.readerOptions(conf);
    options.filesystem(files).maxLength(size);
    try {
      return OrcFile.createReader(path, options);
    } catch (EOFException | FileFormatException failure) {
      String what = path + " cannot be read as ORC up to byte " + size;
      throw corrupt(what + ": " + failure.getMessage());
    }
  }

  /**
   * Returns the file system of a file.
   *
   * <p>Hadoop's local one opens a file again for each read, to compare checksums that few files have.
   */
  private static FileSystem files(Path path, Configuration conf) throws IOException {
    FileSystem files = path.getFileSystem(conf);
    if (files instanceof ChecksumFileSystem) {
      ChecksumFileSystem local = (ChecksumFileSystem) files;
      if (!local.getRawFileSystem().exists(local.getChecksumFile(path))) {
        return local.getRawFileSystem();
      }
    }
    return files;
  }

  /** Returns the columns of a file with some columns in its rows. */
  static TypeDescription around(TypeDescription row) {
    TypeDescription file = TypeDescription.createStruct();
    for (int part = 0; part < ROW; part++) {
      file.addField(NAMES[part], new TypeDescription(CATEGORIES.get(part)));
    }
    return file.addField(NAMES[ROW], row);
  }

  /** Returns whether a file has these columns. */
  static boolean is(TypeDescription file) {
    if (file.getCategory() != TypeDescription.Category.STRUCT
        || file.getChildren().size() != NAMES.length) {
      return false;
    }
    for (int at = 0; at < NAMES.length; at++) {
      if (!file.getFieldNames().get(at).equalsIgnoreCase(NAMES[at])
          || file.getChildren().get(at).getCategory() != CATEGORIES.get(at)) {
        return false;
      }
    }
    return true;
  }

  /** Refuses events whose operation does not belong into their directory. */
  static void requireOperations(VectorizedRowBatch batch, int[] allowed, Path path) {
    LongColumnVector operations = (LongColumnVector) batch.cols[OPERATION];
    for (int at = 0; at < (operations.isRepeating ? 1 : batch.size); at++) {
      long own = !operations.noNulls && operations.isNull[at] ? -1 : operations.vector[at];
      if (own != allowed[0] && own != allowed[allowed.length - 1]) {
        throw corrupt(
            path + " holds events of operation " + own + ", which do not belong into its directory.");
      }
    }
  }

  /** Returns the error of a corrupt file, with the mark by which Python recognizes it. */
  static IllegalStateException corrupt(String what) {
    return new IllegalStateException("hiveacid-corrupt-file:" + what);
  }
}
