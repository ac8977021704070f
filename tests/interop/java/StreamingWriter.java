import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.Arrays;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.ql.io.AcidOutputFormat;
import org.apache.hadoop.hive.ql.io.RecordUpdater;
import org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspector;
import org.apache.hadoop.hive.serde2.objectinspector.ObjectInspectorFactory;
import org.apache.hadoop.hive.serde2.objectinspector.primitive.PrimitiveObjectInspectorFactory;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoFactory;

/**
 * Writes what Hive Streaming writes: one file of several write ids beside its file of lengths.
 *
 * <p>Arguments: the table's folder, the first and the last write id. Each line of the standard input
 * is "write-id id name amount" for a row, or "flush". It ends as if it had been killed, because the
 * file of lengths goes away with an orderly end.
 */
public class StreamingWriter {
  public static void main(String[] arguments) throws Exception {
    long first = Long.parseLong(arguments[1]);
    long last = Long.parseLong(arguments[2]);
    Configuration conf = new Configuration();
    FileSystem files = new RawLocalFileSystem();
    files.initialize(FileSystem.getDefaultUri(conf), conf);
    ObjectInspector row = ObjectInspectorFactory.getStandardStructObjectInspector(
        Arrays.asList("id", "name", "v"),
        Arrays.asList(
            PrimitiveObjectInspectorFactory.javaIntObjectInspector,
            PrimitiveObjectInspectorFactory.javaStringObjectInspector,
            PrimitiveObjectInspectorFactory.getPrimitiveJavaObjectInspector(
                TypeInfoFactory.getDecimalTypeInfo(12, 2))));
    RecordUpdater updater = new OrcOutputFormat().getRecordUpdater(
        new Path(arguments[0]),
        new AcidOutputFormat.Options(conf).filesystem(files).inspector(row).bucket(0)
            .minimumWriteId(first).maximumWriteId(last).statementId(-1).writingBase(false));
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      String[] words = line.split(" ");
      if (words[0].equals("flush")) {
        updater.flush();
      } else {
        updater.insert(Long.parseLong(words[0]),
            Arrays.asList(Integer.parseInt(words[1]), words[2], HiveDecimal.create(words[3])));
      }
    }
    Runtime.getRuntime().halt(0);
  }
}
