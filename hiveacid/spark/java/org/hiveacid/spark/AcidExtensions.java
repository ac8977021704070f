package org.hiveacid.spark;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.*;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.analysis.Analyzer;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.execution.ExplainMode$;
import org.apache.spark.sql.execution.command.ExplainCommand;
import org.apache.spark.sql.internal.VariableSubstitution;
import scala.Function1;
import scala.runtime.BoxedUnit;

/** Transactional tables in a session, as the value of spark.sql.extensions. */
public final class AcidExtensions implements Function1<SparkSessionExtensions, BoxedUnit> {
  // The engine reads them in full; all others stay in this process.
  private static final Pattern FIRST_WORD =
      Pattern.compile("(?:\\s|;|--[^\\n]*|/\\*(?s:.*?)\\*/)*([A-Za-z]+).*", Pattern.DOTALL);
  private static final Set<String> CLAIMED =
      Set.of(
          "ALTER", "ANALYZE", "CALL", "COMMENT", "CONVERT", "CREATE", "DELETE", "DESC", "DESCRIBE",
          "DROP", "FROM", "INSERT", "MERGE", "MSCK", "OPTIMIZE", "RESTORE", "SHOW", "TRUNCATE",
          "UPDATE", "USE", "WITH");
  private static final Pattern EXPLAIN =
      Pattern.compile(
          ".*?\\bEXPLAIN(?:\\s+(EXTENDED|CODEGEN|COST|FORMATTED))?\\s(.*)",
          Pattern.DOTALL | Pattern.CASE_INSENSITIVE);

  @Override
  public BoxedUnit apply(SparkSessionExtensions extensions) {
    extensions.injectParser(AcidExtensions::parser);
    Function1<SparkSession, Rule<LogicalPlan>> rule = AcidTables::new;
    try {
      // Before Spark looks for the names: with support for Hive it would find these tables, too.
      Method before =
          SparkSessionExtensions.class.getMethod("injectHintResolutionRule", Function1.class);
      before.invoke(extensions, rule);
    } catch (ReflectiveOperationException spark35) {
      // The parser applies the rule to statements, and the next line to frames.
    }
    extensions.injectResolutionRule(rule);
    extensions.injectCheckRule(spark -> plan -> AcidTables.forget());
    return BoxedUnit.UNIT;
  }

  /** Returns a parser that makes commands of statements about transactional tables. */
  private static ParserInterface parser(SparkSession spark, ParserInterface parser) {
    return (ParserInterface)
        Proxy.newProxyInstance(
            AcidExtensions.class.getClassLoader(),
            new Class<?>[] {ParserInterface.class},
            (self, method, arguments) -> {
              // Each version has more methods than the one before.
              boolean isStatement = method.getName().startsWith("parsePlan");
              try {
                if (!Door.isOpen(spark)) {
                  return method.invoke(parser, arguments);
                }
                if (isStatement) {
                  LogicalPlan command = command(spark, arguments);
                  if (command != null) {
                    return command;
                  }
                }
                Object parsed = method.invoke(parser, arguments);
                boolean precedes = precedes(spark);
                AcidTables tables = new AcidTables(spark);
                if (method.getName().equals("parseMultipartIdentifier")) {
                  tables.requirePossible(Scala.list(parsed), !precedes);
                }
                try {
                  return isStatement && !precedes
                      ? tables.applyBeforeAnalysis((LogicalPlan) parsed)
                      : parsed;
                } catch (Exception error) {
                  return AcidCommand.raising(error);
                }
              } catch (InvocationTargetException error) {
                Throwable cause = error.getCause();
                // Java's proxies may not throw what Scala does: errors in scripts are no ParseException.
                boolean isPossible =
                    cause instanceof RuntimeException
                        || cause instanceof Error
                        || cause instanceof ParseException;
                if (isStatement && !isPossible) {
                  return AcidCommand.raising((Exception) cause);
                }
                throw cause;
              }
            });
  }

  /** Returns the command of a statement, or its explanation; null if the statement is one of Spark. */
  private static LogicalPlan command(SparkSession spark, Object[] arguments)
      throws ReflectiveOperationException {
    String first = firstWord((String) arguments[0]);
    if (CLAIMED.contains(first)) {
      return AcidCommand.of(spark, text(arguments));
    }
    if (!first.equals("EXPLAIN")) {
      return null;
    }
    Matcher explained = EXPLAIN.matcher(text(arguments));
    LogicalPlan command =
        explained.matches() && CLAIMED.contains(firstWord(explained.group(2)))
            ? AcidCommand.of(spark, explained.group(2))
            : null;
    String mode = command == null ? null : Objects.requireNonNullElse(explained.group(1), "simple");
    return command == null
        ? null
        : new ExplainCommand(command, ExplainMode$.MODULE$.fromString(mode));
  }

  private static String firstWord(String text) {
    Matcher words = FIRST_WORD.matcher(text);
    return words.matches() ? words.group(1).toUpperCase(Locale.ROOT) : "";
  }

  /** Returns whether the rule precedes Spark's look-up of names, after it was put there if possible. */
  private static boolean precedes(SparkSession spark) throws ReflectiveOperationException {
    Analyzer analyzer = spark.sessionState().analyzer();
    try {
      // Spark 4.1 forgets these rules in a session with support for Hive.
      Field rules = Analyzer.class.getDeclaredField("hintResolutionRules");
      rules.setAccessible(true);
      if (Scala.list(rules.get(analyzer)).isEmpty()) {
        rules.set(analyzer, Scala.seq(List.of(new AcidTables(spark))));
      }
      return true;
    } catch (NoSuchFieldException spark35) {
      return false;
    }
  }

  /** Returns the text of a statement with the values of its variables and parameters. */
  private static String text(Object[] arguments) throws ReflectiveOperationException {
    String text = new VariableSubstitution().substitute((String) arguments[0]);
    if (arguments.length > 1) {
      Class<?> handler = Class.forName("org.apache.spark.sql.catalyst.parser.ParameterHandler");
      for (Method method : handler.getMethods()) {
        if (method.getName().equals("substituteParameters")) {
          try {
            return (String) ((scala.Tuple2<?, ?>) method.invoke(null, text, arguments[1]))._1();
          } catch (InvocationTargetException unbound) {
            // The engine reports a parameter without a value.
            return text;
          }
        }
      }
    }
    return text;
  }
}
