import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hive.metastore.HMSHandler;
import org.apache.hadoop.hive.metastore.ReplChangeManager;
import org.apache.hadoop.hive.metastore.TransactionalMetaStoreEventListener;
import org.apache.hadoop.hive.metastore.Warehouse;
import org.apache.hadoop.hive.metastore.api.MetaException;
import org.apache.hadoop.hive.metastore.api.NotificationEvent;
import org.apache.hadoop.hive.metastore.api.Partition;
import org.apache.hadoop.hive.metastore.api.Table;
import org.apache.hadoop.hive.metastore.api.TxnType;
import org.apache.hadoop.hive.metastore.events.AbortTxnEvent;
import org.apache.hadoop.hive.metastore.events.AcidWriteEvent;
import org.apache.hadoop.hive.metastore.events.AddPartitionEvent;
import org.apache.hadoop.hive.metastore.events.AllocWriteIdEvent;
import org.apache.hadoop.hive.metastore.events.AlterDatabaseEvent;
import org.apache.hadoop.hive.metastore.events.AlterPartitionEvent;
import org.apache.hadoop.hive.metastore.events.AlterTableEvent;
import org.apache.hadoop.hive.metastore.events.BatchAcidWriteEvent;
import org.apache.hadoop.hive.metastore.events.CommitCompactionEvent;
import org.apache.hadoop.hive.metastore.events.CommitTxnEvent;
import org.apache.hadoop.hive.metastore.events.CreateDatabaseEvent;
import org.apache.hadoop.hive.metastore.events.CreateTableEvent;
import org.apache.hadoop.hive.metastore.events.DropPartitionEvent;
import org.apache.hadoop.hive.metastore.events.DropTableEvent;
import org.apache.hadoop.hive.metastore.events.OpenTxnEvent;
import org.apache.hadoop.hive.metastore.messaging.AcidWriteMessage;
import org.apache.hadoop.hive.metastore.messaging.EventMessage;
import org.apache.hadoop.hive.metastore.messaging.EventMessage.EventType;
import org.apache.hadoop.hive.metastore.messaging.MessageBuilder;
import org.apache.hadoop.hive.metastore.messaging.MessageEncoder;
import org.apache.hadoop.hive.metastore.messaging.MessageFactory;
import org.apache.hadoop.hive.metastore.messaging.PartitionFiles;
import org.apache.hadoop.hive.metastore.tools.SQLGenerator;

/**
 * A listener of a Hive 4 metastore that fills the tables of notifications in a Derby database.
 *
 * <p>The listener that Hive ships is in no public repository of artifacts. This one stores the
 * messages that Hive's own builder makes of the events that replication needs, and refuses write
 * events whose lists differ in length, as Hive's does.
 */
public class NotificationLog extends TransactionalMetaStoreEventListener {
  private static final MessageBuilder BUILDER = MessageBuilder.getInstance();
  private final Configuration conf;
  private final MessageEncoder encoder;

  public NotificationLog(Configuration conf) {
    super(conf);
    this.conf = conf;
    encoder = MessageFactory.getDefaultInstance(conf);
  }

  @Override
  public boolean doesAddEventsToNotificationLogTable() {
    return true;
  }

  @Override
  public void onCreateDatabase(CreateDatabaseEvent event) throws MetaException {
    EventMessage message = BUILDER.buildCreateDatabaseMessage(event.getDatabase());
    store(EventType.CREATE_DATABASE, message, event.getDatabase().getName(), null);
  }

  @Override
  public void onAlterDatabase(AlterDatabaseEvent event) throws MetaException {
    EventMessage message =
        BUILDER.buildAlterDatabaseMessage(event.getOldDatabase(), event.getNewDatabase());
    store(EventType.ALTER_DATABASE, message, event.getOldDatabase().getName(), null);
  }

  @Override
  public void onCreateTable(CreateTableEvent event) throws MetaException {
    Table table = event.getTable();
    EventMessage message = BUILDER.buildCreateTableMessage(table, Collections.emptyIterator());
    store(EventType.CREATE_TABLE, message, table.getDbName(), table.getTableName());
  }

  @Override
  public void onAlterTable(AlterTableEvent event) throws MetaException {
    Table before = event.getOldTable();
    EventMessage message = BUILDER.buildAlterTableMessage(
        before, event.getNewTable(), event.getIsTruncateOp(), event.getWriteId());
    store(EventType.ALTER_TABLE, message, before.getDbName(), before.getTableName());
  }

  @Override
  public void onDropTable(DropTableEvent event) throws MetaException {
    Table table = event.getTable();
    EventMessage message = BUILDER.buildDropTableMessage(table);
    store(EventType.DROP_TABLE, message, table.getDbName(), table.getTableName());
  }

  @Override
  public void onAddPartition(AddPartitionEvent event) throws MetaException {
    Table table = event.getTable();
    List<Partition> partitions = new ArrayList<>();
    List<PartitionFiles> files = new ArrayList<>();
    event.getPartitionIterator().forEachRemaining(partitions::add);
    for (Partition partition : partitions) {
      String name = Warehouse.makePartName(table.getPartitionKeys(), partition.getValues());
      files.add(new PartitionFiles(name, Collections.emptyIterator()));
    }
    EventMessage message =
        BUILDER.buildAddPartitionMessage(table, partitions.iterator(), files.iterator());
    store(EventType.ADD_PARTITION, message, table.getDbName(), table.getTableName());
  }

  @Override
  public void onAlterPartition(AlterPartitionEvent event) throws MetaException {
    Table table = event.getTable();
    EventMessage message = BUILDER.buildAlterPartitionMessage(table, event.getOldPartition(),
        event.getNewPartition(), event.getIsTruncateOp(), event.getWriteId());
    store(EventType.ALTER_PARTITION, message, table.getDbName(), table.getTableName());
  }

  @Override
  public void onDropPartition(DropPartitionEvent event) throws MetaException {
    Table table = event.getTable();
    EventMessage message = BUILDER.buildDropPartitionMessage(table, event.getPartitionIterator());
    store(EventType.DROP_PARTITION, message, table.getDbName(), table.getTableName());
  }

  @Override
  public void onOpenTxn(OpenTxnEvent event, Connection database, SQLGenerator generator)
      throws MetaException {
    if (event.getTxnType() == TxnType.READ_ONLY) {
      return;
    }
    List<Long> ids = event.getTxnIds();
    EventMessage message = BUILDER.buildOpenTxnMessage(ids.get(0), ids.get(ids.size() - 1));
    store(EventType.OPEN_TXN, message, null, null, database);
  }

  @Override
  public void onCommitTxn(CommitTxnEvent event, Connection database, SQLGenerator generator)
      throws MetaException {
    if (event.getTxnType() == TxnType.READ_ONLY) {
      return;
    }
    EventMessage message = BUILDER.buildCommitTxnMessage(event.getTxnId());
    store(EventType.COMMIT_TXN, message, null, null, database);
  }

  @Override
  public void onAbortTxn(AbortTxnEvent event, Connection database, SQLGenerator generator)
      throws MetaException {
    if (event.getTxnType() == TxnType.READ_ONLY) {
      return;
    }
    EventMessage message = BUILDER.buildAbortTxnMessage(event.getTxnId(), event.getDbsUpdated());
    store(EventType.ABORT_TXN, message, null, null, database);
  }

  @Override
  public void onAllocWriteId(AllocWriteIdEvent event, Connection database, SQLGenerator generator)
      throws MetaException {
    EventMessage message = BUILDER.buildAllocWriteIdMessage(
        event.getTxnToWriteIdList(), event.getDbName(), event.getTableName());
    store(EventType.ALLOC_WRITE_ID, message, event.getDbName(), event.getTableName(), database);
  }

  @Override
  public void onCommitCompaction(
      CommitCompactionEvent event, Connection database, SQLGenerator generator)
      throws MetaException {
    EventMessage message = BUILDER.buildCommitCompactionMessage(event);
    store(EventType.COMMIT_COMPACTION, message, event.getDbname(), event.getTableName(), database);
  }

  @Override
  public void onAcidWrite(AcidWriteEvent event, Connection database, SQLGenerator generator)
      throws MetaException {
    try {
      storeWrite(event, database);
    } catch (SQLException failure) {
      throw new MetaException(failure.toString());
    }
  }

  @Override
  public void onBatchAcidWrite(
      BatchAcidWriteEvent event, Connection database, SQLGenerator generator)
      throws MetaException {
    for (int at = 0; at < event.getNumRequest(); at++) {
      onAcidWrite(new AcidWriteEvent(event.getPartition(at), event.getTableObj(at),
          event.getPartitionObj(at), event.getNotificationRequest(at)), database, generator);
    }
  }

  private void storeWrite(AcidWriteEvent event, Connection database)
      throws MetaException, SQLException {
    AcidWriteMessage message = BUILDER.buildAcidWriteMessage(event, encoded(event).iterator());
    String files = ReplChangeManager.joinWithSeparator(message.getFiles());
    String known = null;
    try (PreparedStatement find = database.prepareStatement(
        "SELECT WNL_FILES FROM TXN_WRITE_NOTIFICATION_LOG WHERE WNL_TXNID = ?"
            + " AND WNL_DATABASE = ? AND WNL_TABLE = ? AND WNL_PARTITION = ?")) {
      identify(find, 1, event);
      ResultSet found = find.executeQuery();
      known = found.next() ? found.getString(1) : null;
    }
    if (known == null) {
      long id = next(database, "MTxnWriteNotificationLog");
      try (PreparedStatement insert = database.prepareStatement(
          "INSERT INTO TXN_WRITE_NOTIFICATION_LOG (WNL_ID, WNL_WRITEID, WNL_TABLE_OBJ,"
              + " WNL_PARTITION_OBJ, WNL_FILES, WNL_EVENT_TIME, WNL_TXNID, WNL_DATABASE, WNL_TABLE,"
              + " WNL_PARTITION) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)")) {
        insert.setLong(1, id);
        insert.setLong(2, event.getWriteId());
        insert.setString(3, message.getTableObjStr());
        insert.setString(4, message.getPartitionObjStr());
        insert.setString(5, files);
        insert.setInt(6, now());
        identify(insert, 7, event);
        insert.executeUpdate();
      }
    } else if (!known.contains(files)) {
      try (PreparedStatement update = database.prepareStatement(
          "UPDATE TXN_WRITE_NOTIFICATION_LOG SET WNL_FILES = ? WHERE WNL_TXNID = ?"
              + " AND WNL_DATABASE = ? AND WNL_TABLE = ? AND WNL_PARTITION = ?")) {
        update.setString(1, ReplChangeManager.joinWithSeparator(List.of(files, known)));
        identify(update, 2, event);
        update.executeUpdate();
      }
    }
  }

  private List<String> encoded(AcidWriteEvent event) throws MetaException {
    List<String> files = event.getFiles();
    List<String> checksums = event.getChecksums();
    List<String> directories = event.getSubDirs();
    boolean unequal = checksums != null && checksums.size() != files.size()
        || directories != null && directories.size() != files.size();
    if (unequal) {
      throw new IllegalStateException("The lists of a write event differ in length.");
    }
    List<String> encoded = new ArrayList<>();
    try {
      for (int at = 0; at < files.size(); at++) {
        encoded.add(ReplChangeManager.getInstance(conf).encodeFileUri(files.get(at),
            checksums == null ? null : checksums.get(at),
            directories == null ? null : directories.get(at)));
      }
    } catch (java.io.IOException failure) {
      throw new MetaException(failure.toString());
    }
    return encoded;
  }

  private static void identify(PreparedStatement statement, int first, AcidWriteEvent event)
      throws SQLException {
    statement.setLong(first, event.getTxnId());
    statement.setString(first + 1, event.getDatabase());
    statement.setString(first + 2, event.getTable());
    statement.setString(first + 3, event.getPartition());
  }

  private static int now() {
    return (int) (System.currentTimeMillis() / 1000);
  }

  private NotificationEvent described(
      EventType type, EventMessage message, String database, String table) {
    NotificationEvent event =
        new NotificationEvent(0, now(), type.toString(), encoder.getSerializer().serialize(message));
    event.setMessageFormat(encoder.getMessageFormat());
    event.setCatName(Warehouse.DEFAULT_CATALOG_NAME);
    event.setDbName(database);
    event.setTableName(table);
    return event;
  }

  private void store(EventType type, EventMessage message, String database, String table)
      throws MetaException {
    HMSHandler.getMSForConf(conf).addNotificationEvent(described(type, message, database, table));
  }

  /** Stores an event of the transaction manager, whose own connection commits it. */
  private void store(EventType type, EventMessage message, String databaseName, String table,
      Connection database) throws MetaException {
    NotificationEvent event = described(type, message, databaseName, table);
    if (database == null) {
      HMSHandler.getMSForConf(conf).addNotificationEvent(event);
      return;
    }
    try (Statement lock = database.createStatement()) {
      lock.execute("LOCK TABLE NOTIFICATION_SEQUENCE IN EXCLUSIVE MODE");
      ResultSet found = lock.executeQuery("SELECT NEXT_EVENT_ID FROM NOTIFICATION_SEQUENCE");
      found.next();
      long id = found.getLong(1);
      lock.executeUpdate("UPDATE NOTIFICATION_SEQUENCE SET NEXT_EVENT_ID = " + (id + 1));
      long row = next(database, "MNotificationLog");
      try (PreparedStatement insert = database.prepareStatement(
          "INSERT INTO NOTIFICATION_LOG (NL_ID, EVENT_ID, EVENT_TIME, EVENT_TYPE, MESSAGE,"
              + " MESSAGE_FORMAT, DB_NAME, TBL_NAME, CAT_NAME) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)")) {
        insert.setLong(1, row);
        insert.setLong(2, id);
        insert.setInt(3, event.getEventTime());
        insert.setString(4, event.getEventType());
        insert.setString(5, event.getMessage());
        insert.setString(6, event.getMessageFormat());
        insert.setString(7, databaseName);
        insert.setString(8, table);
        insert.setString(9, event.getCatName());
        insert.executeUpdate();
      }
    } catch (SQLException failure) {
      throw new MetaException(failure.toString());
    }
  }

  private static long next(Connection database, String sequence) throws SQLException {
    String name = "'org.apache.hadoop.hive.metastore.model." + sequence + "'";
    try (Statement statement = database.createStatement()) {
      statement.executeUpdate(
          "UPDATE SEQUENCE_TABLE SET NEXT_VAL = NEXT_VAL + 1 WHERE SEQUENCE_NAME = " + name);
      ResultSet found = statement.executeQuery(
          "SELECT NEXT_VAL FROM SEQUENCE_TABLE WHERE SEQUENCE_NAME = " + name);
      found.next();
      return found.getLong(1) - 1;
    }
  }
}
