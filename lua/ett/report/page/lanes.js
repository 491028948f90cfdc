// Lanes of events over time: drawn from their overviews (runtime/pack/lane.h) until the window is narrow, then from
// the events themselves, unpacked when they are near enough to be seen.
// A colour #rrggbb or #rgb as a pixel of image data.
const pixelOf = (c, alpha) => {
  if (c.length === 4) c = "#" + c[1] + c[1] + c[2] + c[2] + c[3] + c[3];
  return (alpha << 24 | parseInt(c.slice(5, 7), 16) << 16 | parseInt(c.slice(3, 5), 16) << 8 | parseInt(c.slice(1, 3), 16)) >>> 0;
};

// A pixel over an opaque one.
const over = (p, q) => {
  const a = p >>> 24, b = 255 - a, mix = k => ((p >>> k & 255) * a + (q >>> k & 255) * b + 127) / 255 << k;
  return (0xff000000 | mix(16) | mix(8) | mix(0)) >>> 0;
};

// The pixels of all lanes in view, given to the canvas at once.
class Raster {
  constructor(width, height, ratio) {
    this.width = Math.max(1, Math.round(width * ratio));
    this.height = Math.max(1, Math.round(height * ratio));
    this.ratio = ratio;
    this.image = new ImageData(this.width, this.height);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.ground = new Uint32Array(this.width);
    this.idle = new Uint32Array(this.width);
  }

  // An empty picture: the card's colour with the lines of the grid, and what an idle lane looks like on it.
  clear(card, line, idle, grid) {
    const { pixels, ground, width } = this;
    ground.fill(card);
    for (const x of grid) ground.fill(line, Math.round(x * this.ratio), Math.round((x + 1) * this.ratio));
    for (let k = 0; k < width; k++) this.idle[k] = k && ground[k] === ground[k - 1] ? this.idle[k - 1] : over(idle, ground[k]);
    pixels.set(ground);
    for (let done = width; done < pixels.length; done *= 2) pixels.copyWithin(done, 0, Math.min(done, pixels.length - done));
  }

  // Fills the rows from y to y + h (CSS pixels) with one row of pixels.
  rows(row, y, h) {
    const first = Math.max(0, Math.round(y * this.ratio)), last = Math.min(this.height, Math.round((y + h) * this.ratio));
    for (let k = first; k < last; k++) this.pixels.set(row, k * this.width);
  }
}

class Lanes {
  // spec: {from, to, tick (seconds), kinds: [[name, color]], labels (blob), groups: [{name, open, lanes: [{name, bins,
  // rows, count, overview, waits, chunks: [from, to, count, blob, ...]}]}], marks: [[name, from, to]]}
  constructor(place, spec) {
    this.spec = spec;
    this.from = spec.from;
    this.to = Math.max(spec.to, spec.from + 1);
    this.full = [this.from, this.to];
    this.left = Math.min(210, Math.max(90, Math.round(innerWidth * 0.14)));
    this.axis = 40;
    this.canvas = el("canvas", { tabindex: "0", "aria-label": "timeline" });
    this.space = el("div");
    this.box = el("div", { class: "lanes" }, this.canvas, this.space);
    this.picked = el("div", { class: "picked" }, "Click an event to keep its details here.");
    this.query = "";
    this.matched = null;
    this.found = [];
    this.widths = new Map(); // of texts in the canvas's font
    this.chunks = new Map();
    this.waiting = 0;
    this.shades = new Map();
    place.append(this.toolbar(), legend(spec.kinds), this.box, this.picked);
    const numbered = new Map();
    for (const group of spec.groups) for (const lane of group.lanes) if (lane.id) numbered.set(lane.id, lane);
    for (const group of spec.groups) for (const lane of group.lanes) {
      lane.group = group;
      lane.open = lane.open !== false;
      if (lane.like) { lane.of = numbered.get(lane.like); continue; }
      lane.pieces = [];
      for (let i = 0; i < lane.chunks.length; i += 4) {
        lane.pieces.push({ from: lane.chunks[i], to: lane.chunks[i + 1], count: lane.chunks[i + 2], blob: lane.chunks[i + 3], events: null });
      }
    }
    this.listen();
    for (const group of spec.groups) for (const lane of group.lanes) if (lane.of) lane.pieces = lane.of.pieces;
    redraws.push(() => { this.shades.clear(); this.lay(); this.request(); });
  }

  toolbar() {
    const search = el("input", { type: "search", placeholder: "search names, shapes …", "aria-label": "search" });
    this.count = el("span", { class: "note" });
    search.addEventListener("input", () => { clearTimeout(this.timer); this.timer = setTimeout(() => this.search(search.value), 120); });
    search.addEventListener("keydown", e => {
      if (e.key === "Enter") this.next(e.shiftKey ? -1 : 1);
      if (e.key === "Escape") { search.value = ""; this.search(""); }
    });
    const button = (text, title, f) => el("button", { title, onclick: f }, text);
    return el("div", { class: "bar" }, search, button("‹", "previous match", () => this.next(-1)),
      button("›", "next match (Enter)", () => this.next(1)), this.count, el("span", { class: "grow" }),
      el("span", { class: "note" }, el("kbd", {}, "ctrl"), "+wheel or ", el("kbd", {}, "W"), " ", el("kbd", {}, "S"),
        " zoom · drag or ", el("kbd", {}, "A"), " ", el("kbd", {}, "D"), " pan · drag the axis or ", el("kbd", {}, "shift"),
        "+drag: zoom into · double click: to the event"),
      button("+", "zoom in", () => this.zoomBy(0.5)), button("−", "zoom out", () => this.zoomBy(2)),
      button("all", "show everything", () => this.zoom(...this.full)));
  }

  async load() {
    this.labels = await unpackJson(this.spec.labels); // {names, list: [[name, kind, detail, bytes]]}
    const wanted = [];
    for (const group of this.spec.groups) for (const lane of group.lanes) {
      if (!lane.like) wanted.push(unpack(lane.overview).then(b => { lane.bytes = b; }));
    }
    if (this.spec.parts !== undefined) wanted.push(unpackJson(this.spec.parts).then(p => { this.parts = p; }));
    await Promise.all(wanted);
    this.lay();
    this.draw();
    return this;
  }

  // The rows of the picture: {lane, group, y, h, row}.
  lay() {
    const lines = [];
    let y = 0;
    const width = this.box.clientWidth || 800;
    for (const group of this.spec.groups) {
      if (group.name) {
        lines.push({ group, y, h: 20 });
        y += 20;
      }
      if (group.open === false) continue;
      for (const lane of group.lanes) {
        const rows = lane.open ? lane.rows : 1, h = rows > 1 ? Math.max(12, 15 - rows / 8) : this.rowHeight || 18;
        lines.push({ lane, y: y + 1, h: rows * h, row: h, rows });
        y += rows * h + 3;
      }
      y += 3;
    }
    this.lines = lines;
    this.width = width;
    const view = Math.max(160, Math.min(y + this.axis + 4, Math.round(innerHeight * 0.78)));
    this.height = view;
    this.box.style.height = view + 2 + "px";
    this.space.style.height = Math.max(0, y + this.axis + 4 - view) + "px";
  }

  request() {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => { this.pending = false; this.draw(); });
  }

  x(t) { return this.left + (t - this.from) / (this.to - this.from) * (this.width - this.left); }
  t(x) { return this.from + (x - this.left) / (this.width - this.left) * (this.to - this.from); }

  shade(label) {
    let c = this.shades.get(label);
    if (c) return c;
    const kind = this.labels.list[label][1];
    c = color(this.spec.kinds[kind][1]);
    // Neighbouring kernels differ a little in lightness, so that they can be told apart.
    const name = this.labels.list[label][0], rgb = [1, 3, 5].map(i => parseInt(c.slice(i, i + 2), 16));
    const shift = ((name * 2654435761 >>> 8) % 7 - 3) * 7;
    c = "#" + rgb.map(v => Math.max(0, Math.min(255, v + shift)).toString(16).padStart(2, "0")).join("");
    this.shades.set(label, c);
    return c;
  }

  // Draws a lane's overview: a pixel takes the mean share of its bins and the colour of the fullest.
  drawOverview(lane, y, row, rows) {
    const { raster, matched } = this, { width } = raster, { bins, bytes } = lane;
    const colors = this.spec.kinds.map(k => pixelOf(color(k[1]), 255) & 0xffffff), line = new Uint32Array(width);
    const scale = bins / (this.full[1] - this.full[0]), from = (this.from - this.full[0]) * scale;
    const step = (this.to - this.from) * scale / width;
    for (let r = 0; r < rows; r++) {
      for (let k = 0; k < width; k++) {
        const first = Math.max(0, Math.floor(from + k * step)), last = Math.min(bins, Math.max(first + 1, Math.floor(from + (k + 1) * step)));
        let sum = 0, most = 0, kind = 0;
        for (let i = first; i < last; i++) {
          const share = bytes[2 * (r * bins + i)];
          sum += share;
          if (share > most) { most = share; kind = bytes[2 * (r * bins + i) + 1]; }
        }
        const alpha = most ? Math.max(24, sum / (last - first)) * (matched ? 0.15 : 1) : 0;
        line[k] = most ? over(alpha << 24 | colors[kind], raster.idle[k]) : raster.idle[k];
      }
      raster.rows(line, y + r * row, row - 1);
    }
  }

  // Starts to unpack a chunk; its events as arrays.
  open(lane, piece) {
    if (lane.of) lane = lane.of;
    if (piece.events) return piece.events;
    if (!piece.asked) {
      this.waiting++;
      piece.asked = unpack(piece.blob).then(b => {
        piece.events = this.read(lane, piece, b);
        this.waiting--;
        this.request();
        return piece.events;
      });
    }
    return null;
  }

  read(lane, piece, b) {
    let at = 0;
    const number = () => {
      let value = 0, scale = 1, byte;
      do {
        byte = b[at++];
        value += (byte & 127) * scale;
        scale *= 128;
      } while (byte > 127);
      return value;
    };
    const n = number(), start = new Float64Array(n), dur = new Float64Array(n), label = new Uint32Array(n);
    const row = new Uint8Array(n);
    let t = piece.from;
    for (let i = 0; i < n; i++) start[i] = t += number();
    for (let i = 0; i < n; i++) dur[i] = number();
    for (let i = 0; i < n; i++) label[i] = number();
    if (lane.rows > 1) for (let i = 0; i < n; i++) row[i] = number();
    let wait = null;
    if (lane.waits) {
      wait = new Float64Array(n);
      for (let i = 0; i < n; i++) wait[i] = number();
    }
    return { n, start, dur, label, row, wait };
  }

  draw() {
    const begun = performance.now(), g = context(this.canvas, this.width, this.height), top = this.box.scrollTop;
    const ratio = window.devicePixelRatio || 1, seen = l => l.y + l.h >= top && l.y <= top + this.height;
    this.paint(top, ratio, this.lines.filter(l => l.lane && seen(l)));
    g.putImageData(this.raster.image, Math.round(this.left * ratio), Math.round(this.axis * ratio));
    g.save();
    g.beginPath();
    g.rect(0, this.axis, this.width, this.height - this.axis);
    g.clip();
    g.translate(0, this.axis - top);
    this.drawTexts(g);
    g.fillStyle = color("card");
    g.fillRect(0, top, this.left - 4, this.height);
    for (const line of this.lines) if (seen(line)) this.drawName(g, line);
    g.restore();
    this.drawAxis(g);
    this.lastDraw = performance.now() - begun;
    if (this.settled && !this.waiting) { const f = this.settled; this.settled = null; f(); }
  }

  // The pixels of lanes, and the texts on them.
  paint(top, ratio, lines) {
    const width = this.width - this.left, height = this.height - this.axis;
    let raster = this.raster;
    if (!raster || raster.width !== Math.round(width * ratio) || raster.height !== Math.round(height * ratio)) {
      raster = this.raster = new Raster(width, height, ratio);
    }
    const grid = [];
    this.grid(x => { if (x >= this.left) grid.push(x - this.left); });
    raster.clear(pixelOf(color("card"), 255), pixelOf(color("line"), 255), pixelOf(color("idle"), 115), grid);
    this.pixels = new Uint32Array(this.labels.list.length);
    this.texts = [];
    for (const line of lines) this.drawLane(line, line.y - top);
  }

  drawName(g, line) {
    if (line.group) {
      g.fillStyle = color("soft");
      g.fillRect(0, line.y, this.width, line.h - 2);
      g.fillStyle = color("ink");
      g.font = "600 11.5px system-ui, Liberation Sans, Arial, sans-serif";
      g.fillText((line.group.open === false ? "▸ " : "▾ ") + line.group.name, 6, line.y + 13);
      g.font = "11px system-ui, Liberation Sans, Arial, sans-serif";
      return;
    }
    g.fillStyle = color("dim");
    const fold = line.lane.rows > 1 ? (line.lane.open ? "▾ " : "▸ ") : "";
    if (line.row >= 9) this.text(g, fold + line.lane.name, 16, line.y + Math.min(13, line.row - 4), this.left - 22);
  }

  // y: of the picture; texts are placed in the lanes' own height.
  drawLane({ lane, y: inside, h, row, rows }, y) {
    this.raster.rows(this.raster.idle, y, h);
    const binWidth = (this.full[1] - this.full[0]) / (lane.bins || 1), pixel = (this.to - this.from) / (this.width - this.left);
    const near = lane.of || binWidth > pixel * 0.75 || lane.count <= 300 || this.matched;
    const pieces = lane.pieces.filter(p => p.to >= this.from && p.from <= this.to);
    let exact = near && pieces.length > 0;
    if (near) for (const p of pieces) if (!this.open(lane, p)) exact = false;
    if (lane.pieces.length > 0 && near && pieces.length === 0) return;
    if (exact) {
      if (lane.of) this.drawParts(lane, pieces, y, row, inside);
      else this.drawEvents(lane, pieces, y, row, rows, inside);
    } else if (!lane.of) this.drawOverview(lane, y, row, rows);
  }

  // A strip of pixels, rows of the picture's width: spans of events, and shares of events smaller than a pixel.
  strip(rows) {
    const { width, ratio } = this.raster, size = width * rows;
    let strip = this.kept;
    if (!strip || strip.pixels.length !== size) {
      strip = this.kept = { cover: new Float32Array(size), of: new Uint32Array(size), pixels: new Uint32Array(size) };
    } else {
      strip.pixels.fill(0);
      if (strip.small) strip.cover.fill(0);
    }
    strip.width = width;
    strip.rows = rows;
    strip.ratio = ratio;
    strip.small = false;
    return strip;
  }

  // The colour of a label as a pixel.
  pixel(label) {
    return this.pixels[label] || (this.pixels[label] = pixelOf(this.shade(label), this.matched && !this.matched[label] ? 40 : 255));
  }

  // Adds an event from a to b (pixels of the strip) of a row.
  span(strip, row, a, b, label, p) {
    const width = strip.width;
    if (b - a < 1) {
      if (this.matched && !this.matched[label]) return;
      const k = row * width + Math.max(0, Math.min(width - 1, a | 0));
      strip.cover[k] += Math.max(b - a, 0.08);
      strip.of[k] = label;
      strip.small = true;
      return;
    }
    const first = Math.max(0, Math.round(a)), last = Math.min(width, Math.max(first + 1, Math.round(b) - (b - a > 4 * strip.ratio ? 1 : 0)));
    if (first < last) strip.pixels.fill(p === undefined ? this.pixel(label) : p, row * width + first, row * width + last);
  }

  // Draws a strip: each of its rows stretched to the height of a row.
  show(strip, y, row) {
    const { width, rows, cover, of, pixels, small } = strip, { raster } = this, idle = raster.idle;
    for (let k = 0, column = 0; k < pixels.length; k++) {
      let p = pixels[k];
      if (!p && small && cover[k]) p = (this.pixel(of[k]) & 0xffffff | Math.round(255 * Math.max(0.25, Math.min(1, cover[k]))) << 24) >>> 0;
      pixels[k] = p >>> 24 === 255 ? p : p ? over(p, idle[column]) : idle[column];
      if (++column === width) column = 0;
    }
    for (let r = 0; r < rows; r++) raster.rows(pixels.subarray(r * width, (r + 1) * width), y + r * row, row - 1);
  }

  // The first event of a piece that ends at t or later: none before it does.
  first(events, t) {
    if (!events.reach) {
      const reach = events.reach = new Float64Array(events.n);
      for (let i = 0, most = -Infinity; i < events.n; i++) reach[i] = most = Math.max(most, events.start[i] + events.dur[i]);
    }
    let low = 0, high = events.n;
    while (low < high) {
      const middle = low + high >> 1;
      if (events.reach[middle] < t) low = middle + 1; else high = middle;
    }
    return low;
  }

  drawEvents(lane, pieces, y, row, rows, inside) {
    const strip = this.strip(rows), { width, ratio } = strip, scale = (this.width - this.left) / (this.to - this.from) * ratio;
    const { left, from, texts } = this, waits = alpha => pixelOf(color("wait"), alpha), dim = waits(40), full = waits(255);
    const wide = row >= 11 ? 15 * ratio : Infinity;
    for (const { events } of pieces) {
      const { n, start, dur, label, row: depth, wait } = events;
      for (let i = this.first(events, from); i < n; i++) {
        const a = (start[i] - from) * scale, b = a + dur[i] * scale, r = depth[i];
        if (a > width) break;
        if (b < 0 || r >= rows) continue;
        if (wait && wait[i] > 0 && b - a >= 1) {
          const m = a + wait[i] * scale;
          this.span(strip, r, a, m, label[i], this.matched && !this.matched[label[i]] ? dim : full);
          if (b - m >= 1) this.span(strip, r, m, b, label[i]);
        } else this.span(strip, r, a, b, label[i]);
        if (b - a <= wide) continue;
        const low = Math.max(0, a), shown = Math.min(width, b) - low;
        if (shown > wide) texts.push([left + low / ratio, inside + r * row, shown / ratio, label[i], wait && wait[i] > dur[i] / 2, row]);
      }
    }
    this.show(strip, y, row);
  }

  drawTexts(g) {
    let alpha = -1, fill = null;
    for (const [x, y, width, label, dim, row] of this.texts) {
      const ink = dim ? "ink" : "#fff", clear = this.matched && !this.matched[label] ? 0.4 : 1;
      if (ink !== fill) g.fillStyle = color(fill = ink);
      if (clear !== alpha) g.globalAlpha = alpha = clear;
      this.text(g, this.labels.names[this.labels.list[label][0]], x + 3, y + Math.min(12, row - 3.5), width - 6);
    }
    g.globalAlpha = 1;
  }

  // The parts of a label that keep a resource busy: {list: [label, resource, start, duration], total}.
  partsOf(lane, label) {
    if (!lane.known) lane.known = new Map();
    const of = this.labels.list[label][4];
    let parts = lane.known.get(of);
    if (!parts) {
      const list = (this.parts && this.parts.lists[this.parts.of[lane.like + ":" + of]] || []).filter(p => p[1] === lane.resource);
      parts = { list, total: list.reduce((sum, p) => sum + p[3], 0) };
      lane.known.set(of, parts);
    }
    return parts;
  }

  drawParts(lane, pieces, y, row, inside) {
    const strip = this.strip(1), { width, ratio } = strip, scale = (this.width - this.left) / (this.to - this.from) * ratio;
    const { left, from: begin, texts } = this, wide = row >= 11 ? 15 * ratio : Infinity;
    for (const { events } of pieces) {
      const { n, start, dur, label } = events;
      // Parts may begin a little before their unit and end behind it.
      for (let i = this.first(events, begin - 50 / scale); i < n; i++) {
        const x0 = (start[i] - begin) * scale, w = dur[i] * scale;
        if (x0 > width + 50) break;
        if (x0 + w < -50) continue;
        const { list, total } = this.partsOf(lane, label[i]);
        if (!list.length) continue;
        if (w < Math.max(2, list.length / 8)) { // too many parts for its pixels
          for (let x = x0; x < x0 + w; x++) if (x >= 0 && x < width) this.span(strip, 0, x, x + Math.min(0.99, total * scale / w * Math.min(1, w)), list[0][0]);
          continue;
        }
        for (const [part, , from, length] of list) {
          const a = x0 + from * scale, b = a + length * scale;
          if (b < 0 || a > width) continue;
          this.span(strip, 0, a, b, part);
          const low = Math.max(0, a), shown = Math.min(width, b) - low;
          if (shown > wide) texts.push([left + low / ratio, inside, shown / ratio, part, false, row]);
        }
      }
    }
    this.show(strip, y, row);
  }

  // Text cut to a width.
  text(g, text, x, y, width) {
    if (text.length > 3 && width < 22) return;
    let whole = this.widths.get(text);
    if (whole === undefined) this.widths.set(text, whole = g.measureText(text).width);
    if (whole > width) text = text.slice(0, Math.max(1, Math.floor(text.length * width / whole) - 2)) + "…";
    g.fillText(text, x, y);
  }

  // Calls f(x, seconds, step) for the ticks of the axis.
  grid(f) {
    const { width, left } = this, tick = this.spec.tick, length = (this.to - this.from) * tick;
    const step = tickStep(length, Math.max(2, (width - left) / 130)), zero = (this.from - this.full[0]) * tick;
    for (let t = Math.ceil(zero / step) * step; t <= zero + length; t += step) {
      f(Math.round(left + (t - zero) / length * (width - left)), t, step);
    }
  }

  drawAxis(g) {
    const { width, left } = this, tick = this.spec.tick, length = (this.to - this.from) * tick;
    g.fillStyle = color("card");
    g.fillRect(0, 0, width, this.axis - 1);
    // Where the window lies in the whole.
    g.fillStyle = color("soft");
    g.fillRect(left, 0, width - left, 6);
    const all = this.full[1] - this.full[0], a = (this.from - this.full[0]) / all, b = (this.to - this.full[0]) / all;
    g.fillStyle = color("accent");
    g.fillRect(left + a * (width - left), 0, Math.max(3, (b - a) * (width - left)), 6);
    g.strokeStyle = color("line");
    g.fillStyle = color("dim");
    this.grid((at, t, step) => {
      const x = at + 0.5;
      g.beginPath(); g.moveTo(x, 23); g.lineTo(x, this.axis - 12); g.stroke();
      const text = this.time(t, step), m = g.measureText(text).width;
      g.fillText(text, Math.min(Math.max(left, x - m / 2), width - m), 19);
    });
    let end = -1;
    for (const [name, from, to] of this.spec.marks || []) {
      const x0 = Math.max(left, this.x(from)), x1 = Math.min(width, this.x(to));
      if (x1 - x0 < 3 || x0 < end - 0.5) continue;
      end = x1;
      g.fillStyle = color("note");
      g.fillRect(x0 + 1, 25, x1 - x0 - 2, 2);
      const m = g.measureText(name).width;
      if (m < x1 - x0) { g.fillStyle = color("dim"); g.fillText(name, (x0 + x1) / 2 - m / 2, 37); }
    }
    g.fillStyle = color("dim");
    g.fillText(seconds(length) + " shown", 6, 19);
    if (this.drag && this.drag.zoom) {
      g.fillStyle = color("accent");
      g.globalAlpha = 0.18;
      const x0 = Math.min(this.drag.x, this.drag.now), x1 = Math.max(this.drag.x, this.drag.now);
      g.fillRect(x0, 8, x1 - x0, this.height);
      g.globalAlpha = 1;
      g.fillStyle = color("ink");
      g.fillText(seconds((this.t(x1) - this.t(x0)) * tick), x0 + 4, this.axis + 12);
    }
  }

  // A time of the axis, with as many digits as its steps need.
  time(t, step) {
    const size = Math.max(Math.abs(t), step);
    const [scale, unit] = size >= 1 ? [1, "s"] : size >= 1e-3 ? [1e3, "ms"] : size >= 1e-6 ? [1e6, "us"] : [1e9, "ns"];
    return (t * scale).toFixed(Math.max(0, Math.min(9, Math.ceil(-Math.log10(step * scale) - 1e-6)))) + " " + unit;
  }

  // Shows [from, to); resolves once everything in it is drawn from its events.
  zoom(from, to) {
    const all = this.full[1] - this.full[0], least = Math.max(20, all * 1e-9);
    let length = Math.min(Math.max(to - from, least), all);
    from = Math.max(this.full[0], Math.min(this.full[1] - length, (from + to - length) / 2));
    this.from = from;
    this.to = from + length;
    this.request();
    return new Promise(f => { this.settled = f; });
  }
  zoomBy(factor, x) {
    const at = x === undefined ? (this.from + this.to) / 2 : this.t(Math.max(this.left, x));
    return this.zoom(at - (at - this.from) * factor, at + (this.to - at) * factor);
  }
  pan(share) {
    const by = (this.to - this.from) * share;
    return this.zoom(this.from + by, this.to + by);
  }

  // The event at a point of the canvas: {lane, label, start, dur, wait}.
  at(x, y) {
    if (x < this.left || y < this.axis) return null;
    const inside = y - this.axis + this.box.scrollTop;
    const line = this.lines.find(l => l.lane && inside >= l.y && inside < l.y + l.h);
    if (!line) return null;
    const t = this.t(x), slack = (this.to - this.from) / (this.width - this.left) * 1.5, depth = Math.floor((inside - line.y) / line.row);
    let best = null, distance = Infinity;
    for (const p of line.lane.pieces) {
      if (p.to < t - slack || p.from > t + slack) continue;
      const events = this.open(line.lane, p);
      if (!events) continue;
      for (let i = 0; i < events.n; i++) {
        const s = events.start[i], e = s + events.dur[i];
        if (s > t + slack) break;
        if (e < t - slack || !line.lane.of && events.row[i] !== depth) continue;
        if (line.lane.of) {
          for (const [part, , from, length] of this.partsOf(line.lane, events.label[i]).list) {
            const a = s + from, b = a + length, away = t < a ? a - t : t > b ? t - b : 0;
            if (away > slack || away >= distance) continue;
            distance = away;
            best = { lane: line.lane, label: part, start: a, dur: length, wait: 0, inside: events.label[i] };
          }
          continue;
        }
        const away = t < s ? s - t : t > e ? t - e : 0;
        if (away < distance || away === distance && events.dur[i] < best.dur) {
          distance = away;
          best = { lane: line.lane, label: events.label[i], start: s, dur: events.dur[i], wait: events.wait ? events.wait[i] : 0 };
        }
      }
    }
    return best || { lane: line.lane };
  }

  describe(event) {
    const [name, kind, detail, size] = this.labels.list[event.label], tick = this.spec.tick, list = [
      ["lane", (event.lane.group.name ? event.lane.group.name + ", " : "") + event.lane.name],
      ["kind", this.spec.kinds[kind][0]],
      ["start", this.time((event.start - this.full[0]) * tick, Math.max(1e-9, event.dur * tick / 100))], ["duration", seconds(event.dur * tick, 6)]];
    if (event.wait > 0) list.push(["of it waiting", seconds(event.wait * tick, 4) + " for the last rank"]);
    if (size > 0) {
      list.push(["bytes", bytes(size)], ["bandwidth", rate(size / (event.dur * tick))]);
      if (event.wait > 0) list.push(["without waiting", rate(size / ((event.dur - event.wait) * tick))]);
    }
    if (event.inside !== undefined) list.push(["part of", this.labels.names[this.labels.list[event.inside][0]]]);
    for (const line of detail ? detail.split("\n") : []) {
      const colon = line.indexOf(": ");
      list.push(colon > 0 ? [line.slice(0, colon), line.slice(colon + 2)] : ["", line]);
    }
    return [this.labels.names[name], list];
  }

  keep(event) {
    const [title, list] = this.describe(event);
    this.picked.replaceChildren(el("b", {}, title), pairs(list));
  }

  listen() {
    const c = this.canvas, point = e => {
      const box = c.getBoundingClientRect();
      return [e.clientX - box.left, e.clientY - box.top];
    };
    this.box.addEventListener("scroll", () => this.request());
    c.addEventListener("wheel", e => {
      const [x] = point(e);
      if (e.ctrlKey || e.metaKey) {
        e.preventDefault();
        this.zoomBy(Math.pow(1.0025, e.deltaY), x);
      } else if (e.shiftKey || Math.abs(e.deltaX) > Math.abs(e.deltaY)) {
        e.preventDefault();
        this.pan((e.deltaX || e.deltaY) / this.width);
      }
    }, { passive: false });
    c.addEventListener("pointerdown", e => {
      const [x, y] = point(e);
      if (e.button !== 0) return;
      this.drag = { x, y, now: x, from: this.from, to: this.to, moved: false, top: this.box.scrollTop, zoom: x > this.left && (e.shiftKey || y < this.axis) };
      c.setPointerCapture(e.pointerId);
      showTip();
    });
    c.addEventListener("pointermove", e => {
      const [x, y] = point(e), d = this.drag;
      if (!d) {
        const event = this.at(x, y);
        if (event && event.label !== undefined) showTip(e, ...this.describe(event));
        else showTip();
        return;
      }
      if (Math.abs(x - d.x) + Math.abs(y - d.y) > 3) d.moved = true;
      d.now = x;
      if (d.zoom) return this.request();
      this.box.classList.add("held");
      const by = (d.x - x) / (this.width - this.left) * (d.to - d.from);
      this.box.scrollTop = d.top + d.y - y;
      this.zoom(d.from + by, d.to + by);
    });
    c.addEventListener("pointerup", e => {
      const d = this.drag, [x, y] = point(e);
      this.drag = null;
      this.box.classList.remove("held");
      if (!d) return;
      if (d.zoom && d.moved) return this.zoom(this.t(Math.max(this.left, Math.min(d.x, x))), this.t(Math.max(d.x, x)));
      if (d.moved) return;
      const line = x < this.left && this.lines.find(l => y - this.axis + this.box.scrollTop >= l.y && y - this.axis + this.box.scrollTop < l.y + l.h);
      if (line || y > this.axis && this.toggleGroup(y)) {
        if (line && line.group) line.group.open = line.group.open === false;
        else if (line) line.lane.open = !line.lane.open;
        this.lay();
        return this.request();
      }
      const event = this.at(x, y);
      if (event && event.label !== undefined) this.keep(event);
    });
    c.addEventListener("pointerleave", () => showTip());
    c.addEventListener("dblclick", e => {
      const event = this.at(...point(e));
      if (event && event.label !== undefined) this.zoom(event.start - event.dur * 0.5, event.start + event.dur * 1.5);
    });
    document.addEventListener("keydown", e => {
      if (e.ctrlKey || e.metaKey || e.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(e.target.tagName)) return;
      const act = { w: () => this.zoomBy(0.6), s: () => this.zoomBy(1 / 0.6), a: () => this.pan(-0.2), d: () => this.pan(0.2),
        ArrowLeft: () => this.pan(-0.2), ArrowRight: () => this.pan(0.2), "+": () => this.zoomBy(0.6), "-": () => this.zoomBy(1 / 0.6), "0": () => this.zoom(...this.full) }[e.key];
      if (act) { e.preventDefault(); act(); }
    });
  }

  toggleGroup(y) {
    const inside = y - this.axis + this.box.scrollTop;
    const line = this.lines.find(l => l.group && inside >= l.y && inside < l.y + l.h);
    if (line) line.group.open = line.group.open === false;
    return line;
  }

  // Marks the labels whose name or details hold the text, and lists their events.
  async search(text) {
    this.query = text = text.trim().toLowerCase();
    this.found = [];
    this.current = -1;
    if (!text) {
      this.matched = null;
      this.count.textContent = "";
      return this.request();
    }
    const names = this.labels.names.map(n => n.toLowerCase().includes(text));
    this.matched = this.labels.list.map(l => names[l[0]] || (l[2] || "").toLowerCase().includes(text));
    this.request();
    let total = 0;
    for (const group of this.spec.groups) for (const lane of group.lanes) for (const piece of lane.of ? [] : lane.pieces) {
      const events = piece.events || await (this.open(lane, piece), piece.asked);
      if (this.query !== text) return;
      for (let i = 0; i < events.n; i++) {
        if (!this.matched[events.label[i]]) continue;
        total += events.dur[i];
        this.found.push({ lane, label: events.label[i], start: events.start[i], dur: events.dur[i], wait: events.wait ? events.wait[i] : 0, row: events.row[i] });
      }
      this.count.textContent = show(this.found.length) + " found, " + seconds(total * this.spec.tick);
    }
    this.found.sort((a, b) => a.start - b.start);
    this.request();
  }

  next(step) {
    if (!this.found.length) return;
    this.current = (Math.max(this.current, step < 0 ? 0 : -1) + step + this.found.length) % this.found.length;
    const event = this.found[this.current];
    event.lane.group.open = true;
    if (event.row > 0) event.lane.open = true;
    this.lay();
    const line = this.lines.find(l => l.lane === event.lane), y = line.y + event.row * line.row;
    if (y < this.box.scrollTop || y > this.box.scrollTop + this.height - this.axis - 20) this.box.scrollTop = y - 60;
    const length = Math.max(event.dur * 20, Math.min(this.to - this.from, event.dur * 400));
    this.zoom(event.start + event.dur / 2 - length / 2, event.start + event.dur / 2 + length / 2);
    this.keep(event);
    this.count.textContent = show(this.current + 1) + " of " + show(this.found.length);
  }
}
