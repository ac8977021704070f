// The states of the streams into a table, refreshed while one of them runs.

const AGAIN = 5000;
// A driver reports every minute.
const SILENT = 180;

async function followStreams(place, ask, wanted) {
  while (place.isConnected && wanted()) {
    if (!document.hidden) {
      const streams = await lookAt(place, "streams", "Streams", ask, streamParts);
      if (!streams.some((stream) => stream.ended === null)) return;
    }
    await new Promise((next) => setTimeout(next, AGAIN));
  }
}

function streamParts(stream, instance) {
  const last = stream.last;
  const told = (value, text) => (last === null || value(last) === null ? "—" : text(value(last)));
  const rows = [
    ["Last batch", last === null ? "—" : `${number.format(last.batch_id)}: ${plural(last.rows, "row")} in ${last.seconds.toFixed(1)} s`],
    ["Rows a second", told((each) => each.rows_per_second, (rate) => number.format(Math.round(rate)))],
    ["Readable after", told((each) => each.latency, (seconds) => `${seconds.toFixed(1)} s`)],
    ["Rows behind", told((each) => each.backlog, (behind) => number.format(behind))],
    ["Last commit", told((each) => each.committed_at, ago)],
    ["In this run", `${plural(stream.rows, "row")}, ${plural(stream.batches, "batch", "batches")}`],
  ];
  return [
    make("p", { class: "stream", title: `Writes ${stream.tables.join(", ")}` },
      make("b", {}, stream.name), " ", streamState(stream),
      stream.run_token ? [", ", ...[runLinks(stream.run_token, instance)].flat()] : ""),
    factList(rows),
  ];
}

function streamState(stream) {
  const silent = now() - stream.told_at;
  if (stream.ended === "failed") return make("span", { class: "warned" }, `failed: ${stream.error}`);
  if (stream.ended !== null) return `ended: ${stream.ended}`;
  if (silent < SILENT) return `running for ${age(stream.started_at)}`;
  return make("span", { class: "warned" }, `no report for ${duration(silent)}`);
}
