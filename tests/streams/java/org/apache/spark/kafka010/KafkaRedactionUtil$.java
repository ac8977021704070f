package org.apache.spark.kafka010;

import scala.Tuple2;
import scala.collection.immutable.Seq;

/** What of the settings may go to a log: here all of them. */
public class KafkaRedactionUtil$ {
  public static final KafkaRedactionUtil$ MODULE$ = new KafkaRedactionUtil$();

  public Seq<Tuple2<String, String>> redactParams(Seq<Tuple2<String, Object>> settings) {
    return (Seq<Tuple2<String, String>>) settings
        .map(entry -> new Tuple2<>(entry._1(), String.valueOf(entry._2())));
  }
}
