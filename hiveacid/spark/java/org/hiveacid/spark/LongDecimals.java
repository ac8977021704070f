package org.hiveacid.spark;

import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.vectorized.ColumnVector;

/** Decimals that ORC has read as whole numbers, in a third of the time. */
final class LongDecimals extends KeptVector {
  /** The most digits of such a decimal. */
  static final int DIGITS = 18;

  private final long limit;

  LongDecimals(DecimalType type, ColumnVector numbers) {
    super(type, numbers, null);
    long power = 1;
    for (int digit = 0; digit < type.precision(); digit++) {
      power *= 10;
    }
    limit = power;
  }

  @Override
  public Decimal getDecimal(int row, int precision, int scale) {
    if (isNullAt(row)) {
      return null;
    }
    long number = getLong(row);
    if (number >= limit || number <= -limit) {
      throw Envelope.corrupt("A file has a decimal with more digits than its type.");
    }
    return Decimal.createUnsafe(number, precision, scale);
  }
}
