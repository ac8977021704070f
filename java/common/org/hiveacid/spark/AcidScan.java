package org.hiveacid.spark;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;

/** The scan of ACID files inside Spark. */
public final class AcidScan {
  /** Return the digest of the sources that the jar of this class was compiled from. */
  public String sources() throws IOException {
    try (InputStream stream = AcidScan.class.getResourceAsStream("/hiveacid-scan.sources")) {
      return stream == null ? "" : new String(stream.readAllBytes(), StandardCharsets.UTF_8);
    }
  }
}
