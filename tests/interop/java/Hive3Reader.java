import java.lang.reflect.Field;
import java.util.ArrayList;
import java.util.Base64;
import java.util.List;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.hive.common.ValidWriteIdList;
import org.apache.hadoop.hive.common.type.HiveDecimal;
import org.apache.hadoop.hive.ql.io.AcidUtils;
import org.apache.hadoop.hive.ql.io.IOConstants;
import org.apache.hadoop.hive.ql.io.orc.OrcInputFormat;
import org.apache.hadoop.hive.ql.io.orc.OrcSplit;
import org.apache.hadoop.hive.ql.io.orc.OrcStruct;
import org.apache.hadoop.hive.ql.io.sarg.ConvertAstToSearchArg;
import org.apache.hadoop.hive.ql.plan.ExprNodeColumnDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeConstantDesc;
import org.apache.hadoop.hive.ql.plan.ExprNodeGenericFuncDesc;
import org.apache.hadoop.hive.ql.udf.generic.GenericUDFOPEqual;
import org.apache.hadoop.hive.serde2.ColumnProjectionUtils;
import org.apache.hadoop.hive.serde2.typeinfo.PrimitiveTypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfo;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoFactory;
import org.apache.hadoop.hive.serde2.typeinfo.TypeInfoUtils;
import org.apache.hadoop.io.NullWritable;
import org.apache.hadoop.mapred.JobConf;
import org.apache.hadoop.mapred.RecordReader;
import org.apache.hadoop.mapred.Reporter;
import org.apache.hive.com.esotericsoftware.kryo.Kryo;
import org.apache.hive.com.esotericsoftware.kryo.io.Output;

/**
 * Prints the rows of a full ACID table as Hive 3.1 reads them.
 *
 * <p>Arguments: the folder, the names of the columns, their types, the list of valid write ids, and
 * settings, each as "name=value". The setting "search=column=value" is a condition, by which Hive
 * skips row groups but does not filter rows.
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
      if (setting[0].equals("search")) {
        String[] condition = setting[1].split("=", 2);
        search(conf, condition[0], condition[1]);
      } else {
        conf.set(setting[0], setting[1]);
      }
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

  @SuppressWarnings("unchecked")
  private static void search(JobConf conf, String column, String text) throws Exception {
    List<String> names = List.of(conf.get(IOConstants.SCHEMA_EVOLUTION_COLUMNS).split(","));
    TypeInfo type = TypeInfoUtils.getTypeInfosFromTypeString(
        conf.get(IOConstants.SCHEMA_EVOLUTION_COLUMNS_TYPES)).get(names.indexOf(column));
    Object value = switch (((PrimitiveTypeInfo) type).getPrimitiveCategory()) {
      case LONG -> Long.valueOf(text);
      case DOUBLE -> Double.valueOf(text);
      case DECIMAL -> HiveDecimal.create(text);
      default -> text;
    };
    ExprNodeGenericFuncDesc condition = new ExprNodeGenericFuncDesc(
        TypeInfoFactory.booleanTypeInfo, new GenericUDFOPEqual(), List.of(
            new ExprNodeColumnDesc(type, column, "t", false),
            new ExprNodeConstantDesc(type, value)));
    // Hive serializes conditions by a class that does not load on Java 17.
    Field serializer = ConvertAstToSearchArg.class.getDeclaredField("kryo");
    serializer.setAccessible(true);
    Output output = new Output(1 << 16);
    ((ThreadLocal<Kryo>) serializer.get(null)).get()
        .writeObject(output, ConvertAstToSearchArg.create(conf, condition));
    conf.set(ConvertAstToSearchArg.SARG_PUSHDOWN,
        Base64.getEncoder().encodeToString(output.toBytes()));
    conf.set(ColumnProjectionUtils.READ_COLUMN_NAMES_CONF_STR, String.join(",", names));
  }
}
