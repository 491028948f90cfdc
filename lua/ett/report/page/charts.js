// Charts on a canvas: stacked areas over time, and points in a plane with hover.

// A canvas that is drawn again when its width or the theme changes.
function canvasOf(place, height, draw, onmove) {
  const canvas = el("canvas", { class: "chart" });
  place.append(canvas);
  const paint = () => { const width = place.clientWidth - 34; draw(context(canvas, Math.max(200, width), height), Math.max(200, width), height); };
  redraws.push(paint);
  if (onmove) {
    canvas.addEventListener("pointermove", e => {
      const box = canvas.getBoundingClientRect();
      onmove(e, e.clientX - box.left, e.clientY - box.top);
    });
    canvas.addEventListener("pointerleave", () => showTip());
  }
  return { canvas, paint };
}

// An axis from low to high, linear or logarithmic, of a length in pixels; line: factor and offset of a value or its
// logarithm.
function scale(low, high, length, log, apart = 90) {
  if (log && low > 0) {
    const a = Math.log10(low), b = Math.max(Math.log10(high), a + 1e-9);
    let ticks = [];
    for (let k = Math.floor(a); k <= Math.ceil(b); k++) for (const m of b - a < 2.5 ? [1, 2, 5] : [1]) {
      const v = m * Math.pow(10, k);
      if (v >= low * 0.999 && v <= high * 1.001) ticks.push(v);
    }
    if (ticks.length < 4) ticks = scale(low, high, length, false, apart).ticks.filter(v => v > 0);
    return { at: v => (Math.log10(v) - a) / (b - a) * length, line: () => [length / (b - a), -a * length / (b - a)], ticks };
  }
  if (high <= low) high = low + (Math.abs(low) || 1);
  const step = tickStep(high - low, Math.max(2, length / apart)), ticks = [];
  for (let v = Math.ceil(low / step) * step; v <= high + step * 1e-9; v += step) ticks.push(Math.abs(v) < step * 1e-9 ? 0 : v);
  return { at: v => (v - low) / (high - low) * length, line: () => [length / (high - low), -low * length / (high - low)], ticks };
}

// Stacked areas over time. series: [{name, color, points: [[x, y], ...]}] where y holds from its x to the next; limit: a
// line with a name.
function stackedSteps(place, height, spec) {
  const left = 70, bottom = 26, top = 10;
  const value = (points, x) => {
    let a = 0, b = points.length - 1;
    while (a < b) {
      const m = (a + b + 1) >> 1;
      if (points[m][0] <= x) a = m; else b = m - 1;
    }
    return points[a][1];
  };
  const chart = canvasOf(place, height, (g, width) => {
    const w = width - left - 8, h = height - bottom - top, s = spec();
    const columns = Math.max(1, Math.round(w)), base = new Float64Array(columns + 1), sx = scale(0, s.to, w);
    const most = Math.max(s.limit || 0, s.most) * 1.04, sy = scale(0, most, h, false, 45);
    g.strokeStyle = color("line");
    g.fillStyle = color("dim");
    for (const t of sy.ticks) {
      const y = top + h - sy.at(t);
      g.beginPath(); g.moveTo(left, y); g.lineTo(left + w, y); g.stroke();
      const text = s.y(t);
      g.fillText(text, left - 6 - g.measureText(text).width, y + 4);
    }
    for (const t of sx.ticks) {
      const text = s.x(t), m = g.measureText(text).width;
      g.fillText(text, Math.min(left + w - m, Math.max(left, left + sx.at(t) - m / 2)), height - 8);
    }
    for (const one of s.series) {
      g.fillStyle = color(one.color);
      let k = 0;
      for (let i = 0; i < columns; i++) {
        // The most that the column sees, so that peaks show.
        const a = i / columns * s.to, b = (i + 1) / columns * s.to;
        let v = one.points.length === 1 ? one.points[0][1] : value(one.points, a);
        while (k < one.points.length && one.points[k][0] < a) k++;
        for (let j = k; j < one.points.length && one.points[j][0] < b; j++) v = Math.max(v, one.points[j][1]);
        const y0 = sy.at(base[i]), y1 = sy.at(base[i] + v);
        g.fillRect(left + i * w / columns, top + h - y1, w / columns + 0.5, y1 - y0);
        base[i] += v;
      }
    }
    if (s.limit) {
      g.strokeStyle = color("ink");
      g.setLineDash([6, 4]);
      const y = top + h - sy.at(s.limit);
      g.beginPath(); g.moveTo(left, y); g.lineTo(left + w, y); g.stroke();
      g.setLineDash([]);
      g.fillStyle = color("ink");
      g.fillText(s.limitName, left + 4, y - 4);
    }
  }, (e, x) => {
    const s = spec(), w = chart.canvas.clientWidth - left - 8, t = (x - left) / w * s.to;
    if (t < 0 || t > s.to) return showTip();
    const rows = s.series.slice().reverse().map(one => [one.name, s.y(value(one.points, t))]);
    showTip(e, s.x(t), rows.concat([["total", s.y(s.series.reduce((sum, one) => sum + value(one.points, t), 0))]]));
  });
  return chart;
}
