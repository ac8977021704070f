// A staged change of a table, which waits for an approval.

function stagedParts(change, instance) {
  if (change.problem) return [make("p", { class: "problem" }, change.problem)];
  const [staged, expires] = [change.time, change.expires].map(seconds);
  return [
    make("p", { class: "stream" }, make("b", {}, change.job), " by ",
      ...(change.run_token ? [runLinks(change.run_token, instance, change.run_id)].flat() : [change.user])),
    factList([
      ["Rows", rowsOf(change)],
      ["Tables", change.tables.join(", ")],
      ["Staged", ago(staged)],
      ["Expires", make("span", { title: timestamp(expires), class: expires <= now() ? "warned" : null },
        expires <= now() ? "expired" : `in ${duration(expires - now())}`)],
    ]),
    make("p", { class: "change", title: "The name for `hiveacid staged`" }, change.name),
  ];
}
