// The list of tables: its filters, display and refresh.

const FILTERS = [["all", "All"], ["needs", "Worth compacting"], ["busy", "In use"], ["queued", "In the queue"], ["failed", "Failing"]];
const SIZE = 50;
const SOON = 1000;
const LATER = 15000;

// Airflow puts the DAG into our address; the button of a task puts the table into Airflow's own.
const here = new URLSearchParams(location.search.replaceAll("+", "%2B"));
const dag = here.get("dag_id");
const linked = fromAirflow();
const state = saved({ connection: linked.get("connection") ?? "", database: "", text: "", show: "all", sort: "score", descending: false, page: 1 });
let table = linked.get("table");
let shown = null;
let opened = null;
let detailed = null; // The figures in the details.
let historyShown = null; // The history in the details, as text.
let timer = 0;
let asked = 0;

function saved(usual) {
  const told = new URLSearchParams(location.hash.slice(1));
  return {
    ...usual,
    ...Object.fromEntries([...told].filter(([name]) => typeof usual[name] === "string")),
    descending: told.get("descending") === "true",
    page: Math.max(1, Number.parseInt(told.get("page"), 10) || 1),
  };
}

// The parameters of a link to a table.
function fromAirflow() {
  if (here.has("table")) return here;
  try {
    return new URLSearchParams(window.parent.location.search);
  } catch {
    return here; // A frame of another origin.
  }
}

// Inside Airflow the page uses its colours; otherwise those of the system.
function wearColours() {
  try {
    const outer = window.parent.document.documentElement;
    if (window.parent === window) return;
    const follow = () => {
      const theme = ["dark", "light"].find((name) => outer.classList.contains(name));
      if (theme) document.documentElement.dataset.theme = theme;
    };
    new MutationObserver(follow).observe(outer, { attributeFilter: ["class"] });
    follow();
  } catch {
    // A frame of another origin.
  }
}

function heads() {
  const focused = byId("head").contains(document.activeElement) && document.activeElement.dataset.sort;
  const shown = columns();
  const wide = widths(shown);
  document.querySelector("#list > table").style.minWidth = wide.least;
  byId("head").replaceChildren(...shown.map((column) => {
    const on = column.sort === state.sort;
    const sorted = on ? (state.descending ? "descending" : "ascending") : null;
    const head = make("th", { scope: "col", "aria-sort": sorted, class: column.number ? "number" : null },
      column.sort === null
        ? column.head
        : make("button", { type: "button", title: column.hint || null, "data-sort": column.sort, onclick: () => sortBy(column) },
          column.head, make("i", { "aria-hidden": "true" }, on ? (state.descending ? " ↓" : " ↑") : "")));
    head.style.width = wide.of(column);
    return head;
  }));
  if (focused) byId("head").querySelector(`[data-sort="${focused}"]`)?.focus();
}

function sortBy(column) {
  const descending = state.sort === column.sort ? !state.descending : Boolean(column.down);
  change({ sort: column.sort, descending });
  byId("head").querySelector(`[data-sort="${column.sort}"]`).focus();
}

function change(more) {
  Object.assign(state, { page: 1 }, more);
  history.replaceState(null, "", `${location.pathname}${location.search}#${wanted()}`);
  heads();
  load();
}

const wanted = () =>
  new URLSearchParams(Object.entries(state).filter(([, value]) => value !== ""));

const address = (name) => `api/${dag ? `dags/${encodeURIComponent(dag)}/` : ""}${name}?${wanted()}`;

async function load(forced = false) {
  clearTimeout(timer);
  const turn = (asked += 1);
  let wait = LATER;
  try {
    const answer = await ask(`${address("tables")}&size=${SIZE}${forced ? "&refresh=true" : ""}`);
    if (turn !== asked) return;
    // Another process of Airflow answers, without measurements: keep the displayed ones.
    if (answer.measured || shown === null || !shown.measured) show(answer);
    if (answer.running) wait = SOON;
    if (detailed !== null && listed(detailed.table)?.measured_at > detailed.measured_at) open(opened, true);
    if (table !== null && (answer.measured || listed(table)) && opened === null) open(table);
  } catch (error) {
    if (turn !== asked) return;
    if (!error.message || !("remedy" in error)) throw error;
    if (shown === null) message(error);
    else stale(error);
  } finally {
    // Also after an unexpected error, which ends only this turn.
    if (turn === asked) timer = setTimeout(refresh, wait);
  }
}

function refresh() {
  if (document.hidden) timer = setTimeout(refresh, LATER);
  else load();
}

function show(answer) {
  shown = answer;
  status(answer);
  heads();
  byId("scope").textContent = !dag ? "" : answer.patterns
    ? `of the DAG ${dag}: ${answer.patterns.join(", ")}`
    : `All tables: the DAG ${dag} does not name its tables before it runs.`;
  choices("connection", answer.connections.map((name) => [name, name]), state.connection || answer.connections[0]);
  byId("connection-label").hidden = answer.connections.length < 2;
  const all = answer.databases.reduce((sum, database) => sum + database.tables, 0);
  choices("database", [["", `All (${number.format(all)})`],
    ...answer.databases.map(({ name, tables }) => [name, `${name} (${number.format(tables)})`])], state.database);
  for (const [name] of FILTERS) byId(`count-${name}`).textContent = answer.measured ? number.format(answer.counts[name]) : "";
  byId("obsolete").textContent = answer.measured ? `${size(answer.obsolete_bytes)} obsolete` : "";
  if (answer.error && answer.measured) stale(answer.error);
  else byId("stale").hidden = true;
  if (!answer.measured && answer.error) message(answer.error);
  else if (!answer.measured && !answer.rows.length) waiting();
  else if (!answer.rows.length) nothing(answer, all);
  else rows(answer.rows);
  pages(answer);
}

function status(answer) {
  const parts = [];
  if (answer.measured) parts.push(`Measured ${age(answer.measured_at)} ago in ${answer.seconds.toFixed(answer.seconds < 10 ? 1 : 0)} s`);
  if (answer.running) parts.push(answer.measured ? "measuring again…" : `Measuring: ${plural(answer.done, "table")} so far…`);
  const text = parts.join(", ");
  if (byId("status").textContent !== text) byId("status").textContent = text;
}

function choices(id, options, value) {
  const select = byId(id);
  const told = JSON.stringify(options);
  if (select.dataset.options !== told) {
    select.dataset.options = told;
    select.replaceChildren(...options.map(([name, text]) => make("option", { value: name }, text)));
  }
  select.value = value;
}

function rows(listed) {
  byId("message").hidden = true;
  const focused = document.activeElement && document.activeElement.closest("tr");
  const name = focused && focused.dataset.table;
  const shownColumns = columns();
  byId("rows").replaceChildren(...listed.map((row) =>
    make("tr", { "data-table": row.table, class: row.table === opened ? "opened" : null, onclick: (event) => event.target.closest("button") || open(row.table) },
      shownColumns.map((column) => make("td", { class: column.number ? "number" : null }, column.cell(row))))));
  if (name) (byId("rows").querySelector(`[data-table="${CSS.escape(name)}"] button`) || byId("list")).focus();
}

function waiting() {
  byId("message").hidden = true;
  byId("rows").replaceChildren(...Array.from({ length: 12 }, () =>
    make("tr", { class: "waiting", "aria-hidden": "true" }, columns().map(() => make("td", {}, make("i"))))));
}

function message(error) {
  byId("rows").replaceChildren();
  byId("message").hidden = false;
  byId("message").replaceChildren(make("h2", {}, "The tables cannot be shown"),
    make("p", { class: "problem" }, error.message), make("p", {}, error.remedy),
    make("p", { class: "quiet" }, `${error.id}. The page retries automatically.`));
}

function nothing(answer, all) {
  byId("rows").replaceChildren();
  byId("message").hidden = false;
  byId("message").replaceChildren(...(all ? hidden(all) : dag && answer.patterns ? absent(answer) : none(answer)));
}

const hidden = (all) => [
  make("h2", {}, "No table matches"),
  make("p", {}, `${plural(all, "table is", "tables are")} hidden by the filters.`),
  make("p", {}, make("button", { type: "button", onclick: showAll }, "Show all")),
];

const absent = (answer) => [
  make("h2", {}, "None of its tables exists yet"),
  make("p", {}, `The DAG works on ${answer.patterns.join(", ")}.`),
];

const none = (answer) => [
  make("h2", {}, "No transactional tables yet"),
  make("p", {}, "Every table that is created with TBLPROPERTIES ('transactional'='true') appears here automatically."),
  make("p", { class: "quiet" }, `Metastore connection: ${state.connection || answer.connections[0]}`),
];

function showAll() {
  byId("text").value = "";
  byId("show-all").checked = true;
  change({ database: "", text: "", show: "all" });
}

function stale(error) {
  byId("stale").hidden = false;
  byId("stale").replaceChildren(...trouble(error), " The displayed figures are older.");
}

function pages(answer) {
  const first = (state.page - 1) * SIZE;
  const last = Math.min(answer.total, first + SIZE);
  byId("range").textContent = answer.total ? `${number.format(Math.min(first + 1, last))}–${number.format(last)} of ${plural(answer.total, "table")}` : "";
  byId("previous").disabled = state.page <= 1;
  byId("next").disabled = last >= answer.total;
  if (answer.total && first >= answer.total) change({});
}

const listed = (name) => shown === null ? undefined : shown.rows.find((row) => row.table === name);

// List and details show the same figures of a table: the newest of both. Several processes of Airflow measure by themselves.
function agree(health) {
  detailed = health;
  const row = listed(health.table);
  if (row === undefined || row.measured_at >= health.measured_at) return;
  const { needs, queue: _, penalties: __, error, ...figures } = health;
  Object.assign(row, figures, { needs: needs.length, need: needs[0] || null, broken: error !== null });
  rows(shown.rows);
}

// Quietly: for newer figures, without moving the reader.
async function open(name, quietly = false) {
  const aside = byId("details");
  opened = table = name;
  for (const row of byId("rows").children) row.classList.toggle("opened", row.dataset.table === name);
  if (name === ERASURES) {
    await openErasures(aside);
    return;
  }
  const path = `api/tables/${encodeURIComponent(name)}`;
  const query = ofConnection();
  const askFor = (part) => ask(`${path}/${part}${query}`);
  try {
    const health = await ask(path + query);
    if (opened !== name) return;
    // Another process of Airflow has older figures; the next list decides.
    if (quietly && detailed !== null && health.measured_at <= detailed.measured_at) return;
    agree(health);
    // The run that a button started remains visible for the same table, and is followed. History and streams remain
    // until newer ones arrive.
    const about = `${state.connection} ${name}`;
    const same = aside.dataset.about === about && byId("history") !== null;
    const kept = same ? byId("maintenance") : null;
    const before = same ? ["history", "staged", "streams", "mirrors", "versions", "oldest"].map((id) => [id, [...byId(id).childNodes]]) : [];
    if (!same) historyShown = null;
    aside.replaceChildren(...fill(make("div"), {}, details(health, close)).childNodes);
    for (const [id, parts] of before) byId(id).replaceChildren(...parts);
    aside.dataset.about = about;
    aside.hidden = false;
    if (!quietly) begin(aside);
    if (kept !== null && !kept.hidden) byId("maintenance").replaceWith(kept);
    else offerMaintenance(name, health);
    lookAt(byId("staged"), "staged", "Staged changes", askFor, stagedParts);
    lookAt(byId("mirrors"), "mirrors", "Iceberg mirrors", askFor, mirrorParts);
    followStreams(byId("streams"), askFor, () => opened === name);
    const tableHistory = await askFor("history").catch((error) => ({ history: [], error }));
    const told = JSON.stringify(tableHistory);
    if (opened !== name || (same && told === historyShown)) return;
    historyShown = told;
    // Whatever ends versions changes the history, too.
    lookAtOldest(byId("oldest"), () => askFor("oldest"));
    showHistory(tableHistory, (writeId) => askFor(`versions/${writeId}`));
  } catch (error) {
    if (!("remedy" in error)) throw error;
    aside.replaceChildren(heading(close, name), make("p", { class: "problem" }, trouble(error)));
    aside.hidden = false;
  }
}

function begin(aside) {
  aside.scrollTop = 0;
  aside.focus({ preventScroll: true });
}

const ofConnection = () => (state.connection ? `?connection=${encodeURIComponent(state.connection)}` : "");

async function openErasures(aside) {
  detailed = null;
  const answer = await lookForErasures();
  if (opened !== ERASURES) return;
  const certificateOf = (request) => {
    const path = `api/erasures/${encodeURIComponent(request)}/certificate`;
    const file = new URL(`${path}.json${ofConnection()}`, document.baseURI).href;
    return { read: () => ask(path + ofConnection()), address: file };
  };
  aside.replaceChildren(heading(close, "Erasures"), ...erasureParts(answer, certificateOf));
  aside.dataset.about = ERASURES;
  aside.hidden = false;
  begin(aside);
}

async function lookForErasures() {
  const answer = await ask(`api/erasures${ofConnection()}`).catch((error) => ({ erasures: [], error }));
  erasuresButton(byId("erasures"), answer);
  return answer;
}

// All figures, regardless of age.
function measureAnew() {
  load(true);
  if (opened !== ERASURES) lookForErasures();
  if (opened !== null) open(opened);
}

// For another width.
function redraw() {
  heads();
  if (shown !== null && shown.rows.length) rows(shown.rows);
  else if (shown === null || !shown.measured) waiting();
}

function save(event) {
  const file = new URL(address("tables.csv"), document.baseURI).href;
  leave(event, file, "hive-acid-tables.csv");
  // Outside of a frame, the page may save a file itself.
  if (!event.defaultPrevented) event.currentTarget.href = file;
}

async function offerMaintenance(name, health) {
  const known = await ask("api/maintenance").catch(() => ({ dag_id: null }));
  if (opened !== name) return;
  maintenance(byId("maintenance"), known, health, state.connection || shown.connections[0], () => opened === name && measureAnew());
}

function close() {
  const row = byId("rows").querySelector(".opened");
  if (opened === ERASURES) byId("erasures").focus();
  byId("details").hidden = true;
  opened = table = detailed = null;
  if (row) {
    row.classList.remove("opened");
    row.querySelector("button").focus();
  }
}

function start() {
  wearColours();
  byId("show").append(...FILTERS.map(([name, text]) =>
    make("label", {},
      make("input", { type: "radio", name: "show", id: `show-${name}`, value: name, checked: state.show === name, onchange: () => change({ show: name }) }),
      make("span", {}, text, " ", make("b", { id: `count-${name}` })))));
  byId("database").addEventListener("change", (event) => change({ database: event.target.value }));
  byId("connection").addEventListener("change", (event) => {
    shown = null;
    close();
    change({ connection: event.target.value, database: "" });
    lookForErasures();
  });
  let typing = 0;
  byId("text").value = state.text;
  byId("text").addEventListener("input", (event) => {
    clearTimeout(typing);
    typing = setTimeout(() => change({ text: event.target.value }), 150);
  });
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
  byId("previous").addEventListener("click", () => change({ page: state.page - 1 }));
  byId("next").addEventListener("click", () => change({ page: state.page + 1 }));
  byId("refresh").addEventListener("click", measureAnew);
  byId("erasures").addEventListener("click", () => open(ERASURES));
  byId("save").addEventListener("click", save);
  for (const query of [NARROW, LAPTOP]) query.addEventListener("change", redraw);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && opened !== null) close();
  });
  document.addEventListener("visibilitychange", () => document.hidden || load());
  setInterval(() => shown && status(shown), 1000);
  heads();
  waiting();
  load();
  lookForErasures();
}

start();
