"""ORC files of Hive ACID tables, written by moving bytes instead of decoding columns.

Everything here works on one file, or on the files of one bucket: no metastore, no Spark.

Parts of a file:

- `protobuf`, `compression`, `streams`: the encodings of its parts.
- `tail`: positions of its stripes, its types, its statistics. Reading any file begins here.
- `stripe_footer`, `statistics`, `layout`: contents of a stripe, a column, the whole file.
- `envelope`: the columns that Hive puts around the rows of a full ACID table.
- `row_types`: the ORC types of a table's columns.
- `source_and_sink`: the files that bytes come from and go to.

Reading:

- `batches`: rows, as Arrow decodes them, in batches that fit into memory.
- `limits`, `lengths`, `arrow_memory`: limits beyond which a hostile file is rejected.
- `keys`, `key_stream`, `progressions`: row ids, and detection of deleted ones.
- `nanoseconds`: timestamps that Spark would cut.

Copying, without decoding:

- `transplant`: flat files become one of a full ACID table.
- `flat_file`: the copied parts of a flat file.
- `assemble`: stripes of several files become one file.
- `stripe_copy`: the stripes themselves.
- `spark_files`: copies that Spark can read, and the types of files that Spark wrote.

Writing:

- `stripe_plan`: the choice between copying and rewriting the stripes of a bucket.
- `reencode`: stripes without the removed rows.
- `row_writer`: the stripes of a new file; `encoders`, `texts`, `decimals`: their columns, from
  Arrow's arrays; `integer_streams`, `byte_streams`: their streams.
- `evolution`, `timestamps`: conversions that Arrow does not support.
- `delete_file`, `key_columns`: delete events, and the columns of row ids.

Proving:

- `census`, `digests`: comparison of the rows before and after.
- `verify`: check that a file meets the expectations of Hive's readers.
"""
