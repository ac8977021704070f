// A mirror of a table in Iceberg, and the versions that it does not have yet.

function mirrorParts(mirror, instance) {
  if (mirror.problem) return [make("p", { class: "problem" }, mirror.problem)];
  const lag = mirror.lag;
  return [
    make("p", { class: "stream", title: mirror.location },
      make("b", {}, mirror.name), " ", mirrorState(lag),
      mirror.run_token ? [", ", ...[runLinks(mirror.run_token, instance)].flat()] : ""),
    factList([
      ["Version", lag.versions ? `${number.format(lag.version)} of ${number.format(lag.newest)}` : number.format(lag.version)],
      ["Complete until", ago(mirror.complete_at)],
      ["Catalog", mirror.catalog],
    ]),
  ];
}

const mirrorState = (lag) =>
  (lag.versions ? `${plural(lag.versions, "version")} behind, for at most ${duration(lag.seconds)}` : "up to date");
