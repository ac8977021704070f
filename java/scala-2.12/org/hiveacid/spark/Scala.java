package org.hiveacid.spark;

/** What differs between the lines of Scala. */
final class Scala {
  private Scala() {}
}
