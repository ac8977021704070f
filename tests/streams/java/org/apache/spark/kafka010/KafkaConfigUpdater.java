package org.apache.spark.kafka010;

import java.util.HashMap;
import java.util.Map;
import scala.Option;
import scala.jdk.javaapi.CollectionConverters;

/** Settings of a client, for a broker that asks nobody who he is. */
public class KafkaConfigUpdater {
  private final Map<String, Object> settings;

  public KafkaConfigUpdater(String client, scala.collection.immutable.Map<String, Object> given) {
    settings = new HashMap<>(CollectionConverters.asJava(given));
  }

  public KafkaConfigUpdater set(String key, Object value) {
    settings.put(key, value);
    return this;
  }

  public KafkaConfigUpdater setIfUnset(String key, Object value) {
    settings.putIfAbsent(key, value);
    return this;
  }

  public KafkaConfigUpdater setAuthenticationConfigIfNeeded() {
    return this;
  }

  public KafkaConfigUpdater setAuthenticationConfigIfNeeded(Option<?> cluster) {
    return this;
  }

  public Map<String, Object> build() {
    return settings;
  }
}
