// The buttons of a table. They start a DAG by Airflow's own API, which asks whether the user may, and checks what it is given.

const LOOK_AGAIN = 3000;
const ENDED = ["success", "failed"];

function maintenance(place, known, health, connection, ended) {
  if (known.dag_id === null) return;
  const { dag_id: dag } = known;
  const reason = !known.allowed ? `You may not trigger the DAG ${dag} in Airflow.`
    : !known.there ? `There is no DAG ${dag} in Airflow.` : null;
  const said = make("p", { class: "said", role: "status" });
  const need = health.needs.length ? health.needs[0].type : "minor";
  const type = make("select", { id: "compaction-type", "aria-label": "Type of the compaction", disabled: reason !== null },
    ["minor", "major"].map((name) => make("option", { value: name, selected: name === need }, name)));
  const button = (text, parameters) => make("button", {
    type: "button", disabled: reason !== null, title: reason,
    onclick: (event) => startRun(event.currentTarget, said, known, { ...parameters(), table: health.table, connection }, ended),
  }, text);
  place.hidden = false;
  place.replaceChildren(
    make("div", { class: "buttons" },
      button("Compact now", () => ({ action: "compact", type: type.value })), type,
      button("Clean (dry run)", () => ({ action: "clean" }))),
    said);
  if (reason !== null) said.textContent = reason;
}

async function startRun(button, said, known, conf, ended) {
  const runs = `../api/v2/dags/${encodeURIComponent(known.dag_id)}/dagRuns`;
  button.disabled = true;
  try {
    let run = await ask(runs, { logical_date: null, conf });
    const link = airflowLink(run.dag_run_id, "dags", known.dag_id, "runs", run.dag_run_id);
    for (;;) {
      const waits = run.state === "queued" && known.paused ? `: the DAG ${known.dag_id} is paused` : "";
      said.replaceChildren(link, make("span", { class: run.state === "failed" ? "warned" : "" }, ` ${run.state}${waits}`));
      if (ENDED.includes(run.state)) break;
      await new Promise((next) => setTimeout(next, LOOK_AGAIN));
      if (!said.isConnected) return;
      run = await ask(`${runs}/${encodeURIComponent(run.dag_run_id)}`);
    }
    ended();
  } catch (error) {
    if (!("remedy" in error)) throw error;
    said.replaceChildren(make("span", { class: "problem" }, ...trouble(error)));
  } finally {
    button.disabled = false;
  }
}
