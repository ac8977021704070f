package org.hiveacid.spark;

import java.io.*;
import java.lang.ref.SoftReference;
import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.spark.api.java.JavaSparkContext;
import org.apache.spark.broadcast.Broadcast;

/** A plan for the tasks of queries, which each executor receives and reads once. */
final class SharedPlan implements Serializable {
  private static final Map<String, SoftReference<ScanPlan>> KNOWN = new ConcurrentHashMap<>();

  private final String id;

  /** Bytes, since users choose the serializer of other values. */
  private final Broadcast<byte[]> bytes;

  SharedPlan(JavaSparkContext context, ScanPlan plan) {
    ByteArrayOutputStream written = new ByteArrayOutputStream();
    try (ObjectOutputStream objects = new ObjectOutputStream(written)) {
      objects.writeObject(plan);
    } catch (IOException failure) {
      throw new UncheckedIOException(failure);
    }
    id = plan.id;
    bytes = context.broadcast(written.toByteArray());
    keep(plan);
  }

  /** Returns the plan. */
  ScanPlan get() {
    ScanPlan plan = known();
    if (plan != null) {
      return plan;
    }
    synchronized (KNOWN) {
      plan = known();
      if (plan == null) {
        plan = read();
        keep(plan);
      }
      return plan;
    }
  }

  private static void keep(ScanPlan plan) {
    KNOWN.values().removeIf(reference -> reference.get() == null);
    KNOWN.put(plan.id, new SoftReference<>(plan));
  }

  private ScanPlan known() {
    SoftReference<ScanPlan> reference = KNOWN.get(id);
    return reference == null ? null : reference.get();
  }

  private ScanPlan read() {
    try (ObjectInputStream objects =
        new ObjectInputStream(new ByteArrayInputStream(bytes.value()))) {
      return (ScanPlan) objects.readObject();
    } catch (IOException | ClassNotFoundException failure) {
      throw new IllegalStateException("An executor cannot read the plan of a scan.", failure);
    }
  }
}
