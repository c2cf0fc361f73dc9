"use strict";
/* The timeline: one lane per lesion on a canvas. Draws only what is visible, once per frame at most. */
const DARK = matchMedia("(prefers-color-scheme: dark)");
class Timeline {
  constructor(canvas, handlers) {
    this.canvas = canvas;
    this.handlers = handlers;
    this.context = canvas.getContext("2d");
    this.items = { first: [], last: [], track: [] };
    this.lanes = [];
    this.laneOf = [];
    this.solid = [];
    this.selected = new Set();
    this.current = -1;
    this.asked = [];
    this.start = 0;
    this.end = 1;
    this.scroll = 0;
    this.laneHeight = 26;
    this.axis = 24;
    this.pointers = new Map();
    this.dirty = false;
    this.frames = 0;
    new ResizeObserver(() => this.draw()).observe(canvas);
    DARK.addEventListener("change", () => this.draw());
    canvas.addEventListener("wheel", event => this.wheel(event), { passive: false });
    canvas.addEventListener("pointerdown", event => this.down(event));
    canvas.addEventListener("pointermove", event => this.move(event));
    for (const name of ["pointerup", "pointercancel"]) canvas.addEventListener(name, event => this.up(event));
    canvas.addEventListener("pointerleave", () => this.handlers.hover(-1));
    canvas.addEventListener("keydown", event => this.key(event));
  }
  get label() {
    return this.canvas.clientWidth < 600 ? 88 : 150;
  }
  get plot() {
    return this.width - this.label - 8;
  } // with a margin, so that the last track is seen whole
  get span() {
    return this.end - this.start;
  }
  static hue(lesion) {
    return (205 + lesion * 137.508) % 360;
  }
  static colour(lesion, alpha = 1) {
    return lesion < 0
      ? `rgb(130 138 146 / ${alpha})`
      : `hsl(${Timeline.hue(lesion)} 46% ${DARK.matches ? 60 : 46}% / ${alpha})`;
  }

  setData({ items, lesion, solid, fps }) {
    const before = this.full ? [this.start, this.end] : null;
    this.items = items;
    this.fps = fps;
    this.lesion = lesion;
    this.solid = solid;
    const present = [...new Set(lesion)].sort((a, b) => (a < 0) - (b < 0) || a - b);
    const index = new Map(present.map((name, lane) => [name, lane]));
    this.lanes = present.map(() => []);
    this.laneOf = lesion.map(name => index.get(name));
    this.names = present;
    lesion.forEach((name, item) => this.lanes[index.get(name)].push(item));
    const last = items.last.reduce((top, frame) => Math.max(top, frame), 1);
    const changed = this.full !== last + 1;
    this.full = last + 1;
    if (!before || changed) {
      this.start = 0;
      this.end = this.full;
    }
    this.clampView();
    this.draw();
  }
  setSelection(selected, current, asked) {
    this.selected = selected;
    this.current = current;
    this.asked = asked;
    this.draw();
  }
  draw() {
    if (!this.dirty) {
      this.dirty = true;
      requestAnimationFrame(() => this.paint());
    }
  }
  x(frame) {
    return this.label + ((frame - this.start) / this.span) * this.plot;
  }
  frame(x) {
    return this.start + ((x - this.label) / this.plot) * this.span;
  }

  paint() {
    this.dirty = false;
    this.frames++;
    const { canvas, context: c } = this,
      ratio = devicePixelRatio || 1;
    const width = (this.width = canvas.clientWidth),
      height = (this.height = canvas.clientHeight);
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
    }
    const style = getComputedStyle(document.documentElement),
      ink = style.getPropertyValue("--ink"),
      soft = style.getPropertyValue("--soft");
    const line = style.getPropertyValue("--line"),
      ground = style.getPropertyValue("--panel"),
      lane = style.getPropertyValue("--lane");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.fillStyle = ground;
    c.fillRect(0, 0, width, height);
    const first = Math.max(0, Math.floor(this.scroll / this.laneHeight)),
      shown = Math.ceil(height / this.laneHeight) + 1;
    c.font = "12px system-ui, sans-serif";
    c.textBaseline = "middle";
    for (let row = first; row < Math.min(this.lanes.length, first + shown); row++) {
      const y = this.axis + row * this.laneHeight - this.scroll;
      c.fillStyle = row % 2 ? lane : ground;
      c.fillRect(0, y, width, this.laneHeight);
      this.paintLane(c, row, y, ink);
      c.fillStyle = row % 2 ? lane : ground;
      c.fillRect(0, y, this.label - 4, this.laneHeight);
      c.fillStyle = Timeline.colour(this.names[row]);
      c.fillRect(4, y + 8, 10, 10);
      c.fillStyle = ink;
      c.fillText(this.title(row), 20, y + this.laneHeight / 2, this.label - 26);
    }
    this.paintAxis(c, ground, soft, line, height);
    if (this.lanes.length && !this.marked) {
      this.marked = true;
      performance.mark("timeline");
    }
    if (this.lanes.length * this.laneHeight > height - this.axis) {
      const part = (height - this.axis) / (this.lanes.length * this.laneHeight);
      c.fillStyle = line;
      c.fillRect(width - 5, this.axis + this.scroll * part, 4, Math.max(16, (height - this.axis) * part));
    }
  }
  title(row) {
    const name = this.names[row],
      tracks = counted(this.lanes[row].length, "track"),
      narrow = this.label < 100;
    return name < 0 ? "Not a lesion" : `${narrow ? "" : "Lesion "}${name + 1} · ${tracks}`;
  }
  paintLane(c, row, y, ink) {
    const { first, last } = this.items,
      height = this.laneHeight - 8,
      members = this.lanes[row],
      colour = this.names[row];
    const strong = Timeline.colour(colour),
      light = Timeline.colour(colour, 0.42);
    let until = -1;
    for (const item of members) {
      if (last[item] < this.start || first[item] > this.end) continue;
      const left = Math.max(this.label - 4, this.x(first[item])),
        right = Math.min(this.width, this.x(last[item] + 1));
      const special = this.selected.has(item) || item === this.current || this.asked.includes(item);
      if (right <= until && !special) continue; // hidden by the bars before it
      const wide = Math.max(2, right - left - 0.5);
      c.fillStyle = this.solid[item] ? strong : light;
      c.fillRect(left, y + 4, wide, height);
      until = left + wide;
      if (!special) continue;
      c.strokeStyle = ink;
      c.lineWidth = item === this.current ? 3 : 2;
      c.setLineDash(this.selected.has(item) || item === this.current ? [] : [3, 2]);
      c.strokeRect(left - 1, y + 3, wide + 2, height + 2);
      c.setLineDash([]);
    }
  }
  paintAxis(c, ground, soft, line, height) {
    c.fillStyle = ground;
    c.fillRect(0, 0, this.width, this.axis);
    c.fillStyle = soft;
    c.strokeStyle = line;
    c.lineWidth = 1;
    const rate = this.fps || 1,
      seconds = this.span / rate,
      wanted = Math.max(2, this.plot / 90);
    const steps = [0.04, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600];
    let step = steps.find(each => seconds / each <= wanted);
    if (!this.fps || !step) {
      const power = 10 ** Math.floor(Math.log10(seconds / wanted));
      step = [1, 2, 5, 10].map(m => m * power).find(each => seconds / each <= wanted);
    }
    c.beginPath();
    for (let tick = Math.ceil(this.start / rate / step); tick * step * rate <= this.end; tick++) {
      const x = Math.round(this.x(tick * step * rate)) + 0.5;
      c.moveTo(x, this.axis - 5);
      c.lineTo(x, height);
      c.fillText(moment(tick * step * rate, this.fps, step), x + 3, 10);
    }
    c.globalAlpha = 0.6;
    c.stroke();
    c.globalAlpha = 1;
    c.fillStyle = ground;
    c.fillRect(0, 0, this.label - 4, this.axis);
  }

  clampView() {
    const least = this.fps ? this.fps : 10,
      span = Math.min(Math.max(this.span, Math.min(least, this.full)), this.full);
    this.start = Math.min(Math.max(0, this.start), this.full - span);
    this.end = this.start + span;
    const most = Math.max(0, this.lanes.length * this.laneHeight - (this.height || 300) + this.axis);
    this.scroll = Math.min(Math.max(0, this.scroll), most);
  }
  zoom(factor, at = (this.start + this.end) / 2) {
    this.start = at - (at - this.start) * factor;
    this.end = at + (this.end - at) * factor;
    const least = this.fps || 10;
    if (this.end - this.start < least) {
      this.start = at - least / 2;
      this.end = at + least / 2;
    }
    this.clampView();
    this.draw();
  }
  pan(frames, pixels = 0) {
    const span = this.span;
    this.start += frames;
    this.end = this.start + span;
    this.scroll += pixels;
    this.clampView();
    this.draw();
  }
  fit() {
    this.start = 0;
    this.end = this.full;
    this.scroll = 0;
    this.clampView();
    this.draw();
  }
  reveal(item) {
    if (item < 0 || item >= this.items.first.length) return;
    const middle = (this.items.first[item] + this.items.last[item]) / 2;
    if (middle < this.start || middle > this.end) this.pan(middle - (this.start + this.end) / 2);
    const y = this.laneOf[item] * this.laneHeight;
    if (y < this.scroll) this.scroll = y;
    if (y + this.laneHeight > this.scroll + this.height - this.axis)
      this.scroll = y + this.laneHeight - this.height + this.axis;
    this.clampView();
    this.draw();
  }
  hit(x, y) {
    if (y < this.axis) return -1;
    const row = Math.floor((y - this.axis + this.scroll) / this.laneHeight);
    if (!this.lanes[row] || x < this.label - 4) return -1;
    let best = -1,
      nearest = 5;
    for (const item of this.lanes[row]) {
      const left = this.x(this.items.first[item]),
        right = this.x(this.items.last[item] + 1);
      const distance = x < left ? left - x : x > right ? x - right : 0;
      if (distance < nearest) {
        best = item;
        nearest = distance;
        if (!distance) break;
      }
    }
    return best;
  }
  laneAt(x, y) {
    const row = Math.floor((y - this.axis + this.scroll) / this.laneHeight);
    return y >= this.axis && x < this.label - 4 && this.lanes[row] ? row : -1;
  }
  wheel(event) {
    const most = this.lanes.length * this.laneHeight - this.height + this.axis;
    if (event.ctrlKey || event.metaKey || event.altKey)
      this.zoom(Math.exp(event.deltaY * 0.0022), this.frame(event.offsetX));
    else if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY))
      this.pan(((event.deltaX || event.deltaY) / this.plot) * this.span);
    else if (most > 0 && (event.deltaY < 0 ? this.scroll > 0 : this.scroll < most)) this.pan(0, event.deltaY);
    else return;
    event.preventDefault();
  }
  down(event) {
    this.canvas.setPointerCapture(event.pointerId);
    this.pointers.set(event.pointerId, event);
    this.moved = 0;
    this.lasso = event.shiftKey ? event : null;
  }
  move(event) {
    const before = this.pointers.get(event.pointerId);
    if (!before) {
      const item = this.hit(event.offsetX, event.offsetY);
      this.canvas.style.cursor = item >= 0 ? "pointer" : "grab";
      this.handlers.hover(item, event.offsetX, event.offsetY);
      return;
    }
    this.moved += Math.abs(event.offsetX - before.offsetX) + Math.abs(event.offsetY - before.offsetY);
    const others = [...this.pointers.values()].filter(each => each.pointerId !== event.pointerId);
    const scale = this.span / this.plot;
    if (others.length) {
      const gap = Math.abs(before.offsetX - others[0].offsetX) || 1,
        now = Math.abs(event.offsetX - others[0].offsetX) || 1;
      this.zoom(gap / now, this.frame(others[0].offsetX));
    } else if (!this.lasso) this.pan((before.offsetX - event.offsetX) * scale, before.offsetY - event.offsetY);
    this.pointers.set(event.pointerId, event);
    this.handlers.hover(-1);
  }
  up(event) {
    const tap = this.pointers.delete(event.pointerId) && this.moved < 6 && event.type === "pointerup";
    const more = event.ctrlKey || event.metaKey || event.shiftKey;
    if (tap) {
      const row = this.laneAt(event.offsetX, event.offsetY);
      if (row >= 0) this.handlers.select(this.lanes[row], more);
      else {
        const item = this.hit(event.offsetX, event.offsetY);
        this.handlers.select(item < 0 ? [] : [item], more);
      }
    } else if (this.lasso && event.type === "pointerup") {
      const from = this.frame(Math.min(this.lasso.offsetX, event.offsetX)),
        to = this.frame(Math.max(this.lasso.offsetX, event.offsetX));
      const rows = [this.lasso.offsetY, event.offsetY]
        .map(y => Math.floor((y - this.axis + this.scroll) / this.laneHeight))
        .sort((a, b) => a - b);
      const inside = this.items.first
        .map((_, item) => item)
        .filter(
          item =>
            this.items.last[item] >= from &&
            this.items.first[item] <= to &&
            this.laneOf[item] >= rows[0] &&
            this.laneOf[item] <= rows[1],
        );
      this.handlers.select(inside, true);
    }
    this.lasso = null;
  }
  key(event) {
    const { first } = this.items,
      count = first.length,
      item = this.current;
    const sideways = { ArrowLeft: -1, ArrowRight: 1 }[event.key],
      upright = { ArrowUp: -1, ArrowDown: 1 }[event.key];
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (sideways && count) this.handlers.select([Math.min(Math.max(item + sideways, 0), count - 1)], event.shiftKey);
    else if (upright && count) {
      const row = Math.min(Math.max((item < 0 ? -1 : this.laneOf[item]) + upright, 0), this.lanes.length - 1),
        at = item < 0 ? 0 : first[item];
      this.handlers.select(
        [
          this.lanes[row].reduce((best, each) =>
            Math.abs(first[each] - at) < Math.abs(first[best] - at) ? each : best,
          ),
        ],
        event.shiftKey,
      );
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

/* A moment in the video: minutes and seconds, or the frame where the frame rate is unknown. */
function moment(frame, fps, step = 1) {
  if (!fps) return Math.round(frame).toLocaleString("en");
  const total = frame / fps,
    digits = step < 1 ? (step < 0.1 ? 2 : 1) : 0,
    rounded = Number(total.toFixed(digits));
  const seconds = rounded % 60,
    minutes = Math.floor(rounded / 60) % 60,
    hours = Math.floor(rounded / 3600);
  const tail = seconds.toFixed(digits).padStart(digits ? 3 + digits : 2, "0");
  return hours ? `${hours}:${String(minutes).padStart(2, "0")}:${tail}` : `${minutes}:${tail}`;
}
