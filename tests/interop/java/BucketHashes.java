import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.Collections;
import java.util.HexFormat;
import java.util.List;
import org.apache.hadoop.hive.common.type.Date;
import org.apache.hadoop.hive.common.type.Timestamp;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspectorUtils;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoUtils;
import org.apache.hadoop.io.BytesWritable;

/**
 * Computes the bucket hashes of dates, timestamps and binary with Hive's own classes.
 *
 * <p>Each line of the input is a date, a timestamp, or "0x" and hexadecimal digits. For each type that contains the value, the
 * output has one line: the value, the type, the hash of version 1 and the hash of version 2,
 * separated by tabs.
 */
public class BucketHashes {
  private static void print(String text, String type, Object value) {
    Object[] values = {value};
    TypeInfo info = TypeInfoUtils.getTypeInfoFromTypeString(type);
    ObjectInspector[] inspectors = {
      type.contains("binary")
          ? TypeInfoUtils.getStandardWritableObjectInspectorFromTypeInfo(info)
          : TypeInfoUtils.getStandardJavaObjectInspectorFromTypeInfo(info)
    };
    int old = ObjectInspectorUtils.getBucketHashCodeOld(values, inspectors);
    int murmur = ObjectInspectorUtils.getBucketHashCode(values, inspectors);
    System.out.println(text + "\t" + type + "\t" + old + "\t" + murmur);
  }

  public static void main(String[] arguments) throws Exception {
    BufferedReader input =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    for (String text = input.readLine(); text != null; text = input.readLine()) {
      if (text.startsWith("0x")) {
        // As the vectorized ReduceSink of an INSERT does: the buffer has more bytes than the value.
        byte[] bytes = HexFormat.of().parseHex(text.substring(2));
        BytesWritable buffer = new BytesWritable();
        buffer.set(bytes, 0, bytes.length);
        print(text, "binary", buffer);
        print(text, "array<binary>", Arrays.asList(buffer, null, buffer));
        continue;
      }
      if (text.length() == 10) {
        print(text, "date", Date.valueOf(text));
        continue;
      }
      Timestamp at = Timestamp.valueOf(text);
      List<Object> fields = Arrays.asList(7, at);
      print(text, "timestamp", at);
      print(text, "array<timestamp>", Arrays.asList(at, null, at));
      print(text, "map<timestamp,int>", Collections.singletonMap(at, 7));
      print(text, "map<int,timestamp>", Collections.singletonMap(7, at));
      print(text, "struct<a:int,b:timestamp>", fields);
      print(text, "array<struct<a:int,b:timestamp>>", Arrays.asList(fields, fields));
    }
  }
}
