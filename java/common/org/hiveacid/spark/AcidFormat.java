package org.hiveacid.spark;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.orc.mapred.OrcInputFormat;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.execution.datasources.PartitionedFile;
import org.apache.spark.sql.sources.And;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.sources.In;
import org.apache.spark.sql.sources.Not;
import org.apache.spark.sql.sources.Or;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.util.SerializableConfiguration;
import scala.Function1;
import scala.collection.Iterator;

/** The format of the files of a plan. */
final class AcidFormat extends Scala.Format {
  private final ScanPlan plan;

  AcidFormat(ScanPlan plan) {
    this.plan = plan;
  }

  @Override
  public String shortName() {
    return "hiveacid";
  }

  @Override
  public String toString() {
    return "HiveAcid";
  }

  @Override
  public boolean supportBatch(SparkSession spark, StructType schema) {
    return true;
  }

  @Override
  Function1<PartitionedFile, Iterator<InternalRow>> reader(
      SparkSession spark,
      StructType keys,
      StructType required,
      List<Filter> filters,
      boolean inBatches,
      Configuration conf) {
    JavaSparkContext context = JavaSparkContext.fromSparkContext(spark.sparkContext());
    Configuration searching = new Configuration(conf);
    List<Filter> usable = new ArrayList<>();
    for (Filter filter : filters) {
      if (isUsable(filter)) {
        usable.add(filter);
      }
    }
    // ORC finds the names of a search argument in the row of an ACID file, not in its envelope.
    var argument = searchArgument(plan.columns, usable);
    if (argument.isDefined()) {
      OrcInputFormat.setSearchArgument(searching, argument.get(), plan.columns.fieldNames());
    }
    return new AcidReader(
        plan,
        keys,
        required,
        inBatches,
        context.broadcast(new SerializableConfiguration(searching)));
  }

  /** Returns whether the statistics of files compare as Spark compares the values of a filter. */
  private boolean isUsable(Filter filter) {
    for (String name : filter.references()) {
      if (!plan.searchable.contains(name)) {
        return false;
      }
    }
    // ORC compares texts by Java's order of letters, but its statistics are in the order of bytes.
    return filter.toString().chars().allMatch(letter -> letter < 128) && !listsNull(filter);
  }

  /** Returns whether a filter has an IN with a null, which Spark cannot convert. */
  private static boolean listsNull(Filter filter) {
    if (filter instanceof In) {
      return Arrays.asList(((In) filter).values()).contains(null);
    }
    if (filter instanceof Not) {
      return listsNull(((Not) filter).child());
    }
    if (filter instanceof And) {
      return listsNull(((And) filter).left()) || listsNull(((And) filter).right());
    }
    return filter instanceof Or
        && (listsNull(((Or) filter).left()) || listsNull(((Or) filter).right()));
  }
}
