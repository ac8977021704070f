package org.hiveacid.spark;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Supplier;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.types.StructType;

/** A change of transactional tables, which Spark runs once as a command; its rows are the report. */
public final class AcidCommand extends Scala.Command {
  private final String text;
  private final StructType columns;
  private final Supplier<JsonNode> engine;

  /** Makes a command; Spark copies it by its fields. */
  public AcidCommand(String text, StructType columns, Supplier<JsonNode> engine) {
    super(columns);
    this.text = text;
    this.columns = columns;
    this.engine = engine;
  }

  /** Returns the command of a statement; null if the statement changes no transactional table. */
  static LogicalPlan of(SparkSession spark, String text) {
    try {
      JsonNode claimed = Door.ask(spark, "claim", text);
      return claimed.isNull()
          ? null
          : new AcidCommand(
              text,
              StructType.fromDDL(claimed.asText()),
              () -> Door.ask(spark, "run", text, Thread.currentThread()));
    } catch (Exception error) {
      return raising(error);
    }
  }

  /** Returns a command that raises an error: a parser may only raise those of syntax. */
  static LogicalPlan raising(Exception error) {
    return new AcidCommand(error.getMessage(), new StructType(), () -> Door.raise(error));
  }

  /** Returns the command that does what a plan of Spark would do with a table. */
  static LogicalPlan of(SparkSession spark, String table, LogicalPlan plan) {
    return new AcidCommand(
        "write " + table,
        StructType.fromDDL(Door.ask(spark, "columns").asText()),
        () -> Door.ask(spark, "write", table, plan));
  }

  @Override
  List<Row> run() {
    List<Row> rows = new ArrayList<>();
    JsonNode answers = engine.get();
    Door.forgetOthers();
    for (JsonNode answer : answers) {
      Object[] values = new Object[columns.size()];
      for (int at = 0; at < values.length; at++) {
        JsonNode value = answer.path(columns.apply(at).name());
        values[at] =
            value.isNumber()
                ? (Object) value.asLong()
                : value.isBoolean() ? (Object) value.asBoolean() : value.asText(null);
      }
      rows.add(RowFactory.create(values));
    }
    return rows;
  }

  @Override
  public String simpleString(int most) {
    return "AcidCommand " + text;
  }

  @Override
  public int productArity() {
    return 3;
  }

  @Override
  public Object productElement(int at) {
    return new Object[] {text, columns, engine}[at];
  }
}
