// What every page shares: embedded data, numbers as text, elements, tables, the theme, the tooltip.
const data = JSON.parse(document.getElementById("data").textContent);

const el = (tag, attrs, ...kids) => {
  const node = document.createElement(tag);
  for (const k in attrs || {}) {
    if (k === "class") node.className = attrs[k];
    else if (k.startsWith("on")) node.addEventListener(k.slice(2), attrs[k]);
    else node.setAttribute(k, attrs[k]);
  }
  node.append(...kids.flat().filter(kid => kid !== null && kid !== undefined));
  return node;
};

// Embedded data: base64 of deflated bytes, all in one element, one after the other.
let packed = null;
async function unpack(index) {
  if (packed === null) packed = document.getElementById("blobs").textContent;
  const from = data.blobs[index], to = data.blobs[index + 1], text = packed.slice(from, to);
  let bytes;
  if (Uint8Array.fromBase64) bytes = Uint8Array.fromBase64(text);
  else {
    const raw = atob(text);
    bytes = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  }
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
async function unpackJson(index) { return JSON.parse(new TextDecoder().decode(await unpack(index))); }

// Numbers as text.
const missing = v => v === null || v === undefined || Number.isNaN(v);
const show = (v, digits = 4) => {
  if (missing(v)) return "n/a";
  if (typeof v !== "number") return String(v);
  if (Number.isInteger(v)) return v.toLocaleString("en-US");
  const a = Math.abs(v);
  return a >= 1e5 ? Math.round(v).toLocaleString("en-US") : String(Number(v.toPrecision(digits)));
};
const percent = (v, digits = 1) => missing(v) ? "n/a" : (100 * v).toFixed(digits) + " %";
const scaled = (units, base) => (v, digits = 4) => {
  if (missing(v)) return "n/a";
  let i = 0;
  while (Math.abs(v) >= base && i < units.length - 1) { v /= base; i++; }
  return Number(v.toPrecision(digits)) + " " + units[i];
};
const bytes = scaled(["B", "kB", "MB", "GB", "TB", "PB"], 1000);
const rate = v => bytes(v) + "/s";
const seconds = (v, digits = 4) => {
  if (missing(v)) return "n/a";
  const a = Math.abs(v);
  const [scale, unit] = a === 0 || a >= 1 ? [1, "s"] : a >= 1e-3 ? [1e3, "ms"] : a >= 1e-6 ? [1e6, "us"] : [1e9, "ns"];
  return Number((v * scale).toPrecision(digits)) + " " + unit;
};
const byKey = o => Object.keys(o).sort((a, b) => a.localeCompare(b, "en", { numeric: true }));

// The theme: that of the system until the button is used. Canvases draw again when it changes.
const redraws = [];
let colors = {};
const color = name => {
  if (name[0] === "#") return name;
  if (!colors[name]) colors[name] = getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim() || "#888";
  return colors[name];
};
const drawAll = () => { colors = {}; redraws.forEach(f => f()); };
const dark = matchMedia("(prefers-color-scheme: dark)");
function setTheme(name) {
  document.documentElement.dataset.theme = name;
  drawAll();
}
setTheme(dark.matches ? "dark" : "light");
dark.addEventListener("change", () => setTheme(dark.matches ? "dark" : "light"));
addEventListener("beforeprint", () => setTheme("light"));
addEventListener("resize", drawAll);

// The parts of a page.
const main = el("main");
document.body.append(el("div", { class: "page" }, el("header", { class: "top" },
  el("div", {}, el("h1", {}, data.title), el("p", { class: "sub" }, data.subtitle || "")),
  el("button", { title: "light or dark", onclick: () =>
    setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark") }, "◐")), main));
const section = (title, ...kids) => {
  const node = el("section", {}, title ? el("h2", {}, title) : null, ...kids);
  main.append(node);
  return node;
};
const tiles = list => main.append(el("div", { class: "tiles" }, list.filter(t => t).map(([value, label, title]) =>
  el("div", { class: "tile", title: title || "" }, el("b", {}, value), el("span", {}, label)))));
const legend = list => el("div", { class: "legend" }, list.map(([name, c]) => {
  const i = el("i");
  i.style.background = c[0] === "#" ? c : "var(--" + c + ")";
  return el("span", {}, i, name);
}));

// A table that sorts by the column whose heading is clicked. Columns: {key, title, as?, name?, text?}.
function table(columns, rows, onpick) {
  const body = el("tbody");
  const fill = list => body.replaceChildren(...list.map(row => {
    const tr = el("tr", onpick ? { class: "pick", onclick: () => onpick(row) } : {}, columns.map(c => el("td",
      c.name ? { class: "name text", title: String(row[c.key]) } : c.text ? { class: "text" } : {},
      c.as ? c.as(row[c.key], row) : show(row[c.key]))));
    return tr;
  }));
  let last = null, up = false;
  const head = el("tr", {}, columns.map(c => el("th", { class: "sort" + (c.text ? " text" : ""), title: "sort",
    onclick: () => {
      up = last === c ? !up : false;
      last = c;
      const value = r => missing(r[c.key]) ? -Infinity : r[c.key];
      fill(rows.slice().sort((a, b) => {
        const x = value(a), y = value(b), order = x < y ? -1 : x > y ? 1 : 0;
        return up ? order : -order;
      }));
    } }, c.title)));
  fill(rows);
  return el("div", { class: "scroll" }, el("table", {}, el("thead", {}, head), body));
}
const pairs = list => el("table", {}, el("tbody", {}, list.filter(p => p && p[1] !== "").map(([k, v]) =>
  el("tr", {}, el("td", {}, k), el("td", {}, v)))));

// One tooltip for the page.
const tip = el("div", { class: "tip" });
tip.hidden = true;
document.body.append(tip);
function showTip(event, title, list) {
  if (!title) { tip.hidden = true; return; }
  tip.replaceChildren(el("b", {}, title), pairs(list));
  tip.hidden = false;
  const box = tip.getBoundingClientRect();
  const x = event.clientX + 14 + box.width > innerWidth ? event.clientX - box.width - 10 : event.clientX + 14;
  const y = Math.min(event.clientY + 14, innerHeight - box.height - 6);
  tip.style.left = Math.max(4, x) + "px";
  tip.style.top = Math.max(4, y) + "px";
}

// A canvas's context in CSS pixels, sized to its element.
function context(canvas, width, height) {
  const ratio = window.devicePixelRatio || 1;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.max(1, Math.round(width * ratio));
    canvas.height = Math.max(1, Math.round(height * ratio));
    canvas.style.width = width + "px";
    canvas.style.height = height + "px";
  }
  const g = canvas.getContext("2d");
  g.setTransform(ratio, 0, 0, ratio, 0, 0);
  g.clearRect(0, 0, width, height);
  g.font = "11px system-ui, Liberation Sans, Arial, sans-serif";
  g.textBaseline = "alphabetic";
  return g;
}

// Round steps for an axis of about `count` ticks over a length.
function tickStep(length, count) {
  const raw = length / count, base = Math.pow(10, Math.floor(Math.log10(raw || 1)));
  return [1, 2, 5, 10].map(m => m * base).find(s => s >= raw) || raw || 1;
}

// A page is ready once its first picture with all data is drawn: milliseconds since navigation.
const ready = () => requestAnimationFrame(() => {
  document.documentElement.dataset.ready = performance.now().toFixed(1);
});
addEventListener("error", e => { document.documentElement.dataset.error = e.message; });
addEventListener("unhandledrejection", e => { document.documentElement.dataset.error = String(e.reason); });
