package org.hiveacid.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.connector.ExternalCommandRunner;
import org.apache.spark.sql.execution.command.ExternalCommandExecutor;
import scala.collection.JavaConverters;

/** A change of transactional tables, which Spark runs once as a command; its rows are the report. */
final class AcidCommand {
  private AcidCommand() {}

  /** Returns the command of a statement; null if the statement changes no transactional table. */
  static LogicalPlan of(SparkSession spark, ParserInterface parser, String text) throws Exception {
    try {
      JsonNode columns = Door.ask(spark, "claim", text);
      return columns.isNull()
          ? null
          : plan(parser, columns.asText(), text, () -> Door.ask(spark, "run", text));
    } catch (Exception error) {
      // A parser may only raise errors of syntax.
      return command(text, () -> Door.raise(error));
    }
  }

  /** Returns the command that writes the rows of a plan into a table. */
  static LogicalPlan of(
      SparkSession spark, String table, LogicalPlan rows, boolean overwrites, boolean byName) {
    try {
      return plan(
          spark.sessionState().sqlParser(),
          Door.ask(spark, "columns").asText(),
          "write " + table,
          () -> Door.ask(spark, "write", table, rows, overwrites, byName));
    } catch (Exception error) {
      return Door.raise(error);
    }
  }

  private static LogicalPlan command(String text, Supplier<JsonNode> engine) {
    ExternalCommandRunner runner =
        (same, options) -> new String[] {engine.get().toString()};
    return new ExternalCommandExecutor(runner, text, Scala.map(Map.of()));
  }

  private static LogicalPlan plan(
      ParserInterface parser, String columns, String text, Supplier<JsonNode> engine)
      throws Exception {
    // The only column of the command is a text, and a new one whenever Spark asks for it: the first
    // rows of a union, which are none, give the column an identity.
    LogicalPlan union =
        parser.parsePlan("SELECT '' AS command_output WHERE false UNION ALL SELECT ''");
    LogicalPlan none = JavaConverters.seqAsJavaList(union.children()).get(0);
    LogicalPlan output = with(union, List.of(none, command(text, engine)));
    String rows = "SELECT inline(from_json(command_output, 'array<struct<" + columns + ">>'))";
    return with(parser.parsePlan(rows), List.of(output));
  }

  private static LogicalPlan with(LogicalPlan plan, List<LogicalPlan> children) {
    return (LogicalPlan) plan.withNewChildren(Scala.seq(children));
  }
}
