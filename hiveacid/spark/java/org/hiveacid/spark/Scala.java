package org.hiveacid.spark;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.io.sarg.SearchArgument;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Attribute;
import org.apache.spark.sql.catalyst.expressions.AttributeSet;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.Statistics;
import org.apache.spark.sql.catalyst.types.DataTypeUtils;
import org.apache.spark.sql.execution.command.LeafRunnableCommand;
import org.apache.spark.sql.execution.datasources.*;
import org.apache.spark.sql.execution.datasources.orc.OrcFileFormat;
import org.apache.spark.sql.execution.datasources.orc.OrcFilters$;
import org.apache.spark.sql.internal.SQLConf;
import org.apache.spark.sql.sources.Filter;
import org.apache.spark.sql.types.StructType;
import scala.Enumeration;
import scala.Function1;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.JavaConverters;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;

/** The signatures of Spark that contain collections of Scala. */
final class Scala {
  private Scala() {}

  static <T> Seq<T> seq(List<T> values) {
    scala.collection.immutable.List<T> list = scala.collection.immutable.List$.MODULE$.empty();
    for (int at = values.size() - 1; at >= 0; at--) {
      list = list.$colon$colon(values.get(at));
    }
    return list;
  }

  @SuppressWarnings("unchecked")
  static <T> List<T> list(Object seq) {
    return JavaConverters.seqAsJavaList((Seq<T>) seq);
  }

  static <K, V> scala.collection.immutable.Map<K, V> map(Map<K, V> values) {
    scala.collection.immutable.Map<K, V> map = scala.collection.immutable.Map$.MODULE$.empty();
    for (Map.Entry<K, V> entry : values.entrySet()) {
      map = map.$plus(new scala.Tuple2<>(entry.getKey(), entry.getValue()));
    }
    return map;
  }

  /** An index over given files: nothing is listed. */
  abstract static class Index extends PartitioningAwareFileIndex {
    /** The read that protects the files, which ends when no plan refers to it. */
    volatile Door.Read read;

    private final PartitionSpec spec;
    private final Set<Path> roots = new LinkedHashSet<>();
    private final scala.collection.immutable.Map<Path, FileStatus[]> folders;
    private final scala.collection.mutable.LinkedHashMap<Path, FileStatus> files =
        new scala.collection.mutable.LinkedHashMap<>();

    Index(
        SparkSession spark,
        StructType keys,
        List<PartitionPath> partitions,
        LinkedHashMap<Path, FileStatus[]> folders) {
      super(spark, map(Map.of()), Option.empty(), NoopCache$.MODULE$);
      this.spec = new PartitionSpec(keys, seq(partitions));
      this.folders = map(folders);
      for (FileStatus[] some : folders.values()) {
        for (FileStatus file : some) {
          files.put(file.getPath(), file);
          roots.add(file.getPath().getParent());
        }
      }
    }

    @Override
    public PartitionSpec partitionSpec() {
      return spec;
    }

    @Override
    public scala.collection.mutable.LinkedHashMap<Path, FileStatus> leafFiles() {
      return files;
    }

    @Override
    public scala.collection.immutable.Map<Path, FileStatus[]> leafDirToChildrenFiles() {
      return folders;
    }

    @Override
    public Seq<Path> rootPaths() {
      return seq(new ArrayList<>(roots));
    }

    @Override
    public void refresh() {}
  }

  /** A command without inputs. */
  abstract static class Command extends LogicalPlan implements LeafRunnableCommand {
    private final Seq<Attribute> output;
    private Seq<Enumeration.Value> patterns;

    @SuppressWarnings("unchecked")
    Command(StructType columns) {
      this.output = (Seq<Attribute>) (Seq<?>) DataTypeUtils.toAttributes(columns);
      org.apache.spark.sql.catalyst.plans.logical.Command.$init$(this);
    }

    abstract List<Row> run();

    @Override
    public Seq<Row> run(SparkSession spark) {
      return seq(run());
    }

    @Override
    public Seq<Attribute> output() {
      return output;
    }

    @Override
    public Seq<LogicalPlan> children() {
      return seq(List.of());
    }

    @Override
    public LogicalPlan mapChildren(Function1<LogicalPlan, LogicalPlan> change) {
      return this;
    }

    @Override
    public LogicalPlan withNewChildrenInternal(IndexedSeq<LogicalPlan> children) {
      return this;
    }

    @Override
    public AttributeSet producedAttributes() {
      return LeafRunnableCommand.super.producedAttributes();
    }

    @Override
    public Statistics stats() {
      return LeafRunnableCommand.super.stats();
    }

    @Override
    public Seq<Enumeration.Value> nodePatterns() {
      return patterns;
    }

    @Override
    public void org$apache$spark$sql$catalyst$plans$logical$Command$_setter_$nodePatterns_$eq(
        Seq<Enumeration.Value> patterns) {
      this.patterns = patterns;
    }

    @Override
    public boolean canEqual(Object other) {
      return this == other;
    }
  }

  /** A format of ORC files with a reader of its own. */
  abstract static class Format extends OrcFileFormat {
    abstract Function1<PartitionedFile, Iterator<InternalRow>> reader(
        SparkSession spark,
        StructType keys,
        StructType required,
        List<Filter> filters,
        boolean inBatches,
        Configuration conf);

    @Override
    public Function1<PartitionedFile, Iterator<InternalRow>> buildReaderWithPartitionValues(
        SparkSession spark,
        StructType data,
        StructType keys,
        StructType required,
        Seq<Filter> filters,
        scala.collection.immutable.Map<String, String> options,
        Configuration conf) {
      List<Filter> given = JavaConverters.seqAsJavaList(filters);
      // Spark needs rows where it generates no code, as for wide tables.
      boolean inBatches =
          JavaConverters.mapAsJavaMap(options).get("returning_batch").equals("true");
      return reader(spark, keys, required, given, inBatches, conf);
    }

    @Override
    public Option<Seq<String>> vectorTypes(StructType required, StructType keys, SQLConf conf) {
      return Option.empty();
    }

    /** Spark 4.3 has added a parameter, an option, to this method. */
    @SuppressWarnings("unchecked")
    static Option<SearchArgument> searchArgument(StructType columns, List<Filter> filters) {
      try {
        for (Method method : OrcFilters$.class.getMethods()) {
          if (method.getName().equals("createFilter")) {
            Object[] arguments = {columns, seq(filters), Option.empty()};
            Object[] accepted = Arrays.copyOf(arguments, method.getParameterCount());
            return (Option<SearchArgument>) method.invoke(OrcFilters$.MODULE$, accepted);
          }
        }
      } catch (IllegalAccessException error) {
        throw new IllegalStateException(error);
      } catch (InvocationTargetException error) {
        throw new IllegalStateException(error.getCause());
      }
      throw new NoSuchMethodError("OrcFilters.createFilter");
    }
  }
}
