package org.hiveacid.spark;

import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.*;
import org.apache.spark.unsafe.types.UTF8String;

/** The values of some rows of a vector. */
final class KeptVector extends ColumnVector {
  private final ColumnVector all;
  private final int[] kept;

  KeptVector(ColumnVector all, int[] kept) {
    super(all.dataType());
    this.all = all;
    this.kept = kept;
  }

  @Override
  public void close() {
    // Spark closes the vectors of each batch, but the reader uses them again.
  }

  @Override public boolean hasNull() { return all.hasNull(); }
  @Override public int numNulls() { return all.numNulls(); }
  @Override public boolean isNullAt(int row) { return all.isNullAt(kept[row]); }
  @Override public boolean getBoolean(int row) { return all.getBoolean(kept[row]); }
  @Override public byte getByte(int row) { return all.getByte(kept[row]); }
  @Override public short getShort(int row) { return all.getShort(kept[row]); }
  @Override public int getInt(int row) { return all.getInt(kept[row]); }
  @Override public long getLong(int row) { return all.getLong(kept[row]); }
  @Override public float getFloat(int row) { return all.getFloat(kept[row]); }
  @Override public double getDouble(int row) { return all.getDouble(kept[row]); }
  @Override public ColumnarArray getArray(int row) { return all.getArray(kept[row]); }
  @Override public ColumnarMap getMap(int row) { return all.getMap(kept[row]); }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    return all.getDecimal(kept[row], precision, scale);
  }

  @Override public UTF8String getUTF8String(int row) { return all.getUTF8String(kept[row]); }
  @Override public byte[] getBinary(int row) { return all.getBinary(kept[row]); }

  @Override
  public ColumnVector getChild(int ordinal) {
    return new KeptVector(all.getChild(ordinal), kept);
  }
}
