package org.hiveacid.spark;

import java.lang.reflect.Method;
import java.util.*;
import java.util.regex.Pattern;
import org.apache.hadoop.hive.ql.exec.vector.StructColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.TypeDescription;
import org.apache.spark.sql.execution.datasources.orc.OrcColumnVector;
import org.apache.spark.sql.execution.datasources.orc.OrcUtils$;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

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
  final OrcColumnVector[] values;

  private final StructColumnVector row;

  /**
   * Describes the columns of a file.
   *
   * @param plan The plan.
   * @param required The columns that the query needs.
   * @param stored The columns of the file.
   * @param isRaw Whether the file has no row ids.
   * @param parts Whether each part of the envelope is needed.
   */
  FileColumns(
      ScanPlan plan, StructType required, TypeDescription stored, boolean isRaw, boolean[] parts) {
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
    int[] numbers = new int[names.size()];
    for (int field = 0; field < types.length; field++) {
      if (types[field] != null || areAll) {
        numbers[field] = columns.getChildren().size();
        columns.addField(
            names.get(field),
            types[field] == null ? fields.getChildren().get(field).clone() : orc(types[field]));
      }
    }
    read = isRaw ? columns : Envelope.around(columns);
    include = new boolean[read.getMaximumId() + 1];
    include[0] = true;
    batch = read.createRowBatch(BATCH_ROWS);
    for (int part = 0; part < ids.length && !isRaw; part++) {
      include[part + 1] = parts[part];
      ids[part] = parts[part] ? vector(ID_TYPES[part], batch.cols[part]) : null;
    }
    row = isRaw ? null : (StructColumnVector) batch.cols[Envelope.ROW];
    values = new OrcColumnVector[sources.length];
    for (int at = 0; at < sources.length; at++) {
      if (sources[at] >= 0) {
        int number = numbers[sources[at]];
        TypeDescription column = columns.getChildren().get(number);
        include[columns.getId()] = true;
        Arrays.fill(include, column.getId(), column.getMaximumId() + 1, true);
        values[at] =
            vector(
                required.fields()[at].dataType(), isRaw ? batch.cols[number] : row.fields[number]);
      }
    }
  }

  /** Makes the vectors show the batch that was read last, unless it has an event without a row. */
  void show(ScanPlan.File file) {
    if (row != null && include[read.getChildren().get(Envelope.ROW).getId()] && !row.noNulls) {
      for (int at = 0; at < (row.isRepeating ? 1 : batch.size); at++) {
        if (row.isNull[at]) {
          throw Envelope.corrupt(file.path + " holds an event without its row.");
        }
      }
    }
    for (OrcColumnVector[] vectors : new OrcColumnVector[][] {ids, values}) {
      for (OrcColumnVector vector : vectors) {
        if (vector != null) {
          vector.setBatchSize(batch.size);
        }
      }
    }
  }

  /** Returns the field of a file for each column of the table; -1 where it has none. */
  private static int[] places(ScanPlan plan, List<String> stored) {
    boolean byPosition = plan.byPosition || areUnnamed(stored);
    int[] places = new int[plan.width];
    for (int column = 0; column < places.length; column++) {
      places[column] = -1;
      if (byPosition) {
        int position = plan.positions[column];
        places[column] = position < stored.size() ? position : -1;
        continue;
      }
      for (int field = stored.size() - 1; field >= 0; field--) {
        if (stored.get(field).equalsIgnoreCase(plan.columns.fields()[column].name())) {
          places[column] = field;
        }
      }
    }
    return places;
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

  private static OrcColumnVector vector(
      DataType type, org.apache.hadoop.hive.ql.exec.vector.ColumnVector values) {
    try {
      return (OrcColumnVector) TO_VECTOR.invoke(null, type, values);
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
