// The page of a search.
const table_ = data.columns, best = data.best, count = table_.count;
const titles = { step_seconds: "step time", memory_bytes: "memory", run_dollars: "dollars of the run", run_days: "days of the run",
  dollars_per_billion_tokens: "dollars per billion tokens", tokens_per_second: "tokens per second",
  tokens_per_second_per_device: "tokens per second and device", run_kwh: "kWh of the run", kwh_per_billion_tokens: "kWh per billion tokens" };
const titleOf = name => titles[name] || name.replace(/_/g, " ");
const showAs = name => /seconds$/.test(name) ? v => seconds(v) : /bytes$/.test(name) ? v => bytes(v) : v => show(v);
const partTitles = { compute: "products, attention", memory: "memory-bound operators", node: "links in the node", network: "network",
  host: "host", bubble: "bubble, waits" };
const partColors = { compute: "compute", memory: "backward", node: "memory", network: "comm", host: "hidden", bubble: "note" };
const palette = ["#3b7dd8", "#d9534f", "#2f9e77", "#d99a2b", "#8e5bbf", "#4ab3c9", "#b5792a", "#c76da0", "#6f7f2f", "#7c93ad"];
const screenSection = (title, ...kids) => { const node = section(title, ...kids); node.classList.add("screen"); return node; };
const fields = {}, measures = {};
const valueText = v => v === true ? "yes" : v === false ? "no" : v === "" ? "–" : String(v);

async function loadColumns() {
  const two = (b, n) => { const out = new Uint16Array(n); for (let i = 0; i < n; i++) out[i] = b[i] | b[n + i] << 8; return out; };
  await Promise.all(table_.fields.map(async f => {
    const b = await unpack(f.blob);
    fields[f.name] = { name: f.name, values: f.values, codes: f.wide ? two(b, count) : b, allowed: f.values.map(() => true) };
  }));
  const step = table_.measures.find(m => m.name === "step_seconds");
  const read = async m => {
    const b = await unpack(m.blob), out = new Float32Array(count);
    if (m.values) {
      const base = measures.step_seconds.values;
      for (let i = 0; i < count; i++) out[i] = m.power === 1 ? m.values[b[i]] * base[i] : m.values[b[i]] / base[i];
    } else {
      const table = new Float32Array(65536), log = new Float32Array(count), first = Math.log10(m.low), step = m.step / Math.LN10;
      for (let k = 0; k < 65535; k++) table[k] = m.low * Math.exp(m.step * k);
      table[65535] = NaN; // a missing value
      for (let i = 0; i < count; i++) {
        const code = b[i] | b[count + i] << 8;
        out[i] = table[code];
        log[i] = code === 65535 ? NaN : first + step * code;
      }
      known.set(out, log);
    }
    measures[m.name] = { name: titleOf(m.name), key: m.name, values: out, show: showAs(m.name), most: /^tokens/.test(m.name) };
  };
  await read(step);
  await Promise.all(table_.measures.filter(m => m !== step).map(read));
}

let details = {}, mask = null, points = null;
const picked = data.best_places.slice(0, 4);
const planOf = i => Object.values(fields).map(f => [f.name, valueText(f.values[f.codes[i]])]);
function describe(i) {
  const d = details[i], rows = Object.values(measures).map(m => [m.name, m.show(m.values[i])]);
  const plan = planOf(i).filter(([name, v]) => v !== "–" && v !== "no" && !(v === "1" && /^(cp|ep|vp|etp)$/.test(name)) && v !== "none");
  const list = [["plan", plan.map(p => p[0] + " " + p[1]).join(", ")]].concat(rows);
  if (d) {
    list.push(["interval", seconds(d.low, 3) + " – " + seconds(d.high, 3)]);
    const total = d.parts.reduce((a, b) => a + b, 0);
    list.push(["breakdown", data.part_names.map((n, k) => d.parts[k] > total * 5e-4 ? partTitles[n] + " " + percent(d.parts[k] / total) : "").filter(t => t).join(", ")]);
    const memory = d.memory.slice().sort((a, b) => b[1] - a[1]).slice(0, 4);
    list.push(["memory", memory.map(m => m[0] + " " + bytes(m[1], 3)).join(", ")]);
  } else list.push(["breakdown", "of the best " + show(Object.keys(details).length) + " plans only; `ett predict` gives that of any plan"]);
  return [measures.step_seconds.show(measures.step_seconds.values[i]) + " a step", list];
}

// Filters: a plan is shown when all its fields have an allowed value.
function filter() {
  const active = Object.values(fields).filter(f => f.allowed.includes(false));
  mask = null;
  if (active.length) {
    mask = new Uint8Array(count).fill(1);
    for (const f of active) for (let i = 0; i < count; i++) if (!f.allowed[f.codes[i]]) mask[i] = 0;
  }
  points.spec.mask = mask;
  drawAll();
  let shown = count;
  if (mask) { shown = 0; for (let i = 0; i < count; i++) shown += mask[i]; }
  document.getElementById("shown").textContent = show(shown) + " of " + show(count) + " plans";
}

function filters() {
  const box = el("div", { class: "filters" });
  for (const f of Object.values(fields)) {
    if (f.values.length > 40) continue;
    const buttons = f.values.map((v, k) => {
      const b = el("button", { class: "chip on", title: "show or hide; double click: only this" }, valueText(v));
      b.addEventListener("click", () => { f.allowed[k] = !f.allowed[k]; b.classList.toggle("on", f.allowed[k]); filter(); });
      b.addEventListener("dblclick", () => {
        f.allowed = f.values.map((_, j) => j === k);
        buttons.forEach((other, j) => other.classList.toggle("on", j === k));
        filter();
      });
      return b;
    });
    box.append(el("div", { class: "filter" }, el("span", {}, f.name), buttons));
  }
  return box;
}

const select = (options, value, f, label) => {
  const node = el("select", { "aria-label": label, onchange: () => f(node.value) }, options.map(([v, t]) => el("option", { value: v }, t)));
  node.value = value;
  return node;
};

function scatter() {
  const names = Object.keys(measures), has = n => names.includes(n);
  let xName = "step_seconds", yName = has("memory_bytes") ? "memory_bytes" : names[names.length - 1], by = fields.pp ? "pp" : Object.keys(fields)[0] || "", log = true;
  const axis = n => Object.assign({ log }, measures[n]);
  const node = screenSection("Plans"), place = el("div"), tints = el("div"), options = names.map(n => [n, titleOf(n)]);
  const log_ = el("input", { type: "checkbox" });
  log_.checked = true;
  log_.addEventListener("change", () => { log = log_.checked; points.paint(); });
  const showTints = () => tints.replaceChildren(fields[by] ? legend(fields[by].values.slice(0, 10).map((v, k) => [by + " " + valueText(v), palette[k % palette.length]])) : "");
  const repaint = () => { showTints(); points.paint(); };
  node.append(el("div", { class: "bar" }, "across", select(options, xName, v => { xName = v; repaint(); }, "across"),
    "up", select(options, yName, v => { yName = v; repaint(); }, "up"), "colour",
    select(Object.keys(fields).map(n => [n, n]), by, v => { by = v; repaint(); }, "colour"), el("label", {}, log_, " logarithmic"),
    el("span", { class: "grow" }), el("span", { class: "note", id: "shown" })), tints, place, filters(),
    el("p", { class: "note" }, "The line is the front: no plan is better in both. Circles are the plans compared below; click a point to add or remove it. "
      + "Points are stored to 0.01 % or better, the best plan exactly."));
  points = new Points(place, { count, x: () => axis(xName), y: () => axis(yName), mask,
    tint: () => fields[by] ? { codes: fields[by].codes, colors: palette } : { colors: palette }, describe, marks: () => picked,
    onpick: i => { const at = picked.indexOf(i); if (at >= 0) picked.splice(at, 1); else picked.push(i); points.paint(); compare(); } });
  showTints();
}

// The best plans and the picked ones, side by side.
const compared = el("div");
function compare() {
  const rows = [], row = (name, f, bold) => rows.push(el("tr", {}, el("td", {}, name), picked.map(i => el("td", bold ? { class: "strong" } : {}, f(i)))));
  for (const m of Object.values(measures)) row(m.name, i => m.show(m.values[i]), m.key === "step_seconds");
  row("interval", i => details[i] ? seconds(details[i].low, 3) + " – " + seconds(details[i].high, 3) : "–");
  row("MFU", i => details[i] && details[i].mfu ? details[i].mfu.toFixed(1) + " %" : "–");
  row("breakdown", i => details[i] ? el("div", { class: "split" }, data.part_names.map((n, k) => {
    const part = el("div", { title: partTitles[n] + " " + seconds(details[i].parts[k]) });
    part.style.cssText = "width:" + 100 * details[i].parts[k] / details[i].parts.reduce((a, b) => a + b, 0) + "%;background:var(--" + partColors[n] + ")";
    return part;
  })) : "–");
  for (const f of Object.values(fields)) {
    const differs = picked.some(i => f.codes[i] !== f.codes[picked[0]]);
    const tr = el("tr", differs ? { class: "differs" } : {}, el("td", {}, f.name), picked.map(i => el("td", {}, valueText(f.values[f.codes[i]]))));
    rows.push(tr);
  }
  compared.replaceChildren(el("table", {}, el("thead", {}, el("tr", {}, el("th", {}, ""), picked.map((_, k) => el("th", {}, "plan " + (k + 1))))), el("tbody", {}, rows)));
}

// The best value of a measure for every pair of values of two fields.
function heat() {
  const names = Object.keys(fields).filter(n => fields[n].values.length <= 40);
  if (names.length < 2) return;
  let a = fields.tp ? "tp" : names[0], b = fields.pp ? "pp" : names[1], by = "step_seconds";
  const node = screenSection("Best of each pair"), place = el("div");
  const options = names.map(n => [n, n]);
  node.append(el("div", { class: "bar" }, select(options, a, v => { a = v; chart.paint(); }, "rows"), "by", select(options, b, v => { b = v; chart.paint(); }, "columns"),
    "best", select(Object.keys(measures).map(n => [n, titleOf(n)]), by, v => { by = v; chart.paint(); }, "measure")), place);
  let shape = null;
  const chart = canvasOf(place, 300, (g, width, height) => {
    const f = fields[a], h = fields[b], m = measures[by], best = new Float64Array(f.values.length * h.values.length).fill(NaN), at = new Int32Array(best.length);
    for (let i = 0; i < count; i++) {
      if (mask && !mask[i]) continue;
      const k = f.codes[i] * h.values.length + h.codes[i], v = m.values[i];
      if (!missing(v) && !(m.most ? v <= best[k] : v >= best[k])) { best[k] = v; at[k] = i; }
    }
    let low = Infinity, high = -Infinity;
    for (const v of best) if (v === v) { low = Math.min(low, v); high = Math.max(high, v); }
    const left = 60, top = 26, w = (width - left - 6) / h.values.length, tall = Math.min(44, (height - top - 4) / f.values.length);
    shape = { left, top, w, tall, f, h, at, best };
    g.fillStyle = color("dim");
    g.fillText(a + " \\ " + b, 2, 16);
    h.values.forEach((v, k) => { const t = valueText(v); g.fillText(t, left + (k + 0.5) * w - g.measureText(t).width / 2, 16); });
    f.values.forEach((v, k) => { const t = valueText(v); g.fillText(t, left - 8 - g.measureText(t).width, top + (k + 0.5) * tall + 4); });
    for (let r = 0; r < f.values.length; r++) for (let c = 0; c < h.values.length; c++) {
      const v = best[r * h.values.length + c], x = left + c * w, y = top + r * tall;
      if (v !== v) { g.fillStyle = color("idle"); g.globalAlpha = 0.4; g.fillRect(x, y, w - 2, tall - 2); g.globalAlpha = 1; continue; }
      let share = high > low ? Math.log(v / low) / Math.log(high / low) : 0;
      if (m.most) share = 1 - share;
      g.fillStyle = "hsl(" + (150 - 150 * Math.min(1, share * 1.15)) + ", 55%, " + (document.documentElement.dataset.theme === "dark" ? 38 : 62) + "%)";
      g.fillRect(x, y, w - 2, tall - 2);
      const text = m.show(v);
      g.fillStyle = document.documentElement.dataset.theme === "dark" ? "#fff" : "#10151f";
      if (g.measureText(text).width < w - 6 && tall > 14) g.fillText(text, x + w / 2 - 1 - g.measureText(text).width / 2, y + tall / 2 + 3);
    }
  }, (e, x, y) => {
    const c = Math.floor((x - shape.left) / shape.w), r = Math.floor((y - shape.top) / shape.tall), k = r * shape.h.values.length + c;
    if (c < 0 || r < 0 || c >= shape.h.values.length || r >= shape.f.values.length || shape.best[k] !== shape.best[k]) return showTip();
    showTip(e, ...describe(shape.at[k]));
  });
}

// One page to print: the best plan, its bottleneck, how certain it is, and its sources.
function summary() {
  if (!best) return;
  const total = data.part_names.reduce((sum, n) => sum + best.parts[n], 0), gain = {};
  best.gains.forEach(g => { gain[g.part] = Math.max(0, -g.percent / 100); });
  const node = el("section", { class: "sheet" }, el("div", { class: "bar" }, el("h2", {}, "Summary"), el("span", { class: "grow" }), el("button", { onclick: () => print() }, "print")),
    el("p", {}, "The best plan of ", el("b", {}, best.model), " (" + (best.parameters / 1e9).toFixed(2) + " B parameters) on " + show(best.devices) + " x " + best.device + " (" + best.cluster + ") takes ",
      el("b", {}, seconds(best.step_seconds)), " per step: " + seconds(best.low_seconds, 3) + " to " + seconds(best.high_seconds, 3) + " at " + best.interval_percent + " %, "
      + show(Math.round(best.tokens_per_second)) + " tokens per second" + (best.mfu_percent ? ", MFU " + best.mfu_percent.toFixed(1) + " %" : "") + ", "
      + bytes(best.memory_bytes, 3) + " of " + bytes(best.memory_limit_bytes, 3) + " on the fullest device (fits: " + best.fits + "). It is " + (data.interrupted ? "the best so far of an interrupted search, after " : "the optimum of ") + show(data.plans) + " layouts, by " + data.objectives.join(", ") + "."),
    best.sure.length ? el("p", {}, best.sure.map(s => s[0].toUpperCase() + s.slice(1) + ".").join(" ")) : "",
    el("p", { class: "command" }, best.plan),
    el("div", { class: "columns" },
      el("div", {}, el("h3", {}, "Bottleneck"), table([{ key: "name", title: "part", text: true, as: String }, { key: "seconds", title: "time", as: v => seconds(v) },
        { key: "share", title: "of the step", as: v => percent(v) }, { key: "gain", title: "if 10 % faster", as: v => missing(v) ? "" : "−" + percent(v) }],
        data.part_names.filter(n => best.parts[n] > 0).map(n => ({ name: partTitles[n], seconds: best.parts[n], share: best.parts[n] / total, gain: gain[n] })))),
      el("div", {}, el("h3", {}, "Plans with one field changed"), table([{ key: "change", title: "change", text: true, as: String }, { key: "percent", title: "step", as: v => (v > 0 ? "+" : "") + v.toFixed(1) + " %" },
        { key: "memory_bytes", title: "memory", as: v => bytes(v, 3) }, { key: "fits", title: "fits", as: String }], best.neighbours.slice(0, 8))),
      el("div", {}, el("h3", {}, "Memory of the fullest device"), table([{ key: "name", title: "kind", text: true, as: String }, { key: "bytes", title: "bytes", as: v => bytes(v) },
        { key: "source", title: "from", text: true, as: v => v || "" }], best.memory))),
    el("h3", {}, "Assumptions and sources"), el("ul", {}, data.sources.map(([k, v]) => el("li", {}, el("b", {}, k), ": " + v)), best.notes.map(n => el("li", {}, n)), best.wide.map(w => el("li", {}, "The interval is wide: " + w + ".")),
      el("li", {}, "Intervals cover the errors of operators and messages. All runs of one operator or message share an error, and plans on one device share these errors."),
      el("li", {}, show(data.ruled_out.rule) + " layouts break a rule" + (data.first_rule ? ", the first: " + data.first_rule : "") + ".")));
  main.append(node);
}

async function start() {
  await loadColumns();
  tiles([best && [seconds(best.step_seconds), "best step"], best && [seconds(best.low_seconds, 3) + " – " + seconds(best.high_seconds, 3), best.interval_percent + " % interval"],
    best && [show(Math.round(best.tokens_per_second)), "tokens per second"], best && best.mfu_percent && [best.mfu_percent.toFixed(1) + " %", "MFU"],
    best && [bytes(best.memory_bytes, 3), "of " + bytes(best.memory_limit_bytes, 3) + ", fits: " + best.fits], [show(data.plans), "layouts searched"], best && [partTitles[best.bottleneck] || best.bottleneck, "bottleneck"]]);
  main.querySelector(".tiles").classList.add("screen");
  scatter();
  const side = screenSection("Side by side", legend(data.part_names.map(n => [partTitles[n], partColors[n]])), compared);
  side.append(el("p", { class: "note" }, "The best plans come first; fields that differ are marked."));
  if (data.details !== undefined) details = await unpackJson(data.details);
  compare();
  heat();
  summary();
  filter();
  ready();
}
start();
