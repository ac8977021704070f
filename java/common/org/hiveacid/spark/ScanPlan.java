package org.hiveacid.spark;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.Serializable;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;

/** The files and rows of a table that a snapshot sees, as Python describes them in JSON. */
final class ScanPlan implements Serializable {
  /** The version of the description; each change of its meaning increases it. */
  static final int FORMAT = 1;

  /** A file with delete events; {@code exact} means that all of them are visible. */
  record Events(String path, long size, boolean exact) implements Serializable {}

  /** The row ids of a file that has none: those of its first row. */
  record RowIds(long writeId, int bucket, long firstRow) implements Serializable {}

  /**
   * A file with rows.
   *
   * @param deletes The number of its delete files in {@code deletes}; -1 if it has none.
   * @param exact Whether all of its rows belong to visible write ids.
   * @param isRaw Whether it has no row ids of its own.
   * @param ids Its row ids; null unless it is raw and has known ones.
   */
  record File(
      Path path, long size, int partition, int deletes, boolean exact, boolean isRaw, RowIds ids)
      implements Serializable {}

  final String id = UUID.randomUUID().toString();

  /** The columns of rows, then the hidden ones of row ids: write id, bucket, row, current write id. */
  final StructType columns;

  /** The number of the columns that are in files. */
  final int width;

  /** The position of each of them in the table. */
  final int[] positions;

  final StructType keys;
  final String zone;
  final boolean byPosition;
  final boolean areDeletes;
  final Set<String> searchable;
  final List<String[]> partitions = new ArrayList<>();
  final Map<String, File> files = new HashMap<>();
  final List<List<Events>> deletes = new ArrayList<>();
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
    byPosition = plan.get("by_position").asBoolean();
    areDeletes = plan.get("are_deletes").asBoolean();
    searchable = new HashSet<>(texts(plan.get("searchable")));
    highest = plan.get("highest").asLong();
    plan.get("hidden").forEach(each -> hidden.add(each.asLong()));
    plan.get("partitions").forEach(each -> partitions.add(texts(each).toArray(new String[0])));
    for (JsonNode some : plan.get("deletes")) {
      List<Events> events = new ArrayList<>();
      some.forEach(
          each ->
              events.add(
                  new Events(each.get(0).asText(), each.get(1).asLong(), each.get(2).asBoolean())));
      deletes.add(events);
    }
    Map<String, FileSystem> systems = new HashMap<>();
    for (JsonNode each : plan.get("files")) {
      File file = file(each, conf, systems);
      if (file.isRaw && !file.exact) {
        throw new IllegalArgumentException(file.path + " has rows of unknown write ids.");
      }
      if (files.put(file.path.toString(), file) != null) {
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
    JsonNode ids = given.get(6);
    return new File(
        path.makeQualified(system.getUri(), system.getWorkingDirectory()),
        given.get(1).asLong(),
        given.get(2).asInt(),
        given.get(3).asInt(),
        given.get(4).asBoolean(),
        given.get(5).asBoolean(),
        ids.isNull()
            ? null
            : new RowIds(ids.get(0).asLong(), ids.get(1).asInt(), ids.get(2).asLong()));
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

  /** Returns whether the snapshot sees a write id. */
  boolean isVisible(long writeId) {
    return writeId <= highest && !hidden.contains(writeId);
  }
}
