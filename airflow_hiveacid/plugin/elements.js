"use strict";
// Elements and texts. Whatever comes from a table goes in as text, never as markup.

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
const timestamp = (time) => (time === null ? "" : calendar.format(time * 1000));

// "dag/run/task/map index", behind "airflow:" where it has an id, before "#2" where a script has statements: only the first and the last two parts are sure to be free of slashes.
function run(token) {
  const parts = token.replace(/#\d+$/, "").split("/");
  if (parts.length < 4) return { task: token, run: "" };
  const index = parts[parts.length - 1] === "-1" ? "" : `[${parts[parts.length - 1]}]`;
  const [dag, airflow] = parts[0].split(":").reverse();
  return {
    task: `${airflow ? `${airflow}: ` : ""}${dag} › ${parts[parts.length - 2]}${index}`,
    run: parts.slice(1, -2).join("/"),
  };
}

// Where Airflow shows the task: below the address that this page is below, too.
function runAddress(token, instance) {
  const parts = token.replace(/#\d+$/, "").split("/");
  const [dag, airflow] = parts[0].split(":").reverse();
  if (parts.length < 4 || (airflow || "") !== instance) return null;
  const [task, index] = parts.slice(-2);
  const steps = ["..", "dags", dag, "runs", parts.slice(1, -2).join("/"), "tasks", task];
  if (index !== "-1") steps.push("mapped", index);
  return new URL(steps.map((step) => (step === ".." ? step : encodeURIComponent(step))).join("/"), document.baseURI).href;
}

function runLink(token, instance) {
  const address = runAddress(token, instance);
  if (address === null) return run(token).task;
  return make("a", { href: address, target: "_top", title: run(token).run, onclick: (event) => leave(event, address) }, run(token).task);
}

// A frame of Airflow's may not turn the window to another page; a link of the window itself may.
function leave(event, address) {
  try {
    if (window.parent === window) return;
    const link = window.parent.document.createElement("a");
    link.href = address;
    link.target = event.ctrlKey || event.metaKey || event.shiftKey ? "_blank" : "_self";
    event.preventDefault();
    link.click();
  } catch {
    // A frame of somebody else.
  }
}

const holder = (txn) => (txn.run_token ? run(txn.run_token).task : txn.user);

function score(points) {
  const level = points >= 80 ? "good" : points >= 50 ? "fair" : "poor";
  return make("span", { class: `score ${level}` }, String(points));
}

async function ask(path) {
  let answer;
  try {
    answer = await fetch(path, { credentials: "same-origin", headers: { Accept: "application/json" } });
  } catch {
    throw { id: "NoAnswer", message: "Airflow does not answer.", remedy: "Check that its API server runs." };
  }
  if (answer.ok) return answer.json();
  const known = {
    401: { id: "NotSignedIn", message: "You are not signed in any more.", remedy: "Sign in to Airflow, then open this page again." },
    403: { id: "Forbidden", message: "You may not look at these tables.", remedy: "Ask for the permission to read assets in Airflow." },
    404: { id: "NotFound", message: "It is not there (any more).", remedy: "" },
  };
  throw known[answer.status] || { id: `Status ${answer.status}`, message: "Airflow could not answer.", remedy: "See the log of its API server." };
}

const trouble = (error) => [
  make("strong", {}, error.message),
  error.remedy ? ` ${error.remedy}` : "",
];
