package org.hiveacid.spark;

import java.io.IOException;
import java.util.*;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.ql.exec.vector.LongColumnVector;
import org.apache.hadoop.hive.ql.exec.vector.VectorizedRowBatch;
import org.apache.orc.*;
import org.roaringbitmap.RoaringBitmap;

/**
 * The row ids in the visible events of some delete files.
 *
 * <p>The row numbers of one write id and bucket are bits of a compressed map, which takes at most two
 * bytes for each of them. Tasks of an executor share the maps for as long as memory suffices.
 */
final class DeletedRows {
  /** The lower halves of row numbers by write id, bucket, and upper half. */
  private final Map<List<Object>, RoaringBitmap> rows = new HashMap<>();

  private DeletedRows() {}

  /** Reads the deleted rows in some delete files. */
  static DeletedRows read(ScanPlan plan, List<ScanPlan.Events> files, Configuration conf) {
    DeletedRows deleted = new DeletedRows();
    try {
      for (ScanPlan.Events file : files) {
        deleted.add(plan, file, conf);
      }
    } catch (IOException failure) {
      throw new java.io.UncheckedIOException(failure);
    }
    deleted.rows.values().forEach(RoaringBitmap::runOptimize);
    return deleted;
  }

  private void add(ScanPlan plan, ScanPlan.Events file, Configuration conf) throws IOException {
    try (Reader reader = Envelope.open(new Path(file.path), file.size, file.modified, conf)) {
      if (!Envelope.is(reader.getSchema())) {
        throw Envelope.corrupt(file.path + " is not a file of delete events.");
      }
      TypeDescription read = Envelope.around(TypeDescription.createStruct());
      VectorizedRowBatch batch = read.createRowBatch();
      Reader.Options options = reader.options().isSchemaEvolutionCaseAware(false).schema(read);
      boolean[] include = new boolean[read.getMaximumId() + 1];
      Arrays.fill(include, 0, Envelope.ROW + 1, true);
      try (RecordReader records = reader.rows(options.include(include))) {
        while (records.nextBatch(batch)) {
          add(plan, file, batch);
        }
      }
    }
  }

  private void add(ScanPlan plan, ScanPlan.Events file, VectorizedRowBatch batch) {
    Envelope.requireOperations(batch, Envelope.DELETES, new Path(file.path));
    List<Object> place = null;
    RoaringBitmap bits = null;
    for (int at = 0; at < batch.size; at++) {
      if (!file.exact && !plan.isVisible(value(batch, Envelope.CURRENT, at))) {
        continue;
      }
      long writeId = value(batch, Envelope.WRITE_ID, at);
      int bucket = (int) value(batch, Envelope.BUCKET, at);
      long row = value(batch, Envelope.ROW_ID, at);
      int upper = (int) (row >>> Integer.SIZE);
      List<Object> own = List.of(writeId, bucket, upper);
      if (!own.equals(place)) {
        place = own;
        bits = rows.computeIfAbsent(place, absent -> new RoaringBitmap());
      }
      bits.add((int) row);
    }
  }

  private static long value(VectorizedRowBatch batch, int column, int at) {
    LongColumnVector values = (LongColumnVector) batch.cols[column];
    int place = values.isRepeating ? 0 : at;
    if (!values.noNulls && values.isNull[place]) {
      throw Envelope.corrupt("A delete event has no " + Envelope.NAMES[column] + ".");
    }
    return values.vector[place];
  }

  /** Looks up rows, fastest in the order of their ids. */
  final class Lookup {
    private long writeId = -1;
    private int bucket;
    private int upper;
    private RoaringBitmap bits;
    private long from;
    private long next;

    /** Returns whether a row is deleted. */
    boolean contains(long writeId, int bucket, long row) {
      int upper = (int) (row >>> Integer.SIZE);
      if (this.writeId != writeId || this.bucket != bucket || this.upper != upper) {
        this.writeId = writeId;
        this.bucket = bucket;
        this.upper = upper;
        bits = rows.get(List.<Object>of(writeId, bucket, upper));
        from = 0;
        next = -1;
      }
      if (bits == null) {
        return false;
      }
      long lower = row & 0xFFFFFFFFL;
      if (lower < from || lower > next) {
        from = lower;
        next = bits.nextValue((int) lower);
        if (next < 0) {
          next = Long.MAX_VALUE;
        }
      }
      return lower == next;
    }
  }
}
