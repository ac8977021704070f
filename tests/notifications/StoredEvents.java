import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;

/** Prints the write events in the Derby database of a metastore that has ended, one a line. */
public class StoredEvents {
  public static void main(String[] arguments) throws Exception {
    String query = "SELECT WNL_TXNID, WNL_WRITEID, WNL_DATABASE, WNL_TABLE, WNL_PARTITION, WNL_FILES"
        + " FROM TXN_WRITE_NOTIFICATION_LOG ORDER BY WNL_ID";
    try (Connection database = DriverManager.getConnection("jdbc:derby:" + arguments[0]);
        ResultSet found = database.createStatement().executeQuery(query)) {
      while (found.next()) {
        for (int column = 1; column <= 6; column++) {
          System.out.print(found.getString(column) + (column < 6 ? "\t" : "\n"));
        }
      }
    }
  }
}
