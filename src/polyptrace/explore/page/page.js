"use strict";
/* The page of `polyptrace explore`. Names and notes are data: they only ever become text nodes. */
const $ = id => document.getElementById(id);
const embedded = $("embedded") && JSON.parse($("embedded").textContent); // the read-only file carries its data
const page = {
  number: 0,
  session: null,
  state: null,
  lesions: null,
  question: null,
  check: null,
  selected: new Set(),
  current: -1,
  frames: [],
  playing: 0,
  tab: "questions",
  offline: false,
};
let timeline;

function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else if (name in node && !name.startsWith("aria")) node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children.filter(child => child !== null && child !== undefined && child !== false));
  return node;
}
const counted = (number, noun) => `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
const percent = p => (p > 0 && p < 0.005 ? "under 1 %" : p > 0.995 && p < 1 ? "over 99 %" : `${Math.round(100 * p)} %`);
const name = text => el("span", { class: "name", dir: "auto" }, text);

/* ---- the server ---- */
function query(extra = {}) {
  const words = new URLSearchParams({ who: who(), ...(view() ? { view: view() } : {}), ...extra });
  return words.toString();
}
async function get(path, extra) {
  if (embedded) return embedded.answers[path];
  const reply = await fetch(`/api/${path}?${query(extra)}`);
  if (!reply.ok) throw new Error(await reply.text());
  return reply.json();
}
async function post(content) {
  const reply = await fetch(`/api/procedures/${page.number}/events?${query()}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ who: who(), ...content }),
  });
  if (!reply.ok) throw new Error(await reply.text());
  return reply.json();
}
function stripAddress(item, frames, side) {
  const [track, first, last] = itemKey(item);
  if (embedded) return embedded.strips[`${page.number}/${track}/${first}/${last}`] || "";
  return `/api/procedures/${page.number}/strip?${new URLSearchParams({ track, first, last, frames, side })}`;
}
const who = () => $("who").value.trim();
const view = () => ($("view").value === "me" ? who() : "");
const itemKey = item => [page.state.items.track[item], page.state.items.first[item], page.state.items.last[item]];

/* ---- loading ---- */
async function start() {
  $("who").value = localStorage.getItem("polyptrace-who") || "";
  timeline = new Timeline($("timeline"), { select, hover });
  try {
    page.session = await get("session");
  } catch (error) {
    return failed(error);
  }
  document.body.classList.toggle("readonly", Boolean(embedded));
  if (embedded) $("tab-questions").textContent = "Lesions";
  page.session.procedures.forEach((each, number) =>
    $("procedure").append(el("option", { value: number }, `${each.name} (${counted(each.tracks, "track")})`)),
  );
  const notices = [...page.session.notices];
  if (page.session.generated)
    notices.unshift("Generated procedures: the pictures were rendered and do not show patients.");
  if (!page.session.pictures && !embedded) notices.push("No dataset was given with --data, so film strips are grey.");
  if (embedded) notices.unshift(embedded.note);
  $("notice").textContent = notices.join("\n");
  $("notice").hidden = !notices.length;
  $("footer").textContent = embedded ? "" : `Answers are written to ${page.session.answers}`;
  const wanted = Number(location.hash.slice(1));
  page.number = wanted >= 0 && wanted < page.session.procedures.length ? wanted : 0;
  $("procedure").value = page.number;
  await load();
  if (!embedded) setInterval(poll, 2000);
}
async function load() {
  page.lesions = null;
  page.question = page.check = null;
  page.selected.clear();
  page.current = -1;
  page.lanes = 6;
  closeMessage("toast");
  closeMessage("effect");
  if (!embedded) history.replaceState(null, "", `#${page.number}`);
  try {
    page.state = await get(`procedures/${page.number}`);
    render();
    await loadAsked();
  } catch (error) {
    failed(error);
  }
}
/* The lesions and the next question follow from the answers, but take longer. */
async function loadAsked() {
  page.waiting = true;
  const number = page.number,
    [asked] = await Promise.all([get(`procedures/${number}/question`), loadLesions()]);
  if (number !== page.number) return;
  page.waiting = false;
  Object.assign(page, asked);
  render();
  if (page.tab !== "questions") await showTab(page.tab, false);
}
async function loadLesions() {
  const number = page.number,
    lesions = await get(`procedures/${number}/lesions`);
  if (number !== page.number || lesions.lesion.length !== page.state.items.track.length) return;
  page.lesions = lesions;
  render();
}
async function refresh() {
  const keep = new Set([...page.selected].map(item => itemKey(item).join())),
    now = page.current >= 0 ? itemKey(page.current).join() : "";
  page.state = await get(`procedures/${page.number}`);
  restore(keep, now);
  render();
  await loadAsked();
}
function restore(keep, now) {
  const index = new Map(page.state.items.track.map((_, item) => [itemKey(item).join(), item]));
  page.selected = new Set([...keep].map(key => index.get(key)).filter(item => item !== undefined));
  const [track, first, last] = now ? now.split(",").map(Number) : [-1],
    { items } = page.state;
  const part = items.track.findLastIndex(
    (each, item) => each === track && items.first[item] >= first && items.last[item] <= last,
  );
  page.current = index.get(now) ?? (part >= 0 ? part : items.track.lastIndexOf(track)); // after a split its second part
  if (page.lesions && page.lesions.lesion.length !== page.state.items.track.length) page.lesions = null;
}
async function poll() {
  if (document.hidden || !page.state) return;
  try {
    const { revision } = await get("revision");
    if (page.offline) {
      page.offline = false;
      $("offline").hidden = true;
    }
    if (revision !== page.state.revision && !page.busy) await refresh();
  } catch (error) {
    failed(error);
  }
}
function failed(error) {
  if (error instanceof TypeError) {
    page.offline = true;
    $("offline").hidden = false;
    $("offline").textContent =
      "The server does not answer. Every acknowledged answer is saved. Start 'polyptrace explore' again and open the address that it prints.";
  } else toast(error.message);
}
async function edit(content) {
  if (page.busy && page.noting) await page.saved; // a click that ends the typing of a note
  if (embedded || page.busy) return;
  if (!who()) {
    await askName();
    if (!who()) return;
  }
  page.busy = true;
  page.noting = content.kind === "note";
  page.saved = save(content);
  await page.saved;
}
async function save(content) {
  const keep = new Set([...page.selected].map(item => itemKey(item).join())),
    now = page.current >= 0 ? itemKey(page.current).join() : "";
  try {
    const reply = await post(content);
    page.state = reply.state;
    closeMessage("toast");
    showEffect(reply.event, reply.effect);
    restore(keep, now);
    if (page.noting)
      renderEdits(); // the question stays, since a click on it may have begun
    else {
      page.question = page.check = null;
      page.waiting = true;
      render();
    }
    if (page.tab !== "questions") showTab(page.tab, false);
    if (!page.noting) await loadAsked();
  } catch (error) {
    failed(error);
  } finally {
    page.busy = false;
  }
}

/* ---- what is known about items ---- */
const lesionOf = item => (page.lesions ? page.lesions.lesion[item] : page.state.rejected.includes(item) ? -1 : 0);
const lesionName = item => (!page.lesions ? "" : lesionOf(item) < 0 ? "not a lesion" : `Lesion ${lesionOf(item) + 1}`);
const between = (first, last) =>
  `${page.state.fps ? "" : "frames "}${moment(first, page.state.fps)}–${moment(last, page.state.fps)}`;
const times = item => between(...itemKey(item).slice(1));
const title = item => `Track ${page.state.names[item]}`;
const chosen = () =>
  page.selected.size ? [...page.selected].sort((a, b) => a - b) : page.current >= 0 ? [page.current] : [];
const lesionItems = lesion =>
  page.lesions ? page.lesions.lesion.flatMap((each, item) => (each === lesion ? [item] : [])) : [];
const keys = items => items.map(itemKey);
const pair = each => [each.first, each.second];

/* ---- rendering ---- */
function render() {
  if (!page.state) return;
  const count = page.state.items.track.length,
    sizes = new Map();
  for (const each of page.state.component) sizes.set(each, (sizes.get(each) || 0) + 1);
  const lesion = page.state.items.track.map((_, item) => lesionOf(item)),
    open = new Set(page.lesions ? page.lesions.suggested : lesion.keys());
  timeline.setData({
    items: page.state.items,
    lesion,
    solid: page.state.component.map((each, item) => sizes.get(each) > 1 || !open.has(item)),
    fps: page.state.fps,
  });
  page.lanes = Math.max(page.lanes, timeline.lanes.length); // the timeline never shrinks, so that the buttons below it stay in place
  $("stage").style.setProperty("--lanes", `${page.lanes * timeline.laneHeight + timeline.axis + 8}px`);
  mark();
  $("timeline").setAttribute(
    "aria-label",
    `Timeline of ${counted(count, "track")}${page.lesions ? ` in ${counted(page.lesions.confidence.length, "lesion")}` : ""}`,
  );
  $("tracks").textContent = count.toLocaleString("en");
  $("answers").textContent = page.state.answers.toLocaleString("en");
  $("answers-word").textContent = page.state.answers === 1 ? "answer" : "answers";
  if (page.lesions) {
    const { low, high, confidence } = page.lesions;
    $("count").textContent = confidence.length;
    $("interval").textContent = `${confidence.length === 1 ? "lesion" : "lesions"}, 90 % interval ${low}–${high}`;
  } else {
    $("count").textContent = "–";
    $("interval").textContent = "lesions: grouping the tracks …";
  }
  const conflicts = new Set(page.state.contradictions.map(each => each.statement.event)).size;
  const left = page.lesions ? page.lesions.left : 0,
    asked = page.question || (embedded && left > 0); // the read-only file has no question
  const done = asked
    ? page.lesions
      ? page.state.answers / Math.max(page.state.answers + left, 1)
      : 0
    : page.state.answers
      ? 1
      : 0;
  $("bar").style.width = `${100 * done}%`;
  $("progress").textContent = asked
    ? page.lesions
      ? `about ${counted(left, "answer")} left`
      : " "
    : page.check
      ? "All pairs are decided; please check some answers"
      : conflicts
        ? "All pairs are decided, with contradictions"
        : page.state.answers
          ? "All pairs are decided"
          : " ";
  $("conflicts").hidden = !conflicts;
  $("conflicts").textContent = `${counted(conflicts, "contradiction")} to resolve`;
  renderQuestion();
  renderEdits();
}
function renderEdits() {
  $("undo").disabled = !page.state.undo;
  $("redo").disabled = !page.state.redo;
  renderTrack();
}
function mark() {
  const asked = page.question || page.check;
  timeline.setSelection(page.selected, page.current, asked ? pair(asked) : []);
}
function strip(item, frames, side) {
  const label = `Show ${title(item).toLowerCase()}, ${times(item)}`,
    grey = !page.state.pictures.includes(item) && !embedded;
  const box = grey
    ? el("div", { class: "strip grey" }, "no pictures")
    : el("button", { class: "strip", type: "button", "aria-label": label, onclick: () => select([item], false) });
  box.style.aspectRatio = embedded ? 8 : frames; // known before the picture is, so that nothing moves when it arrives
  if (grey) return box;
  const picture = el("img", { src: stripAddress(item, frames, side), alt: "", loading: "lazy", decoding: "async" });
  picture.addEventListener("error", () => {
    box.classList.add("grey");
    box.replaceChildren("no pictures");
  });
  box.append(picture);
  return box;
}
function figure(item) {
  return el(
    "figure",
    {},
    el("figcaption", {}, el("span", {}, badge(item), el("b", {}, title(item)), ` ${lesionName(item)}`), times(item)),
    strip(item, innerWidth < 800 ? 4 : 6, 128),
  );
}
const badge = item => {
  const node = el("i", { class: "badge" });
  node.style.background = Timeline.colour(lesionOf(item));
  return node;
};

function renderQuestion() {
  const panel = $("questions"),
    asked = page.question || page.check;
  const focused = panel.contains(document.activeElement) ? document.activeElement.id : "";
  if (!asked && page.waiting && panel.childElementCount > 1) {
    // the next question is on its way: keep the place
    for (const button of panel.querySelectorAll(".answers button")) button.setAttribute("aria-disabled", "true");
    return;
  }
  $("stage").classList.toggle("roomy", !asked && !page.waiting);
  if (embedded) {
    panel.replaceChildren(lesionTable());
    return;
  }
  if (!asked) {
    const done = page.waiting
      ? "Looking for the best question …"
      : page.state.contradictions.length
        ? "Every pair of tracks is decided, but some answers contradict each other: see Review."
        : page.state.answers
          ? "Every pair of tracks is decided. Export the lesions, or look at the timeline once more."
          : "There is nothing to ask.";
    panel.replaceChildren(
      el("p", { class: "ask" }, done),
      ...(page.waiting || !page.state.answers ? [] : [lesionTable()]),
    );
    return;
  }
  const [a, b] = pair(asked),
    gap = (page.state.items.first[b] - page.state.items.last[a]) / (page.state.fps || 1);
  const ask = page.question
    ? "Do both strips show the same lesion?"
    : "A check of earlier answers: do both strips show the same lesion?";
  const facts = [
    `${!page.state.fps ? `${gap} frames` : gap < 60 ? `${gap.toFixed(1)} s` : `${moment(gap, 1)} min`} apart`,
  ];
  if (page.question) {
    const { probability, same_decides: same, different_decides: different } = page.question;
    facts.push(`estimate from these two tracks alone: ${percent(probability)} the same lesion`);
    if (Math.max(same, different) > 1)
      facts.push(`“same” decides ${counted(same, "pair")} of tracks, “different” ${different}`);
  } else
    facts.push(
      `earlier answers, such as #${page.check.statement.event} of ${page.check.statement.who}, are wrong with a probability of ${percent(page.check.wrong)}`,
    );
  const button = (id, text, key) =>
    el(
      "button",
      { id: `answer-${id}`, class: id, type: "button", onclick: () => answer(id) },
      text,
      el("kbd", {}, key),
    );
  panel.replaceChildren(
    el("p", { class: "ask", id: "ask" }, ask),
    figure(a),
    figure(b),
    el(
      "div",
      { class: "buttons answers edit", role: "group", "aria-labelledby": "ask" },
      button("same", "Same", "y"),
      button("different", "Different", "n"),
      button("unsure", "Unsure", "u"),
    ),
    el("p", { class: "fact" }, facts.join(" · ")),
  );
  if (focused && $(focused)) $(focused).focus();
}
function answer(choice) {
  const asked = page.question || page.check;
  if (asked && page.tab === "questions") edit({ kind: "answer", items: keys(pair(asked)), answer: choice });
}

/* ---- keys ---- */
function key(event) {
  const typing = ["INPUT", "TEXTAREA", "SELECT"].includes(event.target.tagName) && event.target.type !== "range";
  if ($("dialog").open) return;
  if (event.key === "Escape") {
    if (typing) event.target.blur();
    else if (!closeMessage("toast") && !closeMessage("effect")) select([], false);
    return;
  }
  const control = event.ctrlKey || event.metaKey;
  if (typing || event.altKey || (control && !["z", "Z", "y"].includes(event.key))) return;
  const jump = tab => () => showTab(tab);
  const actions = control
    ? { z: undo, Z: redo, y: redo }
    : {
        y: () => answer("same"),
        n: () => answer("different"),
        u: () => answer("unsure"),
        m: merge,
        v: move,
        s: split,
        x: reject,
        c: confirmLesion,
        z: undo,
        Z: redo,
        e: embedded ? null : exportDialog,
        "?": help,
        q: jump("questions"),
        r: jump("review"),
        h: jump("history"),
        t: () => $("note") && $("note").focus(),
        "+": () => timeline.zoom(0.6),
        "=": () => timeline.zoom(0.6),
        "-": () => timeline.zoom(1 / 0.6),
        0: () => timeline.fit(),
        " ": event.target.tagName === "BUTTON" ? null : play,
      };
  const run = actions[event.key];
  if (!run || (event.repeat && !["+", "=", "-"].includes(event.key))) return; // a key that is held down acts once
  event.preventDefault();
  run();
}
document.addEventListener("keydown", key);
$("procedure").addEventListener("change", event => {
  page.number = Number(event.target.value);
  page.shown = "";
  event.target.blur();
  load();
});
$("who").addEventListener("change", remember);
$("view").addEventListener("change", async () => {
  if ($("view").value && !who()) await askName();
  refresh().catch(failed);
});
$("undo").addEventListener("click", undo);
$("redo").addEventListener("click", redo);
$("export").addEventListener("click", exportDialog);
$("help").addEventListener("click", help);
$("zoom-in").addEventListener("click", () => timeline.zoom(0.6));
$("zoom-out").addEventListener("click", () => timeline.zoom(1 / 0.6));
$("fit").addEventListener("click", () => timeline.fit());
addEventListener("beforeprint", renderPrinted);
$("conflicts").addEventListener("click", () => showTab("review"));
for (const tab of ["questions", "review", "history"]) {
  $(`tab-${tab}`).addEventListener("click", () => showTab(tab));
  $(`tab-${tab}`).addEventListener("keydown", event => {
    const order = ["questions", "review", "history"],
      step = { ArrowLeft: 2, ArrowRight: 1 }[event.key];
    if (step) {
      event.preventDefault();
      showTab(order[(order.indexOf(tab) + step) % 3]);
    }
  });
}
start();
