--- The HTML pages in headless Chromium: size, load time, latency of zoom and hover.
--
-- A zoom is from the call until everything in the new window is drawn from its events; the median of a window of every
-- size, each at three places. Ready counts from the start of the navigation. Least of three openings.
local bench = { summary = "pages of a trace, a step and a search in headless Chromium: size, ready, zoom, hover" }

local openings = 3

local function size_of(path)
  local file = assert(io.open(path, "rb"))
  local size = file:seek("end")
  file:close()
  return size
end

local zooms = [=[const all = view.full[1] - view.full[0], times = [], own = [];
  for (const share of [0.5, 0.1, 0.02, 0.004, 0.0005]) for (const at of [0.1, 0.45, 0.8]) {
    const from = view.full[0] + all * Math.min(at, 1 - share), begun = performance.now();
    await view.zoom(from, from + all * share);
    times.push(performance.now() - begun);
    own.push(view.lastDraw);
    await view.zoom(...view.full);
  }
  times.sort((a, b) => a - b);
  own.sort((a, b) => a - b);
  return [times[times.length >> 1], times[times.length - 1], own[own.length >> 1], own[own.length - 1]];]=]

--- Least time until a page is ready, and the least of each number that a script on it answers.
local function open(file, script)
  local least, answer = math.huge, {}
  for _ = 1, openings do
    local results = require("browser").drive(file, { { ready = 100 }, { async = script } })
    least = math.min(least, results[1])
    for i, value in ipairs(results[2]) do answer[i] = math.min(answer[i] or math.huge, value) end
  end
  return least, answer
end

--- A trace of random kernels and nested host calls of two ranks: nothing in it repeats, so that it deflates badly.
local function random_trace(folder, bytes)
  math.randomseed(17)
  local events = 0
  for rank = 0, 1 do
    local file = assert(io.open(("%s/rank%d.json"):format(folder, rank), "wb"))
    file:setvbuf("full", 1 << 20)
    file:write(('{"schemaVersion":1,"distributedInfo":{"backend":"nccl","rank":%d,"world_size":2},"traceEvents":[\n')
      :format(rank))
    local written, host, device, n = 0, 1000.0, 1100.0, 0
    while written < bytes // 2 do
      local name = ("void op_%d<float, %d>(float*, float const*, int)"):format(math.random(400), 1 << math.random(8))
      local call, run = math.random(9000) / 1000, math.random(1, 60000) / 1000
      n = n + 1
      device = math.max(device + math.random(3000) / 1000, host + 5)
      local text = ('{"ph":"X","cat":"cpu_op","name":"aten::op_%d","pid":%d,"tid":1,"ts":%.3f,"dur":%.3f,"args":'
        .. '{"External id":%d,"Input Dims":[[%d,%d],[%d]],"Input type":["float","float"],"Sequence number":%d}},\n'
        .. '{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":%d,"tid":1,"ts":%.3f,"dur":%.3f,"args":'
        .. '{"External id":%d,"cbid":211,"correlation":%d}},\n'
        .. '{"ph":"X","cat":"kernel","name":"%s","pid":%d,"tid":7,'
        .. '"ts":%.3f,"dur":%.3f,"args":{"External id":%d,"device":%d,"stream":7,"correlation":%d,'
        .. '"registers per thread":32,"block":[128,1,1],"grid":[%d,1,1],"shared memory":0,'
        .. '"est. achieved occupancy %%":%d}},\n'):format(
        math.random(90), 100 + rank, host, call + 4, n, 1 << math.random(6), 64 * math.random(8), 64 * math.random(8),
        n, 100 + rank, host + call / 2, 2.5, n, n, name, rank, device, run, n, rank, n, math.random(1000),
        math.random(100))
      host, device = host + call + 4 + math.random(2000) / 1000, device + run
      written = written + #text
      file:write(text)
      events = events + 3
    end
    file:write(('{"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":%d,"tid":1,"ts":1000,"dur":%.0f}]}\n')
      :format(100 + rank, device))
    file:close()
  end
  return events
end

local function write_trace_page(path, target)
  local metrics = require "ett.trace.metrics"
  local args = metrics.args(metrics.load_all(metrics.names()))
  local view <close> = assert(require("ett.trace.view").open(path, { args = args }))
  require("ett.trace.html").page(view):write(target)
end

local function trace_rows(add, what, path, folder)
  local page = folder .. "/trace.html"
  local before = os.clock()
  write_trace_page(path, page)
  add(what .. ", processor seconds to read and write", os.clock() - before)
  add(what .. ", MB", size_of(page) / 1e6, 12)
  local ready, zoom = open(page, zooms)
  add(what .. ", ready s", ready / 1e3, 3)
  add(what .. ", zoom median ms", zoom[1], 100)
  add(what .. ", zoom slowest ms", zoom[2], 100)
end

local function step_rows(add, folder)
  local estimate = require "ett.step.estimate"
  local what = { model = require("ett.model").new("llama", { layers = 128, hidden = 12288, heads = 96, vocab = 32000 }),
    plan = { pp = 64, tp = 8, dp = 2, micro_batches = 512, seq = 4096 }, cluster = "dgx_h100", units = true }
  local page = folder .. "/step.html"
  require("ett.step.page").new(estimate.new(what), what):write(page)
  add("step of 64 stages x 512 micro-batches, MB", size_of(page) / 1e6, 5)
  local ready, zoom = open(page, zooms)
  add("step, ready s", ready / 1e3, 2)
  add("step, zoom median ms", zoom[1], 50)
  add("step, zoom slowest ms", zoom[2], 50)
  add("step, of a zoom the page's own drawing, median ms", zoom[3])
  add("step, of a zoom the page's own drawing, slowest ms", zoom[4], 50)
end

--- A million rows as a search returns them: combinations of fields with a made-up time and memory.
local function million(real)
  local rows, switch = {}, { false, true }
  local lists = { tp = { 1, 2, 4, 8 }, pp = { 1, 2, 4, 8, 16 }, cp = { 1, 2, 4 }, micro_batch = { 1, 2, 4, 8 },
    zero = { 0, 1, 2, 3 }, recompute = { "none", "selective", "policy", "full" }, devices = { 64, 128, 256, 512, 1024 },
    cluster = { "dgx_h100", "dgx_h200", "dgx_b200" }, sequence_parallel = switch, overlap_sends = switch,
    overlap_gradients = switch, overlap_parameters = switch }
  local names = {}
  for name in pairs(lists) do names[#names + 1] = name end
  table.sort(names)
  math.randomseed(23)
  for i = 1, 1000000 do
    local row, rest = {}, i * 7919
    for _, name in ipairs(names) do
      row[name] = lists[name][rest % #lists[name] + 1]
      rest = rest // #lists[name] + i % 13
    end
    row.step_seconds = 5 / row.devices * 512 * math.exp(math.random() * 2) * (1 + row.pp / 20)
    row.memory_bytes = 80e9 * math.exp(-math.random() * 2) / (1 + row.zero)
    row.tokens_per_second, row.run_days = 8388608 / row.step_seconds, row.step_seconds * 1.38
    row.run_dollars = row.run_days * row.devices * 48
    rows[i] = row
  end
  local s = {}
  for key, value in pairs(real) do s[key] = value end
  function s.estimate_of() return real.best.estimate end
  s.rows, s.plans, s.fields, s.clusters = rows, #rows, names, {}
  for _, name in ipairs(lists.cluster) do s.clusters[name] = require("ett.profile.cluster").get(name) end
  return s
end

local function search_rows(add, folder)
  local model = require("ett.model").new("llama", { layers = 4, hidden = 1024, heads = 16, ffn = 4096, vocab = 32000 })
  local real = require("ett.search.search").new { model = model, cluster = "dgx_h100", devices = 4,
    plan = { seq = 2048, global_batch = 8 } }
  local page = folder .. "/search.html"
  require("ett.search.page").new(million(real), model):write(page)
  add("search of a million plans, MB", size_of(page) / 1e6, 8)
  local ready, hover = open(page, [=[const box = points.canvas.getBoundingClientRect(), begun = performance.now();
    const i = points.frontPoints[0];
    points.hover({clientX: 5, clientY: 5}, points.left + points.at(i)[0], points.shape.top + points.at(i)[1]);
    tip.getBoundingClientRect();
    const hovered = performance.now() - begun;
    fields.tp.allowed[0] = false;
    const filtering = performance.now();
    filter();
    return [hovered, performance.now() - filtering, tip.hidden ? 0 : 1];]=])
  assert(hover[3] == 1, "the hover shows its plan")
  add("search, ready s", ready / 1e3, 1)
  add("search, hover ms", hover[1], 1000)
  add("search, filter ms", hover[2])
end

function bench.run(opts)
  local why = require("browser").missing()
  if why then return { { measure = "pages", value = why } } end
  local rows, bytes = {}, opts.bytes or 311 * 1000 * 1000
  local function add(measure, value, most)
    rows[#rows + 1] = { measure = measure, value = value, target = most and ("<= %g"):format(most) or "-",
      pass = most and value <= most }
  end
  require("ett.base.folder").within(function(folder)
    local reference = require("reference_traces").folder()
    if reference then
      local big = folder .. "/big.json"
      require("replicate_trace").write(reference .. "/hta_trace_diff/control/control.json.gz", big, bytes)
      trace_rows(add, "311 MB of hta_trace_diff", big, folder)
      os.remove(big)
    end
    assert(require("lfs").mkdir(folder .. "/random"))
    add("random trace, events", random_trace(folder .. "/random", bytes))
    trace_rows(add, "311 MB of random events", folder .. "/random", folder)
    step_rows(add, folder)
    search_rows(add, folder)
  end)
  return rows
end

return bench
