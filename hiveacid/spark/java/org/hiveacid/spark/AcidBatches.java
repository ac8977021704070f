package org.hiveacid.spark;

import java.io.Closeable;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.hadoop.conf.Configuration;
import org.apache.orc.Reader;
import org.apache.orc.RecordReader;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.vectorized.*;
import org.apache.spark.sql.types.*;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** The visible rows of a part of a file, in batches. */
final class AcidBatches extends scala.collection.AbstractIterator<Object> implements Closeable {
  private final ScanPlan plan;
  private final ScanPlan.File file;
  private final Configuration conf;
  private DeletedRows.Lookup deleted;
  private final FileColumns columns;
  private final Reader reader;
  private final RecordReader records;
  private final int[] operations;
  private final int[] kept = new int[FileColumns.BATCH_ROWS];

  /** The row ids, if they are read or given by the places of rows. */
  private final ColumnVector[] ids;

  /** The numbers of rows that the file does not contain; null if it does. */
  private final OnHeapColumnVector numbers;

  private long nextRow;
  private final ColumnVector[] shown;
  private ColumnarBatch next;
  private boolean isClosed;

  AcidBatches(
      ScanPlan plan,
      ScanPlan.File file,
      FileColumns columns,
      boolean isCounted,
      StructType required,
      StructType keys,
      InternalRow partition,
      Reader reader,
      RecordReader records,
      Configuration conf)
      throws IOException {
    this.plan = plan;
    this.file = file;
    this.conf = conf;
    this.columns = columns;
    this.reader = reader;
    this.records = records;
    this.operations = plan.areDeletes ? Envelope.DELETES : Envelope.ROWS;
    if (isCounted) {
      if (file.ids == null) {
        throw new IllegalStateException("The plan of a scan lacks the row ids of " + file.path);
      }
      numbers = new OnHeapColumnVector(FileColumns.BATCH_ROWS, DataTypes.LongType);
      nextRow = file.ids[2] + records.getRowNumber();
      ColumnVector writeId = constant(DataTypes.LongType, file.ids[0]);
      ColumnVector bucket = constant(DataTypes.IntegerType, (int) file.ids[1]);
      ids = new ColumnVector[] {null, writeId, bucket, numbers, writeId};
    } else {
      numbers = null;
      ids = columns.ids;
    }
    shown = shown(required, keys, partition);
    TaskContext task = TaskContext.get();
    if (task != null) {
      task.addTaskCompletionListener((TaskCompletionListener) ended -> close());
    }
  }

  @Override
  public boolean hasNext() {
    try {
      while (next == null && !isClosed) {
        if (records.nextBatch(columns.batch)) {
          next = visible(columns.batch.size);
        } else {
          close();
        }
      }
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
    return next != null;
  }

  @Override
  public Object next() {
    if (!hasNext()) {
      throw new java.util.NoSuchElementException();
    }
    ColumnarBatch batch = next;
    next = null;
    return batch;
  }

  @Override
  public void close() {
    if (isClosed) {
      return;
    }
    isClosed = true;
    try {
      records.close();
      reader.close();
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  /** Returns the visible rows of a batch; null if it has none. */
  private ColumnarBatch visible(int rows) {
    columns.show();
    for (int at = 0; numbers != null && at < rows; at++) {
      numbers.putLong(at, nextRow++);
    }
    if (!file.isRaw) {
      Envelope.requireOperations(columns.batch, operations, file.path);
    }
    columns.requireRows(file);
    if (file.deletes >= 0 && deleted == null) {
      // Not before: conditions may leave no rows of the file.
      deleted = plan.deleted(file.deletes, conf).new Lookup();
    }
    if (file.exact && deleted == null) {
      return new ColumnarBatch(shown, rows);
    }
    int count = 0;
    for (int at = 0; at < rows; at++) {
      if (isVisible(at)) {
        kept[count++] = at;
      }
    }
    if (count == 0) {
      return null;
    }
    ColumnVector[] vectors = shown;
    if (count < rows) {
      vectors = new ColumnVector[shown.length];
      for (int at = 0; at < vectors.length; at++) {
        boolean isConstant = shown[at] instanceof ConstantColumnVector;
        vectors[at] = isConstant ? shown[at] : new KeptVector(shown[at].dataType(), shown[at], kept);
      }
    }
    return new ColumnarBatch(vectors, count);
  }

  private boolean isVisible(int at) {
    if (!file.exact && !plan.isVisible(ids[Envelope.CURRENT].getLong(at))) {
      return false;
    }
    return deleted == null
        || !deleted.contains(
            ids[Envelope.WRITE_ID].getLong(at),
            ids[Envelope.BUCKET].getInt(at),
            ids[Envelope.ROW_ID].getLong(at));
  }

  /** Returns the vectors of the required columns and of the partition. */
  private ColumnVector[] shown(StructType required, StructType keys, InternalRow partition) {
    int width = required.size();
    ColumnVector[] vectors = new ColumnVector[width + keys.size()];
    for (int at = 0; at < width; at++) {
      StructField field = required.fields()[at];
      int part = plan.columns.fieldIndex(field.name()) - plan.width + 1;
      vectors[at] = part > 0 ? ids[part] : columns.values[at];
      if (vectors[at] == null) {
        vectors[at] = constant(field.dataType(), null);
      }
    }
    for (int at = 0; at < keys.size(); at++) {
      ConstantColumnVector constant =
          new ConstantColumnVector(FileColumns.BATCH_ROWS, keys.fields()[at].dataType());
      ColumnVectorUtils.populate(constant, partition, at);
      vectors[width + at] = constant;
    }
    return vectors;
  }

  private static ColumnVector constant(DataType type, Number value) {
    ConstantColumnVector constant = new ConstantColumnVector(FileColumns.BATCH_ROWS, type);
    if (value == null) {
      constant.setNull();
    } else if (value instanceof Integer) {
      constant.setInt(value.intValue());
    } else {
      constant.setLong(value.longValue());
    }
    return constant;
  }
}
