// The page of a trace.
const rankName = key => /^[0-9]/.test(key) ? "rank " + key : key;
const devices = data.device_time ? byKey(data.device_time.ranks)
  .filter(key => data.device_time.ranks[key].gpu_span_us !== undefined) : [];
const parts = data.temporal_breakdown, hidden = data.comm_comp_overlap;
tiles([
  devices.length && [show(devices.length), devices.length === 1 ? "device" : "devices"],
  data.iter_time && [show(data.iter_time.avg_iter_time_ms) + " ms", "mean iteration (" + data.iter_time.num_iterations + ")"],
  parts && [percent(parts.compute_share), "compute"],
  parts && [percent(parts.exposed_comm_share), "exposed communication"],
  parts && [percent(parts.idle_share), "idle"],
  hidden && !missing(hidden.overlap_ratio_of_comm) && [percent(hidden.overlap_ratio_of_comm), "of communication hidden"],
  data.coll_call_num && [show(data.coll_call_num.total_calls), "collective calls"],
  data.straggler_lag && [show(data.straggler_lag.mean_lag_us) + " us", "mean lag of the last rank"],
  data.pipeline_bubble && [percent(data.pipeline_bubble.bubble_ratio), "pipeline bubble (" + data.pipeline_bubble.method + ")"],
]);

let view = null;
if (data.timeline) {
  const node = section("Timeline");
  view = new Lanes(node, data.timeline);
  if (data.timeline.left_out) node.append(el("p", { class: "note" }, show(data.timeline.left_out)
    + " host events are drawn from overviews only; give --step or --window to see them one by one."));
  view.load().then(ready);
} else ready();

if (parts) {
  const ranks = parts.ranks, fields = [["compute", "compute"], ["exposed_comm", "comm"], ["memory", "memory"], ["idle", "idle"]];
  const rows = byKey(ranks).map(k => Object.assign({ rank: k }, ranks[k]));
  const split = (_, r) => el("div", { class: "split" }, fields.map(([field, name]) => {
    const part = el("div", { title: field + " " + show(r[field + "_ms"]) + " ms, " + percent(r[field + "_share"]) });
    part.style.cssText = "width:" + 100 * (r[field + "_share"] || 0) + "%;background:var(--" + name + ")";
    return part;
  }));
  section("Where the time went", legend([["compute", "compute"], ["exposed communication", "comm"],
    ["exposed copies", "memory"], ["idle", "idle"]]), table([
    { key: "rank", title: "rank", as: rankName }, { key: "rank", title: "", as: split }, { key: "span_ms", title: "span ms" },
    { key: "compute_ms", title: "compute ms" }, { key: "exposed_comm_ms", title: "exposed comm ms" },
    { key: "memory_ms", title: "exposed copies ms" }, { key: "idle_ms", title: "idle ms" },
    { key: "idle_host_ms", title: "idle: host late ms" }, { key: "idle_device_ms", title: "idle: device waits ms" },
    { key: "idle_share", title: "idle", as: v => percent(v) }], rows));
}

if (data.step_table) {
  const rows = [];
  for (const key of byKey(data.step_table.ranks))
    for (const s of data.step_table.ranks[key].per_step) rows.push(Object.assign({ rank: key }, s));
  section("Steps", table([{ key: "step", title: "step" }, { key: "rank", title: "rank" },
    { key: "step_ms", title: "duration ms" }, { key: "comm_union_us", title: "communication us" },
    { key: "comp_union_us", title: "compute us" }, { key: "overlap_us", title: "overlap us" },
    { key: "busy_us", title: "busy us" }, { key: "idle_frac", title: "idle", as: v => percent(v) }], rows.slice(0, 400)));
}

// A click on a row searches its name in the timeline.
const find = row => {
  if (!view) return;
  const input = document.querySelector("input[type=search]");
  input.value = row.name || row.kind.replace("_", "");
  view.search(input.value);
  view.box.scrollIntoView({ block: "center" });
};

if (data.collective_table) section("Collectives", table([{ key: "kind", title: "kind" },
  { key: "bytes", title: "message", as: v => bytes(v) }, { key: "group_size", title: "ranks" }, { key: "calls", title: "calls" },
  { key: "total_ms", title: "total ms" }, { key: "mean_us", title: "mean us" }, { key: "p50_us", title: "p50 us" },
  { key: "p95_us", title: "p95 us" }, { key: "algbw_GBps", title: "algbw GB/s" }, { key: "busbw_GBps", title: "busbw GB/s" }],
  data.collective_table.collectives),
  el("p", { class: "note" }, "Durations of kernels include waiting for the last rank. Click a heading to sort."));

if (data.straggler_lag) {
  const s = data.straggler_lag;
  const rows = byKey(s.wait_us_per_rank).map(k => ({ rank: k, wait: s.wait_us_per_rank[k],
    last: s.last_arriver[k] || 0, calls: s.collectives_per_rank[k], offset: s.offset_vs_first_rank[k] }));
  section("Stragglers", el("p", { class: "note" }, show(s.num_collectives) + " collectives matched; lag mean "
    + show(s.mean_lag_us) + " us, p50 " + show(s.p50_lag_us) + ", p95 " + show(s.p95_lag_us) + ", max "
    + show(s.max_lag_us)), table([{ key: "rank", title: "rank" }, { key: "wait", title: "waited us" },
    { key: "last", title: "times last" }, { key: "calls", title: "collectives" },
    { key: "offset", title: "offset" }], rows));
}

if (data.kernel_breakdown) section("Kernels", table([{ key: "name", title: "name", name: true, as: String },
  { key: "kind", title: "kind" }, { key: "count", title: "count" }, { key: "total_ms", title: "total ms" },
  { key: "share", title: "share", as: v => percent(v) }, { key: "mean_us", title: "mean us" }, { key: "p50_us", title: "p50 us" },
  { key: "p95_us", title: "p95 us" }, { key: "max_us", title: "max us" }], data.kernel_breakdown.kernels, find),
  el("p", { class: "note" }, "Click a kernel to find it in the timeline."));

if (data.pipeline_bubble && data.pipeline_bubble.per_rank_last_iter) {
  const ranks = data.pipeline_bubble.per_rank_last_iter;
  section("Pipeline stages, last iteration", table([{ key: "rank", title: "stage" }, { key: "total_ms", title: "total ms" },
    { key: "busy_ms", title: "busy ms" }, { key: "bubble_vs_total", title: "bubble of total", as: v => percent(v) },
    { key: "bubble_vs_window", title: "bubble of window", as: v => percent(v) }, { key: "n_fwd", title: "forward" },
    { key: "n_bwd", title: "backward" }], byKey(ranks).map(k => Object.assign({ rank: k }, ranks[k]))));
}

const absent = byKey(data.unavailable || {});
if (absent.length) section("Not in this trace", el("ul", {}, absent.map(k => el("li", {}, k + ": " + data.unavailable[k]))));
if (data.warnings && data.warnings.length) section("Damage found while reading", el("ul", {}, data.warnings.map(w =>
  el("li", {}, (w.file || "") + (w.offset === null ? "" : " at byte " + show(w.offset)) + ": " + w.message
    + (w.count > 1 ? " (" + w.count + " times)" : "")))));
