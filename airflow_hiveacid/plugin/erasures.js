// The requests to erase keys: what each waits for, and the certificates.

// In place of the name of a table.
const ERASURES = "erasures";
const SHOWN_ERASURES = 20;
// The time before a deadline in which it is urgent, as for the alert.
const URGENT = 5 * 86400;
const SIGNATURES = {
  valid: "The signature is valid.",
  invalid: "The signature is invalid: the certificate was changed, or has another key.",
  unsigned: "The certificate has no signature.",
  "no key": "The certificate is signed, and this server has no key to check it.",
};

const secondsLeft = (erasure) => seconds(erasure.deadline) - now();
const isUrgent = (erasure) => !erasure.is_certified && (erasure.problem !== "" || secondsLeft(erasure) < URGENT);

function erasuresButton(button, answer) {
  const waiting = answer.erasures.filter((each) => !each.is_certified);
  button.hidden = !answer.erasures.length && !answer.error;
  button.replaceChildren(...["Erasures", waiting.length
    ? make("b", { class: answer.erasures.some(isUrgent) ? "warned" : null }, ` ${number.format(waiting.length)}`) : ""]);
}

function erasureParts({ erasures, error }, certificateOf) {
  if (error) return [make("p", { class: "problem" }, trouble(error))];
  const certified = erasures.filter((each) => each.is_certified);
  const waiting = erasures.length - certified.length;
  const more = certified.length - SHOWN_ERASURES;
  return [
    make("p", { class: "verdict" }, `${plural(waiting, "request has", "requests have")} no certificate yet; ${number.format(certified.length)} ${certified.length === 1 ? "has" : "have"} one.`),
    ...erasures.slice(0, waiting + SHOWN_ERASURES).map((each) => erasurePart(each, certificateOf)),
    more > 0 ? make("p", { class: "quiet" }, `And ${plural(more, "earlier request")}, which hiveacid erasures lists.`) : "",
  ];
}

function erasurePart(erasure, certificateOf) {
  const level = erasure.is_certified ? "good" : isUrgent(erasure) ? "poor" : "fair";
  const state = erasure.problem ? "unreadable" : erasure.is_certified ? "erased" : erasure.waits.length ? "waits" : "unfinished";
  return make("section", { class: "erasure" },
    make("p", { class: "stream" }, make("b", {}, erasure.request), " ", make("span", { class: `score ${level}` }, state)),
    ...(erasure.problem ? [make("p", { class: "problem" }, erasure.problem)] : erasureDetails(erasure, certificateOf)));
}

function erasureDetails(erasure, certificateOf) {
  const [requested, deadline, checked] = [erasure.requested_at, erasure.deadline, erasure.checked_at].map(seconds);
  const left = secondsLeft(erasure);
  const until = make("span", { title: timestamp(deadline), class: isUrgent(erasure) ? "warned" : null },
    left < 0 ? `${duration(-left)} ago` : `in ${duration(left)}`);
  return [
    factList([
      ["Requested", ago(requested)],
      ["By", erasure.user],
      ...(erasure.is_certified ? [["Erased", ago(checked)]] : [["Deadline", until]]),
      ["Keys", number.format(erasure.keys)],
      ...(erasure.is_certified ? [] : [
        ["Files with keys", erasure.files ? `${number.format(erasure.files)}, ${size(erasure.bytes)}` : "none"],
        ["Checked", checked === null ? "—" : ago(checked)],
      ]),
    ]),
    grid(["Table", "Column", "Deleted rows"], erasure.tables.map((each) => [each.table, each.join ? `${each.column} = ${each.join}` : each.column, number.format(each.rows_deleted)])),
    erasure.waits.length ? make("div", { class: "waits" },
      grid(["Waits for", "Table", "Why"], erasure.waits.map((each) => [each.kind, each.table, each.reason]))) : "",
    erasure.is_certified ? certificatePart(erasure, certificateOf(erasure.request)) : "",
  ];
}

// Its text is long, and read when it is opened.
function certificatePart(erasure, { read, address }) {
  const place = make("div");
  const look = async (event) => {
    if (!event.currentTarget.open || place.hasChildNodes()) return;
    place.replaceChildren(make("p", { class: "quiet" }, "Reading…"));
    place.replaceChildren(...await read().then((found) => certificateParts(erasure.request, found, address),
      (error) => [make("p", { class: "problem" }, trouble(error))]));
  };
  return make("details", { ontoggle: look }, make("summary", {}, "Certificate"), place);
}

function certificateParts(request, certificate, address) {
  const name = `erasure-${request}.json`;
  return [
    make("p", { class: "said" },
      make("span", { class: certificate.signature === "invalid" ? "warned" : null }, SIGNATURES[certificate.signature]), " ",
      certificate.may_save
        ? make("a", { href: address, download: name, onclick: (event) => leave(event, address, name) }, "Save as JSON")
        : "You may not save it, because its hashes may show who was erased."),
    make("pre", { tabindex: "0", "aria-label": "Text of the certificate" }, certificate.text),
  ];
}
