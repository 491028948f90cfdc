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
      if (mask && !mask[i]) continue;
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
    if (!(x1 >= x0)) {
      g.fillStyle = color("dim");
      g.fillText("No plan passes the filters.", left, height / 2);
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

  // Every point as a small disc; where many fall together they add up to full colour.
  plot(g, tint) {
    const { spec, left } = this, { sx, sy, w, h, top, x, y } = this.shape, ratio = window.devicePixelRatio || 1;
    const W = Math.max(1, Math.round(w * ratio)), H = Math.max(1, Math.round(h * ratio));
    const few = spec.count <= 20000, size = few ? Math.round(3 * ratio) : Math.max(1, Math.round(ratio));
    const image = g.createImageData(W, H), pixels = image.data, rgb = tint.colors.map(c => [1, 3, 5].map(k => parseInt(c.slice(k, k + 2), 16)));
    const cell = 6, across = Math.ceil(w / cell) + 1, cells = new Int32Array(across * (Math.ceil(h / cell) + 1)).fill(-1);
    const chain = this.chain && this.chain.length === spec.count ? this.chain : new Int32Array(spec.count);
    const px = this.px && this.px.length === spec.count ? this.px : new Float32Array(spec.count);
    const py = this.py && this.py.length === spec.count ? this.py : new Float32Array(spec.count);
    let shown = 0;
    for (let i = 0; i < spec.count; i++) {
      if (spec.mask && !spec.mask[i]) continue;
      const a = sx.at(x.values[i]), b = h - sy.at(y.values[i]);
      shown++;
      px[i] = a;
      py[i] = b;
      const at = Math.floor(b / cell) * across + Math.floor(a / cell);
      chain[i] = cells[at];
      cells[at] = i;
      const c = rgb[tint.codes ? tint.codes[i] % rgb.length : 0], u = Math.round(a * ratio - size / 2), v = Math.round(b * ratio - size / 2);
      for (let dy = 0; dy < size; dy++) for (let dx = 0; dx < size; dx++) {
        const xx = u + dx, yy = v + dy;
        if (xx < 0 || yy < 0 || xx >= W || yy >= H) continue;
        const k = 4 * (yy * W + xx), seen = pixels[k + 3];
        pixels[k] = c[0];
        pixels[k + 1] = c[1];
        pixels[k + 2] = c[2];
        pixels[k + 3] = Math.min(255, seen + (few ? 190 : 120));
      }
    }
    const layer = document.createElement("canvas");
    layer.width = W;
    layer.height = H;
    layer.getContext("2d").putImageData(image, 0, 0);
    g.drawImage(layer, left, top, w, h);
    Object.assign(this, { chain, px, py, cells, across, cell, shown });
  }

  // The front: points that no other beats in both. Less is better, or more where an axis says so.
  front() {
    const { x, y } = this.shape, { mask, count } = this.spec, buckets = 65536;
    const [low, high] = this.range(x.values), best = new Int32Array(buckets).fill(-1), span = high - low || 1;
    const better = (a, b) => y.most ? a > b : a < b;
    for (let i = 0; i < count; i++) {
      if (mask && !mask[i]) continue;
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
    list.forEach((i, k) => {
      if (k === 0) g.moveTo(left + this.px[i], top + this.py[i]);
      else {
        g.lineTo(left + this.px[i], top + this.py[list[k - 1]]);
        g.lineTo(left + this.px[i], top + this.py[i]);
      }
    });
    g.stroke();
    g.lineWidth = 1;
    g.fillStyle = color("ink");
    for (const i of list) g.fillRect(left + this.px[i] - 2.5, top + this.py[i] - 2.5, 5, 5);
  }

  drawMarks(g) {
    const { left } = this, { top } = this.shape;
    g.font = "600 11px system-ui, Liberation Sans, Arial, sans-serif";
    this.spec.marks().forEach((i, k) => {
      if (this.spec.mask && !this.spec.mask[i]) return;
      const x = left + this.px[i], y = top + this.py[i];
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
    const x = mx - this.left, y = my - this.shape.top, { cell, across, cells } = this;
    let best = -1, distance = 100;
    for (let dy = -1; dy <= 1; dy++) for (let dx = -1; dx <= 1; dx++) {
      const a = Math.floor(x / cell) + dx, b = Math.floor(y / cell) + dy;
      if (a < 0 || b < 0 || a >= across || b * across + a >= cells.length) continue;
      for (let i = cells[b * across + a]; i >= 0; i = this.chain[i]) {
        const d = (this.px[i] - x) ** 2 + (this.py[i] - y) ** 2;
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
