package org.hiveacid.spark;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.*;
import org.apache.spark.unsafe.types.UTF8String;

/** The values of some rows of a vector, or of all. */
class KeptVector extends ColumnVector {
  private final ColumnVector all;
  private final int[] kept;

  /**
   * Shows a vector.
   *
   * @param type The type of the values.
   * @param all The vector.
   * @param kept The numbers of the rows; null for all.
   */
  KeptVector(DataType type, ColumnVector all, int[] kept) {
    super(type);
    this.all = all;
    this.kept = kept;
  }

  private int place(int row) {
    return kept == null ? row : kept[row];
  }

  @Override
  public void close() {
    // Spark closes the vectors of each batch, but the reader uses them again.
  }

  @Override public boolean hasNull() { return all.hasNull(); }
  @Override public int numNulls() { return all.numNulls(); }
  @Override public boolean isNullAt(int row) { return all.isNullAt(place(row)); }
  @Override public boolean getBoolean(int row) { return all.getBoolean(place(row)); }
  @Override public byte getByte(int row) { return all.getByte(place(row)); }
  @Override public short getShort(int row) { return all.getShort(place(row)); }
  @Override public int getInt(int row) { return all.getInt(place(row)); }
  @Override public long getLong(int row) { return all.getLong(place(row)); }
  @Override public float getFloat(int row) { return all.getFloat(place(row)); }
  @Override public double getDouble(int row) { return all.getDouble(place(row)); }
  @Override public ColumnarArray getArray(int row) { return all.getArray(place(row)); }
  @Override public ColumnarMap getMap(int row) { return all.getMap(place(row)); }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    return all.getDecimal(place(row), precision, scale);
  }

  @Override public UTF8String getUTF8String(int row) { return all.getUTF8String(place(row)); }
  @Override public byte[] getBinary(int row) { return all.getBinary(place(row)); }

  @Override
  public ColumnVector getChild(int ordinal) {
    ColumnVector child = all.getChild(ordinal);
    return new KeptVector(child.dataType(), child, kept);
  }
}
