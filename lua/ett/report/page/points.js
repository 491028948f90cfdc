// Logarithms of an array, kept with it.
const known = new WeakMap();
function logs(values) {
  let list = known.get(values);
  if (!list) {
    list = new Float32Array(values.length);
    for (let i = 0; i < list.length; i++) list[i] = Math.log10(values[i]);
    known.set(values, list);
  }
  return list;
}

// Many points in a plane: drawn as densities by pixel, with filters, a front, hover and picks.
class Points {
  // spec: {count, x(), y(), tint(), names: {x, y}, mask, log, describe(i) -> [title, rows], onpick(i), marks: () => [i]}
  constructor(place, spec) {
    this.spec = spec;
    this.left = 74;
    this.bottom = 34;
    this.height = 430;
    this.chart = canvasOf(place, this.height, (g, width) => this.draw(g, width), (e, x, y) => this.hover(e, x, y));
    this.canvas = this.chart.canvas;
    this.canvas.style.cursor = "crosshair";
    this.canvas.addEventListener("click", e => {
      const box = this.canvas.getBoundingClientRect(), i = this.near(e.clientX - box.left, e.clientY - box.top);
      if (i >= 0) spec.onpick(i);
    });
  }

  paint() { this.chart.paint(); }

  range(values) {
    const { mask, count } = this.spec;
    let low = Infinity, high = -Infinity;
    for (let i = 0; i < count; i++) {
      if (mask !== null && !mask[i]) continue;
      const v = values[i];
      if (v < low) low = v;
      if (v > high) high = v;
    }
    return [low, high];
  }

  draw(g, width) {
    const { spec, left, bottom, height } = this, w = width - left - 12, h = height - bottom - 12, top = 12;
    const x = spec.x(), y = spec.y(), tint = spec.tint();
    this.width = width;
    this.shape = null;
    const [x0, x1] = this.range(x.values), [y0, y1] = this.range(y.values);
    if (!(x1 >= x0 && y1 >= y0)) {
      g.fillStyle = color("dim");
      g.fillText("No plan with both values passes the filters.", left, height / 2);
      return;
    }
    const pad = (low, high) => x.log && low > 0 ? [low / Math.pow(high / low || 1, 0.03) / 1.002, high * Math.pow(high / low || 1, 0.03) * 1.002]
      : [low - (high - low || 1) * 0.03, high + (high - low || 1) * 0.03];
    const sx = scale(...pad(x0, x1), w, x.log), sy = scale(...pad(y0, y1), h, x.log, 45);
    g.strokeStyle = color("line");
    g.fillStyle = color("dim");
    for (const t of sx.ticks) {
      const px = Math.round(left + sx.at(t)) + 0.5, text = x.show(t), m = g.measureText(text).width;
      if (px < left || px > left + w) continue;
      g.beginPath(); g.moveTo(px, top); g.lineTo(px, top + h); g.stroke();
      g.fillText(text, Math.min(left + w - m, px - m / 2), top + h + 14);
    }
    for (const t of sy.ticks) {
      const py = Math.round(top + h - sy.at(t)) + 0.5, text = y.show(t);
      if (py < top || py > top + h) continue;
      g.beginPath(); g.moveTo(left, py); g.lineTo(left + w, py); g.stroke();
      g.fillText(text, left - 6 - g.measureText(text).width, py + 4);
    }
    g.fillText(x.name + " →", left + w - g.measureText(x.name + " →").width, top + h + 29);
    g.fillText("↑ " + y.name, 4, 10);
    this.shape = { sx, sy, w, h, top, x, y };
    this.plot(g, tint);
    this.drawFront(g);
    this.drawMarks(g);
  }

  // Where a point is drawn: pixels right of the axis, and down from the top.
  at(i) { return [this.xs[i] * this.ax[0] + this.ax[1], this.shape.h - (this.ys[i] * this.ay[0] + this.ay[1])]; }

  // Every point as a small square; the last one drawn is on top.
  plot(g, tint) {
    const { spec, left } = this, { sx, sy, w, h, top, x, y } = this.shape, ratio = window.devicePixelRatio || 1, { mask, count } = spec;
    const W = Math.max(1, Math.round(w * ratio)), H = Math.max(1, Math.round(h * ratio)), image = g.createImageData(W, H);
    const size = count <= 20000 ? Math.round(3 * ratio) : Math.max(1, Math.round(ratio)), half = size / 2;
    const pixels = new Uint32Array(image.data.buffer), alpha = count <= 20000 ? 230 : 255, codes = tint.codes;
    const shades = Uint32Array.from({ length: 256 }, (_, k) => {
      const c = tint.colors[k % tint.colors.length];
      return (alpha << 24 | parseInt(c.slice(5, 7), 16) << 16 | parseInt(c.slice(3, 5), 16) << 8 | parseInt(c.slice(1, 3), 16)) >>> 0;
    });
    const xs = this.xs = x.log ? logs(x.values) : x.values, ys = this.ys = y.log ? logs(y.values) : y.values;
    const [ax, bx] = this.ax = sx.line(), [ay, by] = this.ay = sy.line();
    let shown = 0;
    for (let i = 0; i < count; i++) {
      const u = Math.round((xs[i] * ax + bx) * ratio - half), v = Math.round((h - ys[i] * ay - by) * ratio - half);
      if (mask !== null && !mask[i] || missing(u + v)) continue;
      shown++;
      const c = shades[codes ? codes[i] & 255 : 0];
      for (let yy = Math.max(0, v); yy < v + size && yy < H; yy++) {
        for (let xx = Math.max(0, u); xx < u + size && xx < W; xx++) pixels[yy * W + xx] = c;
      }
    }
    const layer = document.createElement("canvas");
    layer.width = W;
    layer.height = H;
    layer.getContext("2d").putImageData(image, 0, 0);
    g.drawImage(layer, left, top, w, h);
    this.shown = shown;
    this.cells = null;
  }

  // Lists of the points in each square of a few pixels, made at the first hover.
  index() {
    if (this.cells) return;
    const { w, h } = this.shape, { mask, count } = this.spec, cell = this.cell = 6, across = this.across = Math.ceil(w / cell) + 1;
    const cells = this.cells = new Int32Array(across * (Math.ceil(h / cell) + 1)).fill(-1);
    const chain = this.chain = new Int32Array(count), { xs, ys } = this, [ax, bx] = this.ax, [ay, by] = this.ay;
    for (let i = 0; i < count; i++) {
      if (mask !== null && !mask[i]) continue;
      const k = Math.floor((h - ys[i] * ay - by) / cell) * across + Math.floor((xs[i] * ax + bx) / cell);
      chain[i] = cells[k];
      cells[k] = i;
    }
  }

  // The front: points that no other beats in both. Less is better, or more where an axis says so.
  front() {
    const { x, y } = this.shape, { mask, count } = this.spec, buckets = 65536;
    const [low, high] = this.range(x.values), best = new Int32Array(buckets).fill(-1), span = high - low || 1;
    const better = (a, b) => y.most ? a > b : a < b;
    for (let i = 0; i < count; i++) {
      if (mask && !mask[i] || missing(x.values[i] + y.values[i])) continue;
      const k = Math.floor((x.values[i] - low) / span * (buckets - 1)), old = best[k];
      if (old < 0 || better(y.values[i], y.values[old])) best[k] = i;
    }
    const list = [];
    let limit = null;
    for (let n = 0; n < buckets; n++) {
      const i = best[x.most ? buckets - 1 - n : n];
      if (i < 0 || limit !== null && !better(y.values[i], limit)) continue;
      limit = y.values[i];
      list.push(i);
    }
    return list;
  }

  drawFront(g) {
    const { left } = this, { top } = this.shape, list = this.frontPoints = this.front();
    g.strokeStyle = color("ink");
    g.lineWidth = 1.5;
    g.beginPath();
    const places = list.map(i => this.at(i));
    places.forEach(([x, y], k) => {
      if (k === 0) g.moveTo(left + x, top + y);
      else {
        g.lineTo(left + x, top + places[k - 1][1]);
        g.lineTo(left + x, top + y);
      }
    });
    g.stroke();
    g.lineWidth = 1;
    g.fillStyle = color("ink");
    for (const [x, y] of places) g.fillRect(left + x - 2.5, top + y - 2.5, 5, 5);
  }

  drawMarks(g) {
    const { left } = this, { top } = this.shape;
    g.font = "600 11px system-ui, Liberation Sans, Arial, sans-serif";
    this.spec.marks().forEach((i, k) => {
      if (this.spec.mask && !this.spec.mask[i]) return;
      const [px, py] = this.at(i), x = left + px, y = top + py;
      g.strokeStyle = color("ink");
      g.fillStyle = color("card");
      g.beginPath(); g.arc(x, y, 8, 0, 7); g.fill(); g.stroke();
      g.fillStyle = color("ink");
      const text = String(k + 1);
      g.fillText(text, x - g.measureText(text).width / 2, y + 4);
    });
    g.font = "11px system-ui, Liberation Sans, Arial, sans-serif";
  }

  // The nearest point within a few pixels, or -1.
  near(mx, my) {
    if (!this.shape) return -1;
    this.index();
    const x = mx - this.left, y = my - this.shape.top, { cell, across, cells } = this;
    let best = -1, distance = 100;
    for (let dy = -1; dy <= 1; dy++) for (let dx = -1; dx <= 1; dx++) {
      const a = Math.floor(x / cell) + dx, b = Math.floor(y / cell) + dy;
      if (a < 0 || b < 0 || a >= across || b * across + a >= cells.length) continue;
      for (let i = cells[b * across + a]; i >= 0; i = this.chain[i]) {
        const [px, py] = this.at(i), d = (px - x) ** 2 + (py - y) ** 2;
        if (d < distance) { distance = d; best = i; }
      }
    }
    return best;
  }

  hover(e, x, y) {
    const i = this.near(x, y);
    if (i < 0) return showTip();
    showTip(e, ...this.spec.describe(i));
  }
}
