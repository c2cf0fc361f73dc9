"use strict";
/* Review and history, what an edit changed about earlier answers, the dialogs, and the printed list. */

/* ---- review and history ---- */
async function showTab(tab, focus = true) {
  page.tab = tab;
  for (const each of ["questions", "review", "history"]) {
    $(each).hidden = each !== tab;
    $(`tab-${each}`).setAttribute("aria-selected", each === tab);
    $(`tab-${each}`).tabIndex = each === tab ? 0 : -1;
  }
  if (focus) $(`tab-${tab}`).focus();
  if (tab === "questions") return;
  try {
    const review = await get(`procedures/${page.number}/review`);
    if (tab === "review") renderReview(review);
    else renderHistory(review.history);
  } catch (error) {
    failed(error);
  }
}
/* An item of an event: a present one, the whole of a track that is split now, or a part that is not present any more. */
function itemName([track, first, last]) {
  const { items, names } = page.state,
    parts = items.track.flatMap((each, item) => (each === track ? [item] : []));
  const present = parts.find(item => items.first[item] === first && items.last[item] === last);
  if (present !== undefined) return names[present];
  const inside = parts.some(item => items.first[item] < first) || parts.some(item => items.last[item] > last);
  return inside ? `${track} (${between(first, last)})` : `${track}`;
}
const itemNames = items => items.map(itemName).join(", ");
const described = event =>
  (
    ({
      answer: () => `${event.answer}: tracks ${itemName(event.items[0])} and ${itemName(event.items[1])}`,
      merge: () => `merged tracks ${itemNames(event.items)}`,
      move: () =>
        `moved track${event.items.length > 1 ? "s" : ""} ${itemNames(event.items)} ${event.to ? `to the lesion of track ${itemName(event.to)}` : "to a new lesion"}`,
      split: () => `split track ${itemName(event.items[0])} at frame ${event.frame.toLocaleString("en")}`,
      reject: () => `not a lesion: track ${itemNames(event.items)}`,
      restore: () => `a lesion: track ${itemNames(event.items)}`,
      note: () =>
        event.text
          ? `note on track ${itemName(event.items[0])}: ${event.text}`
          : `removed the note on track ${itemName(event.items[0])}`,
    })[event.kind] || (() => event.kind)
  )();
const withdraw = (event, text) =>
  el(
    "button",
    { class: "edit", type: "button", onclick: () => edit({ kind: event.active ? "undo" : "redo", event: event.id }) },
    text || (event.active ? "Withdraw" : "Restore"),
  );
function statement(event) {
  return el(
    "span",
    { class: event.active ? "long" : "long off" },
    `#${event.id} `,
    name(event.who),
    ` ${described(event)}`,
  );
}
function renderHistory(history) {
  const rows = [...history]
    .reverse()
    .map(event =>
      el(
        "li",
        {},
        statement(event),
        " ",
        el("span", { class: "known" }, new Date(event.time).toLocaleString()),
        " ",
        withdraw(event),
      ),
    );
  $("history").replaceChildren(
    rows.length ? el("ul", { class: "plain scroll" }, ...rows) : el("p", { class: "fact" }, "No answers yet."),
  );
}
function renderReview({ history, kappas }) {
  const events = new Map(history.map(event => [event.id, event])),
    parts = [];
  const contradicted = new Set(page.state.contradictions.map(each => each.statement.event)); // one edit, one entry
  const conflicts = [...contradicted].map(id => {
    const contradictions = page.state.contradictions.filter(each => each.statement.event === id),
      stated = events.get(id),
      people = new Set(contradictions.flatMap(each => each.people));
    const because = [...new Set(contradictions.flatMap(each => each.because))]
      .map(event => events.get(event))
      .filter(Boolean);
    return el(
      "li",
      {},
      el("b", {}, people.size < 2 ? "Contradiction" : "Disagreement"),
      el("p", {}, statement(stated), " ", withdraw(stated)),
      el("p", { class: "fact" }, noEffect(stated, because)),
      ...because.map(event => el("p", {}, statement(event), " ", withdraw(event))),
      ...pair(contradictions[0].statement).map(figure),
    );
  });
  parts.push(
    el("h3", {}, "Contradictions and disagreements"),
    conflicts.length ? el("ul", { class: "plain" }, ...conflicts) : el("p", { class: "fact" }, "None."),
  );
  if (kappas.length)
    parts.push(
      el("h3", {}, "Agreement of annotators"),
      el(
        "table",
        {},
        el(
          "thead",
          {},
          el(
            "tr",
            {},
            ...["Annotators", "Cohen’s kappa", "Pairs decided by both"].map(text => el("th", { scope: "col" }, text)),
          ),
        ),
        el(
          "tbody",
          {},
          ...kappas.map(([a, b, kappa, pairs]) =>
            el(
              "tr",
              {},
              el("td", {}, name(a), " and ", name(b)),
              el("td", {}, kappa === null ? "–" : kappa.toFixed(2)),
              el("td", {}, pairs),
            ),
          ),
        ),
      ),
    );
  if (page.lesions && page.lesions.labels) {
    const { agreeing, pairs } = page.lesions.labels;
    parts.push(
      el("h3", {}, "Labels"),
      el(
        "p",
        { class: "fact" },
        `The lesions agree with the polyp labels on ${agreeing} of ${counted(pairs, "pair")} of tracks (${percent(agreeing / pairs)}).`,
      ),
    );
  }
  const lost = [
    [page.state.unmapped, "on tracks that do not exist any more"],
    [page.state.set_aside, "on tracks that were split later: they have no effect, please answer again"],
  ];
  for (const [ids, why] of lost)
    if (ids.length)
      parts.push(
        el("h3", {}, `${counted(ids.length, "event")} ${why}`),
        el(
          "ul",
          { class: "plain" },
          ...ids
            .map(id => events.get(id))
            .filter(Boolean)
            .map(event => el("li", {}, statement(event))),
        ),
      );
  if (page.state.mapped)
    parts.push(
      el(
        "p",
        { class: "fact" },
        `${counted(page.state.mapped, "track")} of earlier answers were found by their overlap, because the tracks were linked differently.`,
      ),
    );
  $("review").replaceChildren(...parts);
}

const noEffect = (event, because) =>
  `${event.kind === "answer" ? "Has" : "Part of it has"} no effect, because ${because.length ? "of:" : "tracks of the two lesions are visible at the same time."}`;

/* ---- what an edit changed about earlier answers ---- */
function showEffect(made, { contradicted, replaced, set_aside: aside, events }) {
  const lines = ids =>
    ids
      .slice(0, 4)
      .map(id => el("p", {}, statement({ ...events[id], active: true })))
      .concat(ids.length > 4 ? [el("p", {}, `and ${ids.length - 4} more`)] : []);
  const parts = Object.entries(contradicted).flatMap(([id, because]) => [
    el("b", {}, "A contradiction"),
    ...lines([id]),
    el("p", { class: "fact" }, noEffect(events[id], because)),
    ...lines(because),
  ]);
  if (aside.length)
    parts.push(
      el("b", {}, `The split sets aside ${counted(aside.length, "earlier edit")}`),
      ...lines(aside),
      el("p", { class: "fact" }, "Please answer again about the two parts."),
    );
  if (replaced.length) parts.push(el("b", {}, "Replaces what you said before"), ...lines(replaced));
  const back = { undo: { kind: "redo", event: made.event }, redo: { kind: "undo", event: made.event } }[made.kind] || {
    kind: "undo",
    event: made.id,
  };
  $("effect").replaceChildren(
    ...parts,
    el(
      "p",
      { class: "buttons" },
      el(
        "button",
        { id: "effect-undo", type: "button", onclick: () => edit(back) },
        made.kind === "undo" ? "Redo" : "Undo",
        el("kbd", {}, made.kind === "undo" ? "Z" : "z"),
      ),
      el(
        "button",
        {
          type: "button",
          onclick: () => {
            closeMessage("effect");
            showTab("review");
          },
        },
        "Review",
        el("kbd", {}, "r"),
      ),
      el("button", { type: "button", onclick: () => closeMessage("effect") }, "Close", el("kbd", {}, "Esc")),
    ),
  );
  if (parts.length) showMessage("effect");
  else closeMessage("effect");
}
/* Messages are above the track, where they cover nothing and move no answer button. */
function showMessage(id) {
  $(id).hidden = false;
  $(id).scrollIntoView({ block: "nearest" });
}
function closeMessage(id) {
  const open = !$(id).hidden;
  $(id).hidden = true;
  return open;
}

/* ---- dialogs ---- */
function dialog(heading, ...content) {
  $("dialog").replaceChildren(
    el("h2", { id: "dialog-title" }, heading),
    ...content,
    el("div", { class: "buttons" }, el("button", { type: "button", onclick: closeDialog }, "Close")),
  );
  if (!$("dialog").open) $("dialog").showModal();
}
function closeDialog() {
  $("dialog").close();
}
function askName() {
  return new Promise(resolve => {
    const input = el("input", { id: "dialog-name", maxLength: 200, "aria-label": "Your name", autocomplete: "off" });
    const form = el(
      "form",
      {
        onsubmit: event => {
          event.preventDefault();
          $("who").value = input.value.trim();
          remember();
          closeDialog();
        },
      },
      el("p", { class: "buttons" }, input, el("button", { class: "main", type: "submit" }, "Continue")),
    );
    $("dialog").addEventListener("close", () => resolve(), { once: true });
    dialog(
      "Your name",
      el("p", { class: "fact" }, "It is stored with every answer, so that several people can work on one procedure."),
      form,
    );
    input.focus();
  });
}
function remember() {
  localStorage.setItem("polyptrace-who", who());
  if (page.state) refresh().catch(failed);
}
function exportDialog() {
  const link = ([kind, text]) =>
    el("a", { href: `/api/procedures/${page.number}/export/${kind}?${query()}`, download: "" }, text);
  const open = page.lesions ? page.lesions.suggested.length : 0;
  const remark = open
    ? [
        el(
          "p",
          { id: "unsettled" },
          `Not settled: answers do not decide yet which lesion ${counted(open, "track")} show${open === 1 ? "s" : ""}. The files mark these lesions as suggestions, and their names end in “-unsettled”.`,
        ),
      ]
    : [];
  dialog(
    "Export the lesions of this procedure",
    ...remark,
    el("ul", {}, ...Object.entries(page.session.exports).map(each => el("li", {}, link(each)))),
  );
}
const KEYS = [
  ["y n u", "answer same, different, unsure"],
  ["← → ↑ ↓", "on the timeline: other tracks; with Shift: select more"],
  ["+ − 0", "zoom in, out, fit; also Ctrl and wheel, drag to move"],
  ["space", "play and pause"],
  ["m", "merge the selected tracks"],
  ["v", "move to another lesion"],
  ["s", "split the track at the shown frame"],
  ["x", "not a lesion, or a lesion after all"],
  ["c", "confirm that all tracks of the lesion belong together"],
  ["t", "note"],
  ["z, Shift+Z", "undo, redo"],
  ["q r h", "questions, review, history"],
  ["e", "export"],
  ["Esc", "close the message, then clear the selection"],
];
function help() {
  dialog(
    "Keys",
    el(
      "table",
      {},
      el("tbody", {}, ...KEYS.map(([key, text]) => el("tr", {}, el("td", {}, el("kbd", {}, key)), el("td", {}, text)))),
    ),
  );
}
function toast(text) {
  if (!$("toast").hidden && $("toast").firstChild.textContent === text) return;
  $("toast").replaceChildren(
    el("span", {}, text),
    el("button", { type: "button", onclick: () => closeMessage("toast") }, "Close", el("kbd", {}, "Esc")),
  );
  showMessage("toast");
}

/* ---- the list of lesions, in the read-only file and in print ---- */
function sightings(items) {
  const { first, last } = page.state.items,
    fps = page.state.fps,
    gap = page.session.sighting_gap_s * (fps || 25), // in frames
    spans = [];
  for (const item of items) {
    const latest = spans.at(-1);
    if (latest && first[item] - latest[1] - 1 <= gap) latest[1] = Math.max(latest[1], last[item]);
    else spans.push([first[item], last[item]]);
  }
  return `${fps ? "" : "frames "}${spans.map(([start, end]) => `${moment(start, fps)}–${moment(end, fps)}`).join(", ")}`;
}
function lesionTable() {
  if (!page.lesions) return "";
  const { confidence, suggested } = page.lesions,
    open = new Set(suggested);
  const head = ["Lesion", "Seen", "Tracks", "Confidence", "Decided by", "Notes"].map(text =>
    el("th", { scope: "col" }, text),
  );
  const rows = confidence.map((each, lesion) => {
    const items = lesionItems(lesion),
      notes = items.map(item => page.state.notes[item]).filter(Boolean);
    return el(
      "tr",
      {},
      el("td", {}, badge(items[0]), lesion + 1),
      el("td", {}, sightings(items)),
      el("td", {}, items.length),
      el("td", {}, percent(each)),
      el("td", {}, items.some(item => open.has(item)) ? "suggestion" : "answers"),
      el("td", { dir: "auto" }, notes.join("; ")),
    );
  });
  return el("table", {}, el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows));
}
function renderPrinted() {
  if (!page.lesions) return;
  const { confidence, low, high } = page.lesions,
    none = lesionItems(-1);
  $("printed").replaceChildren(
    el("h1", {}, "Lesions of ", name(page.session.procedures[page.number].name)),
    el(
      "p",
      {},
      `${counted(confidence.length, "lesion")} (90 % interval ${low}–${high}), ${counted(page.state.items.track.length, "track")}, ${counted(page.state.answers, "answer")}. Printed on ${new Date().toLocaleString()}.`,
    ),
    lesionTable(),
    none.length ? el("p", {}, `Not a lesion: ${none.map(item => title(item).toLowerCase()).join(", ")}.`) : "",
    el(
      "p",
      {},
      `${page.session.generated ? "Generated procedures: the pictures were rendered and do not show patients. " : ""}Research tool, not a medical device.`,
    ),
  );
}
