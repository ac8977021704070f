import jakarta.servlet.DispatcherType;
import jakarta.servlet.Filter;
import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.ServletRequest;
import jakarta.servlet.ServletResponse;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import java.util.EnumSet;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.server.ServerConnector;
import org.eclipse.jetty.servlet.FilterHolder;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/**
 * Iceberg's reference implementation of a REST catalog, behind a local port, with tokens and faults.
 *
 * <p>The arguments are the port, the JDBC address of its tables, the folder of the warehouse, the
 * name of the only client, and its secret. A token is valid until POST /test/revoke. POST
 * /test/fault with the parameter "at" (request or answer) and "status" affects the next commit: it
 * has no effect (request), or takes effect (answer), and the client gets the status, or, for 0, a
 * closed connection.
 */
public class RestCatalog {
  private static final String UNAUTHORIZED =
      "{\"error\":{\"message\":\"Not authorized\",\"type\":\"NotAuthorizedException\",\"code\":401}}";
  private static final String FAILED =
      "{\"error\":{\"message\":\"Injected\",\"type\":\"InternalServerError\",\"code\":%d}}";

  private record Fault(boolean afterwards, int status) {}

  public static void main(String[] arguments) throws Exception {
    Map<String, String> properties =
        Map.of(
            "type", "jdbc",
            "uri", arguments[1],
            "warehouse", arguments[2],
            "jdbc.schema-version", "V1",
            // Otherwise a table may be created in a namespace that does not exist.
            "jdbc.strict-mode", "true");
    Catalog catalog = CatalogUtil.buildIcebergCatalog("lake", properties, new Configuration());
    ServletContextHandler context = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
    context.addServlet(
        new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
    context.addFilter(
        new FilterHolder(new Guard(arguments[3], arguments[4])),
        "/*",
        EnumSet.of(DispatcherType.REQUEST));
    Server server = new Server();
    ServerConnector connector = new ServerConnector(server);
    connector.setHost("127.0.0.1");
    connector.setPort(Integer.parseInt(arguments[0]));
    server.addConnector(connector);
    server.setHandler(context);
    server.start();
    server.join();
  }

  /** Issues and checks tokens, and injects faults. */
  private static class Guard implements Filter {
    private final String client;
    private final String secret;
    private final Set<String> tokens = ConcurrentHashMap.newKeySet();
    private final AtomicReference<Fault> fault = new AtomicReference<>();

    Guard(String client, String secret) {
      this.client = client;
      this.secret = secret;
    }

    @Override
    public void doFilter(ServletRequest plain, ServletResponse answer, FilterChain chain)
        throws IOException, ServletException {
      HttpServletRequest request = (HttpServletRequest) plain;
      HttpServletResponse response = (HttpServletResponse) answer;
      String path = request.getRequestURI();
      if (path.equals("/test/revoke")) {
        tokens.clear();
      } else if (path.equals("/test/fault")) {
        boolean afterwards = request.getParameter("at").equals("answer");
        fault.set(new Fault(afterwards, Integer.parseInt(request.getParameter("status"))));
      } else if (path.equals("/v1/oauth/tokens")) {
        issue(request, response);
      } else if (!isKnown(request.getHeader("Authorization"))) {
        send(response, 401, UNAUTHORIZED);
      } else {
        serve(request, response, chain);
      }
    }

    private void issue(HttpServletRequest request, HttpServletResponse response)
        throws IOException {
      if (client.equals(request.getParameter("client_id"))
          && secret.equals(request.getParameter("client_secret"))) {
        String token = UUID.randomUUID().toString();
        tokens.add(token);
        String body = "{\"access_token\":\"%s\",\"token_type\":\"bearer\",\"expires_in\":3600}";
        send(response, 200, String.format(body, token));
      } else {
        send(response, 401, "{\"error\":\"invalid_client\"}");
      }
    }

    private boolean isKnown(String header) {
      return header != null && header.startsWith("Bearer ") && tokens.contains(header.substring(7));
    }

    private void serve(
        HttpServletRequest request, HttpServletResponse response, FilterChain chain)
        throws IOException, ServletException {
      boolean commits =
          request.getMethod().equals("POST") && request.getRequestURI().contains("/tables/");
      Fault injected = commits ? fault.getAndSet(null) : null;
      if (injected == null || injected.afterwards()) {
        chain.doFilter(request, response);
      }
      if (injected != null && injected.status() == 0) {
        ((Request) request).getHttpChannel().abort(new IOException("Injected"));
      } else if (injected != null) {
        response.resetBuffer();
        send(response, injected.status(), String.format(FAILED, injected.status()));
      }
    }

    private void send(HttpServletResponse response, int status, String body) throws IOException {
      response.setStatus(status);
      response.setContentType("application/json");
      response.getWriter().write(body);
    }
  }
}
