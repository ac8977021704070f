// The mirrors of a table in Iceberg, and the versions that they do not have yet.

async function lookAtMirrors(place, look) {
  const answer = await look().catch((error) => ({ mirrors: [], error }));
  if (place.isConnected) showMirrors(place, answer);
}

function showMirrors(place, answer) {
  const problem = answer.error ? [make("p", { class: "problem" }, trouble(answer.error))] : [];
  const parts = [...problem, ...answer.mirrors.flatMap((mirror) => mirrorParts(mirror, answer.instance))];
  place.replaceChildren(...(parts.length ? [make("h3", {}, "Iceberg mirrors"), ...parts] : []));
}

function mirrorParts(mirror, instance) {
  const lag = mirror.lag;
  const rows = [
    ["Version", lag.versions ? `${number.format(lag.version)} of ${number.format(lag.newest)}` : number.format(lag.version)],
    ["Complete until", make("span", { title: timestamp(mirror.complete_at) }, `${age(mirror.complete_at)} ago`)],
    ["Catalog", mirror.catalog],
  ];
  return [
    make("p", { class: "stream", title: mirror.location },
      make("b", {}, mirror.name), " ", mirrorState(lag),
      mirror.run_token ? [", ", ...[runLinks(mirror.run_token, instance)].flat()] : ""),
    make("dl", { class: "facts" }, rows.map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)))),
  ];
}

const mirrorState = (lag) =>
  (lag.versions ? `${plural(lag.versions, "version")} behind, for at most ${duration(lag.seconds)}` : "up to date");
