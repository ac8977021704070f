package org.hiveacid.spark;

import java.io.IOException;
import java.io.Serializable;
import java.io.UncheckedIOException;
import java.util.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.ql.io.sarg.SearchArgument;
import org.apache.orc.*;
import org.apache.spark.broadcast.Broadcast;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructField;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import scala.collection.Iterator;
import scala.runtime.AbstractFunction1;

/** Reads a part of a file. */
final class AcidReader extends AbstractFunction1<PartitionedFile, Iterator<InternalRow>>
    implements Serializable {
  private final SharedPlan shared;
  private transient ScanPlan plan;
  private final StructType keys;
  private final StructType required;
  private final ArrayList<Filter> filters;
  private final boolean inBatches;
  private final Broadcast<SerializableConfiguration> conf;

  /**
   * Describes the reader.
   *
   * @param shared The plan.
   * @param keys The columns of partitions.
   * @param required The columns that the query needs.
   * @param filters Conditions that ORC can compare with statistics.
   * @param inBatches Whether Spark expects batches instead of rows.
   * @param conf The settings of file systems and of ORC.
   */
  AcidReader(
      SharedPlan shared,
      StructType keys,
      StructType required,
      List<Filter> filters,
      boolean inBatches,
      Broadcast<SerializableConfiguration> conf) {
    this.shared = shared;
    this.keys = keys;
    this.required = required;
    this.filters = new ArrayList<>(filters);
    this.inBatches = inBatches;
    this.conf = conf;
  }

  @Override
  @SuppressWarnings({"unchecked", "rawtypes"})
  public Iterator<InternalRow> apply(PartitionedFile part) {
    plan = shared.get();
    if (!plan.sources.equals(AcidScan.SOURCES)) {
      throw new IllegalStateException(
          "The driver and an executor have the scan of ACID tables from different jars. Remove old"
              + " ones from spark.jars, --jars, and the class paths of Spark.");
    }
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
    Configuration own = conf.value().value();
    Reader reader = Envelope.open(file.path, file.size, file.modified, own);
    try {
      if (Envelope.is(reader.getSchema()) == file.isRaw) {
        String has = file.isRaw ? " has row ids" : " has no row ids";
        throw Envelope.corrupt(file.path + has + ", unlike the files of its directory.");
      }
      boolean[] parts = parts(file);
      FileColumns columns =
          new FileColumns(
              plan,
              required,
              reader.getSchema(),
              file.isRaw,
              parts,
              reader.getNumberOfRows());
      Reader.Options options =
          reader
              .options()
              .range(part.start(), part.length())
              .isSchemaEvolutionCaseAware(false)
              .schema(columns.read)
              .include(columns.include);
      // Skipped rows of raw files would not be counted.
      boolean isCounted = file.isRaw && parts[Envelope.ROW_ID];
      if (columns.areNamed && !isCounted && !filters.isEmpty()) {
        // ORC finds the names of a search argument in the row of an ACID file.
        scala.Option<SearchArgument> argument =
            Scala.Format.searchArgument(plan.columns, filters);
        if (argument.isDefined()) {
          options.searchArgument(argument.get(), plan.columns.fieldNames());
        }
      }
      return new AcidBatches(
          plan, file, columns, isCounted, required, keys, part.partitionValues(),
          reader, reader.rows(options), own);
    } catch (IOException | RuntimeException failure) {
      reader.close();
      throw failure;
    }
  }

  /** Returns which parts of the envelope are needed. */
  private boolean[] parts(ScanPlan.File file) {
    boolean[] parts = new boolean[Envelope.ROW];
    for (StructField field : required.fields()) {
      int part = plan.columns.fieldIndex(field.name()) - plan.width + 1;
      if (part > 0) {
        parts[part] = true;
      }
    }
    boolean hasIds = file.deletes >= 0;
    for (int part = Envelope.WRITE_ID; part <= Envelope.ROW_ID; part++) {
      hasIds |= parts[part];
    }
    Arrays.fill(parts, Envelope.WRITE_ID, Envelope.ROW_ID + 1, hasIds);
    parts[Envelope.OPERATION] = true;
    parts[Envelope.CURRENT] |= !file.exact;
    return parts;
  }

  /** Returns the columns of the returned rows. */
  private StructType shown() {
    StructType shown = required;
    for (StructField key : keys.fields()) {
      shown = shown.add(key);
    }
    return shown;
  }
}
