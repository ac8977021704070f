import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Executors;
import org.apache.hadoop.hive.conf.HiveConf;
import org.apache.hadoop.hive.metastore.HiveMetaStoreClient;
import org.apache.hadoop.hive.metastore.IMetaStoreClient;
import org.apache.hadoop.hive.metastore.api.CompactionResponse;
import org.apache.hadoop.hive.metastore.api.CompactionType;
import org.apache.hadoop.hive.metastore.api.ShowCompactResponseElement;
import org.apache.hadoop.hive.ql.DriverFactory;
import org.apache.hadoop.hive.ql.IDriver;
import org.apache.hadoop.hive.ql.session.SessionState;
import org.apache.hadoop.hive.ql.txn.compactor.CompactorThread;
import org.apache.hadoop.hive.ql.txn.compactor.Worker;

/**
 * Hive's query engine and its compaction worker behind a local port.
 *
 * <p>POST /sql with a statement as body answers its rows, one a line, values between tabs.
 * POST /compact with "database table type [partition]" has Hive's own worker compact, and waits.
 * An error is answered with status 500 and its chain of causes. ALTER TABLE ... COMPACT cannot be
 * used: in 4.0.1 it opens the metastore's database itself, which Derby allows one process only.
 */
public class HiveEngine {
  private static final long COMPACTION_MILLIS = 300_000;
  private static final String[] CAPABILITIES = {
    "EXTWRITE", "EXTREAD", "HIVEBUCKET2", "HIVEFULLACIDREAD", "HIVEFULLACIDWRITE",
    "HIVEMANAGESTATS", "HIVEMANAGEDINSERTREAD", "HIVEMANAGEDINSERTWRITE", "HIVESQL"
  };
  private static final Set<String> UNFINISHED = Set.of("initiated", "working");
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

  private static String sql(String statement) throws Exception {
    if (SessionState.get() == null) {
      SessionState.start(new HiveConf(conf));
    }
    StringBuilder answer = new StringBuilder();
    try (IDriver driver = DriverFactory.newDriver(SessionState.get().getConf())) {
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

  private static String compact(String request) throws Exception {
    String[] words = request.split(" ", 4);
    IMetaStoreClient client = new HiveMetaStoreClient(conf);
    try {
      CompactionResponse asked = client.compact2(words[0], words[1],
          words.length > 3 ? words[3] : null, CompactionType.valueOf(words[2]), null);
      if (!asked.isAccepted()) {
        return "not accepted: " + asked;
      }
      long deadline = System.currentTimeMillis() + COMPACTION_MILLIS;
      String state = "initiated";
      while (System.currentTimeMillis() < deadline && UNFINISHED.contains(state)) {
        Thread.sleep(100);
        for (ShowCompactResponseElement element : client.showCompactions().getCompacts()) {
          if (element.getId() == asked.getId()) {
            state = element.getState();
          }
        }
      }
      return state;
    } finally {
      client.close();
    }
  }

  public static void main(String[] arguments) throws Exception {
    conf = new HiveConf(HiveEngine.class);
    // What HiveServer2 says about itself; the metastore lets nobody else create ACID tables.
    HiveMetaStoreClient.setProcessorIdentifier("HiveEngine");
    HiveMetaStoreClient.setProcessorCapabilities(CAPABILITIES);
    CompactorThread.initializeAndStartThread(new Worker(), conf);
    InetSocketAddress address =
        new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(arguments[0]));
    HttpServer server = HttpServer.create(address, 0);
    // One thread: a Hive session belongs to its thread, and statements follow one another here.
    server.setExecutor(Executors.newSingleThreadExecutor());
    serve(server, "/sql", HiveEngine::sql);
    serve(server, "/compact", HiveEngine::compact);
    server.start();
  }
}
