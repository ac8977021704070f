import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.conf.HiveConf.ConfVars;
import org.apache.hadoop.hive.metastore.HiveMetaStore;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.IMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.CompactionResponse;
import org.apache.hadoop.hive.metastore.api.CompactionType;
import org.apache.hadoop.hive.metastore.api.ShowCompactResponseElement;
import org.apache.hadoop.hive.ql.DriverFactory;
import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.session.SessionState;
import org.apache.hadoop.hive.ql.txn.compactor.Cleaner;
import org.apache.hadoop.hive.ql.txn.compactor.CompactorThread;
import org.apache.hadoop.hive.ql.txn.compactor.Worker;

/**
 * A metastore, Hive's query engine and its compactor in one process, behind local ports.
 *
 * <p>POST /sql with a statement as body answers its rows, one a line, values between tabs.
 * POST /roll-back does the same and then aborts the transaction: the files stay.
 * POST /compact with "database table type [partition]" has Hive's own worker compact, and waits.
 * POST /work has Hive's own worker serve one request by a query: it rebalances in no other way.
 * POST /clean has Hive's own cleaner look through the queue once.
 * An error is answered with status 500 and its chain of causes. One process, because the cleaner
 * and ALTER TABLE ... COMPACT open the metastore's database, which Derby allows one process only.
 */
public class HiveEngine {
  private static final String[] CAPABILITIES = {
    "EXTWRITE", "EXTREAD", "HIVEBUCKET2", "HIVEFULLACIDREAD", "HIVEFULLACIDWRITE",
    "HIVEMANAGESTATS", "HIVEMANAGEDINSERTREAD", "HIVEMANAGEDINSERTWRITE", "HIVESQL"
  };
  private static HiveConf conf;

  private interface Answer {
    String to(String body) throws Exception;
  }

  private static void serve(HttpServer server, String path, Answer answer) {
    server.createContext(path, exchange -> {
      String body = new String(exchange.getRequestBody().readAllBytes(), StandardCharsets.UTF_8);
      try {
        send(exchange, 200, answer.to(body));
      } catch (Throwable failure) {
        StringBuilder causes = new StringBuilder();
        for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
          causes.append(cause).append('\n');
        }
        send(exchange, 500, causes.toString());
      }
    });
  }

  private static void send(HttpExchange exchange, int status, String text) throws IOException {
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    exchange.sendResponseHeaders(status, bytes.length == 0 ? -1 : bytes.length);
    try (OutputStream out = exchange.getResponseBody()) {
      out.write(bytes);
    }
  }

  private static HiveConf session() {
    if (SessionState.get() == null) {
      SessionState.start(new HiveConf(conf));
    }
    return SessionState.get().getConf();
  }

  private static String run(HiveConf settings, String statement) throws Exception {
    StringBuilder answer = new StringBuilder();
    try (IDriver driver = DriverFactory.newDriver(settings)) {
      driver.run(statement);
      List<String> rows = new ArrayList<>();
      while (driver.getFetchTask() != null && driver.getResults(rows)) {
        for (String row : rows) {
          answer.append(row).append('\n');
        }
        rows.clear();
      }
    }
    return answer.toString();
  }

  private static String sql(String statement) throws Exception {
    return run(session(), statement);
  }

  private static String rollBack(String statement) throws Exception {
    HiveConf settings = new HiveConf(session());
    settings.setBoolVar(ConfVars.HIVE_IN_TEST, true);
    settings.setBoolVar(ConfVars.HIVE_TEST_MODE_ROLLBACK_TXN, true);
    // The statistics would stay as if it had been committed.
    settings.setBoolVar(ConfVars.HIVESTATSAUTOGATHER, false);
    return run(settings, statement);
  }

  /** Runs one of Hive's background threads here, for one round: it is told to stop from the start. */
  private static void runOnce(CompactorThread thread) throws Exception {
    runOnce(thread, new HiveConf(conf));
  }

  private static void runOnce(CompactorThread thread, HiveConf settings) throws Exception {
    thread.setConf(settings);
    thread.init(new AtomicBoolean(true));
    thread.run();
  }

  private static String clean(String nothing) throws Exception {
    runOnce(new Cleaner());
    return nothing;
  }

  private static String work(String nothing) throws Exception {
    HiveConf settings = new HiveConf(conf);
    settings.setBoolVar(ConfVars.COMPACTOR_CRUD_QUERY_BASED, true);
    runOnce(new Worker(), settings);
    return nothing;
  }

  private static String compact(String request) throws Exception {
    String[] words = request.split(" ", 4);
    IMetaStoreClient client = new HiveMetaStoreClient(conf);
    try {
      CompactionResponse asked = client.compact2(words[0], words[1],
          words.length > 3 ? words[3] : null, CompactionType.valueOf(words[2]), null);
      if (!asked.isAccepted()) {
        return "not accepted: " + asked;
      }
      runOnce(new Worker());
      for (ShowCompactResponseElement element : client.showCompactions().getCompacts()) {
        if (element.getId() == asked.getId()) {
          return element.getState();
        }
      }
      return "forgotten";
    } finally {
      client.close();
    }
  }

  private static void startMetastore(String port) {
    new Thread(() -> {
      try {
        HiveMetaStore.main(new String[] {"-p", port});
      } catch (Throwable failure) {
        failure.printStackTrace();
        System.exit(1);
      }
    }, "metastore").start();
  }

  public static void main(String[] arguments) throws Exception {
    conf = new HiveConf(HiveEngine.class);
    // What HiveServer2 says about itself; the metastore lets nobody else create ACID tables.
    HiveMetaStoreClient.setProcessorIdentifier("HiveEngine");
    HiveMetaStoreClient.setProcessorCapabilities(CAPABILITIES);
    startMetastore(arguments[1]);
    InetSocketAddress address =
        new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(arguments[0]));
    HttpServer server = HttpServer.create(address, 0);
    // One thread: a Hive session belongs to its thread, and statements follow one another here.
    server.setExecutor(Executors.newSingleThreadExecutor());
    serve(server, "/sql", HiveEngine::sql);
    serve(server, "/roll-back", HiveEngine::rollBack);
    serve(server, "/compact", HiveEngine::compact);
    serve(server, "/work", HiveEngine::work);
    serve(server, "/clean", HiveEngine::clean);
    server.start();
  }
}
