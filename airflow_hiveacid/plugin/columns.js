// The columns of the list.

const COLUMNS = [
  { sort: "score", head: "Score", hint: "0 to 100, the worst first", width: 60, narrow: true, cell: (row) => score(row.score) },
  { sort: "table", head: "Table", width: 150, wide: 220, least: 130, narrow: true, cell: nameCell },
  { sort: "deltas", head: "Deltas", width: 62, narrow: true, number: true, down: true, cell: deltasCell },
  { sort: "bytes", head: "Size", width: 74, number: true, down: true, cell: sizeCell },
  { sort: "delete_ratio", head: "Deletes", hint: "Deletes, as a share of the read rows", width: 66, number: true, down: true, cell: (row) => (row.broken ? "—" : percent(row.delete_ratio)) },
  { sort: "base", head: "Base age", hint: "Age of the oldest base", width: 76, number: true, cell: (row) => (row.base_written_at === null ? "—" : age(row.base_written_at)) },
  { sort: "obsolete", head: "Obsolete", hint: "Files that wait for cleaning", width: 76, number: true, down: true, cell: (row) => (row.obsolete_bytes ? size(row.obsolete_bytes) : "—") },
  { sort: "txn", head: "Oldest transaction", width: 142, wide: 180, empty: (row) => row.oldest_txn === null, cell: txnCell },
  { sort: "queue", head: "Queue", width: 104, wide: 116, down: true, empty: (row) => !row.queue.length, cell: queueCell },
  { sort: null, head: "The decision of the policy", width: 0, least: 110, cell: verdictCell },
];
const NARROW = window.matchMedia("(max-width: 640px)");
const LAPTOP = window.matchMedia("(max-width: 1100px)");

// The columns that fit and are not empty in all rows: the reason of the policy gets their space.
const columns = () => COLUMNS.filter((column) => (!NARROW.matches || column.narrow) && !isEmpty(column));
const isEmpty = (column) => Boolean(column.empty) && column.sort !== state.sort && shown !== null && shown.rows.length > 0 && shown.rows.every(column.empty);

// The last column, or on a narrow screen the name, gets the remaining width; if that is too small, the list scrolls.
function widths(shown) {
  const room = LAPTOP.matches ? 0 : 10;
  const takesRest = (column) => !column.width || (NARROW.matches && column.sort === "table");
  const width = (column) => (takesRest(column) ? 0 : ((!LAPTOP.matches && column.wide) || column.width) + room);
  const least = shown.reduce((sum, column) => sum + (width(column) || column.least), 0);
  return { of: (column) => (width(column) ? `${width(column)}px` : ""), least: `${least}px` };
}

function nameCell(row) {
  const dot = row.table.indexOf(".");
  const name = make("button", { type: "button", class: "name", title: row.table, onclick: () => open(row.table) },
    make("span", { class: "database" }, row.table.slice(0, dot + 1)), row.table.slice(dot + 1));
  // A narrow screen has no space for a column of sentences.
  return NARROW.matches ? [name, verdictCell(row)] : name;
}

function deltasCell(row) {
  if (row.broken) return "—";
  const most = row.partitions > 1 ? `at most ${number.format(row.max_deltas)} in a partition` : null;
  return make("span", { title: most }, number.format(row.deltas));
}

function sizeCell(row) {
  if (row.broken) return "—";
  const all = row.base_bytes + row.delta_bytes;
  const share = all ? Math.round((40 * row.delta_bytes) / all) : 0;
  return [
    size(all),
    draw("svg", { class: "share", viewBox: "0 0 40 4", "aria-hidden": "true" },
      draw("title", {}, `${size(row.delta_bytes)} of it deltas`),
      draw("rect", { class: "rest", width: 40, height: 4, rx: 2 }),
      draw("rect", { class: "part", width: share, height: 4, rx: 2 })),
  ];
}

function txnCell(row) {
  const txn = row.oldest_txn;
  if (txn === null) return "—";
  const old = txn.opened_at !== null && now() - txn.opened_at > 3600;
  return make("span", { class: "clamped" },
    make("span", { class: old ? "warned" : "" }, age(txn.opened_at) || "?"), ` ${holder(txn)}`);
}

function queueCell(row) {
  if (!row.queue.length) return "—";
  return make("span", { class: "clamped", title: row.queue.map(({ state, count }) => `${count} ${state}`).join(", ") },
    ...row.queue.flatMap(({ state, count, failed }, index) => [
      index ? ", " : "", make("span", { class: failed ? "warned" : "" }, `${number.format(count)} ${state}`)]));
}

function verdictCell(row) {
  const kind = row.broken ? "problem" : "quiet";
  if (row.need === null) return make("span", { class: `clamped ${kind}`, title: row.verdict }, row.verdict);
  const many = row.needs > 1 ? ` × ${number.format(row.needs)}` : "";
  return make("span", { class: "clamped", title: row.verdict },
    make("span", { class: "kind" }, `${row.need.type}${many}`), row.need.reason);
}
