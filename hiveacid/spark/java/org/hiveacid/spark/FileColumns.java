package org.hiveacid.spark;

import java.lang.reflect.Method;
import java.util.*;
import java.util.regex.Pattern;
import org.apache.hadoop.hive.ql.exec.vector.Decimal64ColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.DoubleColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.ListColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.MapColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.TypeDescription;
import org.apache.orc.impl.TypeUtils;
import org.apache.spark.sql.execution.datasources.orc.OrcColumnVector;
import org.apache.spark.sql.execution.datasources.orc.OrcUtils$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;

/** The columns of files with the same names and types, and the vectors they are read into. */
final class FileColumns {
  static final int BATCH_ROWS = 4096;

  /** The names that old versions of Hive give to all columns of a file. */
  private static final Pattern UNNAMED = Pattern.compile("_col\\d+");

  private static final DataType[] ID_TYPES = {
    DataTypes.IntegerType,
    DataTypes.LongType,
    DataTypes.IntegerType,
    DataTypes.LongType,
    DataTypes.LongType
  };
  private static final Method TO_VECTOR = toVector();

  /** The columns to read, with the envelope. */
  final TypeDescription read;

  /** Whether each of their numbers is decoded. */
  final boolean[] include;

  /** Whether the names of the table's columns find the same fields in the file. */
  final boolean areNamed;

  final VectorizedRowBatch batch;

  /** The parts of the envelope; null where they are not decoded. */
  final OrcColumnVector[] ids = new OrcColumnVector[Envelope.ROW];

  /** The required columns; null where the file has none. */
  final ColumnVector[] values;

  private final List<OrcColumnVector> vectors = new ArrayList<>();

  /** The vectors that ORC reads fractions into without a conversion. */
  private final List<DoubleColumnVector> fractions = new ArrayList<>();

  private final StructColumnVector row;

  /**
   * Describes the columns of a file.
   *
   * @param plan The plan.
   * @param required The columns that the query needs.
   * @param stored The columns of the file.
   * @param isRaw Whether the file has no row ids.
   * @param parts Whether each part of the envelope is needed.
   * @param rows The number of rows in the file.
   */
  FileColumns(
      ScanPlan plan,
      StructType required,
      TypeDescription stored,
      boolean isRaw,
      boolean[] parts,
      long rows) {
    int capacity = (int) Math.max(1, Math.min(rows, BATCH_ROWS));
    TypeDescription fields = isRaw ? stored : stored.getChildren().get(Envelope.ROW);
    List<String> names = fields.getFieldNames();
    int[] places = places(plan, names);
    areNamed = areNamed(plan, names, places);
    int[] sources = new int[required.size()];
    DataType[] types = new DataType[names.size()];
    for (int at = 0; at < sources.length; at++) {
      int column = plan.columns.fieldIndex(required.fields()[at].name());
      sources[at] = column < plan.width ? places[column] : -1;
      if (sources[at] >= 0) {
        types[sources[at]] = required.fields()[at].dataType();
      }
    }
    // ORC finds fields without names by their positions, and so must be given all of them.
    boolean areAll = areUnnamed(names);
    TypeDescription columns = TypeDescription.createStruct();
    List<org.apache.hadoop.hive.ql.exec.vector.ColumnVector> cells = new ArrayList<>();
    int[] numbers = new int[names.size()];
    for (int field = 0; field < types.length; field++) {
      if (types[field] != null || areAll) {
        TypeDescription own = fields.getChildren().get(field);
        TypeDescription wanted = types[field] == null ? own.clone() : orc(types[field]);
        numbers[field] = cells.size();
        columns.addField(names.get(field), wanted);
        cells.add(cell(own, wanted, capacity));
        collectFractions(cells.get(numbers[field]), own, wanted);
      }
    }
    read = isRaw ? columns : Envelope.around(columns);
    include = new boolean[read.getMaximumId() + 1];
    include[0] = true;
    batch = new VectorizedRowBatch(read.getChildren().size(), capacity);
    var fieldCells = cells.toArray(new org.apache.hadoop.hive.ql.exec.vector.ColumnVector[0]);
    if (isRaw) {
      batch.cols = fieldCells;
      row = null;
    } else {
      for (int part = 0; part < ids.length; part++) {
        include[part + 1] = parts[part];
        batch.cols[part] = new LongColumnVector(capacity);
        ids[part] = parts[part] ? vector(ID_TYPES[part], batch.cols[part]) : null;
      }
      row = new StructColumnVector(capacity, fieldCells);
      batch.cols[Envelope.ROW] = row;
    }
    values = new ColumnVector[sources.length];
    for (int at = 0; at < sources.length; at++) {
      if (sources[at] >= 0) {
        int number = numbers[sources[at]];
        TypeDescription column = columns.getChildren().get(number);
        include[isRaw ? 0 : Envelope.ROW + 1] = true;
        Arrays.fill(include, column.getId(), column.getMaximumId() + 1, true);
        DataType type = required.fields()[at].dataType();
        values[at] =
            fieldCells[number] instanceof Decimal64ColumnVector
                ? new LongDecimals(
                    (DecimalType) type, vector(DataTypes.LongType, fieldCells[number]))
                : vector(type, fieldCells[number]);
      }
    }
  }

  /** Returns a vector of ORC for a column, of whole numbers for decimals that fit into them. */
  private static org.apache.hadoop.hive.ql.exec.vector.ColumnVector cell(
      TypeDescription stored, TypeDescription wanted, int capacity) {
    // ORC converts other types only to vectors of its own decimals.
    return wanted.getCategory() == TypeDescription.Category.DECIMAL
            && wanted.getPrecision() <= LongDecimals.DIGITS
            && wanted.equals(stored, false)
        ? new Decimal64ColumnVector(capacity, wanted.getPrecision(), wanted.getScale())
        : TypeUtils.createColumn(wanted, TypeDescription.RowBatchVersion.ORIGINAL, capacity);
  }

  /** Collects the fractions of a column whose stored type is the one that is read. */
  private void collectFractions(
      org.apache.hadoop.hive.ql.exec.vector.ColumnVector cell,
      TypeDescription stored,
      TypeDescription wanted) {
    if (stored.getCategory() != wanted.getCategory()) {
      return;
    }
    org.apache.hadoop.hive.ql.exec.vector.ColumnVector[] parts = {};
    if (cell instanceof DoubleColumnVector) {
      fractions.add((DoubleColumnVector) cell);
    } else if (cell instanceof ListColumnVector) {
      parts = new org.apache.hadoop.hive.ql.exec.vector.ColumnVector[] {
        ((ListColumnVector) cell).child
      };
    } else if (cell instanceof MapColumnVector) {
      MapColumnVector map = (MapColumnVector) cell;
      parts = new org.apache.hadoop.hive.ql.exec.vector.ColumnVector[] {map.keys, map.values};
    } else if (cell instanceof StructColumnVector
        && stored.getFieldNames().equals(wanted.getFieldNames())) {
      parts = ((StructColumnVector) cell).fields;
    }
    for (int at = 0; at < parts.length; at++) {
      collectFractions(parts[at], stored.getChildren().get(at), wanted.getChildren().get(at));
    }
  }

  /** Makes the vectors show the batch that was read last. */
  void show() {
    for (DoubleColumnVector vector : fractions) {
      // ORC fills the vector, and takes 0.0 and -0.0 for repetitions of the first one.
      vector.isRepeating &= !(vector.noNulls && vector.vector[0] == 0);
    }
    for (OrcColumnVector vector : vectors) {
      vector.setBatchSize(batch.size);
    }
  }

  /** Refuses events without a row, whose columns ORC leaves as they were. */
  void requireRows(ScanPlan.File file) {
    if (row == null || !include[Envelope.ROW + 1] || row.noNulls) {
      return;
    }
    for (int at = 0; at < (row.isRepeating ? 1 : batch.size); at++) {
      if (row.isNull[at]) {
        throw Envelope.corrupt(file.path + " holds an event without its row.");
      }
    }
  }

  /** Returns the field of a file for each column of the table; -1 where it has none. */
  private static int[] places(ScanPlan plan, List<String> stored) {
    int[] byPosition = new int[plan.width];
    int[] byName = new int[plan.width];
    for (int column = 0; column < plan.width; column++) {
      int position = plan.positions[column];
      byPosition[column] = position < stored.size() ? position : -1;
      byName[column] = -1;
      for (int field = stored.size() - 1; field >= 0; field--) {
        if (stored.get(field).equalsIgnoreCase(plan.columns.fields()[column].name())) {
          byName[column] = field;
        }
      }
    }
    if (plan.byPosition || areUnnamed(stored)) {
      return byPosition;
    }
    if (plan.mappingUnknown && !Arrays.equals(byPosition, byName)) {
      throw new IllegalStateException(
          "hiveacid-unknown-mapping:A file has the columns "
              + String.join(", ", stored)
              + ", of which engines that map by position and by name read different values.");
    }
    return byName;
  }

  private static boolean areUnnamed(List<String> stored) {
    return stored.stream().allMatch(name -> UNNAMED.matcher(name).matches());
  }

  /** Returns whether a lookup of names, without case, finds the same fields. */
  private static boolean areNamed(ScanPlan plan, List<String> stored, int[] places) {
    for (int field = 0; field < stored.size(); field++) {
      int mapped = -1;
      int named = -1;
      for (int column = 0; column < places.length; column++) {
        mapped = places[column] == field ? column : mapped;
        named =
            stored.get(field).equalsIgnoreCase(plan.columns.fields()[column].name())
                ? column
                : named;
      }
      if (mapped != named) {
        return false;
      }
    }
    return true;
  }

  private static TypeDescription orc(DataType type) {
    return TypeDescription.fromString(OrcUtils$.MODULE$.getOrcSchemaString(type));
  }

  /** Returns a vector of Spark that shows one of ORC. */
  private OrcColumnVector vector(
      DataType type, org.apache.hadoop.hive.ql.exec.vector.ColumnVector values) {
    try {
      OrcColumnVector vector = (OrcColumnVector) TO_VECTOR.invoke(null, type, values);
      vectors.add(vector);
      return vector;
    } catch (ReflectiveOperationException failure) {
      throw new IllegalStateException(failure);
    }
  }

  /** Returns Spark's conversion of vectors, which only its own package can call. */
  private static Method toVector() {
    try {
      Method method =
          Class.forName(OrcColumnVector.class.getPackageName() + ".OrcColumnVectorUtils")
              .getDeclaredMethod(
                  "toOrcColumnVector",
                  DataType.class,
                  org.apache.hadoop.hive.ql.exec.vector.ColumnVector.class);
      method.setAccessible(true);
      return method;
    } catch (ReflectiveOperationException failure) {
      throw new IllegalStateException(failure);
    }
  }
}
