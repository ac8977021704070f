import java.util.ArrayList;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.common.ValidWriteIdList;
import org.apache.hadoop.hive.ql.io.AcidUtils;
import org.apache.hadoop.hive.ql.io.IOConstants;
import org.apache.hadoop.hive.ql.io.orc.OrcInputFormat;
import org.apache.hadoop.hive.ql.io.orc.OrcSplit;
import org.apache.hadoop.hive.ql.io.orc.OrcStruct;
import org.apache.hadoop.hive.serde2.ColumnProjectionUtils;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;

/**
 * Prints the rows of a full ACID table as Hive 3.1 reads them.
 *
 * <p>Arguments: the folder, the names of the columns, their types, the list of valid write ids, and
 * settings, each as "name=value".
 */
public class Hive3Reader {
  public static void main(String[] arguments) throws Exception {
    JobConf conf = new JobConf();
    conf.set("fs.defaultFS", "file:///");
    conf.set("mapreduce.input.fileinputformat.inputdir", arguments[0]);
    conf.set(IOConstants.SCHEMA_EVOLUTION_COLUMNS, arguments[1]);
    conf.set(IOConstants.SCHEMA_EVOLUTION_COLUMNS_TYPES, arguments[2]);
    conf.set(ValidWriteIdList.VALID_WRITEIDS_KEY, arguments[3]);
    for (int number = 4; number < arguments.length; number++) {
      String[] setting = arguments[number].split("=", 2);
      conf.set(setting[0], setting[1]);
    }
    AcidUtils.setAcidOperationalProperties(conf, true, null);
    ColumnProjectionUtils.setReadAllColumns(conf);
    Path folder = new Path(arguments[0]);
    for (FileStatus delta : FileSystem.get(conf).listStatus(folder)) {
      for (FileStatus file : FileSystem.get(conf).listStatus(delta.getPath())) {
        if (!file.getPath().getName().startsWith("bucket_")) {
          continue;
        }
        OrcSplit split = new OrcSplit(file.getPath(), null, 0, file.getLen(), new String[0], null,
            false, true, new ArrayList<>(), -1, -1, folder);
        RecordReader<NullWritable, OrcStruct> reader =
            new OrcInputFormat().getRecordReader(split, conf, Reporter.NULL);
        OrcStruct row = reader.createValue();
        while (reader.next(reader.createKey(), row)) {
          System.out.println(row);
        }
        reader.close();
      }
    }
    System.exit(0);
  }
}
