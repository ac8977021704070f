package org.hiveacid.spark;

import static scala.collection.JavaConverters.mapAsJavaMap;
import static scala.collection.JavaConverters.seqAsJavaList;

import java.lang.ref.WeakReference;
import java.util.*;
import java.util.function.UnaryOperator;
import org.apache.spark.sql.SaveMode;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.AliasIdentifier;
import org.apache.spark.sql.catalyst.analysis.AnalysisContext;
import org.apache.spark.sql.catalyst.analysis.RelationTimeTravel;
import org.apache.spark.sql.catalyst.analysis.UnresolvedIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.catalog.CatalogTable;
import org.apache.spark.sql.catalyst.catalog.HiveTableRelation;
import org.apache.spark.sql.catalyst.catalog.TemporaryViewRelation;
import org.apache.spark.sql.catalyst.plans.logical.*;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.internal.SessionState;
import scala.Function1;
import scala.Option;
import scala.Product;
import scala.runtime.AbstractPartialFunction;
import scala.runtime.BoxedUnit;

/** Replaces the names of transactional tables by their rows, and writes into them by commands. */
final class AcidTables extends Rule<LogicalPlan> {
  private static final String CATALOG = "spark_catalog";
  // Of Spark 4 and 3.5.
  private static final Set<String> SAVES =
      Set.of(
          "org.apache.spark.sql.execution.command.SaveAsV1TableCommand",
          "org.apache.spark.sql.execution.datasources.CreateTable");
  private static final ThreadLocal<Statement> STATEMENT = new ThreadLocal<>();

  /** The text of a view while it is parsed, whose tables are read with those of the statement. */
  private static final ThreadLocal<String> VIEW = new ThreadLocal<>();

  private final SparkSession spark;

  AcidTables(SparkSession spark) {
    this.spark = spark;
  }

  /** The tables of a statement: all are looked up, and read, together. */
  private static final class Statement {
    /** Spark has one for a plan with its views and subqueries; null before the analysis. */
    WeakReference<Object> analysis;

    Statement(Object analysis) {
      this.analysis = analysis == null ? null : new WeakReference<>(analysis);
    }

    final Map<String, Optional<LogicalPlan>> tables = new HashMap<>();
  }

  /** Forgets the tables when the analysis has ended: the thread must not keep their read open. */
  static BoxedUnit forget() {
    STATEMENT.remove();
    return BoxedUnit.UNIT;
  }

  /** Replaces the names of a statement before its analysis, which reads those in views together. */
  LogicalPlan applyBeforeAnalysis(LogicalPlan plan) {
    StackWalker frames = StackWalker.getInstance();
    boolean isOfView =
        frames.walk(
            calls -> calls.anyMatch(call -> call.getClassName().endsWith(".SessionCatalog")));
    if (VIEW.get() != null || isOfView) {
      return plan;
    }
    STATEMENT.set(new Statement(null));
    return apply(plan, true);
  }

  @Override
  public LogicalPlan apply(LogicalPlan plan) {
    return apply(plan, false);
  }

  private LogicalPlan apply(LogicalPlan plan, boolean isParsed) {
    LogicalPlan write = Door.isOpen(spark) ? write(plan) : plan;
    if (write != null) {
      return write;
    }
    Statement last = STATEMENT.get();
    Object analysis = AnalysisContext.get().relationCache();
    boolean isSame =
        last != null && (last.analysis == null || last.analysis.get() == analysis);
    Statement statement = isSame ? last : new Statement(analysis);
    if (statement.analysis == null && !isParsed) {
      // A later analysis must read anew, also if this one fails.
      statement.analysis = new WeakReference<>(analysis);
    }
    Set<String> names = new LinkedHashSet<>();
    List<String> namespace = seqAsJavaList(AnalysisContext.get().catalogAndNamespace());
    collect(plan, namespace, names, new HashSet<>());
    names.removeAll(statement.tables.keySet());
    if (!names.isEmpty()) {
      Map<String, LogicalPlan> tables = Door.read(spark, names);
      names.forEach(name -> statement.tables.put(name, Optional.ofNullable(tables.get(name))));
      // The engine has analyzed plans in between.
      STATEMENT.set(statement);
    }
    return withTables(
        plan,
        relation -> {
          if (relation instanceof UnresolvedRelation && relation.isStreaming()) {
            refuse(table(name(relation), namespace));
          }
          String name = table(relation, namespace);
          Optional<LogicalPlan> table = statement.tables.getOrDefault(name, Optional.empty());
          if (table.isEmpty() && relation instanceof HiveTableRelation && name != null) {
            Door.ask(spark, "refuse_table", name);
          }
          return table.isEmpty() ? relation : named(name.split("[.@]"), table.get());
        });
  }

  private static LogicalPlan named(String[] name, LogicalPlan table) {
    List<String> qualifier = List.of(CATALOG, name[0]);
    return new SubqueryAlias(new AliasIdentifier(name[1], Scala.seq(qualifier)), table);
  }

  private static LogicalPlan withTables(LogicalPlan plan, UnaryOperator<LogicalPlan> tables) {
    return (LogicalPlan)
        plan.transformUpWithSubqueries(
            new AbstractPartialFunction<LogicalPlan, LogicalPlan>() {
              @Override
              public boolean isDefinedAt(LogicalPlan node) {
                return node instanceof UnresolvedRelation
                    || node instanceof UnresolvedWith
                    || node instanceof RelationTimeTravel
                    || node instanceof HiveTableRelation;
              }

              @Override
              @SuppressWarnings("unchecked")
              public <A extends LogicalPlan, B> B applyOrElse(A node, Function1<A, B> other) {
                return isDefinedAt(node) ? (B) tables.apply(node) : other.apply(node);
              }
            });
  }

  /** Adds the names of a plan, and of the temporary views in it, that may be of the metastore. */
  private void collect(
      LogicalPlan plan, List<String> namespace, Set<String> names, Set<List<String>> views) {
    SessionState state = spark.sessionState();
    withTables(
        plan,
        relation -> {
          if (relation instanceof UnresolvedWith) {
            // Its queries are no children.
            for (Object named : seqAsJavaList(((UnresolvedWith) relation).cteRelations())) {
              collect((LogicalPlan) ((Product) named).productElement(1), namespace, names, views);
            }
          }
          String table = table(relation, namespace);
          if (table != null) {
            names.add(table);
          }
          List<String> name = name(relation);
          if (table == null && state.catalog().isTempView(Scala.seq(name)) && views.add(name)) {
            TemporaryViewRelation view =
                state.catalog().getRawLocalOrGlobalTempView(Scala.seq(name)).get();
            if (view.plan().isEmpty() && view.tableMeta().viewText().isDefined()) {
              collect(
                  parsed(state, view.tableMeta().viewText().get()),
                  seqAsJavaList(view.tableMeta().viewCatalogAndNamespace()),
                  names,
                  views);
            }
          }
          return relation;
        });
  }

  private static LogicalPlan parsed(SessionState state, String text) {
    VIEW.set(text);
    try {
      return state.sqlParser().parsePlan(text);
    } catch (Exception error) {
      return Door.raise(error);
    } finally {
      VIEW.remove();
    }
  }

  private static List<String> name(LogicalPlan relation) {
    return relation instanceof UnresolvedRelation
        ? seqAsJavaList(((UnresolvedRelation) relation).multipartIdentifier())
        : List.of();
  }

  /** Returns the table of the metastore that a relation names; null if it names something else. */
  private String table(LogicalPlan relation, List<String> namespaceOfView) {
    if (relation instanceof HiveTableRelation) {
      return transactional(((HiveTableRelation) relation).tableMeta());
    }
    if (relation instanceof RelationTimeTravel) {
      RelationTimeTravel travel = (RelationTimeTravel) relation;
      String version =
          travel.version().isDefined()
              ? "'" + travel.version().get() + "'"
              : "CAST(" + travel.timestamp().get().sql() + " AS TIMESTAMP)";
      String table = table(travel.relation(), namespaceOfView);
      return table == null ? null : table + "@" + version;
    }
    return relation.isStreaming() ? null : table(name(relation), namespaceOfView);
  }

  private String table(List<String> name, List<String> namespaceOfView) {
    if (spark.sessionState().catalog().isTempView(Scala.seq(name))) {
      return null;
    }
    List<String> full = new ArrayList<>();
    if (name.size() == 1 && !namespaceOfView.isEmpty()) {
      full.addAll(namespaceOfView);
    } else if (name.size() == 1) {
      full.add(spark.catalog().currentCatalog());
      full.add(spark.catalog().currentDatabase());
    } else if (name.size() == 2 && !spark.conf().contains("spark.sql.catalog." + name.get(0))) {
      full.add(spark.catalog().currentCatalog());
    }
    full.addAll(name);
    String text = String.join(".", full).toLowerCase(Locale.ROOT);
    return text.matches(CATALOG + "\\.\\w+\\.\\w+") ? text.substring(CATALOG.length() + 1) : null;
  }

  /** Returns the name of a table that Spark has found in the metastore, if it is transactional. */
  private static String transactional(CatalogTable table) {
    boolean isTransactional = isTransactional(table.properties());
    String name = table.database() + "." + table.identifier().table().toLowerCase(Locale.ROOT);
    if (isTransactional) {
      Door.forgetOther(name);
    }
    return isTransactional ? name : null;
  }

  private static boolean isTransactional(
      scala.collection.immutable.Map<String, String> properties) {
    return mapAsJavaMap(properties).entrySet().stream()
        .anyMatch(
            property ->
                property.getKey().equalsIgnoreCase("transactional")
                    && property.getValue().equalsIgnoreCase("true"));
  }

  /**
   * Refuses streams of transactional tables, and saveAsTable in Spark 3.5, which would drop a table:
   * both look for a table before a rule sees a plan.
   */
  void requirePossible(List<String> name, boolean isSpark35) {
    StackWalker frames = StackWalker.getInstance();
    boolean isImpossible =
        frames.walk(
            calls ->
                calls.anyMatch(
                    call ->
                        call.getClassName().endsWith(".DataStreamReader")
                            || call.getMethodName().equals("toTable")
                            || isSpark35 && call.getMethodName().equals("saveAsTable")));
    try {
      if (isImpossible) {
        refuse(table(name, List.of()));
      }
    } catch (Exception error) {
      throw new IllegalArgumentException(error.getMessage());
    }
  }

  private void refuse(String table) {
    if (table != null && Door.ask(spark, "is_transactional", table).asBoolean()) {
      Door.ask(spark, "refuse_access", table);
    }
  }

  /** Returns the command that writes a frame; null if the plan is none, or of another table. */
  private LogicalPlan write(LogicalPlan plan) {
    LogicalPlan target = null;
    String table = null;
    boolean creates = false;
    if (plan instanceof InsertIntoStatement) {
      target = ((InsertIntoStatement) plan).table();
    } else if (plan instanceof V2WriteCommand) {
      target = (LogicalPlan) ((V2WriteCommand) plan).table();
    } else if (plan instanceof MergeIntoTable) {
      target = ((MergeIntoTable) plan).targetTable();
    } else if (plan instanceof V2CreateTableAsSelectPlan) {
      LogicalPlan name = ((V2CreateTableAsSelectPlan) plan).name();
      boolean isNamed = name instanceof UnresolvedIdentifier;
      table = isNamed ? table(Scala.list(name.productElement(0)), List.of()) : null;
      creates = isTransactional(((TableSpecBase) plan.productElement(3)).properties());
    } else if (SAVES.contains(plan.getClass().getName())) {
      CatalogTable saved = (CatalogTable) plan.productElement(0);
      Object mode = plan.productElement(1);
      creates =
          isTransactional(saved.storage().properties()) || isTransactional(saved.properties());
      boolean isChange = mode == SaveMode.Append || mode == SaveMode.Overwrite || creates;
      boolean isOfRows = isChange && plan.productElement(2) != Option.empty();
      List<String> name = List.of(saved.identifier().unquotedString().split("\\."));
      table = isOfRows ? table(name, List.of()) : null;
    }
    if (target instanceof UnresolvedRelation || target instanceof HiveTableRelation) {
      table = table(target, List.of());
    }
    boolean isOurs =
        table != null
            && (creates
                || target instanceof HiveTableRelation
                || Door.ask(spark, "is_transactional", table).asBoolean());
    return isOurs ? AcidCommand.of(spark, table, plan) : null;
  }
}
