// All about one table, beside the list.

const SHOWN_VERSIONS = 12;
const SHOWN_NEEDS = 8;

function details(health, close) {
  const dot = health.table.indexOf(".");
  return [
    make("div", { class: "heading" },
      make("h2", { id: "details-title" },
        make("span", { class: "database" }, health.table.slice(0, dot + 1)), health.table.slice(dot + 1)),
      make("button", { type: "button", class: "close", "aria-label": "Close", onclick: close }, "✕")),
    make("p", { class: "verdict" }, health.verdict),
    make("section", { class: "points" },
      make("p", {}, score(health.score), " of 100"),
      health.penalties.length
        ? make("ul", {}, health.penalties.map((penalty) =>
          make("li", {}, make("b", {}, `−${penalty.points}`), " ", penalty.reason)))
        : make("p", { class: "quiet" }, "It loses points for nothing.")),
    make("section", { id: "history" },
      make("h3", {}, "History"), make("div", { class: "picture waiting" }, "Reading the history…")),
    make("section", {}, make("h3", {}, "Figures"), facts(health)),
    owner(health.oldest_txn),
    queue(health.queue),
    needs(health.needs),
    make("section", { id: "versions" }),
  ];
}

function facts(health) {
  const rows = [
    ["Partitions", number.format(health.partitions)],
    ["Deltas", `${number.format(health.deltas)}${health.partitions > 1 ? `, at most ${number.format(health.max_deltas)} in one` : ""}`],
    ["Bases", size(health.base_bytes)],
    ["Deltas, bytes", size(health.delta_bytes)],
    ["Deletes, bytes", `${size(health.delete_bytes)} (${percent(health.delete_ratio)} of all)`],
    ["Oldest base", health.base_written_at === null ? "none" : `${age(health.base_written_at)} old`],
    ["Obsolete", `${size(health.obsolete_bytes)} in ${plural(health.obsolete_directories, "directory", "directories")}`],
    ["Aborted", plural(health.aborted_directories, "directory", "directories")],
    ["Kind", health.kind === "full_acid" ? "full ACID" : health.kind.replace("_", "-")],
    ["Measured", clock.format(health.measured_at * 1000)],
  ];
  return make("dl", { class: "facts" }, rows.map(([name, value]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value))));
}

function owner(txn) {
  if (txn === null) return null;
  const what = txn.txn_id === null ? "A lock" : `Transaction ${txn.txn_id}`;
  const opened = txn.opened_at === null ? "" : `, for ${age(txn.opened_at)}`;
  const task = txn.run_token ? run(txn.run_token) : null;
  return make("section", {},
    make("h3", {}, "At work the longest"),
    make("p", {}, `${what} of ${txn.user} on ${txn.host}${opened}.`),
    task && make("p", {}, `It is the Airflow task ${task.task}${task.run ? ` of run ${task.run}` : ""}.`));
}

function queue(entries) {
  if (!entries.length) return null;
  return make("section", {},
    make("h3", {}, "Compaction queue"),
    grid(["Request", "Partition", "Type", "State", "For", "Worker"], entries.map((entry) => [
      String(entry.id), entry.partition || "—", entry.type,
      entry.error ? `${entry.state}: ${entry.error}` : entry.state,
      age(entry.since), entry.worker || "—",
    ])));
}

function needs(wanted) {
  if (!wanted.length) return null;
  const more = wanted.length - SHOWN_NEEDS;
  return make("section", {},
    make("h3", {}, "Worth compacting now"),
    grid(["Partition", "Type", "Why"], wanted.slice(0, SHOWN_NEEDS).map((need) =>
      [need.partition || "—", need.type, need.reason])),
    more > 0 ? make("p", { class: "quiet" }, `And ${plural(more, "more partition", "more partitions")}.`) : null);
}

function versions(entries) {
  return [
    make("h3", {}, "Latest versions"),
    grid(["Write ids", "Partition", "What", "Rows", "Size", "Written", "By", "State"],
      entries.slice(0, SHOWN_VERSIONS).map((entry) => [
        entry.min_write_id === entry.max_write_id
          ? String(entry.max_write_id) : `${entry.min_write_id}–${entry.max_write_id}`,
        entry.partition || "—",
        entry.operation && entry.operation !== entry.kind ? `${entry.operation} (${entry.kind})` : entry.kind,
        entry.rows === null ? entry.proof || "—" : number.format(entry.rows),
        size(entry.bytes),
        timestamp(entry.time) || "—",
        entry.run_token ? run(entry.run_token).task : entry.user || "—",
        entry.state,
      ])),
  ];
}

function grid(heads, rows) {
  return make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": heads.join(", ") },
    make("table", { class: "grid" },
      make("thead", {}, make("tr", {}, heads.map((head) => make("th", { scope: "col" }, head)))),
      make("tbody", {}, rows.map((row) =>
        make("tr", {}, row.map((value) => make("td", {}, value)))))));
}

function legend() {
  const keys = [
    ["insert", "new rows"], ["delete", "deletes"], ["gone", "compacted since"],
    ["minor", "minor compaction"], ["major", "major compaction"],
  ];
  return make("ul", { class: "legend", "aria-hidden": "true" },
    keys.map(([key, text]) => make("li", {}, make("i", { class: key }), text)));
}

function showHistory(history) {
  const place = byId("history");
  if (place === null) return;
  place.replaceChildren(make("h3", {}, "History"));
  if (history.error) {
    place.append(make("p", { class: "problem" }, trouble(history.error)));
  } else if (!history.entries.length) {
    place.append(make("p", { class: "picture waiting" }, "Nobody has written to it yet."));
  } else {
    place.append(picture(history.entries), legend());
    byId("versions").replaceChildren(...versions(history.entries));
  }
}

const percent = (ratio) => `${(100 * ratio).toFixed(ratio > 0 && ratio < 0.1 ? 1 : 0)} %`;
