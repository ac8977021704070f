package org.hiveacid.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.*;
import java.lang.ref.Cleaner;
import java.lang.ref.WeakReference;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.BiFunction;
import java.util.function.Consumer;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.spark.QueryContext;
import org.apache.spark.SparkException;
import org.apache.spark.SparkRuntimeException;
import org.apache.spark.api.python.Py4JServer;
import org.apache.spark.api.python.PythonUtils;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.CurrentUserContext;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.QueryExecution;
import org.apache.spark.sql.execution.datasources.HadoopFsRelation;
import org.apache.spark.sql.execution.datasources.LogicalRelation;
import org.apache.spark.sql.util.QueryExecutionListener;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import scala.Option;
import scala.collection.JavaConverters;

/**
 * The way to the engine, which is a program of Python: that of the driver, or a process beside it.
 *
 * <p>A question is a name with arguments; an answer is JSON with a value or an error.
 */
public final class Door {
  private static final Logger LOG = LoggerFactory.getLogger(Door.class);
  private static final Cleaner CLEANER = Cleaner.create();
  private static final Pattern CONNECT_OPERATION =
      Pattern.compile(
          "SparkConnect_OperationTag_User_(.*)_Session_[-\\w]+_Operation_[-\\w]+", Pattern.DOTALL);
  private static final String CONNECT_SERVICE = "org.apache.spark.sql.connect.service.";
  private static final Map<SparkSession, String> USERS =
      Collections.synchronizedMap(new WeakHashMap<>());
  private static final long MOST_SECONDS_TO_START = 120;
  private static final long SECONDS_UNTIL_IDLE = 60;
  private static final long SECONDS_OF_OTHERS = 5;
  private static final int MOST_OTHERS = 10_000;
  private static final Set<String> CHANGELESS = Set.of("claim", "columns", "is_transactional");
  private static final int MOST_ATTEMPTS = 3;
  private static final Set<SparkSession> LISTENING =
      Collections.synchronizedSet(Collections.newSetFromMap(new WeakHashMap<>()));

  // The names of other tables, until they are looked up again: they may become transactional.
  private static final Map<String, Long> OTHERS = new ConcurrentHashMap<>();

  private static volatile CompletableFuture<BiFunction<String, Object[], String>> engine =
      new CompletableFuture<>();
  private static volatile Process process;
  private static Py4JServer server;

  static {
    // With its first session, a Thrift server closes the class loader of jars that were added.
    String file = Door.class.getProtectionDomain().getCodeSource().getLocation().getPath();
    try (JarFile jar = new JarFile(file)) {
      jar.stream().map(JarEntry::getName).filter(name -> name.endsWith(".class")).forEach(Door::load);
    } catch (IOException error) {
      LOG.debug("The classes are in no jar", error);
    }
  }

  private static void load(String file) {
    try {
      String name = file.replace('/', '.').replaceFirst("\\.class$", "");
      Class.forName(name, false, Door.class.getClassLoader());
    } catch (ClassNotFoundException | LinkageError error) {
      LOG.debug("Not for this version of Spark: {}", file, error);
    }
  }

  /** Opens the door; the engine calls it. */
  public void open(BiFunction<String, Object[], String> program) {
    if (!engine.complete(program)) {
      // This driver is a program of Python, which precedes a process beside it.
      engine = CompletableFuture.completedFuture(program);
      end();
    }
  }

  /** Returns whether a session was started with the extensions, or made with them later. */
  static boolean isOpen(SparkSession spark) {
    return spark.conf().get("spark.sql.extensions", "").contains(AcidExtensions.class.getName())
        || spark.conf().get("spark.hiveacid.installed", "").equals("true");
  }

  static JsonNode ask(SparkSession spark, String what, Object... arguments) {
    List<Object> all = new ArrayList<>(List.of(arguments));
    all.addAll(0, Arrays.asList(spark, user(spark)));
    for (int attempt = 1; ; attempt++) {
      try {
        String text = engine(spark).apply(what, all.toArray());
        JsonNode answer = new ObjectMapper().readTree(text);
        return answer.has("error")
            ? raise(failure(answer.get("error")))
            : answer.get("value");
      } catch (py4j.Py4JException | IOException error) {
        // A new engine answers what changes nothing.
        if (!CHANGELESS.contains(what) || attempt == MOST_ATTEMPTS) {
          return raise(
              new SparkException(
                  "The engine of transactional tables has ended during a statement, which may have"
                      + " been committed. The next statement starts a new engine.",
                  error));
        }
      }
    }
  }

  /** Returns the user of a session on a server; null if it is the user of this process. */
  private static String user(SparkSession spark) {
    // The Thrift server sets it.
    String user = CurrentUserContext.CURRENT_USER().get();
    for (String tag : JavaConverters.setAsJavaSet(spark.sparkContext().getJobTags())) {
      Matcher operation = CONNECT_OPERATION.matcher(tag);
      if (operation.matches()) {
        user = operation.group(1);
        USERS.put(spark, user);
      }
    }
    StackWalker frames = StackWalker.getInstance();
    boolean isConnect =
        user == null
            && frames.walk(
                calls -> calls.anyMatch(call -> call.getClassName().startsWith(CONNECT_SERVICE)));
    // Connect analyzes plans without an operation, also before the first one: nobody's then.
    return isConnect ? USERS.getOrDefault(spark, "") : user;
  }

  /** Returns an error of the engine as one of Spark, with its condition and its SQLSTATE. */
  static Exception failure(JsonNode error) {
    String text = error.get("text").asText();
    String state = error.get("state").asText();
    Option<String> condition = Option.apply(error.get("condition").asText());
    scala.collection.immutable.Map<String, String> none = Scala.map(Map.of());
    QueryContext[] nowhere = new QueryContext[0];
    return error.get("of_user").asBoolean()
        ? new AnalysisException(
            text, Option.empty(), Option.empty(), Option.empty(), condition, none, nowhere) {
          @Override
          public String getSqlState() {
            return state;
          }

          @Override
          public String toString() {
            return AnalysisException.class.getName() + ": " + text;
          }
        }
        : new SparkRuntimeException(
            // Python's clients know this kind of exception, which wants a condition of Spark's own.
            "INTERNAL_ERROR", Scala.map(Map.of("message", text)), null, nowhere, "") {
          public String getErrorClass() {
            return condition.get();
          }

          public String getCondition() {
            return condition.get();
          }

          @Override
          public String getSqlState() {
            return state;
          }

          @Override
          public String getMessage() {
            return text;
          }

          @Override
          public String toString() {
            return SparkRuntimeException.class.getName() + ": " + text;
          }
        };
  }

  /** Raises an exception in a method that declares none, as in Scala. */
  @SuppressWarnings("unchecked")
  static <T, E extends Throwable> T raise(Throwable error) throws E {
    throw (E) error;
  }

  /** A transaction that reads the tables of a statement, and that their plans refer to. */
  static final class Read {
    private final Runnable release;
    private volatile Object query;

    private Read(SparkSession spark, String id) {
      // It must not hold the session, whose temporary views may hold the read.
      release = () -> tell("end_read", id);
      CLEANER.register(this, release);
      // Some plans are never run: a server analyzes those of Connect twice.
      later(
          spark,
          read -> {
            // The engine may still refer to plans.
            tell("collect_garbage");
            CompletableFuture.delayedExecutor(1, TimeUnit.SECONDS).execute(System::gc);
          });
    }

    private static void tell(String what, Object... arguments) {
      List<Object> all = new ArrayList<>(Arrays.asList(null, null));
      all.addAll(List.of(arguments));
      try {
        engine.getNow((question, nothing) -> null).apply(what, all.toArray());
      } catch (py4j.Py4JException error) {
        LOG.debug("A read has ended with its engine", error);
      }
    }

    /** Ends it after a query, unless a program may soon run another one on the same frame. */
    private void after(SparkSession spark) {
      Object last = new Object();
      query = last;
      if (process != null) {
        release.run();
      } else {
        later(
            spark,
            read -> {
              if (read.query == last) {
                read.release.run();
              }
            });
      }
    }

    /** Does something when Spark is idle after a minute, if a plan still refers to the read. */
    private void later(SparkSession spark, Consumer<Read> action) {
      WeakReference<Read> self = new WeakReference<>(this);
      Executor later = CompletableFuture.delayedExecutor(SECONDS_UNTIL_IDLE, TimeUnit.SECONDS);
      later.execute(
          () -> {
            Read read = self.get();
            if (read != null) {
              boolean isIdle = spark.sparkContext().statusTracker().getActiveJobIds().length == 0;
              (isIdle ? action : (Consumer<Read>) same -> same.later(spark, action)).accept(read);
            }
          });
    }
  }

  /** Forgets which tables are others, as a change may have made one of them. */
  static void forgetOthers() {
    OTHERS.clear();
  }

  /** Forgets that a table is another one, as Spark knows better. */
  static void forgetOther(String name) {
    OTHERS.remove(name);
  }

  /** Returns the plans of those tables that are transactional, all read in one transaction. */
  static Map<String, LogicalPlan> read(SparkSession spark, Collection<String> names) {
    Map<String, LogicalPlan> plans = new HashMap<>();
    long now = System.nanoTime();
    List<String> asked = new ArrayList<>(names);
    asked.removeIf(name -> OTHERS.getOrDefault(name, now) - now > 0);
    if (asked.isEmpty()) {
      return plans;
    }
    JsonNode id = ask(spark, "read", asked.toArray(new String[0]), plans);
    asked.removeAll(plans.keySet());
    if (OTHERS.size() > MOST_OTHERS) {
      OTHERS.clear();
    }
    asked.forEach(name -> OTHERS.put(name, now + TimeUnit.SECONDS.toNanos(SECONDS_OF_OTHERS)));
    if (!id.isNull()) {
      Read read = new Read(spark, id.asText());
      plans.values().forEach(plan -> indexes(plan).forEach(index -> index.read = read));
      if (LISTENING.add(spark)) {
        spark.listenerManager().register(new Listener());
      }
    }
    return plans;
  }

  private static List<Scala.Index> indexes(LogicalPlan plan) {
    List<Scala.Index> indexes = new ArrayList<>();
    for (LogicalPlan leaf : JavaConverters.seqAsJavaList(plan.collectLeaves())) {
      Object rows = leaf instanceof LogicalRelation ? ((LogicalRelation) leaf).relation() : null;
      Object files = rows instanceof HadoopFsRelation ? ((HadoopFsRelation) rows).location() : null;
      if (files instanceof Scala.Index) {
        indexes.add((Scala.Index) files);
      }
    }
    return indexes;
  }

  private static final class Listener implements QueryExecutionListener {
    @Override
    public void onSuccess(String function, QueryExecution query, long nanoseconds) {
      Set<Read> reads = new HashSet<>();
      // To analyze it here would begin another read.
      if (JavaConverters.mapAsJavaMap(query.tracker().phases()).containsKey("analysis")) {
        indexes(query.analyzed()).forEach(index -> reads.add(index.read));
      }
      reads.remove(null);
      reads.forEach(read -> read.after(query.sparkSession()));
    }

    @Override
    public void onFailure(String function, QueryExecution query, Exception error) {
      onSuccess(function, query, 0);
    }
  }

  // The process beside a driver without Python

  private static synchronized BiFunction<String, Object[], String> engine(SparkSession spark) {
    if (!engine.isDone() || (process != null && !process.isAlive())) {
      end();
      engine = new CompletableFuture<>();
      String program = spark.sparkContext().conf().get("spark.hiveacid.python", "hiveacid-engine");
      try {
        start(spark, program);
        engine.get(MOST_SECONDS_TO_START, TimeUnit.SECONDS);
      } catch (IOException | InterruptedException | ExecutionException | TimeoutException error) {
        end();
        engine = new CompletableFuture<>();
        String what = "The program " + program + " of transactional tables did not start: ";
        String remedy =
            ". Its output is in the log of the driver. Install hiveacid beside Spark, or name the"
                + " program by spark.hiveacid.python.";
        return raise(new SparkException(what + error.getMessage() + remedy, error));
      }
    }
    return engine.join();
  }

  private static void start(SparkSession spark, String program) throws IOException {
    server = new Py4JServer(spark.sparkContext().conf());
    server.start();
    ProcessBuilder builder = new ProcessBuilder(program.trim().split("\\s+"));
    Map<String, String> environment = builder.environment();
    environment.put("PYSPARK_GATEWAY_PORT", Integer.toString(server.getListeningPort()));
    environment.put("PYSPARK_GATEWAY_SECRET", server.secret());
    environment.put("PYSPARK_PIN_THREAD", "true");
    // The PySpark of this Spark, whatever else the program has.
    String pyspark = PythonUtils.sparkPythonPath() + File.pathSeparator;
    environment.merge("PYTHONPATH", pyspark, (old, own) -> own + old);
    Process started = builder.redirectErrorStream(true).start();
    process = started;
    CompletableFuture<?> opening = engine;
    Runnable copyLog =
        () -> {
          try (InputStream stream = started.getInputStream()) {
            new BufferedReader(new InputStreamReader(stream, StandardCharsets.UTF_8))
                .lines()
                .forEach(line -> LOG.warn("Engine: {}", line));
          } catch (IOException | UncheckedIOException closed) {
            LOG.debug("The output of the engine is closed", closed);
          }
          opening.completeExceptionally(new IOException("it has ended"));
        };
    Thread log = new Thread(copyLog, "hiveacid-engine");
    log.setDaemon(true);
    log.start();
    Runtime.getRuntime().addShutdownHook(new Thread(() -> end(started)));
  }

  private static void end() {
    if (process != null) {
      end(process);
      process = null;
      server.shutdown();
    }
  }

  /** Closes the input of a process, which then ends its transactions and itself. */
  private static void end(Process process) {
    try {
      process.getOutputStream().close();
      process.waitFor(5, TimeUnit.SECONDS);
    } catch (IOException | InterruptedException error) {
      LOG.debug("The engine does not end by itself", error);
    }
    process.destroyForcibly();
  }
}
