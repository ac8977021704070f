// The staged changes of a table, which wait for an approval.

async function lookAtStaged(place, look) {
  const answer = await look().catch((error) => ({ staged: [], error }));
  if (place.isConnected) showStaged(place, answer);
}

function showStaged(place, answer) {
  const problem = answer.error ? [make("p", { class: "problem" }, trouble(answer.error))] : [];
  const parts = [...problem, ...answer.staged.flatMap((change) => stagedParts(change, answer.instance))];
  place.replaceChildren(...(parts.length ? [make("h3", {}, "Staged changes"), ...parts] : []));
}

function stagedParts(change, instance) {
  const [staged, expires] = [change.time, change.expires].map((time) => Date.parse(time) / 1000);
  const rows = [
    ["Rows", rowsOf(change)],
    ["Tables", change.tables.join(", ")],
    ["Staged", make("span", { title: timestamp(staged) }, `${age(staged)} ago`)],
    ["Expires", make("span", { title: timestamp(expires), class: expires <= now() ? "warned" : null },
      expires <= now() ? "expired" : `in ${duration(expires - now())}`)],
  ];
  return [
    make("p", { class: "stream" }, make("b", {}, change.job), " by ",
      ...(change.run_token ? [runLinks(change.run_token, instance, change.run_id)].flat() : [change.user])),
    make("dl", { class: "facts" }, rows.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)))),
    make("p", { class: "change", title: "The name for `hiveacid staged`" }, change.name),
  ];
}
