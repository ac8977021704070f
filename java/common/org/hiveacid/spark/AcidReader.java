package org.hiveacid.spark;

import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.*;
import java.util.regex.Pattern;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.mapreduce.*;
import org.apache.hadoop.mapreduce.lib.input.FileSplit;
import org.apache.hadoop.mapreduce.task.TaskAttemptContextImpl;
import org.apache.orc.*;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.memory.MemoryMode;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.execution.datasources.orc.OrcColumnarBatchReader;
import org.apache.spark.sql.execution.datasources.orc.OrcUtils$;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;

/** Reads a part of a file. */
final class AcidReader extends AbstractFunction1<PartitionedFile, Iterator<InternalRow>>
    implements Serializable {
  static final int BATCH_ROWS = 4096;

  /** A file with its reader. */
  static final class Opened {
    ScanPlan.File file;
    OrcColumnarBatchReader reader;
    DeletedRows deleted;

    /** Whether the row ids are read. */
    boolean hasIds;

    /** The number of rows before the part of the file. */
    long rowsBefore;

    /** The number of the field for each required column; -1 where the file has none. */
    int[] sources;
  }

  /** The names that old versions of Hive give to all columns of a file. */
  private static final Pattern UNNAMED = Pattern.compile("_col\\d+");

  private final ScanPlan plan;
  private final StructType keys;
  private final StructType required;
  private final Broadcast<SerializableConfiguration> conf;

  private final boolean inBatches;

  /** The column of the plan for each required one. */
  private final int[] wanted;

  AcidReader(
      ScanPlan plan,
      StructType keys,
      StructType required,
      boolean inBatches,
      Broadcast<SerializableConfiguration> conf) {
    this.plan = plan;
    this.keys = keys;
    this.required = required;
    this.inBatches = inBatches;
    this.conf = conf;
    this.wanted = new int[required.size()];
    for (int at = 0; at < wanted.length; at++) {
      wanted[at] = plan.columns.fieldIndex(required.fields()[at].name());
    }
  }

  @Override
  @SuppressWarnings({"unchecked", "rawtypes"})
  public Iterator<InternalRow> apply(PartitionedFile part) {
    ScanPlan.File file = plan.byPath.get(part.toPath().toString());
    if (file == null) {
      throw new IllegalStateException("Spark reads " + part.toPath() + ", which the plan lacks.");
    }
    try {
      AcidBatches batches = read(part, file);
      // Spark passes batches on as if they were rows.
      return (Iterator) (inBatches ? batches : new BatchRows(batches, shown()));
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
  }

  private AcidBatches read(PartitionedFile part, ScanPlan.File file) throws IOException {
    Configuration own = new Configuration(conf.value().value());
    OrcConf.MAX_FILE_LENGTH.setLong(own, file.size);
    OrcConf.IS_SCHEMA_EVOLUTION_CASE_SENSITIVE.setBoolean(own, false);
    DeletedRows deleted =
        file.deletes < 0 ? null : DeletedRows.of(plan, plan.deletes.get(file.deletes), own);
    boolean hasIds =
        deleted != null
            || wants(Envelope.WRITE_ID)
            || wants(Envelope.BUCKET)
            || wants(Envelope.ROW_ID);
    TypeDescription stored;
    long rowsBefore = 0;
    Path path = file.path;
    OrcFile.ReaderOptions options =
        OrcFile.readerOptions(own).filesystem(path.getFileSystem(own)).maxLength(file.size);
    try (Reader reader = OrcFile.createReader(path, options)) {
      stored = reader.getSchema();
      for (StripeInformation stripe : reader.getStripes()) {
        rowsBefore += stripe.getOffset() < part.start() ? stripe.getNumberOfRows() : 0;
      }
    }
    if (Envelope.is(stored) == file.isRaw) {
      String has = file.isRaw ? " has row ids" : " has no row ids";
      throw Envelope.corrupt(path + has + ", unlike the files of its directory.");
    }
    TypeDescription row = file.isRaw ? stored : stored.getChildren().get(Envelope.ROW);
    int[] places = places(row.getFieldNames());
    TypeDescription columns = TypeDescription.createStruct();
    int[] sources = sources(row, places, columns);
    if (file.isRaw && hasIds || !isAsNamed(row.getFieldNames(), places)) {
      // Skipped rows would not be counted; and the argument has the names of the table.
      own.unset("orc.kryo.sarg");
    }
    boolean[] read = new boolean[columns.getChildren().size()];
    for (int source : sources) {
      if (source >= 0) {
        read[source] = true;
      }
    }
    if (!file.isRaw) {
      boolean isNeeded = read.length > 0;
      boolean needsCurrent = !file.exact || wants(Envelope.CURRENT);
      read = new boolean[] {true, hasIds, hasIds, hasIds, needsCurrent, isNeeded};
      columns = enveloped(columns);
    }
    Opened opened = new Opened();
    opened.file = file;
    opened.reader = open(part, own, columns, read);
    opened.deleted = deleted;
    opened.hasIds = hasIds;
    opened.rowsBefore = rowsBefore;
    opened.sources = sources;
    return new AcidBatches(plan, opened, required, wanted, keys, part.partitionValues());
  }

  /** Opens Spark's reader of some columns of a file, of which only some are decoded. */
  private static OrcColumnarBatchReader open(
      PartitionedFile part, Configuration conf, TypeDescription columns, boolean[] read)
      throws IOException {
    int[] sources = new int[read.length];
    int[] constants = new int[read.length];
    StringJoiner included = new StringJoiner(",");
    for (int at = 0; at < read.length; at++) {
      constants[at] = -1;
      sources[at] = read[at] ? at : -1;
      if (read[at]) {
        included.add(Integer.toString(at));
      }
    }
    OrcConf.MAPRED_INPUT_SCHEMA.setString(conf, columns.toString());
    if (read.length > 0) {
      OrcConf.INCLUDE_COLUMNS.setString(conf, included.toString());
    }
    TaskID task = new TaskID(new JobID(), TaskType.MAP, 0);
    OrcColumnarBatchReader reader = new OrcColumnarBatchReader(BATCH_ROWS, MemoryMode.ON_HEAP);
    try {
      reader.initialize(
          new FileSplit(part.toPath(), part.start(), part.length(), new String[0]),
          new TaskAttemptContextImpl(conf, new TaskAttemptID(task, 0)));
      StructField[] fields = OrcUtils$.MODULE$.toCatalystSchema(columns).fields();
      reader.initBatch(columns, fields, sources, constants, InternalRow.empty());
      return reader;
    } catch (IOException | RuntimeException failure) {
      reader.close();
      throw failure;
    }
  }

  private static TypeDescription enveloped(TypeDescription row) {
    return TypeDescription.createStruct()
        .addField(Envelope.NAMES[Envelope.OPERATION], TypeDescription.createInt())
        .addField(Envelope.NAMES[Envelope.WRITE_ID], TypeDescription.createLong())
        .addField(Envelope.NAMES[Envelope.BUCKET], TypeDescription.createInt())
        .addField(Envelope.NAMES[Envelope.ROW_ID], TypeDescription.createLong())
        .addField(Envelope.NAMES[Envelope.CURRENT], TypeDescription.createLong())
        .addField(Envelope.NAMES[Envelope.ROW], row);
  }

  /** Returns the columns of the returned rows. */
  private StructType shown() {
    StructType shown = required;
    for (StructField key : keys.fields()) {
      shown = shown.add(key);
    }
    return shown;
  }

  private boolean wants(int part) {
    for (int column : wanted) {
      if (column - plan.width + 1 == part) {
        return true;
      }
    }
    return false;
  }

  /** Returns the field of a file for each column of the table; -1 where it has none. */
  private int[] places(List<String> stored) {
    boolean byPosition =
        plan.byPosition || stored.stream().allMatch(name -> UNNAMED.matcher(name).matches());
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

  /** Returns whether a lookup of names, without case, finds the same fields. */
  private boolean isAsNamed(List<String> stored, int[] places) {
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

  /**
   * Adds the fields to read, in the types of the table.
   *
   * @return The number of the field for each required column; -1 where the file has none.
   */
  private int[] sources(TypeDescription row, int[] places, TypeDescription read) {
    List<String> names = row.getFieldNames();
    boolean isUnnamed = names.stream().allMatch(name -> UNNAMED.matcher(name).matches());
    int[] sources = new int[wanted.length];
    Map<Integer, Integer> needed = new TreeMap<>();
    for (int at = 0; at < wanted.length; at++) {
      int field = wanted[at] < plan.width ? places[wanted[at]] : -1;
      sources[at] = field;
      if (field >= 0) {
        needed.put(field, at);
      }
    }
    if (needed.isEmpty()) {
      return sources;
    }
    Map<Integer, Integer> numbers = new HashMap<>();
    for (int field = 0; field < names.size(); field++) {
      Integer at = needed.get(field);
      // ORC finds fields without names by their positions, and so must be given all of them.
      if (at != null || isUnnamed) {
        numbers.put(field, numbers.size());
        read.addField(
            names.get(field),
            at == null
                ? row.getChildren().get(field).clone()
                : TypeDescription.fromString(
                    OrcUtils$.MODULE$.getOrcSchemaString(required.fields()[at].dataType())));
      }
    }
    for (int at = 0; at < sources.length; at++) {
      sources[at] = numbers.getOrDefault(sources[at], -1);
    }
    return sources;
  }
}
