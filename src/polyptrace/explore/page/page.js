"use strict";
/* The page of `polyptrace explore`. Names and notes are data: they only ever become text nodes. */
const $ = id => document.getElementById(id);
const embedded = $("embedded") && JSON.parse($("embedded").textContent);  // the read-only file carries its data
const S = { number: 0, session: null, state: null, lesions: null, question: null, check: null, selected: new Set(), current: -1, frames: [], playing: 0, tab: "questions", offline: false };
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
const percent = p => p > 0 && p < .005 ? "under 1 %" : p > .995 && p < 1 ? "over 99 %" : `${Math.round(100 * p)} %`;
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
  const reply = await fetch(`/api/procedures/${S.number}/events?${query()}`, {
    method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify({ who: who(), ...content }),
  });
  if (!reply.ok) throw new Error(await reply.text());
  return reply.json();
}
function stripAddress(item, frames, side) {
  const [track, first, last] = itemKey(item);
  if (embedded) return embedded.strips[`${S.number}/${track}/${first}/${last}`] || "";
  return `/api/procedures/${S.number}/strip?${new URLSearchParams({ track, first, last, frames, side })}`;
}
const who = () => $("who").value.trim();
const view = () => $("view").value === "me" ? who() : "";
const itemKey = item => [S.state.items.track[item], S.state.items.first[item], S.state.items.last[item]];

/* ---- loading ---- */
async function start() {
  $("who").value = localStorage.getItem("polyptrace-who") || "";
  timeline = new Timeline($("timeline"), { select, hover });
  try { S.session = await get("session"); } catch (error) { return failed(error); }
  document.body.classList.toggle("readonly", Boolean(embedded));
  S.session.procedures.forEach((each, number) => $("procedure").append(
    el("option", { value: number }, `${each.name} (${counted(each.tracks, "track")})`)));
  const notices = [...S.session.notices];
  if (S.session.generated) notices.unshift("Generated procedures: the pictures were rendered and do not show patients.");
  if (!S.session.pictures && !embedded) notices.push("No dataset was given with --data, so film strips are grey.");
  if (embedded) notices.unshift(embedded.note);
  $("notice").textContent = notices.join("\n"); $("notice").hidden = !notices.length;
  $("footer").textContent = embedded ? "" : `Answers are written to ${S.session.answers}`;
  const wanted = Number(location.hash.slice(1));
  S.number = wanted >= 0 && wanted < S.session.procedures.length ? wanted : 0;
  $("procedure").value = S.number;
  await load();
  if (!embedded) setInterval(poll, 2000);
}
async function load() {
  S.lesions = null; S.question = S.check = null; S.selected.clear(); S.current = -1;
  if (!embedded) history.replaceState(null, "", `#${S.number}`);
  try {
    S.state = await get(`procedures/${S.number}`);
    render();
    await loadAsked();
  } catch (error) { failed(error); }
}
/* The lesions and the next question follow from the answers, but take longer. */
async function loadAsked() {
  S.waiting = true;
  const number = S.number, [asked] = await Promise.all([get(`procedures/${number}/question`), loadLesions()]);
  if (number !== S.number) return;
  S.waiting = false; Object.assign(S, asked); render();
  if (S.tab !== "questions") await showTab(S.tab, false);
}
async function loadLesions() {
  const number = S.number, found = await get(`procedures/${number}/lesions`);
  if (number !== S.number || found.lesion.length !== S.state.items.track.length) return;
  S.lesions = found; render();
}
async function refresh() {
  const keep = new Set([...S.selected].map(item => itemKey(item).join())), now = S.current >= 0 ? itemKey(S.current).join() : "";
  S.state = await get(`procedures/${S.number}`);
  restore(keep, now); render();
  await loadAsked();
}
function restore(keep, now) {
  const place = new Map(S.state.items.track.map((_, item) => [itemKey(item).join(), item]));
  S.selected = new Set([...keep].map(key => place.get(key)).filter(item => item !== undefined));
  S.current = place.get(now) ?? -1;
  if (S.lesions && S.lesions.lesion.length !== S.state.items.track.length) S.lesions = null;
}
async function poll() {
  if (document.hidden || !S.state) return;
  try {
    const { revision } = await get("revision");
    if (S.offline) { S.offline = false; $("offline").hidden = true; }
    if (revision !== S.state.revision && !S.busy) await refresh();
  } catch (error) { failed(error); }
}
function failed(error) {
  if (error instanceof TypeError) {
    S.offline = true; $("offline").hidden = false;
    $("offline").textContent = "The server does not answer. Every acknowledged answer is saved. Start 'polyptrace explore' again and open the address that it prints.";
  } else toast(error.message);
}
async function edit(content) {
  if (S.busy && S.noting) await S.saved;  // a click that ends the typing of a note
  if (embedded || S.busy) return;
  if (!who()) { await askName(); if (!who()) return; }
  S.busy = true; S.noting = content.kind === "note"; S.saved = save(content);
  await S.saved;
}
async function save(content) {
  const keep = new Set([...S.selected].map(item => itemKey(item).join())), now = S.current >= 0 ? itemKey(S.current).join() : "";
  try {
    const reply = await post(content);
    S.state = reply.state; $("toast").hidden = true;
    restore(keep, now);
    if (S.noting) renderEdits();  // the question stays, since a click on it may have begun
    else { S.question = S.check = null; S.waiting = true; render(); }
    if (S.tab !== "questions") showTab(S.tab, false);
    if (!S.noting) await loadAsked();
  } catch (error) { failed(error); } finally { S.busy = false; }
}

/* ---- what is known about items ---- */
const lesionOf = item => S.lesions ? S.lesions.lesion[item] : S.state.rejected.includes(item) ? -1 : 0;
const lesionName = item => !S.lesions ? "" : lesionOf(item) < 0 ? "not a lesion" : `Lesion ${lesionOf(item) + 1}`;
const times = item => { const [, first, last] = itemKey(item), fps = S.state.fps; return `${fps ? "" : "frames "}${moment(first, fps)}–${moment(last, fps)}`; };
const title = item => `Track ${S.state.items.track[item]}`;
const chosen = () => S.selected.size ? [...S.selected].sort((a, b) => a - b) : S.current >= 0 ? [S.current] : [];
const lesionItems = lesion => S.lesions ? S.lesions.lesion.flatMap((each, item) => each === lesion ? [item] : []) : [];
const keys = items => items.map(itemKey);
const pair = each => [each.first, each.second];

/* ---- rendering ---- */
function render() {
  if (!S.state) return;
  const count = S.state.items.track.length, sizes = new Map();
  for (const each of S.state.component) sizes.set(each, (sizes.get(each) || 0) + 1);
  const lesion = S.state.items.track.map((_, item) => lesionOf(item));
  timeline.setData({ items: S.state.items, lesion, solid: S.state.component.map(each => sizes.get(each) > 1), fps: S.state.fps });
  $("stage").style.height = `${Math.min(Math.max(timeline.lanes.length * timeline.laneHeight + timeline.axis + 8, 150), innerHeight * .36)}px`;
  mark();
  $("timeline").setAttribute("aria-label", `Timeline of ${counted(count, "track")}${S.lesions ? ` in ${counted(S.lesions.confidence.length, "lesion")}` : ""}`);
  $("tracks").textContent = count.toLocaleString("en"); $("answers").textContent = S.state.answers.toLocaleString("en"); $("answers-word").textContent = S.state.answers === 1 ? "answer" : "answers";
  if (S.lesions) {
    const { low, high, confidence } = S.lesions;
    $("count").textContent = confidence.length;
    $("interval").textContent = `${confidence.length === 1 ? "lesion" : "lesions"}, 90 %: ${low}–${high}`;
  } else { $("count").textContent = "–"; $("interval").textContent = "lesions: grouping the tracks …"; }
  const conflicts = S.state.contradictions.length;
  const left = S.question && S.lesions ? S.lesions.left : 0, done = S.question ? (S.lesions ? S.state.answers / Math.max(S.state.answers + left, 1) : 0) : S.state.answers ? 1 : 0;
  $("bar").style.width = `${100 * done}%`;
  $("progress").textContent = S.question ? (S.lesions ? `about ${counted(left, "answer")} left to settle everything` : " ") : S.check ? "All pairs are decided; some answers are worth a check" : conflicts ? "All pairs are decided, with contradictions" : S.state.answers ? "All pairs are decided" : " ";
  $("conflicts").hidden = !conflicts; $("conflicts").textContent = `${counted(conflicts, "contradiction")} to resolve`;
  renderQuestion(); renderEdits();
}
function renderEdits() {
  $("undo").disabled = !S.state.undo; $("redo").disabled = !S.state.redo;
  renderTrack();
}
function mark() {
  const asked = S.question || S.check;
  timeline.setSelection(S.selected, S.current, asked ? pair(asked) : []);
}
function strip(item, frames, side) {
  const label = `Show ${title(item).toLowerCase()}, ${times(item)}`;
  if (!S.state.pictures.includes(item) && !embedded) return el("div", { class: "strip grey" }, "no pictures");
  const picture = el("img", { src: stripAddress(item, frames, side), alt: "", loading: "lazy", decoding: "async" });
  picture.addEventListener("error", () => picture.replaceWith(el("div", { class: "grey" }, "no pictures")));
  return el("button", { class: "strip", type: "button", "aria-label": label, onclick: () => select([item], false) }, picture);
}
function figure(item) {
  return el("figure", {}, el("figcaption", {}, el("span", {}, badge(item), el("b", {}, title(item)), ` ${lesionName(item)}`), times(item)), strip(item, innerWidth < 800 ? 4 : 6, 128));
}
const badge = item => { const node = el("i", { class: "badge" }); node.style.background = Timeline.colour(lesionOf(item)); return node; };

function renderQuestion() {
  const panel = $("questions"), asked = S.question || S.check;
  const focused = panel.contains(document.activeElement) ? document.activeElement.id : "";
  if (!asked && S.waiting && panel.childElementCount > 1) {  // the next question is on its way: keep the place
    for (const button of panel.querySelectorAll(".answers button")) button.setAttribute("aria-disabled", "true");
    return;
  }
  if (!asked) {
    const done = S.waiting ? "Looking for the best question …" : S.state.contradictions.length ? "Every pair of tracks is decided, but some answers contradict each other: see Review." : embedded ? "" : S.state.answers ? "Every pair of tracks is decided. Export the lesions, or look at the timeline once more." : "There is nothing to ask.";
    panel.replaceChildren(el("p", { class: "ask" }, done));
    return;
  }
  const [a, b] = pair(asked), gap = (S.state.items.first[b] - S.state.items.last[a]) / (S.state.fps || 1);
  const ask = S.question ? "Do both strips show the same lesion?" : "A check of earlier answers: do both strips show the same lesion?";
  const facts = [`${!S.state.fps ? `${gap} frames` : gap < 60 ? `${gap.toFixed(1)} s` : `${moment(gap, 1)} min`} apart`];
  if (S.question) {
    const { probability, same_decides: same, different_decides: different } = S.question;
    facts.push(`estimate from these two tracks alone: ${percent(probability)} the same lesion`);
    if (Math.max(same, different) > 1) facts.push(`“same” decides ${counted(same, "pair")} of tracks, “different” ${different}`);
  }
  else facts.push(`earlier answers, such as #${S.check.statement.event} of ${S.check.statement.who}, are wrong with a probability of ${percent(S.check.wrong)}`);
  const button = (id, text, key) => el("button", { id: `answer-${id}`, class: id, type: "button", onclick: () => answer(id) }, text, el("kbd", {}, key));
  panel.replaceChildren(
    el("p", { class: "ask", id: "ask" }, ask), figure(a), figure(b), el("p", { class: "fact" }, facts.join(" · ")),
    el("div", { class: "buttons answers edit", role: "group", "aria-labelledby": "ask" }, button("same", "Same", "y"), button("different", "Different", "n"), button("unsure", "Unsure", "u")));
  if (focused && $(focused)) $(focused).focus();
}
function answer(said) {
  const asked = S.question || S.check;
  if (asked && S.tab === "questions") edit({ kind: "answer", items: keys(pair(asked)), answer: said });
}

async function renderTrack() {
  const panel = $("track"), item = S.current;
  if (item < 0) {
    stop(); S.shown = "";
    panel.replaceChildren(el("h2", { id: "track-title" }, "Track"), el("p", { class: "fact" }, "Select a track on the timeline or in a question."));
    return;
  }
  const shown = [S.number, ...itemKey(item), S.state.revision, S.selected.size, lesionName(item), S.lesions ? S.lesions.confidence[lesionOf(item)] : ""].join();
  if (S.shown === shown) return;
  const same = S.shown && S.shown.split(",").slice(0, 4).join() === shown.split(",").slice(0, 4).join();
  S.shown = shown;
  const typing = document.activeElement && document.activeElement.id === "note";
  if (typing && same) return;
  const focused = panel.contains(document.activeElement) ? document.activeElement.id : "";
  const lesion = lesionOf(item), polyp = S.state.polyp && S.state.polyp[item], many = S.selected.size > 1;
  const act = (id, text, key, run, off = false) => el("button", { id: `act-${id}`, type: "button", disabled: off, onclick: run }, text, el("kbd", {}, key));
  const actions = el("div", { class: "buttons edit", role: "group", "aria-label": "Edits" },
    act("merge", many ? `Merge ${S.selected.size}` : "Merge", "m", merge, !many),
    act("move", "Move …", "v", move, !S.lesions), act("split", "Split here", "s", split),
    act("reject", S.state.rejected.includes(item) ? "Is a lesion" : "Not a lesion", "x", reject),
    act("confirm", "Confirm lesion", "c", confirmLesion, !S.lesions || lesion < 0));
  const facts = [lesionName(item), times(item)];
  if (S.lesions && lesion >= 0) facts.push(`confidence ${percent(S.lesions.confidence[lesion])}`);
  if (many) facts.push(`${S.selected.size} tracks selected`);
  const note = el("textarea", { id: "note", value: S.state.notes[item] || "", maxLength: 10000, "aria-label": `Note on ${title(item).toLowerCase()}`, dir: "auto", placeholder: "Note (t)", onchange: event => edit({ kind: "note", items: [itemKey(item)], text: event.target.value.trim() }) });
  note.readOnly = Boolean(embedded);
  const player = same && $("player") ? $("player") : buildPlayer(item);
  panel.replaceChildren(
    el("h2", { id: "track-title" }, badge(item), title(item)), el("p", { class: "fact" }, facts.filter(Boolean).join(" · "), polyp ? el("span", {}, " · label ", name(polyp)) : null),
    player, actions, note, el("h3", {}, "Most likely the same"), el("p", { class: "fact" }, "P(same) is from the two tracks alone."), same && $("candidates") ? $("candidates") : el("div", { id: "candidates", class: "scroll" }));
  if (focused && $(focused)) $(focused).focus();
  if (embedded) { $("candidates").replaceChildren(el("p", { class: "fact" }, "Candidates are only in the live page.")); return; }
  try {
    const found = await get(`procedures/${S.number}/candidates`, { item, top: 10 });
    if (S.shown === shown) { S.frames = found.frames; renderCandidates(item, found.candidates); showFrame(S.position); }
  } catch (error) { failed(error); }
}
function renderCandidates(item, found) {
  const rows = found.map(([other, cosine, gap, probability, known]) => {
    const say = (said, text) => el("button", { type: "button", class: said, "aria-label": `${text}: ${title(item).toLowerCase()} and ${title(other).toLowerCase()}`, onclick: () => edit({ kind: "answer", items: keys([item, other]), answer: said }) }, text);
    const told = { same: "known same", different: "known different", simultaneous: "same time" }[known];
    return el("tr", {},
      el("td", {}, strip(other, 6, 48), el("span", { class: "known" }, badge(other), `${title(other)} ${lesionName(other)}`)),
      el("td", { class: "n" }, percent(probability)), el("td", { class: "n" }, cosine.toFixed(2)),
      el("td", { class: "n" }, S.state.fps ? `${gap.toFixed(1)} s` : "–"),
      el("td", {}, told ? el("span", { class: "known" }, told) : el("span", { class: "buttons" }, say("same", "Same"), say("different", "Different"))));
  });
  const head = el("tr", {}, ...["Track", "P(same)", "Cosine", "Gap", "Answer"].map((text, column) => el("th", { class: column && column < 4 ? "n" : "", scope: "col" }, text)));
  $("candidates").replaceChildren(el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows)));
}

/* ---- playback ---- */
function buildPlayer(item) {
  stop(); S.position = 0; S.frames = []; S.sprite = null;
  const canvas = el("canvas", { width: 256, height: 256, role: "img", "aria-label": `Playback of ${title(item).toLowerCase()}` });
  const range = el("input", { type: "range", id: "position", min: 0, max: 0, value: 0, "aria-label": "Frame", oninput: event => { stop(); showFrame(Number(event.target.value)); } });
  const side = el("div", {}, strip(item, 6, 96), el("p", { class: "buttons" }, el("button", { id: "play", type: "button", onclick: play }, "Play", el("kbd", {}, "space"))), range, el("p", { class: "fact", id: "frame" }, " "));
  const sprite = new Image(), shownItem = itemKey(item).join();
  sprite.addEventListener("load", () => { if (S.current >= 0 && itemKey(S.current).join() === shownItem) { S.sprite = sprite; showFrame(0); } });
  if (embedded || S.state.pictures.includes(item)) sprite.src = stripAddress(item, 64, 224);
  return el("div", { id: "player" }, canvas, side);
}
function showFrame(position) {
  if (!S.sprite || !$("position")) return;
  const side = S.sprite.naturalHeight, count = Math.max(1, Math.round(S.sprite.naturalWidth / side));
  S.position = Math.min(Math.max(position || 0, 0), count - 1);
  const range = $("position"), canvas = $("player").querySelector("canvas");
  range.max = count - 1; range.value = S.position;
  canvas.getContext("2d").drawImage(S.sprite, S.position * side, 0, side, side, 0, 0, canvas.width, canvas.height);
  const frame = frameAt(S.position, count);
  $("frame").textContent = `frame ${frame.toLocaleString("en")}${S.state.fps ? `, ${moment(frame, S.state.fps, .1)}` : ""}, picture ${S.position + 1} of ${count}`;
}
function frameAt(position, count) {
  const [, first, last] = itemKey(S.current), frames = S.frames;
  if (frames.length) return frames[Math.min(Math.floor((position + .5) * frames.length / count), frames.length - 1)];
  return Math.round(first + (last - first) * (position + .5) / count);
}
function play() {
  if (S.playing) return stop();
  if (!S.sprite) return;
  const count = Math.round(S.sprite.naturalWidth / S.sprite.naturalHeight);
  S.playing = setInterval(() => showFrame((S.position + 1) % count), 130);
  $("play").firstChild.textContent = "Pause";
}
function stop() { clearInterval(S.playing); S.playing = 0; if ($("play")) $("play").firstChild.textContent = "Play"; }

/* ---- selection and edits ---- */
function select(items, more) {
  if (more) for (const item of items) { if (S.selected.has(item) && items.length === 1 && item === S.current) S.selected.delete(item); else S.selected.add(item); }
  if (more && S.current >= 0 && !S.selected.size) S.selected.add(S.current);
  if (more && S.current >= 0 && S.selected.size === 1 && items.length) S.selected.add(S.current);
  if (!more) S.selected = new Set(items.length > 1 ? items : []);
  S.current = items.length ? items[items.length - 1] : more ? S.current : -1;
  if (S.current >= 0) {
    timeline.reveal(S.current);
    $("spoken").textContent = `${title(S.current)}, ${lesionName(S.current)}, ${times(S.current)}${S.selected.size > 1 ? `, ${S.selected.size} selected` : ""}`;
  }
  mark(); renderTrack();
}
function merge() { if (S.selected.size < 2) toast("Select two or more tracks first, with Shift."); else edit({ kind: "merge", items: keys(chosen()) }); }
function confirmLesion() {
  const items = S.current < 0 ? [] : lesionItems(lesionOf(S.current));
  if (items.length && lesionOf(S.current) >= 0) edit({ kind: "merge", items: keys(items) });
}
function reject() {
  const items = chosen();
  if (items.length) edit({ kind: S.state.rejected.includes(items[0]) ? "restore" : "reject", items: keys(items) });
}
function split() {
  if (S.current < 0) return;
  const count = S.sprite ? Math.round(S.sprite.naturalWidth / S.sprite.naturalHeight) : 1, [, first, last] = itemKey(S.current);
  const frame = S.sprite ? frameAt(S.position, count) : Math.round((first + last) / 2);
  if (frame <= first) return toast("Choose the first frame of the second lesion with the slider, then split.");
  edit({ kind: "split", items: [itemKey(S.current)], frame });
}
function move() {
  const items = chosen();
  if (!items.length || !S.lesions) return;
  const lesions = [...new Set(S.lesions.lesion)].filter(each => each >= 0 && each !== lesionOf(items[0])).sort((a, b) => a - b);
  const left = new Set(items.map(lesionOf)), rest = to => S.lesions.lesion.flatMap((each, item) => each >= 0 && !items.includes(item) && (to ? left.has(each) : true) ? [item] : []);
  const go = to => { closeDialog(); edit({ kind: "move", items: keys(items), others: keys(rest(to)), to }); };  // a new lesion is none of the others
  const choices = lesions.map(each => {
    const members = lesionItems(each);
    return el("button", { type: "button", onclick: () => go(itemKey(members[0])) }, badge(members[0]), `Lesion ${each + 1}, ${counted(members.length, "track")}, ${times(members[0])}`);
  });
  dialog(`Move ${items.length > 1 ? counted(items.length, "track") : title(items[0]).toLowerCase()} to`, el("div", { class: "choices" }, el("button", { type: "button", onclick: () => go(null) }, "A new lesion"), ...choices));
}
const undo = () => edit({ kind: "undo" }), redo = () => edit({ kind: "redo" });

/* ---- review and history ---- */
async function showTab(tab, focus = true) {
  S.tab = tab;
  for (const each of ["questions", "review", "history"]) {
    $(each).hidden = each !== tab; $(`tab-${each}`).setAttribute("aria-selected", each === tab); $(`tab-${each}`).tabIndex = each === tab ? 0 : -1;
  }
  if (focus) $(`tab-${tab}`).focus();
  if (tab === "questions") return;
  try {
    const found = await get(`procedures/${S.number}/review`);
    if (tab === "review") renderReview(found); else renderHistory(found.history);
  } catch (error) { failed(error); }
}
const said = event => ({
  answer: () => `${event.answer}: tracks ${event.items[0][0]} and ${event.items[1][0]}`, merge: () => `merged tracks ${event.items.map(item => item[0]).join(", ")}`,
  move: () => `moved track${event.items.length > 1 ? "s" : ""} ${event.items.map(item => item[0]).join(", ")} ${event.to ? `to the lesion of track ${event.to[0]}` : "to a new lesion"}`,
  split: () => `split track ${event.items[0][0]} at frame ${event.frame}`, reject: () => `not a lesion: track ${event.items.map(item => item[0]).join(", ")}`,
  restore: () => `a lesion: track ${event.items.map(item => item[0]).join(", ")}`, note: () => event.text ? `note on track ${event.items[0][0]}: ${event.text}` : `removed the note on track ${event.items[0][0]}`,
}[event.kind] || (() => event.kind))();
const withdraw = (event, text) => el("button", { class: "edit", type: "button", onclick: () => edit({ kind: event.active ? "undo" : "redo", event: event.id }) }, text || (event.active ? "Withdraw" : "Restore"));
function statement(event) { return el("span", { class: event.active ? "long" : "long off" }, `#${event.id} `, name(event.who), ` ${said(event)}`); }
function renderHistory(history) {
  const rows = [...history].reverse().map(event => el("li", {}, statement(event), " ", el("span", { class: "known" }, new Date(event.time).toLocaleString()), " ", withdraw(event)));
  $("history").replaceChildren(rows.length ? el("ul", { class: "plain scroll" }, ...rows) : el("p", { class: "fact" }, "No answers yet."));
}
function renderReview({ history, kappas }) {
  const events = new Map(history.map(event => [event.id, event])), parts = [];
  const conflicts = S.state.contradictions.map(each => {
    const own = each.people.length < 2, stated = events.get(each.statement.event), because = each.because.map(id => events.get(id)).filter(Boolean);
    return el("li", {}, el("b", {}, own ? "Contradiction" : "Disagreement"), el("p", {}, statement(stated), " ", withdraw(stated)),
      el("p", { class: "fact" }, because.length ? "Has no effect, because of:" : "Has no effect, because tracks of the two lesions are visible at the same time."),
      ...because.map(event => el("p", {}, statement(event), " ", withdraw(event))), ...pair(each.statement).map(figure));
  });
  parts.push(el("h3", {}, "Contradictions and disagreements"), conflicts.length ? el("ul", { class: "plain" }, ...conflicts) : el("p", { class: "fact" }, "None."));
  if (kappas.length) parts.push(el("h3", {}, "Agreement of annotators"), el("table", {}, el("thead", {}, el("tr", {}, ...["Annotators", "Cohen’s kappa", "Pairs decided by both"].map(text => el("th", { scope: "col" }, text)))),
    el("tbody", {}, ...kappas.map(([a, b, kappa, pairs]) => el("tr", {}, el("td", {}, name(a), " and ", name(b)), el("td", {}, kappa === null ? "–" : kappa.toFixed(2)), el("td", {}, pairs))))));
  if (S.lesions && S.lesions.labels) { const { agreeing, pairs } = S.lesions.labels; parts.push(el("h3", {}, "Labels"), el("p", { class: "fact" }, `The lesions agree with the polyp labels on ${agreeing} of ${counted(pairs, "pair")} of tracks (${percent(agreeing / pairs)}).`)); }
  const lost = [[S.state.unmapped, "on tracks that do not exist any more"], [S.state.set_aside, "on tracks that were split later: they have no effect, please answer again"]];
  for (const [ids, why] of lost) if (ids.length) parts.push(el("h3", {}, `${counted(ids.length, "event")} ${why}`), el("ul", { class: "plain" }, ...ids.map(id => events.get(id)).filter(Boolean).map(event => el("li", {}, statement(event)))));
  if (S.state.mapped) parts.push(el("p", { class: "fact" }, `${counted(S.state.mapped, "track")} of earlier answers were found by their overlap, because the tracks were linked differently.`));
  $("review").replaceChildren(...parts);
}

/* ---- dialogs ---- */
function dialog(heading, ...content) {
  $("dialog").replaceChildren(el("h2", { id: "dialog-title" }, heading), ...content, el("div", { class: "buttons" }, el("button", { type: "button", onclick: closeDialog }, "Close")));
  if (!$("dialog").open) $("dialog").showModal();
}
function closeDialog() { $("dialog").close(); }
function askName() {
  return new Promise(resolve => {
    const input = el("input", { id: "dialog-name", maxLength: 200, "aria-label": "Your name", autocomplete: "off" });
    const form = el("form", { onsubmit: event => { event.preventDefault(); $("who").value = input.value.trim(); remember(); closeDialog(); } }, el("p", { class: "buttons" }, input, el("button", { class: "main", type: "submit" }, "Continue")));
    $("dialog").addEventListener("close", () => resolve(), { once: true });
    dialog("Your name", el("p", { class: "fact" }, "It is stored with every answer, so that several people can work on one procedure."), form);
    input.focus();
  });
}
function remember() { localStorage.setItem("polyptrace-who", who()); if (S.state) refresh().catch(failed); }
function exportDialog() {
  const link = ([kind, text]) => el("a", { href: `/api/procedures/${S.number}/export/${kind}?${query()}`, download: "" }, text);
  const open = S.lesions ? S.lesions.suggested : 0;
  const remark = open ? [el("p", { id: "unsettled" }, `Not settled: answers do not decide yet which lesion ${counted(open, "track")} show${open === 1 ? "s" : ""}. The files mark these lesions as suggestions, and their names end in “-unsettled”.`)] : [];
  dialog("Export the lesions of this procedure", ...remark, el("ul", {}, ...Object.entries(S.session.exports).map(each => el("li", {}, link(each)))));
}
const KEYS = [["y n u", "answer same, different, unsure"], ["← → ↑ ↓", "on the timeline: other tracks; with Shift: select more"], ["+ − 0", "zoom in, out, fit"], ["space", "play and pause"], ["m", "merge the selected tracks"], ["v", "move to another lesion"], ["s", "split the track at the shown frame"], ["x", "not a lesion, or a lesion after all"], ["c", "confirm that all tracks of the lesion belong together"], ["t", "note"], ["z, Shift+Z", "undo, redo"], ["q r h", "questions, review, history"], ["e", "export"], ["Esc", "clear the selection"]];
function help() {
  dialog("Keys", el("table", {}, el("tbody", {}, ...KEYS.map(([key, text]) => el("tr", {}, el("td", {}, el("kbd", {}, key)), el("td", {}, text))))));
}
let toastTimer;
function toast(text) {
  $("toast").textContent = text; $("toast").hidden = false;
  clearTimeout(toastTimer); toastTimer = setTimeout(() => { $("toast").hidden = true; }, 6000);
}
function hover(item, x, y) {
  const box = $("hover");
  if (item < 0 || !S.state) { box.hidden = true; S.hovered = -1; return; }
  if (S.hovered !== item) {
    S.hovered = item;
    const picture = S.state.pictures.includes(item) || embedded ? el("img", { src: stripAddress(item, 4, 72), alt: "" }) : null;
    if (picture) picture.addEventListener("error", () => picture.remove());
    box.replaceChildren(...[picture, el("div", {}, badge(item), `${title(item)} · ${lesionName(item)} · ${times(item)}`), S.state.notes[item] ? el("div", { class: "long", dir: "auto" }, S.state.notes[item]) : null].filter(Boolean));
  }
  box.hidden = false;
  const width = $("stage").clientWidth, below = y < $("stage").clientHeight - 130;
  box.style.left = `${Math.min(Math.max(0, x - 80), Math.max(0, width - 310))}px`; box.style.top = below ? `${y + 16}px` : ""; box.style.bottom = below ? "" : `${$("stage").clientHeight - y + 12}px`;
}

/* ---- keys ---- */
function key(event) {
  const typing = ["INPUT", "TEXTAREA", "SELECT"].includes(event.target.tagName) && event.target.type !== "range";
  if ($("dialog").open) return;
  if (event.key === "Escape") { if (typing) event.target.blur(); else select([], false); return; }
  const control = event.ctrlKey || event.metaKey;
  if (typing || event.altKey || (control && !["z", "Z", "y"].includes(event.key))) return;
  const jump = tab => () => showTab(tab);
  const actions = control ? { z: undo, Z: redo, y: redo } : {
    y: () => answer("same"), n: () => answer("different"), u: () => answer("unsure"), m: merge, v: move, s: split, x: reject, c: confirmLesion, z: undo, Z: redo, e: embedded ? null : exportDialog, "?": help,
    q: jump("questions"), r: jump("review"), h: jump("history"), t: () => $("note") && $("note").focus(), "+": () => timeline.zoom(.6), "=": () => timeline.zoom(.6), "-": () => timeline.zoom(1 / .6), "0": () => timeline.fit(),
    " ": event.target.tagName === "BUTTON" ? null : play,
  };
  const run = actions[event.key];
  if (!run || (event.repeat && !["+", "=", "-"].includes(event.key))) return;  // a key that is held down acts once
  event.preventDefault(); run();
}
document.addEventListener("keydown", key);
$("procedure").addEventListener("change", event => { S.number = Number(event.target.value); S.shown = ""; event.target.blur(); load(); });
$("who").addEventListener("change", remember);
$("view").addEventListener("change", async () => { if ($("view").value && !who()) await askName(); refresh().catch(failed); });
$("undo").addEventListener("click", undo); $("redo").addEventListener("click", redo); $("export").addEventListener("click", exportDialog); $("help").addEventListener("click", help);
$("zoom-in").addEventListener("click", () => timeline.zoom(.6)); $("zoom-out").addEventListener("click", () => timeline.zoom(1 / .6)); $("fit").addEventListener("click", () => timeline.fit());
$("conflicts").addEventListener("click", () => showTab("review"));
for (const tab of ["questions", "review", "history"]) {
  $(`tab-${tab}`).addEventListener("click", () => showTab(tab));
  $(`tab-${tab}`).addEventListener("keydown", event => {
    const order = ["questions", "review", "history"], step = { ArrowLeft: 2, ArrowRight: 1 }[event.key];
    if (step) { event.preventDefault(); showTab(order[(order.indexOf(tab) + step) % 3]); }
  });
}
start();
