// The page of a predicted step.
tiles([
  [seconds(data.step_seconds), "step", "interval of " + data.interval_percent + " %"],
  [seconds(data.low_seconds, 3) + " – " + seconds(data.high_seconds, 3), data.interval_percent + " % interval"],
  [show(Math.round(data.tokens_per_second)), "tokens/s (" + show(data.tokens_per_second_per_device) + " per device)"],
  !missing(data.mfu_percent) && [data.mfu_percent.toFixed(1) + " %", "MFU"],
  [data.bubble_percent.toFixed(1) + " %", "bubble of the pipeline"],
  [bytes(data.memory_bytes, 3), "of " + bytes(data.memory_limit_bytes, 3) + " on the fullest device, fits: " + data.fits],
  !missing(data.dollars_per_billion_tokens) && [show(data.dollars_per_billion_tokens), "dollars per billion tokens"],
  !missing(data.low_kwh_per_step) && [data.kwh_per_step.toPrecision(3) + " kWh", "per step, " + data.interval_percent
    + " % range " + data.low_kwh_per_step.toPrecision(3) + " – " + data.high_kwh_per_step.toPrecision(3)],
  !missing(data.run_days) && [data.run_days.toFixed(1) + " days", "for " + data.run_tokens.toPrecision(3) + " tokens"],
]);

const pipeline = section("Pipeline");
const view = new Lanes(pipeline, data.timeline);
const many = data.timeline.groups[0].lanes.length;
view.rowHeight = many > 40 ? 13 : many > 20 ? 15 : 18;
pipeline.append(el("p", { class: "note" }, "F: forward, B: backward, W: weight gradient, with the number of the micro-batch. "
  + "Open the resources of a stage to see its operators, links and cards."));
view.load().then(() => { drawMemory(); ready(); });

if (data.sensitivity && data.sensitivity.length) {
  const most = Math.max(...data.sensitivity.map(r => Math.abs(r.saved)));
  const barOf = (_, r) => {
    const box = el("div", { class: "split" }), width = 50 * Math.abs(r.saved) / most, part = el("div");
    part.style.cssText = "width:" + width + "%;margin-left:" + (r.saved > 0 ? 50 : 50 - width) + "%;background:var(--"
      + (r.saved > 0 ? "backward" : "comm") + ")";
    box.append(part);
    return box;
  };
  const columns = [{ key: "text", title: "change", text: true, as: String }, { key: "saved", title: "slower | faster", as: barOf },
    { key: "saved", title: "step", as: v => (v > 0 ? "−" : "+") + (100 * Math.abs(v)).toFixed(1) + " %" },
    { key: "seconds", title: "new step", as: v => seconds(v) }, { key: "memory_bytes", title: "memory", as: v => bytes(v, 3) },
    { key: "fits", title: "fits", as: String }];
  const rates = data.sensitivity.filter(r => r.kind === "rate"), plans = data.sensitivity.filter(r => r.kind === "plan");
  main.append(el("div", { class: "columns" },
    el("section", {}, el("h2", {}, "What would help: changes of the plan"), plans.length ? table(columns, plans) : "No change of one field is possible.",
      el("p", { class: "note" }, "Each row changes one field. Devices and batch stay the same; dp takes the remaining ranks. "
        + "Click a heading to sort.")),
    el("section", {}, el("h2", {}, "What would help: faster hardware"), table(columns, rates),
      el("p", { class: "note" }, "The step time if one rate is 10 % higher."))));
}

// Where the time goes: a device, averaged over stages.
const rows = data.breakdown.filter(r => r.seconds > 0 || r.hidden > 0).sort((a, b) => b.seconds - a.seconds);
const kindColor = { operator: "compute", collective: "comm", idle: "note" };
const most = Math.max(...rows.map(r => r.seconds));
const lengthBar = (_, r) => {
  const part = el("div");
  part.style.cssText = "width:" + 100 * r.seconds / most + "%;background:var(--" + (kindColor[r.kind] || "compute") + ")";
  return el("div", { class: "split" }, part);
};
const stageParts = [["forward", "forward_seconds", "forward"], ["backward", "backward_seconds", "backward"],
  ["recompute", "recompute_seconds", "weight"], ["sends", "send_seconds", "hidden"],
  ["gradients exposed", "gradient_exposed_seconds", "comm"], ["update", "optimizer_seconds", "update"],
  ["weights gathered", "gather_exposed_seconds", "memory"]];
const stageBar = (_, s) => el("div", { class: "split" }, stageParts.map(([name, key, c]) => {
  const part = el("div", { title: name + " " + seconds(s[key]) });
  part.style.cssText = "width:" + 100 * (s[key] || 0) / data.step_seconds + "%;background:var(--" + c + ")";
  return part;
}));
main.append(el("div", { class: "columns" },
  el("section", {}, el("h2", {}, "Where the time goes"), legend([["operators", "compute"], ["collectives", "comm"], ["idle", "note"]]),
    table([{ key: "name", title: "part", name: true, as: String }, { key: "seconds", title: "", as: lengthBar },
      { key: "seconds", title: "of the step", as: v => percent(v / data.step_seconds) },
      { key: "seconds", title: "time", as: v => seconds(v) }, { key: "hidden", title: "hidden", as: v => v > 0 ? seconds(v) : "" },
      { key: "from", title: "from", as: v => v || "" }], rows),
    el("p", { class: "note" }, "Time of a device, averaged over the stages. From: origin of the time.")),
  el("section", {}, el("h2", {}, "Stages"), legend(stageParts.map(p => [p[0], p[2]]).concat([["idle", "idle"]])),
    table([{ key: "stage", title: "stage" }, { key: "stage", title: "time", as: stageBar }, { key: "layers", title: "layers" },
      { key: "end_seconds", title: "ends at", as: v => seconds(v) }, { key: "memory_bytes", title: "memory", as: v => bytes(v, 3) }]
      .concat(data.stages[0].device ? [{ key: "device", title: "device", as: String }] : []), data.stages))));

// Memory over time: what is kept all the time, and the activations of micro-batches in flight.
const memory = section("Memory over time");
const pick = el("select", { "aria-label": "stage", onchange: () => drawMemory() }, data.stages.map(s =>
  el("option", { value: String(s.stage - 1) }, "stage " + s.stage + ": " + bytes(s.memory_bytes, 3))));
pick.value = String(data.stages.reduce((best, s, i) => s.memory_bytes > data.stages[best].memory_bytes ? i : best, 0));
const palette = { weight_bytes: "compute", gradient_bytes: "backward", optimizer_bytes: "weight" };
const others = ["#8c9bb0", "#b3a078", "#7fb3a6", "#a58fb8", "#c08d8d", "#97a86a", "#6f8fae", "#b9a9a0"];
const kept = data.memory_kinds.filter(k => k[0] !== "activation_bytes" && data.stages.some(s => s[k[0]] > 0))
  .map(([key, name], i) => [name, key, palette[key] || others[i % others.length]]);
memory.append(el("div", { class: "bar" }, pick), legend(kept.map(k => [k[0], k[2]]).concat([["activations", "update"]])));
let memorySpec = null;
const chart = stackedSteps(memory, 240, () => memorySpec || { to: 1, most: 1, series: [], x: String, y: String });
async function drawMemory() {
  const s = data.stages[Number(pick.value)], lane = data.timeline.groups[0].lanes[Number(pick.value)], tick = data.timeline.tick;
  const moves = [];
  for (const piece of lane.pieces) {
    const events = view.open(lane, piece) || await piece.asked;
    for (let i = 0; i < events.n; i++) {
      const kind = view.labels.list[events.label[i]][1];
      if (kind === 0) moves.push([events.start[i], 1]);
      if (kind === 1) moves.push([events.start[i] + events.dur[i], -1]);
    }
  }
  moves.sort((a, b) => a[0] - b[0] || a[1] - b[1]);
  let now = 0, peak = 0;
  for (const m of moves) peak = Math.max(peak, now += m[1]);
  now = 0;
  const points = [[0, 0]];
  for (const m of moves) points.push([m[0] * tick, (now += m[1]) / (peak || 1) * s.activation_bytes]);
  const fixed = kept.filter(k => s[k[1]] > 0).map(k => ({ name: k[0], color: k[2], points: [[0, s[k[1]]]] }));
  memorySpec = { to: data.step_seconds, most: s.memory_bytes, limit: s.memory_limit_bytes || data.memory_limit_bytes, limitName: "memory of the device",
    series: fixed.concat([{ name: "activations", color: "update", points }]), x: v => seconds(v, 3), y: v => bytes(v, 3) };
  chart.paint();
}
memory.append(el("p", { class: "note" }, "Each forward adds activations and its backward frees them, in equal parts; the peak is that of the estimate."));

main.append(el("div", { class: "columns" },
  el("section", {}, el("h2", {}, "Plan"), table([{ key: "name", title: "field", text: true, as: String },
    { key: "value", title: "value", as: String }, { key: "help", title: "", name: true, as: String }],
    data.plan.map(([name, value, help]) => ({ name, value, help })))),
  el("section", {}, el("h2", {}, "Assumptions"), el("ul", {}, data.warnings.map(w => el("li", {}, "warning: " + w)),
    data.notes.map(n => el("li", {}, n)), (data.wide || []).map(w => el("li", {}, "The interval is wide: " + w + ".")),
    el("li", {}, "The interval covers the errors of operators and messages. All runs of one operator or message share an error."),
    el("li", {}, "Times marked assumed come from the device's rates; nothing was measured or fitted for them.")))));
