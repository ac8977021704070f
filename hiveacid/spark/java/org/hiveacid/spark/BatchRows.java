package org.hiveacid.spark;

import java.io.Closeable;
import java.util.Collections;
import java.util.Iterator;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnarBatch;

/** The rows of batches. */
final class BatchRows extends scala.collection.AbstractIterator<InternalRow> implements Closeable {
  private final AcidBatches batches;
  private final UnsafeProjection projection;
  private Iterator<InternalRow> rows = Collections.emptyIterator();

  BatchRows(AcidBatches batches, StructType columns) {
    this.batches = batches;
    this.projection = UnsafeProjection.create(columns);
  }

  @Override
  public boolean hasNext() {
    while (!rows.hasNext() && batches.hasNext()) {
      rows = ((ColumnarBatch) batches.next()).rowIterator();
    }
    return rows.hasNext();
  }

  @Override
  public InternalRow next() {
    if (!hasNext()) {
      throw new java.util.NoSuchElementException();
    }
    return projection.apply(rows.next());
  }

  @Override
  public void close() {
    batches.close();
  }
}
