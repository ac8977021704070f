// The history of a table as a picture: over its write ids, what each has written, how many deltas a
// reader of that version opens, and what the compactions have put together.

const HEIGHT = 256;
const LEFT = 52;
const RIGHT = 8;
const BYTES = { top: 42, bottom: 136 };
const DELTAS = { top: 160, bottom: 214 };
const SPANS = 222;
const POSITIONS = 150;
const WIDEST_BAR = 28;
const ROOM_FOR_TEXT = 64;

// As wide as there is room, so that its texts keep their size.
function followedPicture(entries) {
  const frame = make("div", { class: "picture-frame" });
  let drawn = 0;
  new ResizeObserver(([{ contentRect }]) => {
    const width = Math.round(contentRect.width);
    if (!width || width === drawn) return;
    drawn = width;
    frame.replaceChildren(picture(entries, width));
  }).observe(frame);
  return frame;
}

function picture(entries, width) {
  const positions = [...new Set(entries.map((entry) => entry.last_write_id))]
    .sort((a, b) => a - b)
    .slice(-POSITIONS);
  const step = (width - LEFT - RIGHT) / positions.length;
  const inView = entries.filter((entry) => entry.last_write_id >= positions[0]);
  const shown = directories(inView).filter((directory) => directory.state !== "aborted");
  const chart = {
    positions,
    step,
    left: (index) => LEFT + index * step,
    middle: (index) => LEFT + (index + 0.5) * step,
    right: LEFT + positions.length * step,
    indexOf: new Map(positions.map((position, index) => [position, index])),
    // The first position within a span that may begin before all of them, or between two.
    first: (writeId) => Math.max(0, positions.findIndex((position) => position >= writeId)),
  };
  const svg = draw("svg", {
    class: "picture",
    viewBox: `0 0 ${width} ${HEIGHT}`,
    role: "img",
    "aria-label": `Bytes and deltas over ${plural(positions.length, "write id")}, listed below`,
  });
  svg.append(
    ...bars(chart, shown),
    ...steps(chart, shown),
    ...compactions(chart, shown),
    ...ticks(chart),
    ...hints(chart, inView),
  );
  return svg;
}

// The directories of writes and compactions, each once, also those of a write that are gone, or too many
// to be listed: a cleaning must not change what the readers before it have opened.
function directories(entries) {
  const known = new Map();
  for (const entry of entries) {
    for (const directory of entry.directories) {
      const compaction = ["minor", "major"].includes(directory.kind);
      known.set(`${directory.partition} ${directory.name}`, { ...directory, compaction });
    }
    if (entry.write_id !== null) {
      for (const [index, directory] of gone(entry).entries()) known.set(`${entry.write_id} ${index}`, directory);
    }
  }
  return [...known.values()];
}

function gone(entry) {
  const left = new Set(entry.directories.map((directory) => directory.partition));
  const named = entry.partitions.filter((partition) => !left.has(partition));
  // Not all names are known of a write to many partitions.
  const unnamed = Math.max(0, entry.partition_count - left.size - named.length);
  const partitions = named.map((partition) => [partition, 1]);
  if (unnamed || !(entry.directories.length || named.length)) partitions.push([null, unnamed || 1]);
  const kinds = entry.operation === "overwrite" ? ["base"] : [
    ...(entry.rows_inserted || entry.rows_updated ? ["insert"] : []),
    ...(entry.rows_deleted || entry.rows_updated ? ["delete"] : [])];
  if (!kinds.length) kinds.push(entry.operation === "delete" ? "delete" : "insert");
  const listed = entry.directories.reduce((sum, directory) => sum + directory.bytes, 0);
  return partitions.flatMap(([partition, count], nth) => kinds.map((kind, index) => ({
    first_write_id: entry.write_id, last_write_id: entry.write_id, partition, count, kind,
    compaction: false, state: entry.state,
    bytes: nth || index ? 0 : Math.max(0, (entry.bytes || 0) - listed),
  })));
}

// Sizes differ by orders of magnitude, so the scale is logarithmic and labelled as such.
function bars(chart, entries) {
  const sums = new Map();
  for (const entry of entries) {
    const kind = entry.compaction ? "base" : entry.kind === "delete" ? "delete" : "insert";
    const gone = ["cleaned", "obsolete", "merged", "overwritten"].includes(entry.state);
    const key = `${entry.last_write_id} ${kind}`;
    const sum = sums.get(key) || { writeId: entry.last_write_id, kind, gone, bytes: 0 };
    sum.bytes += entry.bytes;
    sum.gone = sum.gone && gone;
    sums.set(key, sum);
  }
  const all = [...sums.values()].filter((sum) => sum.bytes > 0);
  const largest = Math.max(1024, ...all.map((sum) => sum.bytes));
  const smallest = Math.max(1, Math.min(largest / 64, ...all.map((sum) => sum.bytes)) / 2);
  const scale = (bytes) =>
    BYTES.bottom - ((BYTES.bottom - BYTES.top) * Math.log(bytes / smallest)) / Math.log(largest / smallest);
  const shapes = [draw("text", { class: "axis", x: 0, y: 10 }, "Bytes, logarithmic")];
  for (const power of [0, 10, 20, 30, 40, 50]) {
    for (const factor of [1, 32]) {
      const bytes = factor * 2 ** power;
      const y = scale(bytes);
      if (y < BYTES.top - 1 || y > BYTES.bottom - 8) continue;
      shapes.push(
        draw("line", { class: "grid", x1: LEFT, x2: chart.right, y1: y, y2: y }),
        draw("text", { class: "tick end", x: LEFT - 6, y: y + 3.5 }, size(bytes).replace(".0", "")),
      );
    }
  }
  shapes.push(draw("line", { class: "ground", x1: LEFT, x2: chart.right, y1: BYTES.bottom, y2: BYTES.bottom }));
  const gap = Math.min(3, chart.step / 6);
  const thick = Math.min(WIDEST_BAR, chart.step - gap);
  for (const sum of all) {
    const index = chart.indexOf.get(sum.writeId);
    const y = scale(sum.bytes);
    if (sum.kind === "base") {
      const x = chart.middle(index);
      const radius = Math.max(2.5, Math.min(4.5, chart.step / 2));
      shapes.push(draw("path", { class: "compacted", d: `M${x} ${y - radius}l${radius} ${radius}l${-radius} ${radius}l${-radius} ${-radius}z` }));
      continue;
    }
    const both = sums.has(`${sum.writeId} ${sum.kind === "delete" ? "insert" : "delete"}`);
    const width = both ? thick / 2 : thick;
    const x = chart.middle(index) - thick / 2 + (both && sum.kind === "delete" ? width : 0);
    if (chart.step >= ROOM_FOR_TEXT && !(both && sum.kind === "delete")) {
      shapes.push(draw("text", { class: "tick middle", x: x + width / 2, y: y - 4 }, size(sum.bytes)));
    }
    shapes.push(draw("rect", {
      class: `${sum.kind}${sum.gone ? " gone" : ""}`, x, width: Math.max(1, width), y, height: Math.max(1, BYTES.bottom - y),
    }));
  }
  return shapes;
}

// How many directories of deltas a reader of each version opens, in all partitions. A compaction
// counts from the next version on, the last one for whoever reads now.
function deltas(chart, entries) {
  const groups = new Map();
  for (const entry of entries) {
    const group = groups.get(entry.partition) || [];
    group.push(entry);
    groups.set(entry.partition, group);
  }
  const bases = entries.filter((entry) => entry.kind === "major" || entry.kind === "base");
  const sees = (entry, version) =>
    entry.last_write_id < version || (entry.last_write_id === version && !entry.compaction);
  return [...chart.positions, Infinity].map((version) => {
    let count = 0;
    for (const [partition, group] of groups) {
      // The partitions of a cleaned run are unknown.
      const own = bases.filter((entry) => partition === null || entry.partition === partition);
      const floor = Math.max(0, ...own.filter((entry) => sees(entry, version)).map((entry) => entry.last_write_id));
      const read = group.filter(
        (entry) => entry.first_write_id > floor && sees(entry, version) && entry.state !== "open");
      const minors = (partition === null ? entries.filter((entry) => sees(entry, version)) : read)
        .filter((entry) => entry.kind === "minor");
      count += read.filter((entry) => !minors.some((minor) => holds(minor, entry)))
        .reduce((sum, entry) => sum + (entry.count ?? 1), 0);
    }
    return count;
  });
}

function holds(minor, entry) {
  const wider = minor.last_write_id - minor.first_write_id > entry.last_write_id - entry.first_write_id;
  return minor.first_write_id <= entry.first_write_id && entry.last_write_id <= minor.last_write_id &&
    (entry.kind !== "minor" || wider);
}

function steps(chart, entries) {
  const counts = deltas(chart, entries);
  const most = Math.max(1, ...counts);
  const scale = (count) => DELTAS.bottom - ((DELTAS.bottom - DELTAS.top) * count) / most;
  const last = counts.pop();
  const line = `${counts.map((count, index) => `${index ? "V" : `M${LEFT} `}${scale(count)}H${chart.left(index + 1)}`).join("")}V${scale(last)}`;
  return [
    draw("text", { class: "axis", x: 0, y: DELTAS.top - 9 }, "Deltas a reader opens"),
    draw("line", { class: "grid", x1: LEFT, x2: chart.right, y1: DELTAS.top, y2: DELTAS.top }),
    draw("text", { class: "tick end", x: LEFT - 6, y: DELTAS.top + 3.5 }, number.format(most)),
    draw("text", { class: "tick end", x: LEFT - 6, y: DELTAS.bottom + 3.5 }, "0"),
    draw("path", { class: "area", d: `${line}V${DELTAS.bottom}H${LEFT}z` }),
    draw("path", { class: "steps", d: line }),
    draw("line", { class: "ground", x1: LEFT, x2: chart.right, y1: DELTAS.bottom, y2: DELTAS.bottom }),
  ];
}

// Partitions compacted up to the same write id are one mark.
function compactions(chart, entries) {
  const marks = new Map();
  for (const entry of entries.filter((written) => written.compaction)) {
    const key = `${entry.kind} ${entry.last_write_id}`;
    const mark = marks.get(key) || { kind: entry.kind, first: entry.first_write_id, last: entry.last_write_id };
    mark.first = Math.min(mark.first, entry.first_write_id);
    marks.set(key, mark);
  }
  const shapes = [];
  const labels = [];
  let labelled = Infinity;
  for (const mark of [...marks.values()].sort((a, b) => b.last - a.last)) {
    const index = chart.indexOf.get(mark.last);
    const x = chart.left(index + 1);
    const begin = chart.left(chart.first(mark.first));
    shapes.push(
      draw("line", { class: `mark ${mark.kind}`, x1: x, x2: x, y1: BYTES.top - 25, y2: SPANS + 8 }),
      draw("rect", { class: `span ${mark.kind}`, x: begin, width: Math.max(2, x - begin), y: SPANS + (mark.kind === "major" ? 5 : 0), height: 3.5, rx: 1.5 }),
    );
    // Names must not overlap.
    if (labelled - x > 40) {
      labels.push(draw("text", { class: `label ${mark.kind} end`, x: x - 4, y: BYTES.top - 18 }, mark.kind));
      labelled = x;
    }
  }
  return [...shapes, ...labels];
}

function ticks(chart) {
  const count = chart.positions.length;
  const every = Math.max(1, Math.ceil(44 / chart.step));
  const shapes = [];
  for (let index = count - 1; index >= 0; index -= every) {
    shapes.push(draw("text", { class: "tick middle", x: chart.middle(index), y: HEIGHT - 9 }, number.format(chart.positions[index])));
  }
  shapes.push(draw("text", { class: "tick", x: 0, y: HEIGHT - 9 }, "write id"));
  return shapes;
}

function hints(chart, entries) {
  return chart.positions.map((version, index) => {
    const lines = entries
      .filter((entry) => entry.last_write_id === version)
      .slice(0, 8)
      .map((entry) => [
        entry.operation || entry.kinds.join(", "),
        entry.partition_count > 1 ? plural(entry.partition_count, "partition") : entry.partitions.join(""),
        entry.bytes === null ? "" : size(entry.bytes),
        ...[["rows_inserted", "inserted"], ["rows_updated", "updated"], ["rows_deleted", "deleted"]]
          .map(([field, what]) => (entry[field] ? `${number.format(entry[field])} ${what}` : "")),
        timestamp(entry.time),
        entry.run_token ? taskName(entry.run_token) : entry.user || "",
        entry.state === "current" ? "" : entry.state,
        entry.proof || "",
      ].filter(Boolean).join(", "));
    return draw("rect", { class: "hint", x: chart.left(index), width: chart.step, y: BYTES.top, height: SPANS - BYTES.top + 10 },
      draw("title", {}, [`Write id ${version}`, ...lines].join("\n")));
  });
}
