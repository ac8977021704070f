package org.hiveacid.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Serializable;
import java.lang.ref.SoftReference;
import java.util.*;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** The files of a scan and their visible rows, as Python describes them in JSON. */
final class ScanPlan implements Serializable {
  /** The version of the description; each change of its meaning increases it. */
  static final int FORMAT = 2;

  /** The time of a file that a streaming writer may continue, or of a store without renames. */
  static final long UNKNOWN = -1;

  /** A file with delete events; {@code exact} means that all of them are visible. */
  static final class Events implements Serializable {
    final String path;
    final long size;
    final boolean exact;
    final long modified;

    Events(JsonNode given) {
      path = given.get(0).asText();
      size = given.get(1).asLong();
      exact = given.get(2).asBoolean();
      modified = given.get(3).asLong(UNKNOWN);
    }
  }

  /** A file with rows. */
  static final class File implements Serializable {
    final Path path;
    final long size;
    final int partition;

    /** The number of its delete files in the plan; -1 if it has none. */
    final int deletes;

    /** Whether all of its rows belong to visible write ids. */
    final boolean exact;

    /** Whether it has no row ids of its own. */
    final boolean isRaw;

    /** The write id, bucket and number of its first row; null unless it is raw and they are known. */
    final long[] ids;

    /** The second of its last write, if known. */
    final long modified;

    File(JsonNode given, Path path) {
      this.path = path;
      size = given.get(1).asLong();
      partition = given.get(2).asInt();
      deletes = given.get(3).asInt();
      exact = given.get(4).asBoolean();
      isRaw = given.get(5).asBoolean();
      modified = given.get(7).asLong(UNKNOWN);
      JsonNode first = given.get(6);
      ids =
          first.isNull()
              ? null
              : new long[] {first.get(0).asLong(), first.get(1).asLong(), first.get(2).asLong()};
    }
  }

  final String id = UUID.randomUUID().toString();

  /** The sources of the driver's classes. */
  final String sources = AcidScan.SOURCES;

  /** The columns of rows, then the hidden ones of row ids: write id, bucket, row, current write id. */
  final StructType columns;

  /** The number of the columns that are in files. */
  final int width;

  /** The position of each of them in the table. */
  final int[] positions;

  final StructType keys;
  final String zone;

  /** The format of the files: orc, or one that Spark reads by itself. */
  final String storedAs;

  /** The options of Spark's own formats. */
  final Map<String, String> options = new HashMap<>();

  final boolean byPosition;

  /** Files for which the position makes a difference are refused. */
  final boolean mappingUnknown;

  final boolean areDeletes;
  final Set<String> searchable;
  final List<String[]> partitions = new ArrayList<>();
  // Tasks get the files by their paths.
  final transient List<File> files = new ArrayList<>();
  final Map<String, File> byPath = new HashMap<>();
  private final List<List<Events>> deletes = new ArrayList<>();

  /** The rows that each of them deletes, for as long as memory suffices. */
  private final Map<Integer, SoftReference<DeletedRows>> deleted = new ConcurrentHashMap<>();

  private final long highest;
  private final Set<Long> hidden = new HashSet<>();

  ScanPlan(String text, Configuration conf) {
    JsonNode plan;
    try {
      plan = new ObjectMapper().readTree(text);
    } catch (IOException failure) {
      throw new IllegalArgumentException("The plan of a scan is not JSON.", failure);
    }
    if (plan.path("format").asInt() != FORMAT) {
      throw new IllegalArgumentException(
          "The plan of a scan has format " + plan.path("format") + " instead of " + FORMAT + ".");
    }
    StructType rows = (StructType) DataType.fromJson(plan.get("columns").toString());
    width = rows.size();
    positions = new int[width];
    for (int at = 0; at < width; at++) {
      positions[at] = plan.get("positions").get(at).asInt();
    }
    StructType ids = (StructType) DataType.fromJson(plan.get("ids").toString());
    columns = new StructType(concatenated(rows, ids));
    keys = (StructType) DataType.fromJson(plan.get("keys").toString());
    zone = plan.get("zone").asText();
    storedAs = plan.get("stored_as").asText();
    JsonNode given = plan.get("options");
    given.fieldNames().forEachRemaining(name -> options.put(name, given.get(name).asText()));
    byPosition = plan.get("by_position").asBoolean();
    mappingUnknown = plan.get("by_position").isNull();
    areDeletes = plan.get("are_deletes").asBoolean();
    searchable = new HashSet<>(texts(plan.get("searchable")));
    highest = plan.get("highest").asLong();
    plan.get("hidden").forEach(each -> hidden.add(each.asLong()));
    plan.get("partitions").forEach(each -> partitions.add(texts(each).toArray(new String[0])));
    for (JsonNode some : plan.get("deletes")) {
      List<Events> events = new ArrayList<>();
      some.forEach(each -> events.add(new Events(each)));
      deletes.add(events);
    }
    Map<String, FileSystem> systems = new HashMap<>();
    for (JsonNode each : plan.get("files")) {
      File file = file(each, conf, systems);
      if (file.isRaw && !file.exact) {
        throw new IllegalArgumentException(file.path + " has rows of unknown write ids.");
      }
      files.add(file);
      boolean hasIds = columns.size() > width;
      if (byPath.put(file.path.toString(), file) != null && hasIds) {
        throw new IllegalArgumentException(file.path + " belongs to two partitions.");
      }
    }
  }

  private static File file(JsonNode given, Configuration conf, Map<String, FileSystem> systems) {
    Path path = new Path(given.get(0).asText());
    String root = path.toUri().getScheme() + "://" + path.toUri().getAuthority();
    FileSystem system =
        systems.computeIfAbsent(
            root,
            absent -> {
              try {
                return path.getFileSystem(conf);
              } catch (IOException failure) {
                throw new java.io.UncheckedIOException(failure);
              }
            });
    return new File(given, path.makeQualified(system.getUri(), system.getWorkingDirectory()));
  }

  private static org.apache.spark.sql.types.StructField[] concatenated(
      StructType first, StructType second) {
    var fields = new ArrayList<>(List.of(first.fields()));
    fields.addAll(List.of(second.fields()));
    return fields.toArray(new org.apache.spark.sql.types.StructField[0]);
  }

  private static List<String> texts(JsonNode array) {
    List<String> texts = new ArrayList<>();
    array.forEach(each -> texts.add(each.isNull() ? null : each.asText()));
    return texts;
  }

  /** Returns the rows in the delete files of a number, which the tasks of an executor share. */
  DeletedRows deleted(int number, Configuration conf) {
    DeletedRows[] known = new DeletedRows[1];
    deleted.compute(
        number,
        (same, reference) -> {
          known[0] = reference == null ? null : reference.get();
          if (known[0] != null) {
            return reference;
          }
          known[0] = DeletedRows.read(this, deletes.get(number), conf);
          return new SoftReference<>(known[0]);
        });
    return known[0];
  }

  /** Returns whether the snapshot sees a write id. */
  boolean isVisible(long writeId) {
    return writeId <= highest && !hidden.contains(writeId);
  }
}
