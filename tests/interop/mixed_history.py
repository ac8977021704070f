"""Random operations of Hive, Trino and this package on one table, each with its effect on the rows.

Known errors of Hive 4.0.1 and Trino 476 are excluded here and not in the checks:
``docs/interoperability.md`` has the reasons.
"""

import re

import pytest

from hiveacid.errors import CheckFailed
from hiveacid.rules.names import DEFAULT_PARTITION
from tests.interop.engines import EngineError
from tests.interop.mixed_table import DEFAULT, MixedTable

TEXTS = ("x", "y", "ä ö", "long " * 12, "", None)
IDS = range(1, 200)
ADDED = 3


class MixedHistory:
    """Draws operations and applies them to a table and to its model."""

    def __init__(self, table: MixedTable, draw):
        self.table, self.draw = table, draw
        self.shape = table.shape
        # After a rename or an addition, names are never used again.
        self.renamed = 0
        self.buckets = self.shape.buckets

    def step(self):
        """Do one operation."""
        choices = {
            self.append: 8,
            self.insert_defaults: 3,
            self.update: 14,
            self.delete: 12,
            self.merge: 14,
            self.overwrite: 3,
            self.compact_here: 8,
            self.compact_in_hive: 5,
            self.clean: 4,
            self.abort_in_hive: 5,
            self.add_column: 2 if len(self.table.names) < 4 + ADDED else 0,
            self.rename_column: 3,
            self.restore: 6 if len(self.table.versions) > 1 else 0,
            self.violate: 5 if self.shape.constrained else 0,
            self.stir_buckets: 9 if self.shape.buckets else 0,
            self.repair_buckets: 8 if self.table.stirred else 0,
        }
        if len(self.table.rows) < 8:
            choices = {self.append: 2, self.merge: 1}
        (operation,) = self.draw.choices([*choices], [*choices.values()])
        operation()
        self.table.remember()

    # The operations.

    def writer(self):
        """The writer: Trino only where it reads the same rows and can write."""
        table = self.table
        engines = ["we", "we", "Hive", "Hive"]
        if not self.shape.buckets and not (self.shape.key and table.older_columns()):
            engines.append("Trino")
        engine = self.draw.choice(engines)
        if engine == "Trino":
            # It would repeat deletes that it does not see.
            table.mend_for_trino()
        return engine

    def changer(self):
        """Choose an engine that changes rows of the present files correctly.

        Trino gives the rows of any file the number of the first bucket, and sorts delete events
        by write id and row id only: Hive overlooks events that are not sorted by their bucket
        property, too. Once the table has fewer buckets than there were, Hive puts delete events
        of two buckets into one file.
        """
        engine, highest = self.writer(), self.table.highest_bucket()
        if engine == "Trino" and (highest > 0 or not self.table.has_one_bucket_per_write()):
            engine = "Hive"
        return "we" if engine == "Hive" and self.buckets and highest >= self.buckets else engine

    def fresh(self, count):
        return self.draw.sample([id_ for id_ in IDS if id_ not in self.table.rows], count)

    def known(self, count):
        return self.draw.sample(sorted(self.table.rows), min(count, len(self.table.rows)))

    def value(self, slot):
        if slot == "p":
            return self.draw.choice(self.shape.days)
        if self.table.types[slot] == "int":
            return self.draw.choice([*range(100), None]) if self.draw.random() < 0.9 else None
        return self.draw.choice(TEXTS)

    def row(self, **given):
        row = {slot: self.value(slot) for slot in self.table.slots() if slot != "id"}
        return {**row, **given}

    def condition(self, engine):
        """A condition in SQL, and which rows meet it."""
        names, draw = self.table.names, self.draw
        kind = draw.choice(["ids", "ids", "less", "modulo", "text", "null", "day"])
        if kind == "ids":
            ids = [*self.known(draw.randint(1, 4)), 999]
            # Hive skips files by the number of buckets, also where they have another one.
            name = "id + 0" if engine == "Hive" and self.table.stirred else "id"
            return f"{name} in ({', '.join(map(str, ids))})", lambda id_, row: id_ in ids
        less = draw.randrange(40)
        if kind == "less":
            return (
                f"{names['n']} < {less}",
                lambda id_, row: row["n"] is not None and row["n"] < less,
            )
        if kind == "modulo":
            return (
                f"{names['n']} % 5 = {less % 5}",
                lambda id_, row: row["n"] is not None and row["n"] % 5 == less % 5,
            )
        if kind == "text":
            text = draw.choice([text for text in TEXTS if text is not None])
            return f"{names['s']} = '{text}'", lambda id_, row: row["s"] == text
        if kind == "null" or not self.shape.key:
            return f"{names['s']} is null", lambda id_, row: row["s"] is None
        day = self.value("p")
        where = "p is null" if day is None else f"p = {literal(day)}"
        if day is None and engine == "Hive":
            # To Hive, a null key of type string is a text, so that IS NULL selects no row.
            where = f"p = '{DEFAULT_PARTITION}'"
        return (
            f"{where} and {names['n']} < {less + 20}",
            lambda id_, row: row["p"] == day and row["n"] is not None and row["n"] < less + 20,
        )

    # Rows.

    def append(self):
        table, engine = self.table, self.writer()
        rows = {id_: self.row() for id_ in self.fresh(self.draw.randint(1, 12))}
        texts = [self.in_order(id_, row) for id_, row in rows.items()]
        if engine == "we" and self.draw.random() < 0.5:
            with table.open(f"append {texts}") as ours:
                ours.append(self.frame(texts))
        else:
            values = ", ".join(f"({', '.join(map(literal, values))})" for values in texts)
            self.run(engine, f"INSERT INTO T VALUES {values}")
        table.rows |= rows

    def insert_defaults(self):
        """Insert rows with only some columns."""
        table = self.table
        # Trino knows no default values; Hive wants all partition keys.
        engine = self.draw.choice(["we", "Hive"])
        columns = ["id", "n", *(["p"] if self.shape.key else [])]
        rows = {
            id_: {**dict.fromkeys(table.names), **self.row(), "s": None, "d": self.default()}
            for id_ in self.fresh(self.draw.randint(1, 3))
        }
        for row in rows.values():
            row.pop("id", None)
            row.update(dict.fromkeys([slot for slot in row if slot.startswith("e")]))
        values = ", ".join(
            f"({', '.join(literal({'id': id_, **row}[slot]) for slot in columns)})"
            for id_, row in rows.items()
        )
        names = ", ".join(table.names.get(slot, slot) for slot in columns)
        self.run(engine, f"INSERT INTO T ({names}) VALUES {values}")
        table.rows |= rows

    def update(self):
        table, engine = self.table, self.changer()
        where, meets = self.condition(engine)
        slots = self.draw.sample([*table.names][1:], self.draw.randint(1, 2))
        changes = {}
        for slot in slots:
            value = self.value(slot)
            changes[slot] = literal(value), lambda row, value=value: value
            if slot == "n" and self.draw.random() < 0.5:
                changes[slot] = (
                    f"{table.names['n']} + 1",
                    lambda row: None if row["n"] is None else row["n"] + 1,
                )
            elif slot == "s" and self.draw.random() < 0.3:
                changes[slot] = table.names["d"], lambda row: row["d"]
            elif slot == "d" and engine != "Trino" and self.shape.constrained:
                changes[slot] = "DEFAULT", lambda row: DEFAULT
        assigned = ", ".join(f"{table.names[slot]} = {sql}" for slot, (sql, _) in changes.items())
        self.run(engine, f"UPDATE T SET {assigned} WHERE {where}")
        for id_, row in table.rows.items():
            if meets(id_, row):
                row.update({slot: value(dict(row)) for slot, (_, value) in changes.items()})

    def delete(self):
        table, engine = self.table, self.changer()
        where, meets = self.condition(engine)
        if self.draw.random() < 0.05:
            # A table or a partition without rows is a case of its own.
            where, meets = "id > 0", lambda id_, row: True
            if self.shape.key:
                where, meets = "p is not null", lambda id_, row: row["p"] is not None
        self.run(engine, f"DELETE FROM T WHERE {where}")
        table.rows = {id_: row for id_, row in table.rows.items() if not meets(id_, row)}

    def merge(self):
        table, engine = self.table, self.changer()
        if engine == "Hive" and table.stirred:
            # Its join may rely on the buckets, too.
            engine = "we"
        source = [
            (id_, self.draw.randrange(100), self.draw.choice(TEXTS), table.rows[id_].get("p"))
            for id_ in self.known(self.draw.randint(0, 5))
        ]
        source += [
            (id_, self.draw.randrange(100), self.draw.choice(TEXTS), self.value("p"))
            for id_ in self.fresh(self.draw.randint(1, 5))
        ]
        least = self.draw.choice([0, 30, 60])
        gone = self.draw.randrange(10) if engine == "we" and self.draw.random() < 0.3 else None
        given = {"id": "s.k", "n": "s.a", "s": "s.b"} | ({"p": "s.q"} if self.shape.key else {})
        where = "t.id = s.k"
        if self.shape.key and self.draw.random() < 0.5 and None not in self.shape.days:
            where += " AND t.p = s.q"
        n, s = table.names["n"], table.names["s"]
        if engine == "we":
            about = f"merge {source} on {where}, delete a < {least}, others {gone}"
            with table.open(about) as ours:
                frame = self.frame(source, f"k int, a int, b string, q {self.shape.key or 'int'}")
                merge = ours.merge(frame, where).when_matched_delete(f"s.a < {least}")
                merge = merge.when_matched_update({n: "s.a", s: "s.b"})
                merge = merge.when_not_matched_insert(
                    {table.names.get(slot, slot): value for slot, value in given.items()}
                )
                if gone is not None:
                    merge = merge.when_not_matched_by_source_delete(f"t.{n} % 10 = {gone}")
                merge.execute()
        else:
            values = ", ".join(given.get(slot, "NULL") for slot in table.slots())
            self.run(
                engine,
                f"MERGE INTO T t USING {self.source(engine, source)} ON {where}"
                f" WHEN MATCHED AND s.a < {least} THEN DELETE"
                f" WHEN MATCHED THEN UPDATE SET {n} = s.a, {s} = s.b"
                f" WHEN NOT MATCHED THEN INSERT VALUES ({values})",
            )
        if gone is not None:
            matched = {row[0] for row in source}
            table.rows = {
                id_: row
                for id_, row in table.rows.items()
                if id_ in matched or row["n"] is None or row["n"] % 10 != gone
            }
        for id_, number, text, day in source:
            if id_ in table.rows and number < least:
                del table.rows[id_]
            elif id_ in table.rows:
                table.rows[id_] |= {"n": number, "s": text}
            else:
                default = self.default() if engine == "we" else None
                row = dict.fromkeys(table.slots()) | {"n": number, "s": text, "d": default}
                row.pop("id")
                table.rows[id_] = row | ({"p": day} if self.shape.key else {})

    def overwrite(self):
        """Replace the rows of a partition, or all of them, by others."""
        table, day = self.table, self.value("p")
        gone = {id_ for id_, row in table.rows.items() if row.get("p") == day}
        kept = self.draw.sample(sorted(gone), len(gone) // 2)
        given = {"p": day} if self.shape.key else {}
        rows = {id_: table.rows[id_] for id_ in kept}
        rows |= {id_: self.row(**given) for id_ in self.fresh(self.draw.randint(3, 8))}
        texts = [self.in_order(id_, row) for id_, row in rows.items()]
        with table.open(f"overwrite by {texts}") as ours:
            ours.overwrite(self.frame(texts))
        table.rows = {id_: row for id_, row in table.rows.items() if id_ not in gone} | rows
        table.superseded = True
        if not self.shape.key:
            table.stirred = False

    def restore(self):
        table = self.table
        version = self.draw.choice(sorted(table.versions))
        with table.open(f"restore {version}") as ours:
            ours.restore(version)
        table.rows = {
            id_: {slot: row.get(slot) for slot in table.slots() if slot != "id"}
            for id_, row in table.versions[version].items()
        }

    def violate(self):
        """Try to violate a constraint, without any effect."""
        table = self.table
        n, (id_, new) = table.names["n"], (*self.known(1), *self.fresh(1))
        statements = [
            f"UPDATE T SET {n} = -1 WHERE id = {id_}",
            f"UPDATE T SET id = NULL WHERE id = {id_}",
            f"INSERT INTO T (id, {n}) VALUES (NULL, 1)",
            f"INSERT INTO T (id, {n}) VALUES ({new}, -5)",
            f"MERGE INTO T t USING (SELECT {id_} AS k, -7 AS a) s ON t.id = s.k"
            f" WHEN MATCHED THEN UPDATE SET {n} = s.a",
        ]
        statement = self.draw.choice(statements)
        if self.draw.random() < 0.7:
            with pytest.raises(CheckFailed):
                self.run("we", statement)
        else:
            with pytest.raises(EngineError, match="constraint violated"):
                self.run("Hive", statement)
        table.log[-1] += " -> refused"

    def abort_in_hive(self):
        """Have Hive abort a statement whose files stay."""
        table = self.table
        where, _ = self.condition("Hive")
        values = ", ".join(map(literal, self.in_order(*self.fresh(1), self.row())))  # type: ignore[call-arg]
        statement = self.draw.choice(
            [
                f"INSERT INTO {table.name} VALUES ({values})",
                f"UPDATE {table.name} SET {table.names['s']} = 'aborted' WHERE {where}",
                f"DELETE FROM {table.name} WHERE {where}",
            ]
        )
        table.note(f"Hive, aborted: {statement}")
        table.hive.roll_back(statement)

    # Definitions.

    def add_column(self):
        table = self.table
        slot = f"e{len(table.names)}"
        table.types[slot] = self.draw.choice(["int", "string"])
        # Without CASCADE, Hive shows nothing of the column in partitions that there are.
        cascade = "CASCADE" if self.shape.key else ""
        self.run("Hive", f"ALTER TABLE T ADD COLUMNS ({slot} {table.types[slot]}) {cascade}")
        table.names[slot] = slot
        for row in table.rows.values():
            row[slot] = None

    def rename_column(self):
        table = self.table
        # A CHECK has the name of its column in its text, and a DEFAULT belongs to one.
        fixed = ["id", "n", "d"] if self.shape.constrained else ["id"]
        slot = self.draw.choice([slot for slot in table.names if slot not in fixed])
        self.renamed += 1
        name = f"{slot}_{self.renamed}"
        # Trino writes no partition with other names; an alteration with CASCADE makes them equal.
        cascade = "CASCADE" if self.shape.key and self.draw.random() < 0.7 else ""
        change = f"{table.names[slot]} {name} {table.types[slot]}"
        self.run("Hive", f"ALTER TABLE T CHANGE COLUMN {change} {cascade}")
        table.names[slot] = name

    def stir_buckets(self):
        """Have Hive alter the number of buckets and no file."""
        self.buckets = self.draw.choice([number for number in (2, 3, 4) if number != self.buckets])
        self.run("Hive", f"ALTER TABLE T CLUSTERED BY (id) INTO {self.buckets} BUCKETS")
        self.table.stirred = True

    def repair_buckets(self):
        """Overwrite the table by its own rows, which distributes them again."""
        table = self.table
        if not self.shape.key:
            texts = [table.values(id_) for id_ in table.rows]
            with table.open("overwrite by its own rows") as ours:
                ours.overwrite(self.frame(texts))
            table.superseded = True
        else:
            # Hive sets the buckets of the table for a partition in the statement.
            for partition in table.partitions():
                selected = ", ".join(["id + 0", *[*table.names.values()][1:]])
                where = partition.replace("p=", "p = ")
                self.run(
                    "Hive",
                    f"INSERT OVERWRITE TABLE T PARTITION ({where})"
                    f" SELECT {selected} FROM T WHERE {where}",
                )
            table.versions.clear()
        table.stirred = False

    # Maintenance.

    def compact_here(self):
        kind = self.draw.choice(["minor", "major"])
        self.table.compact(kind)

    def compact_in_hive(self):
        table, kind = self.table, self.draw.choice(["minor", "major"])
        # The metastore takes no request while an older one waits to be cleaned.
        self.clean()
        partition = self.draw.choice(table.partitions() or [""])
        table.note(f"Hive: {kind} compaction {partition}")
        try:
            table.hive.compact(table.name, kind, partition)
        except EngineError as error:
            # There was nothing to be done.
            if not re.search("ended as (succeeded|refused|not accepted)", str(error)):
                raise
            table.log[-1] += f" -> {str(error).rpartition(' ended as ')[2]}"
        if kind == "major":
            # It does not record the replaced directories.
            table.versions.clear()
            table.superseded = True

    def clean(self):
        table = self.table
        if self.draw.random() < 0.6:
            table.clean()
        else:
            table.note("Hive: clean")
            table.hive.clean()
            table.forget_versions()

    # The same in the words of each engine.

    def run(self, engine, statement):
        name = self.table.trino_name if engine == "Trino" else self.table.name
        text = re.sub(r"\bT\b", name, statement)
        {"we": self.table.here, "Hive": self.table.in_hive, "Trino": self.table.in_trino}[engine](
            text
        )

    def default(self):
        return DEFAULT if self.shape.constrained else None

    def in_order(self, id_, row):
        return tuple({"id": id_, **row}.get(slot) for slot in self.table.slots())

    def frame(self, rows, schema=None):
        table = self.table
        if schema is None:
            types = [table.types[slot] for slot in table.slots()]
            schema = ", ".join(
                f"{name} {type_}" for name, type_ in zip(table.columns(), types, strict=True)
            )
        return table.spark.createDataFrame(rows, schema).coalesce(1)

    def source(self, engine, rows):
        """The source of a merge, with the columns k, a, b and q."""
        key = self.shape.key or "int"
        types = ["int", "int", "string", key]
        words = {"string": "varchar", "int": "integer"} if engine == "Trino" else {}
        texts = [
            ", ".join(
                f"cast({literal(value)} as {words.get(type_, type_)})"
                for value, type_ in zip(row, types, strict=True)
            )
            for row in rows
        ]
        if engine == "Trino":
            return f"(VALUES {', '.join(f'({text})' for text in texts)}) s(k, a, b, q)"
        structs = ", ".join(f"struct({text})" for text in texts)
        return f"(SELECT inline(array({structs})) AS (k, a, b, q)) s"


def literal(value):
    return "NULL" if value is None else str(value) if isinstance(value, int) else f"'{value}'"
