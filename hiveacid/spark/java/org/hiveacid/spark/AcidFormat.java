package org.hiveacid.spark;

import java.util.*;
import java.util.stream.IntStream;
import org.apache.hadoop.conf.Configuration;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import scala.Function1;
import scala.Product;
import scala.collection.Iterator;

/** The format of the files of a plan. */
final class AcidFormat extends Scala.Format {
  private final ScanPlan plan;
  private SharedPlan shared;

  AcidFormat(ScanPlan plan) {
    this.plan = plan;
  }

  @Override public String shortName() { return "hiveacid"; }
  @Override public String toString() { return "HiveAcid"; }
  // All formats of ORC are equal to Spark, which would take one snapshot for another.
  @Override public boolean equals(Object other) { return this == other; }
  @Override public int hashCode() { return System.identityHashCode(this); }
  @Override public boolean supportBatch(SparkSession spark, StructType schema) { return true; }

  @Override
  Function1<PartitionedFile, Iterator<InternalRow>> reader(
      SparkSession spark,
      StructType keys,
      StructType required,
      List<Filter> filters,
      boolean inBatches,
      Configuration conf) {
    JavaSparkContext context = JavaSparkContext.fromSparkContext(spark.sparkContext());
    List<Filter> usable = new ArrayList<>();
    for (Filter filter : filters) {
      if (isUsable(filter)) {
        usable.add(filter);
      }
    }
    synchronized (this) {
      shared = shared == null ? new SharedPlan(context, plan) : shared;
    }
    var settings = context.broadcast(new SerializableConfiguration(conf));
    return new AcidReader(shared, keys, required, usable, inBatches, settings);
  }

  /** Returns whether the statistics of files compare as Spark compares the values of a filter. */
  private boolean isUsable(Filter filter) {
    for (String name : filter.references()) {
      if (!plan.searchable.contains(name)) {
        return false;
      }
    }
    // ORC compares texts by Java's order of letters, but its statistics are in the order of bytes.
    return filter.toString().chars().allMatch(letter -> letter < 128) && !hasNull(filter);
  }

  /** Returns whether a filter compares with null, as for an empty subquery; Spark fails on it. */
  private static boolean hasNull(Object part) {
    if (part instanceof Object[]) {
      return Arrays.stream((Object[]) part).anyMatch(AcidFormat::hasNull);
    }
    if (part instanceof Filter) {
      Product filter = (Product) part;
      return IntStream.range(0, filter.productArity())
          .anyMatch(at -> hasNull(filter.productElement(at)));
    }
    return part == null;
  }
}
