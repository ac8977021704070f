package org.apache.spark.kafka010;

import java.util.Map;
import org.apache.spark.SparkConf;
import scala.Option;

/** Delegation tokens, of which there are none. */
public class KafkaTokenUtil$ {
  public static final KafkaTokenUtil$ MODULE$ = new KafkaTokenUtil$();

  public Option<Object> findMatchingTokenClusterConfig(SparkConf conf, String servers) {
    return Option.empty();
  }

  public boolean needTokenUpdate(Map<String, Object> settings, Option<?> cluster) {
    return false;
  }
}
