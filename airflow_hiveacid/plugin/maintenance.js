// The buttons of a table. They start a DAG by Airflow's own API, which checks permissions and parameters.

const LOOK_AGAIN = 3000;
const ENDED = ["success", "failed"];

// Lets a run be applied again; null for users without this button.
let startAgain = null;

function maintenance(place, known, health, connection, ended) {
  startAgain = !known.there ? null : (button, said, run) =>
    startRun(button, said, known, { action: "apply_again", run, table: health.table, connection }, ended);
  for (const each of document.querySelectorAll(".again")) each.hidden = startAgain === null;
  if (known.dag_id === null) return;
  const { dag_id: dag } = known;
  const reason = !known.allowed ? `You may not trigger the DAG ${dag} in Airflow.`
    : !known.there ? `There is no DAG ${dag} in Airflow.` : null;
  const said = make("div", { class: "said", role: "status" });
  const need = health.needs.length ? health.needs[0].type : "minor";
  const idle = health.deltas || health.needs.length ? null : "There are no deltas to compact.";
  const type = make("select", { id: "compaction-type", "aria-label": "Type of the compaction", disabled: (reason || idle) !== null },
    ["minor", "major"].map((name) => make("option", { value: name, selected: name === need }, name)));
  const button = (text, parameters, obstacle = null) => make("button", {
    type: "button", disabled: (reason || obstacle) !== null, title: reason || obstacle,
    onclick: (event) => startRun(event.currentTarget, said, known, { ...parameters(), table: health.table, connection }, ended),
  }, text);
  place.hidden = false;
  place.replaceChildren(
    make("div", { class: "buttons" },
      button("Compact now", () => ({ action: "compact", type: type.value }), idle), type,
      button("Clean (dry run)", () => ({ action: "clean" }))),
    said);
  if (reason !== null) said.textContent = reason;
}

// The button beside a version, which first describes what it does.
function applyAgain(entry) {
  const said = make("span", { role: "status" });
  const start = make("button", { type: "button", onclick: () => startAgain(start, said, entry.run_token) }, "Let it be applied again");
  const describe = make("button", { type: "button", onclick: () => place.replaceChildren(
    make("p", {}, "The next attempt of this run then applies it once more, to the table as it is by then. "
      + "Rows that it has inserted are inserted a second time. Clear its task afterwards."), start, " ", said) }, "Apply again");
  const place = make("span", { class: "again", hidden: startAgain === null }, describe);
  return place;
}

// The reports of the tasks of a run: the directories that a dry run would remove, for example.
async function results(tasks) {
  const found = [];
  const { task_instances: instances } = await ask(tasks);
  for (const { task_id: task, state } of instances) {
    if (state !== "success") continue;
    const entry = await ask(`${tasks}/${encodeURIComponent(task)}/xcomEntries/return_value`).catch(() => null);
    const report = entry && (typeof entry.value === "string" ? parsed(entry.value) : entry.value);
    if (report && report.job === "clean") found.push(...cleaning(report));
    else if (report && report.job === "compact") found.push(compaction(report));
  }
  return found;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

function cleaning(report) {
  const removed = `${plural(report.removed.length, "directory", "directories")}, ${size(report.bytes)}`;
  return [
    make("p", {}, [report.dry_run ? `A cleaning would remove ${removed}.` : `Removed ${removed}.`, readable(report.oldest_version, report.oldest_version_at), report.bytes_retained ? `${size(report.bytes_retained)} are kept for earlier ones.` : ""].filter(Boolean).join(" ")),
    ...reasons(report.dry_run ? "To remove" : "Removed", report.removed.map(({ path, why, bytes }) => [path, size(bytes), why])),
    ...reasons("Kept", report.kept.map(({ path, reason, bytes }) => [path, size(bytes), reason])),
  ];
}

const reasons = (title, rows) => (rows.length
  ? [make("details", {}, make("summary", {}, `${title}: ${number.format(rows.length)}`), grid(["Directory", "Size", "Why"], rows))]
  : []);

function compaction(report) {
  const done = report.partitions.filter(({ outcome }) => outcome === "compacted").length;
  const why = report.partitions.filter(({ outcome }) => outcome !== "compacted").slice(0, 3).map(({ reason }) => reason);
  return make("p", {}, [`${plural(done, "partition")} compacted.`, ...why].join(" "));
}

async function startRun(button, said, known, conf, ended) {
  const runs = `../api/v2/dags/${encodeURIComponent(known.dag_id)}/dagRuns`;
  const what = [conf.action, conf.type].filter(Boolean).join("_");
  const id = `${what}__${conf.table}__${new Date().toISOString()}`.replace(/[^\w.~:+-]/g, "_");
  button.disabled = true;
  try {
    let run = await ask(runs, { dag_run_id: id, logical_date: null, conf });
    const link = airflowLink(run.dag_run_id, "dags", known.dag_id, "runs", run.dag_run_id);
    for (;;) {
      const waits = run.state === "queued" && known.paused ? `: the DAG ${known.dag_id} is paused` : "";
      said.replaceChildren(link, make("span", { class: run.state === "failed" ? "warned" : "" }, ` ${run.state}${waits}`));
      if (ENDED.includes(run.state)) break;
      await new Promise((next) => setTimeout(next, LOOK_AGAIN));
      if (!said.isConnected) return;
      run = await ask(`${runs}/${encodeURIComponent(run.dag_run_id)}`);
    }
    // The refresh keeps this element.
    if (run.state === "success") said.append(...await results(`${runs}/${encodeURIComponent(run.dag_run_id)}/taskInstances`));
    ended();
  } catch (error) {
    if (!("remedy" in error)) throw error;
    said.replaceChildren(make("span", { class: "problem" }, ...trouble(error)));
  } finally {
    button.disabled = false;
  }
}
