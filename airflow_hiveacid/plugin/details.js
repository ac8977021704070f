// The details of one table, beside the list.

const SHOWN_VERSIONS = 12;
const SHOWN_NEEDS = 8;

const heading = (close, ...title) => make("div", { class: "heading" },
  make("h2", { id: "details-title" }, ...title),
  make("button", { type: "button", class: "close", "aria-label": "Close", onclick: close }, "✕"));

function details(health, close) {
  const dot = health.table.indexOf(".");
  return [
    heading(close, make("span", { class: "database" }, health.table.slice(0, dot + 1)), health.table.slice(dot + 1)),
    make("p", { class: "verdict" }, health.verdict),
    make("section", { id: "maintenance", hidden: true }),
    make("section", { class: "points" },
      make("p", {}, score(health.score), " of 100"),
      health.penalties.length
        ? make("ul", {}, health.penalties.map((penalty) =>
          make("li", {}, make("b", {}, `−${penalty.points}`), " ", penalty.reason)))
        : make("p", { class: "quiet" }, "No points are lost.")),
    make("section", { id: "history" },
      make("h3", {}, "History"), make("div", { class: "picture waiting" }, "Reading the history…")),
    make("section", { id: "staged" }),
    make("section", { id: "streams" }),
    make("section", { id: "mirrors" }),
    make("section", {}, make("h3", {}, "Figures"), facts(health), make("p", { id: "oldest" })),
    owner(health.oldest_txn, health.instance),
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
    ...(health.retained_directories ? [["Retained", `${size(health.retained_bytes)} in ${plural(health.retained_directories, "directory", "directories")}, for earlier versions`]] : []),
    ["Aborted", plural(health.aborted_directories, "directory", "directories")],
    ["Kind", health.kind === "full_acid" ? "full ACID" : health.kind.replace("_", "-")],
    ["Measured", clock.format(health.measured_at * 1000)],
  ];
  return factList(rows);
}

// A section whose entries are looked up; returns them.
async function lookAt(place, part, title, ask, parts) {
  const answer = await ask(part).catch((error) => ({ [part]: [], error }));
  const problem = answer.error ? [make("p", { class: "problem" }, trouble(answer.error))] : [];
  const found = [...problem, ...answer[part].flatMap((entry) => parts(entry, answer.instance))];
  if (place.isConnected) place.replaceChildren(...(found.length ? [make("h3", {}, title), ...found] : []));
  return answer[part];
}

async function lookAtOldest(place, look) {
  const { oldest, error } = await look().catch((failure) => ({ error: failure }));
  if (!place.isConnected) return;
  place.replaceChildren(error ? make("span", { class: "problem" }, trouble(error)) : readable(oldest.version, oldest.at));
}

// Of an unknown oldest version, nothing is said.
function readable(version, at) {
  if (typeof version !== "number") return "";
  if (version === 0) return "All versions can be read.";
  return `Versions can be read since ${number.format(version)}${at === null ? "" : `, of ${timestamp(at)}`}.`;
}

function owner(txn, instance) {
  if (txn === null) return null;
  const what = txn.txn_id === null ? "A lock" : `Transaction ${txn.txn_id}`;
  const opened = txn.opened_at === null ? "" : `, for ${age(txn.opened_at)}`;
  return make("section", {},
    make("h3", {}, "Oldest transaction or lock"),
    make("p", {}, `${what} of ${txn.user} on ${txn.host}${opened}.`),
    txn.run_token ? make("p", { class: "by" }, runOf(txn.run_token) ? "It is the Airflow task " : "Its run is ", ...[runLinks(txn.run_token, instance)].flat()) : null);
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
    make("h3", {}, "Needs a compaction"),
    grid(["Partition", "Type", "Why"], wanted.slice(0, SHOWN_NEEDS).map((need) =>
      [need.partition || "—", make("span", { class: "word" }, need.type), need.reason])),
    more > 0 ? make("p", { class: "quiet" }, `And ${plural(more, "more partition", "more partitions")}.`) : null);
}

const VERSION_HEADS = ["Version", "Written", "What", "Rows", "Partitions", "Size", "Took", "State"];
const COUNTS = [5, 6];

function versions({ history, instance }, ask) {
  const body = make("tbody");
  const show = (from) => {
    const next = history.slice(from, from + SHOWN_VERSIONS);
    body.append(...next.flatMap((entry) => versionRows(entry, instance, ask)));
    more.hidden = from + SHOWN_VERSIONS >= history.length;
    more.onclick = () => show(from + SHOWN_VERSIONS);
  };
  const more = make("button", { type: "button" }, "Show more");
  show(0);
  return [
    make("h3", {}, "Latest versions"),
    make("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Versions and compactions" },
      make("table", { class: "grid" },
        make("thead", {}, make("tr", {}, VERSION_HEADS.map((head, column) =>
          make("th", { scope: "col", class: COUNTS.includes(column) ? "number" : null }, head)))),
        body)),
    more,
  ];
}

// The writer has a separate line, with space for the name of a run.
function versionRows(entry, instance, ask) {
  const name = entry.write_id === null ? "compaction" : number.format(entry.write_id);
  const cells = [
    entry.directory_count ? opener(name, (row) => toggle(row, entry, ask)) : name,
    timestamp(entry.time) || "—",
    entry.operation || entry.kinds.join(", ") || "—",
    rowsOf(entry),
    partitionsOf(entry),
    entry.bytes === null ? "" : size(entry.bytes),
    entry.seconds === null ? "" : entry.seconds < 100 ? `${entry.seconds.toFixed(1)} s` : duration(entry.seconds),
    entry.state,
  ];
  const kind = entry.write_id === null ? "compaction" : null;
  const row = make("tr", { class: kind }, cells.map((cell, column) =>
    make("td", { class: COUNTS.includes(column) ? "number" : null, "data-head": VERSION_HEADS[column] }, cell)));
  const by = entry.run_token ? [runLinks(entry.run_token, instance, entry.run_id)].flat() : entry.user ? [entry.user] : null;
  const below = (...parts) => make("tr", { class: "by" }, make("td", { colspan: VERSION_HEADS.length }, ...parts));
  return [
    row,
    by === null ? null : below("by ", ...by, entry.run_token && entry.write_id !== null ? [" ", applyAgain(entry)] : []),
    entry.checks.length ? below(checksOf(entry)) : null,
  ].filter(Boolean);
}

function checksOf(entry) {
  const violated = entry.checks.filter((check) => !check.endsWith(": passed"));
  const passed = entry.checks.length - violated.length;
  return [`${number.format(passed)} of ${plural(entry.checks.length, "check")} passed`, ...violated].join("; ");
}

function rowsOf(entry) {
  const told = [["rows_inserted", "inserted"], ["rows_updated", "updated"], ["rows_deleted", "deleted"]]
    .filter(([field]) => entry[field]);
  if (told.length) return told.map(([field, what]) => `${number.format(entry[field])} ${what}`).join(", ");
  return entry.rows_inserted === null ? "" : "none";
}

function opener(name, open) {
  return make("button", {
    type: "button", class: "opener", "aria-expanded": "false",
    onclick: (event) => open(event.currentTarget.closest("tr")),
  }, name);
}

function partitionsOf(entry) {
  if (!entry.partition_count) return "";
  const names = entry.partitions.join(", ");
  if (entry.partition_count === 1 && names) return names;
  return make("span", { title: names }, number.format(entry.partition_count));
}

async function toggle(row, entry, ask) {
  const button = row.querySelector(".opener");
  const isOpen = button.getAttribute("aria-expanded") === "true";
  button.setAttribute("aria-expanded", String(!isOpen));
  const by = row.nextElementSibling;
  const above = by !== null && by.classList.contains("by") ? by : row;
  if (isOpen) {
    above.nextElementSibling.remove();
    return;
  }
  const place = make("td", { colspan: VERSION_HEADS.length }, make("p", { class: "quiet" }, "Reading…"));
  above.after(make("tr", { class: "below" }, place));
  // The entry of a compaction is complete.
  const answer = entry.write_id === null
    ? { directories: entry.directories, error: null }
    : await ask(entry.write_id).catch((error) => ({ directories: [], error }));
  place.replaceChildren(
    entry.write_id === null ? make("p", {}, merged(entry)) : "",
    answer.error ? make("p", { class: "problem" }, trouble(answer.error)) : directoryGrid(answer.directories));
}

function merged(entry) {
  const ranges = entry.merged.map(([first, last]) => (first === last ? number.format(first) : `${number.format(first)}–${number.format(last)}`));
  const versions = ranges.length ? `It holds the rows of ${ranges.join(", ")}.` : "";
  return [versions, entry.proof ? `Proof: ${entry.proof}.` : ""].filter(Boolean).join(" ");
}

function directoryGrid(directories) {
  return grid(["Partition", "Directory", "Rows", "Size", "State", "Engine"], directories.map((directory) => [
    directory.partition || "—", directory.name,
    directory.rows === null ? "—" : number.format(directory.rows),
    size(directory.bytes), directory.state, directory.engine || "",
  ]));
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
    ["minor", "minor compaction"], ["major", "major compaction"], ["compacted", "its size"],
  ];
  return make("ul", { class: "legend", "aria-hidden": "true" },
    keys.map(([key, text]) => make("li", {}, make("i", { class: key }), text)));
}

function showHistory(answer, ask) {
  const place = byId("history");
  if (place === null) return;
  place.replaceChildren(make("h3", {}, "History"));
  if (answer.error) {
    place.append(make("p", { class: "problem" }, trouble(answer.error)));
  } else if (!answer.history.length) {
    place.append(make("p", { class: "picture waiting" }, "It has no writes yet."));
  } else {
    place.append(followedPicture(answer.history), legend());
    byId("versions").replaceChildren(...versions(answer, ask));
  }
}

const percent = (ratio) => `${(100 * ratio).toFixed(ratio > 0 && ratio < 0.1 ? 1 : 0)} %`;
