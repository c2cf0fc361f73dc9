"use strict";
/* The track panel: playback, similar tracks, selection and edits. */

/* ---- the track ---- */
const HELP = [
  "Compare the two film strips, and answer. The lesions of the timeline follow from the answers.",
  "A selected track can be moved to another lesion or split. If it shows no lesion, mark it as “not a lesion”.",
  "Every edit can be undone. When no question is left, export the lesions.",
];
async function renderTrack() {
  const panel = $("track"),
    item = page.current;
  if (item < 0) {
    stop();
    page.shown = "";
    panel.replaceChildren(
      el("h2", { id: "track-title" }, "Track"),
      el("p", { class: "fact" }, "Click a film strip or a bar of the timeline to look at its track."),
      el("ul", { class: "fact edit" }, ...HELP.map(text => el("li", {}, text))),
    );
    return;
  }
  const shown = [
    page.number,
    ...itemKey(item),
    page.state.revision,
    page.selected.size,
    lesionName(item),
    page.lesions ? page.lesions.confidence[lesionOf(item)] : "",
  ].join();
  if (page.shown === shown) return;
  const same = page.shown && page.shown.split(",").slice(0, 4).join() === shown.split(",").slice(0, 4).join();
  page.shown = shown;
  const typing = document.activeElement && document.activeElement.id === "note";
  if (typing && same) return;
  const focused = panel.contains(document.activeElement) ? document.activeElement.id : "";
  const lesion = lesionOf(item),
    polyp = page.state.polyp && page.state.polyp[item],
    many = page.selected.size > 1;
  const act = (id, text, key, run, off = false) =>
    el("button", { id: `act-${id}`, type: "button", disabled: off, onclick: run }, text, el("kbd", {}, key));
  const actions = el(
    "div",
    { class: "buttons edit", role: "group", "aria-label": "Edits" },
    act("merge", many ? `Merge ${page.selected.size}` : "Merge", "m", merge, !many),
    act("move", "Move …", "v", move, !page.lesions),
    act("split", "Split here", "s", split),
    act("reject", page.state.rejected.includes(item) ? "Is a lesion" : "Not a lesion", "x", reject),
    act("confirm", "Confirm lesion", "c", confirmLesion, !page.lesions || lesion < 0),
  );
  const facts = [lesionName(item), times(item)];
  if (page.lesions && lesion >= 0) facts.push(`confidence ${percent(page.lesions.confidence[lesion])}`);
  if (many) facts.push(`${page.selected.size} tracks selected`);
  const note = el("textarea", {
    id: "note",
    value: page.state.notes[item] || "",
    maxLength: 10000,
    "aria-label": `Note on ${title(item).toLowerCase()}`,
    dir: "auto",
    placeholder: "Note (t)",
    onchange: event => edit({ kind: "note", items: [itemKey(item)], text: event.target.value.trim() }),
  });
  note.readOnly = Boolean(embedded);
  const player = same && $("player") ? $("player") : buildPlayer(item);
  panel.replaceChildren(
    el("h2", { id: "track-title" }, badge(item), title(item)),
    el(
      "p",
      { class: "fact" },
      facts.filter(Boolean).join(" · "),
      polyp ? el("span", {}, " · label ", name(polyp)) : null,
    ),
    player,
    ...(embedded
      ? [note.value && note]
      : [
          note,
          el("h3", {}, "Most likely the same"),
          el("p", { class: "fact" }, "P(same) is from the two tracks alone."),
          same && $("candidates") ? $("candidates") : el("div", { id: "candidates", class: "scroll" }),
        ]),
  );
  $("edits").replaceChildren(actions);
  if (focused && $(focused)) $(focused).focus();
  if (embedded) return;
  try {
    const { frames, candidates } = await get(`procedures/${page.number}/candidates`, { item, top: 10 });
    if (page.shown === shown) {
      page.frames = frames;
      renderCandidates(item, candidates);
      showFrame(page.position);
    }
  } catch (error) {
    failed(error);
  }
}
function renderCandidates(item, candidates) {
  const rows = candidates.map(([other, cosine, gap, probability, known]) => {
    const button = (choice, text) =>
      el(
        "button",
        {
          type: "button",
          class: choice,
          "aria-label": `${text}: ${title(item).toLowerCase()} and ${title(other).toLowerCase()}`,
          onclick: () => edit({ kind: "answer", items: keys([item, other]), answer: choice }),
        },
        text,
      );
    const label = { same: "known same", different: "known different", simultaneous: "same time" }[known];
    return el(
      "tr",
      {},
      el(
        "td",
        {},
        strip(other, 6, 48),
        el("span", { class: "known" }, badge(other), `${title(other)} ${lesionName(other)}`),
      ),
      el("td", { class: "n" }, percent(probability)),
      el("td", { class: "n" }, cosine.toFixed(2)),
      el("td", { class: "n" }, page.state.fps ? `${gap.toFixed(1)} s` : "–"),
      el(
        "td",
        {},
        label
          ? el("span", { class: "known" }, label)
          : el("span", { class: "buttons" }, button("same", "Same"), button("different", "Different")),
      ),
    );
  });
  const head = el(
    "tr",
    {},
    ...["Track", "P(same)", "Cosine", "Gap", "Answer"].map((text, column) =>
      el("th", { class: column && column < 4 ? "n" : "", scope: "col" }, text),
    ),
  );
  $("candidates").replaceChildren(el("table", {}, el("thead", {}, head), el("tbody", {}, ...rows)));
}

/* ---- playback ---- */
function buildPlayer(item) {
  stop();
  page.position = 0;
  page.frames = [];
  page.sprite = null;
  const canvas = el("canvas", {
    width: 256,
    height: 256,
    role: "img",
    "aria-label": `Playback of ${title(item).toLowerCase()}`,
  });
  const range = el("input", {
    type: "range",
    id: "position",
    min: 0,
    max: 0,
    value: 0,
    "aria-label": "Frame",
    oninput: event => {
      stop();
      showFrame(Number(event.target.value));
    },
  });
  const side = el(
    "div",
    {},
    strip(item, 6, 96),
    el(
      "p",
      { class: "buttons" },
      el("button", { id: "play", type: "button", onclick: play }, "Play", el("kbd", {}, "space")),
    ),
    range,
    el("p", { class: "fact", id: "frame" }, " "),
    el("div", { id: "edits" }),
  );
  const sprite = new Image(),
    shownItem = itemKey(item).join();
  sprite.addEventListener("load", () => {
    if (page.current >= 0 && itemKey(page.current).join() === shownItem) {
      page.sprite = sprite;
      showFrame(0);
    }
  });
  if (embedded || page.state.pictures.includes(item)) sprite.src = stripAddress(item, 64, 224);
  return el("div", { id: "player" }, canvas, side);
}
function showFrame(position) {
  if (!page.sprite || !$("position")) return;
  const side = page.sprite.naturalHeight,
    count = Math.max(1, Math.round(page.sprite.naturalWidth / side));
  page.position = Math.min(Math.max(position || 0, 0), count - 1);
  const range = $("position"),
    canvas = $("player").querySelector("canvas");
  range.max = count - 1;
  range.value = page.position;
  canvas
    .getContext("2d")
    .drawImage(page.sprite, page.position * side, 0, side, side, 0, 0, canvas.width, canvas.height);
  const frame = frameAt(page.position, count);
  $("frame").textContent =
    `frame ${frame.toLocaleString("en")}${page.state.fps ? `, ${moment(frame, page.state.fps, 0.1)}` : ""}, picture ${page.position + 1} of ${count}`;
}
function frameAt(position, count) {
  const [, first, last] = itemKey(page.current),
    frames = page.frames;
  if (frames.length) return frames[Math.min(Math.floor(((position + 0.5) * frames.length) / count), frames.length - 1)];
  return Math.round(first + ((last - first) * (position + 0.5)) / count);
}
function play() {
  if (page.playing) return stop();
  if (!page.sprite) return;
  const count = Math.round(page.sprite.naturalWidth / page.sprite.naturalHeight);
  page.playing = setInterval(() => showFrame((page.position + 1) % count), 130);
  $("play").firstChild.textContent = "Pause";
}
function stop() {
  clearInterval(page.playing);
  page.playing = 0;
  if ($("play")) $("play").firstChild.textContent = "Play";
}

/* ---- selection and edits ---- */
function select(items, more) {
  if (more)
    for (const item of items) {
      if (page.selected.has(item) && items.length === 1 && item === page.current) page.selected.delete(item);
      else page.selected.add(item);
    }
  if (more && page.current >= 0 && !page.selected.size) page.selected.add(page.current);
  if (more && page.current >= 0 && page.selected.size === 1 && items.length) page.selected.add(page.current);
  if (!more) page.selected = new Set(items.length > 1 ? items : []);
  page.current = items.length ? items[items.length - 1] : more ? page.current : -1;
  if (page.current >= 0) {
    timeline.reveal(page.current);
    $("spoken").textContent =
      `${title(page.current)}, ${lesionName(page.current)}, ${times(page.current)}${page.selected.size > 1 ? `, ${page.selected.size} selected` : ""}`;
  }
  closeMessage("toast");
  mark();
  renderTrack();
}
function merge() {
  if (page.selected.size < 2) toast("Select two or more tracks first, with Shift.");
  else edit({ kind: "merge", items: keys(chosen()) });
}
function confirmLesion() {
  const items = page.current < 0 ? [] : lesionItems(lesionOf(page.current));
  if (items.length && lesionOf(page.current) >= 0) edit({ kind: "merge", items: keys(items) });
}
function reject() {
  const items = chosen();
  if (items.length) edit({ kind: page.state.rejected.includes(items[0]) ? "restore" : "reject", items: keys(items) });
}
function split() {
  if (page.current < 0) return;
  const count = page.sprite ? Math.round(page.sprite.naturalWidth / page.sprite.naturalHeight) : 1,
    [, first, last] = itemKey(page.current);
  const frame = page.sprite ? frameAt(page.position, count) : Math.round((first + last) / 2);
  if (frame <= first) return toast("Choose the first frame of the second lesion with the slider, then split.");
  edit({ kind: "split", items: [itemKey(page.current)], frame });
}
function move() {
  const items = chosen();
  if (!items.length || !page.lesions) return;
  const lesions = [...new Set(page.lesions.lesion)]
    .filter(each => each >= 0 && each !== lesionOf(items[0]))
    .sort((a, b) => a - b);
  const left = new Set(items.map(lesionOf)),
    others = target =>
      page.lesions.lesion.flatMap((each, item) =>
        // a new lesion is none of the others
        each >= 0 && each !== target && !items.includes(item) && (target === null || left.has(each)) ? [item] : [],
      );
  const go = (target, to) => {
    closeDialog();
    edit({ kind: "move", items: keys(items), others: keys(others(target)), to });
  };
  const choices = lesions.map(each => {
    const members = lesionItems(each);
    return el(
      "button",
      { type: "button", onclick: () => go(each, itemKey(members.find(item => !items.includes(item)) ?? members[0])) },
      badge(members[0]),
      `Lesion ${each + 1}, ${counted(members.length, "track")}, ${sightings(members)}`,
    );
  });
  dialog(
    `Move ${items.length > 1 ? counted(items.length, "track") : title(items[0]).toLowerCase()} to`,
    el(
      "div",
      { class: "choices" },
      el("button", { type: "button", onclick: () => go(null, null) }, "A new lesion"),
      ...choices,
    ),
  );
}
const undo = () => edit({ kind: "undo" }),
  redo = () => edit({ kind: "redo" });
function hover(item, x, y) {
  const box = $("hover");
  if (item < 0 || !page.state) {
    box.hidden = true;
    page.hovered = -1;
    return;
  }
  if (page.hovered !== item) {
    page.hovered = item;
    const picture =
      page.state.pictures.includes(item) || embedded ? el("img", { src: stripAddress(item, 4, 72), alt: "" }) : null;
    if (picture) {
      picture.style.aspectRatio = embedded ? 8 : 4;
      picture.addEventListener("error", () => picture.remove());
    }
    box.replaceChildren(
      ...[
        picture,
        el("div", {}, badge(item), `${title(item)} · ${lesionName(item)} · ${times(item)}`),
        page.state.notes[item] ? el("div", { class: "long", dir: "auto" }, page.state.notes[item]) : null,
      ].filter(Boolean),
    );
  }
  box.hidden = false;
  box.style.left = `${Math.min(Math.max(0, x - 80), Math.max(0, $("stage").clientWidth - 310))}px`;
  box.style.top = `${y + 16}px`;
}
