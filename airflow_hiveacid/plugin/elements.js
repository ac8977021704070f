"use strict";
// Elements and texts. Values from tables are inserted as text, never as markup.

const byId = (id) => document.getElementById(id);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== false) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== ""));
  return element;
}

const make = (tag, attributes = {}, ...children) =>
  fill(document.createElement(tag), attributes, children);

const draw = (tag, attributes = {}, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

const number = new Intl.NumberFormat("en");
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "medium" });
const calendar = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

const plural = (count, one, many = `${one}s`) =>
  `${number.format(count)} ${count === 1 ? one : many}`;

function size(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (bytes >= 1024 && unit < units.length - 1) {
    bytes /= 1024;
    unit += 1;
  }
  return `${unit && bytes < 100 ? bytes.toFixed(1) : Math.round(bytes)} ${units[unit]}`;
}

function duration(seconds) {
  seconds = Math.max(0, Math.round(seconds));
  if (seconds < 120) return `${seconds} s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86400)} days`;
}

const now = () => Date.now() / 1000;
const age = (time) => (time === null ? "" : duration(now() - time));
const seconds = (text) => (text === null ? null : Date.parse(text) / 1000);
const timestamp = (time) => (time === null ? "" : calendar.format(time * 1000));

// "dag/run/task/map index", behind "airflow:" where it has an id, before "#2", or a digest, where a script has statements: only the first and the last two parts are sure to be free of slashes. Where once_per stands for the run, a write tells the run beside it.
function runOf(token, runId = null) {
  const parts = token.replace(/^source of /, "").replace(/#(\d+|[0-9a-f]{12}(\.\d+)?)$/, "").split("/");
  // The metastore truncates long names.
  if (parts.length < 4 || /~[0-9a-f]{16}$/.test(token)) return null;
  const [dag, airflow] = parts[0].split(":").reverse();
  const [task, index] = parts.slice(-2);
  const told = parts.slice(1, -2).join("/");
  const isDigest = /^~[0-9a-f]{16}$/.test(told);
  return {
    dag, task, index, airflow: airflow || "", run: runId || (isDigest ? null : told),
    oncePer: runId === null || runId === told ? null : told,
    name: `${airflow ? `${airflow}: ` : ""}${dag} › ${task}${index === "-1" ? "" : `[${index}]`}`,
  };
}

// A truncated token keeps its DAG if a slash follows.
const truncated = (token) => /\/.*~[0-9a-f]{16}(#.*)?$/.test(token);
const dagName = (token) => `${token.replace(/^source of /, "").split("/")[0]} › …`;
const taskName = (token) => (runOf(token) || { name: truncated(token) ? dagName(token) : token }).name;

// Below the same address as this page.
const airflowAddress = (...steps) => new URL(`../${steps.map(encodeURIComponent).join("/")}`, document.baseURI).href;

const airflowLink = (text, ...steps) => {
  const address = airflowAddress(...steps);
  return make("a", { href: address, target: "_top", title: text, onclick: (event) => leave(event, address) }, text);
};

// The task and its run, each with a link if it belongs to this Airflow.
function runLinks(token, instance, runId = null) {
  const run = runOf(token, runId);
  if (run === null) return token;
  const own = run.airflow === instance;
  const link = (text, ...steps) => (own ? airflowLink(text, ...steps) : text);
  const mapped = run.index === "-1" ? [] : ["mapped", run.index];
  const steps = ["dags", run.dag, "runs", run.run];
  if (run.run === null) return [link(run.name, "dags", run.dag, "tasks", run.task)];
  return [
    link(run.name, ...steps, "tasks", run.task, ...mapped),
    make("small", { class: "run" }, link(run.run, ...steps), run.oncePer === null ? "" : ` once per ${run.oncePer}`),
  ];
}

// A frame of Airflow's may not turn the window to another page, or save a file; a link of the window itself may.
function leave(event, address, download = null) {
  try {
    if (window.parent === window) return;
    const link = window.parent.document.createElement("a");
    link.href = address;
    if (download !== null) link.download = download;
    else link.target = event.ctrlKey || event.metaKey || event.shiftKey ? "_blank" : "_self";
    event.preventDefault();
    link.click();
  } catch {
    // A frame of another origin.
  }
}

// The name of a run outside of Airflow has no meaning.
const holder = (txn) => (txn.run_token?.includes("/") ? taskName(txn.run_token) : txn.user);

function score(points) {
  const level = points >= 80 ? "good" : points >= 50 ? "fair" : "poor";
  return make("span", { class: `score ${level}` }, String(points));
}

async function ask(path, body = null) {
  const headers = { Accept: "application/json" };
  if (body !== null) headers["Content-Type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, {
      credentials: "same-origin", headers,
      ...(body === null ? {} : { method: "POST", body: JSON.stringify(body) }),
    });
  } catch {
    throw { id: "NoAnswer", message: "Airflow does not answer.", remedy: "Check that its API server runs." };
  }
  if (answer.ok) return answer.json();
  const known = {
    401: { id: "NotSignedIn", message: "You are not signed in any more.", remedy: "Sign in to Airflow, then open this page again." },
    403: body === null
      ? { id: "Forbidden", message: "You may not read these tables.", remedy: "Ask for the permission to read assets in Airflow." }
      : { id: "Forbidden", message: "You may not start this.", remedy: "Ask for the permission to trigger the DAG in Airflow." },
    404: { id: "NotFound", message: "It does not exist (any more).", remedy: "" },
  };
  throw known[answer.status] || {
    id: `Status ${answer.status}`, message: "Airflow could not answer.", remedy: await said(answer) || "See the log of its API server.",
  };
}

// The reason why Airflow rejects a request.
async function said(answer) {
  const { detail } = await answer.json().catch(() => ({}));
  return typeof detail === "string" ? detail : "";
}

const trouble = (error) => [
  make("strong", {}, error.message),
  error.remedy ? ` ${error.remedy}` : "",
];

// Names and values.
const factList = (rows) =>
  make("dl", { class: "facts" }, rows.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value))));

// With the moment itself as a hint.
const ago = (time) => make("span", { title: timestamp(time) }, `${age(time)} ago`);
