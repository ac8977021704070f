package org.hiveacid.spark;

import java.io.*;
import org.apache.spark.TaskContext;
import org.apache.spark.util.TaskCompletionListener;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.orc.OrcColumnarBatchReader;
import org.apache.spark.sql.execution.vectorized.*;
import org.apache.spark.sql.types.*;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** The visible rows of a part of a file, in batches. */
final class AcidBatches extends scala.collection.AbstractIterator<Object> implements Closeable {
  private final ScanPlan plan;
  private final ScanPlan.File file;
  private final OrcColumnarBatchReader reader;
  private final DeletedRows.Lookup deleted;
  private final int[] operations;
  private final int[] kept = new int[AcidReader.BATCH_ROWS];

  /** The row ids, if they are read or given by the places of rows. */
  private ColumnVector[] ids;

  private final OnHeapColumnVector numbers;
  private long nextRow;
  private final StructType required;
  private final int[] wanted;
  private final int[] sources;
  private final ColumnVector[] constants;

  private ColumnarBatch last;
  private ColumnVector[] shown;
  private ColumnarBatch next;
  private boolean isClosed;

  AcidBatches(
      ScanPlan plan,
      AcidReader.Opened opened,
      StructType required,
      int[] wanted,
      StructType keys,
      InternalRow values) {
    this.plan = plan;
    this.file = opened.file;
    this.reader = opened.reader;
    this.deleted = opened.deleted == null ? null : opened.deleted.new Lookup();
    this.operations = plan.areDeletes ? Envelope.DELETES : Envelope.ROWS;
    this.required = required;
    this.wanted = wanted;
    this.sources = opened.sources;
    this.constants = constants(keys, values);
    boolean isNumbered = file.isRaw && opened.hasIds;
    this.numbers =
        isNumbered ? new OnHeapColumnVector(AcidReader.BATCH_ROWS, DataTypes.LongType) : null;
    if (isNumbered) {
      if (file.ids == null) {
        throw new IllegalStateException("The plan of a scan lacks the row ids of " + file.path);
      }
      nextRow = file.ids[2] + opened.rowsBefore;
      ColumnVector writeId = constant(DataTypes.LongType, file.ids[0]);
      ColumnVector bucket = constant(DataTypes.IntegerType, (int) file.ids[1]);
      ids = new ColumnVector[] {null, writeId, bucket, numbers, writeId};
    }
    TaskContext task = TaskContext.get();
    if (task != null) {
      task.addTaskCompletionListener((TaskCompletionListener) ended -> close());
    }
  }

  @Override
  public boolean hasNext() {
    try {
      while (next == null && !isClosed) {
        if (reader.nextKeyValue()) {
          next = visible(reader.getCurrentValue());
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
      reader.close();
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  /** Returns the visible rows of a batch; null if it has none. */
  private ColumnarBatch visible(ColumnarBatch batch) {
    int rows = batch.numRows();
    if (batch != last) {
      last = batch;
      shown = shown(batch);
    }
    if (numbers != null) {
      for (int at = 0; at < rows; at++) {
        numbers.putLong(at, nextRow++);
      }
    }
    int count = 0;
    for (int at = 0; at < rows; at++) {
      if (!file.isRaw) {
        Envelope.require(batch.column(Envelope.OPERATION).getInt(at), operations, file.path.toString());
      }
      if (isVisible(batch, at)) {
        kept[count++] = at;
      }
    }
    if (count == 0) {
      return null;
    }
    ColumnVector[] vectors = shown;
    if (count < rows) {
      vectors = shown.clone();
      for (int at = 0; at < sources.length; at++) {
        vectors[at] = new KeptVector(shown[at], kept);
      }
    }
    return new ColumnarBatch(vectors, count);
  }

  private boolean isVisible(ColumnarBatch batch, int at) {
    if (!file.exact && !plan.isVisible(batch.column(Envelope.CURRENT).getLong(at))) {
      return false;
    }
    return deleted == null
        || !deleted.contains(
            ids[Envelope.WRITE_ID].getLong(at),
            ids[Envelope.BUCKET].getInt(at),
            ids[Envelope.ROW_ID].getLong(at));
  }

  /** Returns the vectors of all rows of a batch; Spark's reader uses the same ones for the next. */
  private ColumnVector[] shown(ColumnarBatch batch) {
    if (!file.isRaw) {
      ids = new ColumnVector[Envelope.ROW];
      for (int part = 0; part < ids.length; part++) {
        ids[part] = batch.column(part);
      }
    }
    ColumnVector[] vectors = new ColumnVector[sources.length + constants.length];
    for (int at = 0; at < sources.length; at++) {
      if (wanted[at] >= plan.width) {
        vectors[at] = ids[wanted[at] - plan.width + 1];
      } else if (sources[at] < 0) {
        vectors[at] = constant(required.fields()[at].dataType(), null);
      } else if (file.isRaw) {
        vectors[at] = batch.column(sources[at]);
      } else {
        vectors[at] = batch.column(Envelope.ROW).getChild(sources[at]);
      }
    }
    System.arraycopy(constants, 0, vectors, sources.length, constants.length);
    return vectors;
  }

  private static ColumnVector[] constants(StructType keys, InternalRow values) {
    ColumnVector[] constants = new ColumnVector[keys.size()];
    for (int at = 0; at < constants.length; at++) {
      ConstantColumnVector constant =
          new ConstantColumnVector(AcidReader.BATCH_ROWS, keys.fields()[at].dataType());
      ColumnVectorUtils.populate(constant, values, at);
      constants[at] = constant;
    }
    return constants;
  }

  private static ColumnVector constant(DataType type, Number value) {
    ConstantColumnVector constant = new ConstantColumnVector(AcidReader.BATCH_ROWS, type);
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
