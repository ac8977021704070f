package org.hiveacid.spark;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.util.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.Dataset;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.*;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.PartitionPath;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/** The rows of ACID tables as relations of Spark, which prunes columns, files and partitions. */
public final class AcidScan {
  /** The digest of the sources of this class. */
  static final String SOURCES = ownSources();

  private static final long BLOCK_BYTES = 128L << 20;

  /** Creates it; Python calls it as an object, as its class is in a loader of its own. */
  public AcidScan() {}

  /** Returns the digest of the sources that the jar of this class was compiled from. */
  public String sources() {
    return SOURCES;
  }

  /**
   * Returns the rows of a snapshot.
   *
   * @param spark The session whose settings for files apply.
   * @param text The plan.
   */
  public Dataset<Row> frame(SparkSession spark, String text) {
    Configuration conf = spark.sparkContext().hadoopConfiguration();
    ScanPlan plan = new ScanPlan(text, conf);
    List<InternalRow> values = new ArrayList<>();
    for (String[] texts : plan.partitions) {
      values.add(partition(plan, texts));
    }
    Map<Path, List<ScanPlan.File>> contents = new LinkedHashMap<>();
    for (ScanPlan.File file : plan.files.values()) {
      contents.computeIfAbsent(file.path.getParent(), absent -> new ArrayList<>()).add(file);
    }
    List<PartitionPath> partitions = new ArrayList<>();
    LinkedHashMap<Path, FileStatus[]> folders = new LinkedHashMap<>();
    contents.forEach(
        (folder, files) -> {
          int partition = files.get(0).partition;
          List<FileStatus> listed = new ArrayList<>();
          for (ScanPlan.File file : files) {
            if (file.partition != partition) {
              throw new IllegalArgumentException(folder + " belongs to two partitions.");
            }
            listed.add(new FileStatus(file.size, false, 1, BLOCK_BYTES, 0, file.path));
          }
          partitions.add(new PartitionPath(values.get(partition), folder));
          folders.put(folder, listed.toArray(new FileStatus[0]));
        });
    HadoopFsRelation relation =
        new HadoopFsRelation(
            new Scala.Index(spark, plan.keys, partitions, folders) {},
            plan.keys,
            plan.columns,
            Option.empty(),
            new AcidFormat(plan),
            // A missing or corrupt file is an error, whatever the settings of the session are.
            Scala.map(Map.of("ignoreMissingFiles", "false", "ignoreCorruptFiles", "false")),
            spark);
    return spark.sqlContext().baseRelationToDataFrame(relation);
  }

  private static InternalRow partition(ScanPlan plan, String[] texts) {
    Object[] values = new Object[texts.length];
    for (int at = 0; at < texts.length; at++) {
      Literal text = new Literal(UTF8String.fromString(texts[at]), DataTypes.StringType);
      values[at] =
          new Cast(
                  text, plan.keys.fields()[at].dataType(), Option.apply(plan.zone), EvalMode.ANSI())
              .eval(null);
    }
    return new GenericInternalRow(values);
  }

  private static String ownSources() {
    try (InputStream stream = AcidScan.class.getResourceAsStream("/hiveacid-scan.sources")) {
      return stream == null ? "" : new String(stream.readAllBytes(), StandardCharsets.UTF_8);
    } catch (IOException failure) {
      throw new java.io.UncheckedIOException(failure);
    }
  }
}
