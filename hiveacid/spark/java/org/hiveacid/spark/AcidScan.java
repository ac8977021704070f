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
import org.apache.spark.sql.execution.datasources.FileFormat;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.PartitionPath;
import org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat;
import org.apache.spark.sql.execution.datasources.text.TextFileFormat;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.unsafe.types.UTF8String;
import scala.Option;

/** The rows of tables as relations of Spark, which prunes columns, files and partitions. */
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

  /** Returns the door, for the engine. */
  public Door door() {
    return new Door();
  }

  /** Returns the extensions, for sessions that were started without them. */
  public AcidExtensions extensions() {
    return new AcidExtensions();
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
    List<List<FileStatus>> contents = new ArrayList<>();
    plan.partitions.forEach(each -> contents.add(new ArrayList<>()));
    for (ScanPlan.File file : plan.files) {
      FileStatus status = new FileStatus(file.size, false, 1, BLOCK_BYTES, 0, file.path);
      contents.get(file.partition).add(status);
    }
    List<PartitionPath> partitions = new ArrayList<>();
    LinkedHashMap<Path, FileStatus[]> folders = new LinkedHashMap<>();
    for (int at = 0; at < contents.size(); at++) {
      // A partition may have files in many folders, and a folder files of many partitions.
      Path number = new Path("/" + at);
      partitions.add(new PartitionPath(partition(plan, plan.partitions.get(at)), number));
      folders.put(number, contents.get(at).toArray(new FileStatus[0]));
    }
    // A missing or corrupt file is an error, whatever the settings of the session are.
    Map<String, String> options = new HashMap<>(plan.options);
    options.putAll(Map.of("ignoreMissingFiles", "false", "ignoreCorruptFiles", "false"));
    HadoopFsRelation relation =
        new HadoopFsRelation(
            new Scala.Index(spark, plan.keys, partitions, folders) {},
            plan.keys,
            plan.columns,
            Option.empty(),
            format(plan),
            Scala.map(options),
            spark);
    return spark.sqlContext().baseRelationToDataFrame(relation);
  }

  private static FileFormat format(ScanPlan plan) {
    switch (plan.storedAs) {
      case "orc":
        return new AcidFormat(plan);
      case "parquet":
        return new ParquetFileFormat();
      case "text":
        return new TextFileFormat();
      default:
        throw new IllegalArgumentException("The plan of a scan has files as " + plan.storedAs);
    }
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
