"""ORC files of Hive ACID tables, written by moving bytes instead of decoding columns.

Everything here works on one file, or on the files of one bucket: no metastore, no Spark.

What a file is made of:

- `protobuf`, `compression`, `streams`: the encodings of its parts.
- `tail`: where its stripes are, its types, its statistics. Reading any file begins here.
- `stripe_footer`, `statistics`, `layout`: what stands in a stripe, in a column, in all of the file.
- `envelope`: the columns that Hive puts around the rows of a full ACID table.
- `row_types`: the ORC types of a table's columns.
- `source_and_sink`: the files that bytes come from and go to.

Reading:

- `batches`: rows, as Arrow decodes them, never more of them than memory can hold.
- `limits`, `lengths`, `arrow_memory`: what a hostile file may claim before it is refused.
- `keys`, `key_stream`: row ids, and which of them are deleted.
- `nanoseconds`: timestamps that Spark would cut.

Copying, without decoding:

- `transplant`: flat files become one of a full ACID table.
- `flat_file`: what of a flat file goes along.
- `assemble`: stripes of several files become one file.
- `stripe_copy`: the stripes themselves.
- `spark_files`: copies that Spark can read, and the types of what Spark wrote.

Writing:

- `stripe_plan`: which stripes of a bucket are copied, and which are rewritten.
- `reencode`: stripes without the rows that are gone.
- `recompress`, `decimals`: what Arrow wrote uncompressed, or as integers, because it is slow at that.
- `evolution`, `timestamps`: what Arrow could not rewrite by itself.
- `delete_file`, `key_columns`: delete events, and the columns of row ids.

Proving:

- `census`, `digests`: which rows went in, and which came out.
- `verify`: whether a file is what Hive's readers take it for.
"""
