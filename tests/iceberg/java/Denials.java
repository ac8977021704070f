import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.MetaStorePreEventListener;
import org.apache.hadoop.hive.metastore.api.InvalidOperationException;
import org.apache.hadoop.hive.metastore.api.MetaException;
import org.apache.hadoop.hive.metastore.events.PreEventContext;
import org.apache.hadoop.hive.metastore.events.PreEventContext.PreEventType;

/**
 * An authorizer of a metastore that refuses the creation and change of tables while a file exists.
 *
 * <p>The first line of the file is the class of the exception, the second one its message. Hive's
 * authorizers are not part of a standalone metastore.
 */
public class Denials extends MetaStorePreEventListener {
  private final Path file;

  public Denials(Configuration conf) {
    super(conf);
    file = Path.of(conf.get("tests.denials"));
  }

  @Override
  public void onEvent(PreEventContext event) throws MetaException, InvalidOperationException {
    PreEventType type = event.getEventType();
    if (type != PreEventType.CREATE_TABLE && type != PreEventType.ALTER_TABLE) {
      return;
    }
    String[] lines;
    try {
      lines = Files.readString(file).split("\n");
    } catch (NoSuchFileException e) {
      return;
    } catch (IOException e) {
      throw new MetaException(e.toString());
    }
    if (lines[0].equals("InvalidOperationException")) {
      throw new InvalidOperationException(lines[1]);
    }
    throw new MetaException(lines[1]);
  }
}
