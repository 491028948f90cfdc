--- CPU back end: the operators of the library on the host, in single precision.
--
-- Dense products run in OpenBLAS, the rest is compiled C (samplers/cpu/*.c). Threads are pinned; the header of every
-- table lists their processors.
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local machine = require "ett.sampling.machine"
local merged = require "ett.base.merged"
local primitives = require "ett.operator.primitives"
local sample = require "ett.sample"
local sample_limit = require "ett.sampling.limit"
local sample_sentinel = require "ett.sampling.sentinel"

local backend = {
  name = "cpu",
  summary = "operators on the host: OpenBLAS for dense products, compiled C for the rest",
  needs = "OpenBLAS (libopenblas-dev)",
  precisions = { fp32 = true },
}

--- Names the kernels of OpenBLAS by the instructions of the processor. OpenBLAS goes by the processor's model. Before
--- 0.3.26 it treats newer AMD cores as Haswell, at half their speed. Before 0.3.25 it uses SSE3 kernels (Prescott) on
--- an Intel model that it does not know (OpenMathLib/OpenBLAS, issue 4267); 0.3.21 does not know Emerald Rapids. Set
--- before loading, because OpenBLAS reads the environment only once.
local function prepare_environment(threads)
  local host = machine.processor()
  local function has(flag) return host.flags:find(flag .. " ", 1, true) end
  local core = has "avx512vl" and "SkylakeX" or has "avx2" and host.vendor == "GenuineIntel" and "Haswell"
  if core then sample.default_environment("OPENBLAS_CORETYPE", core) end
  sample.default_environment("OPENBLAS_NUM_THREADS", tostring(threads or 1))
end

--- true, or nil and a message that names the missing part.
function backend.available()
  prepare_environment()
  local cpu, why = error_module.part("ett.cpu", "the CPU back end", "install libopenblas-dev (OpenBLAS)")
  return cpu and true, why
end

--- ett.cpu: the compiled kinds and their timing. It is loaded late because OpenBLAS reads its environment once.
function backend.core()
  prepare_environment()
  return require "ett.cpu"
end

--- Number of processors that this process may use.
function backend.processors() return #error_module.must(backend.core().allowed()) end

--- The processor of a rank of this machine; ranks share processors only if there are too few.
---@param local_rank integer
function backend.processor_of(local_rank)
  local allowed = error_module.must(backend.core().allowed())
  return allowed[1 + local_rank % #allowed]
end

local function merge(kind, pass, dims)
  dims.kind, dims.pass = kind, pass
  return dims
end

--- Kernel calls of each family of operators: families[family](kernel_shape, pass, op, shape) -> list of calls, or nil.
local families = {}

function families.gemm(s, pass)
  return { merge("linear", pass, { batch = s.batch or 1, m = s.m, n = s.n, k = s.k }) }
end
function families.bmm(s, pass)
  return { merge("bmm", pass, { batch = s.batch or 1, m = s.m, n = s.n, k = s.k }) }
end
function families.attention(s, pass, op)
  if s.window then
    error_module.raise("model", "%s: the CPU back end has no sliding window: omit window = %d", op.name, s.window)
  end
  return { merge("attention", pass, { batch = s.batch, seq_q = s.seq_q, seq_k = s.seq_k, heads = s.heads,
    kv_heads = s.kv_heads or s.heads, head_dim = s.head_dim, visible = s.causal and 2 or 1 }) }
end
function families.softmax(s, pass, op)
  local rows = s.seq_q or s.rows
  return { merge("softmax", pass, { batch = s.rows // rows, rows = rows, cols = s.cols,
    visible = op.masked and 2 or 1 }) }
end
function families.rope(_, pass, op, shape)
  if shape.rotary_dim ~= shape.head_dim then
    error_module.raise("model", "%s: the CPU back end rotates whole heads: rotary_dim must be head_dim = %d, got %d",
      op.name, shape.head_dim, shape.rotary_dim)
  end
  return { merge("rope", pass, { batch = shape.batch, seq = shape.seq, heads = shape.heads,
    kv_heads = shape.kv_heads or shape.heads, head_dim = shape.head_dim }) }
end
function families.embedding(s, pass)
  return { merge("embedding", pass, { rows = s.rows, cols = s.cols, vocab = s.vocab }) }
end
function families.cross_entropy(s, pass)
  return { merge("cross_entropy", pass, { rows = s.rows, vocab = s.cols }) }
end
function families.optimizer(s) return { merge("adam", "update", { count = s.params }) } end

--- Scores and top-k selection.
function families.router(s, pass)
  return {
    merge("linear", pass, { batch = 1, m = s.rows, n = s.experts, k = s.cols }),
    merge("router", pass, { rows = s.rows, experts = s.experts, top_k = s.top_k }),
  }
end

--- Row-wise operators run the compiled kind that their file declares.
function families.elementwise(s, pass, op)
  if op.compiled == "mask_fill" then
    return { merge("mask_fill", pass, { batch = s.rows // s.seq_q, seq_q = s.seq_q, seq_k = s.cols }) }
  end
  return op.compiled and { merge(op.compiled, pass, { rows = s.rows, cols = s.cols }) }
end
families.norm = families.elementwise

--- Records the primitives that an operator's kernel() calls, as calls of compiled kinds.
local function recorded(op, s, pass)
  local calls = {}
  local k = { backend = "cpu", dtype = "fp32" }
  function k.tensor(spec) return { table.unpack(spec) } end
  function k.gemm(g)
    local layout = 1 + (g.trans_b and 1 or 0) + (g.trans_a and 2 or 0) + (g.accumulate and 4 or 0)
    calls[#calls + 1] = merge("gemm", pass, { batch = g.batch or 1, m = g.m, n = g.n, k = g.k, layout = layout })
  end
  function k.attention(a)
    calls[#calls + 1] = merge("attention", a.pass or pass, { batch = a.batch, seq_q = a.seq_q, seq_k = a.seq_k,
      heads = a.heads, kv_heads = a.kv_heads or a.heads, head_dim = a.head_dim, visible = a.causal and 2 or 1 })
  end
  function k.kernel(launch)
    if type(launch.cpu) ~= "table" or not launch.cpu.kind then
      error_module.raise("model", "operator '%s' cannot run on the CPU: its launch of '%s' names no compiled kind that "
        .. "does the same; give the launch cpu = { kind = \"scale\", rows = …, cols = … }, or the operator a function "
        .. "cpu(s) that returns a list of kinds (samplers/cpu/README.md)", tostring(op.name), tostring(launch.name))
    end
    calls[#calls + 1] = merged({ pass = pass }, launch.cpu)
  end
  op.kernel(primitives.checked(op, k), s, pass)
  if #calls == 0 then
    error_module.raise("model", "operator '%s' cannot run on the CPU: its kernel calls no primitive in pass '%s'",
      tostring(op.name), pass)
  end
  return calls
end

--- The calls of one pass of an operator on a shape. In this order: the operator's own list (op.cpu(s, pass) -> { { kind
--- =, dimensions }, … }), the kinds of its family, the primitives of its kernel().
function backend.calls(op, s, pass)
  if op.cpu then
    local calls = op.cpu(s, pass)
    for _, call in ipairs(calls) do call.pass = call.pass or pass end
    return calls
  end
  local family = op.family and op.kernel_shape and families[op.family]
  local calls = family and family(op.kernel_shape(s, pass), pass, op, s)
  if calls then return calls end
  if op.kernel then return recorded(op, s, pass) end
  error_module.raise("model", "operator '%s' cannot run on the CPU: it has no 'kernel', no 'cpu' and no family that "
    .. "runs here (samplers/README.md)", tostring(op.name))
end

--- Undisturbed memory probe time of each placement, from earlier sessions of this process.
local undisturbed = {}

--- The processor of all single-thread sessions of this process, so that sessions are comparable.
local chosen_processor

--- Number of open sessions. Closing the last one restores the thread's affinity, because programs started later (the
--- ranks of `ett cluster init`) inherit it.
local open_sessions = 0

--- Total size of the operand sets that the repeats of a shape rotate through.
local COLD_BYTES = 96 << 20

--- Timing options of a shape; ett.cpu has the defaults.
local function timing_of(cpu, options)
  local timing = { threads = options.threads, limit_bytes = options.limit_bytes, limit_seconds = sample_limit.seconds }
  for name, default in pairs(cpu.defaults) do timing[name] = options[name] or default end
  return timing
end

--- Merges the visits of one pass: all repeats of the accepted visits.
---@param visits table[] results of the pool
---@param watch table sentinel
---@param least integer minimum of accepted visits
---@return table result, integer quiet number of undisturbed visits
local function combine(visits, watch, least, statistic)
  local seen, all = {}, { repeats = 0, dropped = 0 }
  for i, visit in ipairs(visits) do
    seen[i] = { disturbed = visit.preempted or visit.slow_clock, ratio = watch:ratio(visit.memory_seconds),
      visit = visit }
    all.repeats, all.dropped = all.repeats + visit.repeats, all.dropped + visit.dropped
  end
  -- The median includes the typical memory disturbance of this machine: accept all visits.
  local limit = statistic == "median" and math.huge or watch:limit()
  local chosen, quiet = sample_sentinel.choose(seen, limit, least)
  local raw, used, clock_ratio, memory_ratio = {}, {}, 0, 0.0
  for _, one in ipairs(chosen) do
    used[one] = true
    clock_ratio = math.max(clock_ratio, one.visit.clock_ratio)
    memory_ratio = memory_ratio + one.ratio / #chosen
  end
  for _, one in ipairs(seen) do -- in the order measured
    if used[one] then table.move(one.visit.raw_seconds, 1, #one.visit.raw_seconds, #raw + 1, raw) end
  end
  local stats, first = sample.stats(raw), chosen[1].visit
  return { seconds = statistic == "median" and stats.median or stats.low, min_seconds = stats.min,
    median_seconds = stats.median, half_width_seconds = stats.low_half_width, raw_seconds = raw,
    clock_ratio = clock_ratio, memory_ratio = memory_ratio, repeats = all.repeats,
    dropped = all.dropped, preempted = first.preempted, slow_clock = first.slow_clock,
    slow_memory = statistic ~= "median" and memory_ratio > sample_sentinel.doubtful,
    quiet_visits = quiet, visits = visits }, quiet
end

--- Pins this thread before its helper threads exist, because they inherit the affinity. Returns the processors.
local function pin(cpu, options, threads)
  local wanted = options.processor
  if not wanted and options.share then -- ranks of one machine take one processor each, among those allowed by mpirun
    wanted = backend.processor_of(options.share.job.local_rank)
  elseif not wanted and threads == 1 then
    chosen_processor = chosen_processor or machine.choose_processor()
    wanted = chosen_processor
  end
  return cpu.pin(wanted or -1, threads)
end

--- The lines on machine and timing for the header of a table.
local function header_of(cpu, options, visits, pinned)
  local host, info = machine.processor(), cpu.info()
  return {
    { "machine", sample.hostname() },
    { "device", ("%s, %d processors"):format(host.model, sample.processors()) },
    { "clock", ("%s MHz nominal, probe %.3f us"):format(host.mhz or "?", cpu.clock_probe() * 1e6) },
    { "libraries", ("OpenBLAS core %s (%s), kernels %s"):format(info.blas_core, info.blas, info.isa) },
    { "timing", ("%s of %d visits, operands rotate through %g MB"):format(
      options.statistic == "median" and "median" or "5th to 15th percentile", visits,
      (options.cold_bytes or COLD_BYTES) / 2 ^ 20) },
    { "threads", ("%d pinned to processor%s %s"):format(#pinned, #pinned == 1 and "" or "s",
      table.concat(pinned, ", ")) },
  }
end

local function measure_pass(pool, op, s, pass, timing)
  local calls = backend.calls(op, s, pass)
  local measured, result, err = pcall(pool.measure, pool, calls, timing)
  if not measured and error_module.from(result).kind == "interrupt" then error(result, 0) end
  if not measured then -- a call with an unknown kind or a missing dimension: an error in the operator's file
    error_module.raise("model", "%s: its %s pass on the CPU: %s", op.path or op.name, pass,
      (tostring(result):gsub("^[^:]+:%d+: ", "")))
  end
  if err and err.kind == "limit" and not result and err.message:find("did not end", 1, true) then
    return nil, error_module.new("limit", "%s: one run of its %s pass: %s (ETT_KERNEL_SECONDS sets the limit)",
      op.name, pass, err.message)
  end
  return result, err
end

--- Adds the functions of a session that measure: measure, check.
local function add_measuring(session, pool, watch, options)
  --- Times every pass of an operator on a shape: { forward = result, … } | nil, error. before: the result of earlier
  --- visits, which gives the duration of a repeat.
  function session.measure(op, s, before)
    local results = {}
    watch:add(pool:probe())
    for _, pass in ipairs(op.passes) do
      session.timing.known_seconds = before and before[pass].median_seconds
      local result, err = measure_pass(pool, op, s, pass, session.timing)
      if not result then return nil, err end
      if options.statistic == "median" then result.seconds = result.median_seconds end
      if not options.together then watch:add(pool:probe()) end -- the ranks' probes are comparable only at their start
      result.memory_seconds = watch:figure()
      results[pass] = result
    end
    return results
  end

  --- Outputs of the kinds of one pass on a small shape, beside double precision (ett.sampling.check).
  function session.check(op, s, pass)
    return sample_limit.outside(find.part("samplers/cpu", "check"), backend.calls(op, s, pass))
  end
end

--- Adds the functions of a session that decide about visits: merge, recall, await.
local function add_visits(session, pool, watch, options)
  local visits, target = session.visits, session.timing.target

  --- Merges one more visit of a shape: the repeats of the undisturbed visits as one result. Also returns whether the
  --- time has reached the target precision, and whether too few visits were undisturbed.
  ---@param before table|nil result of an earlier merge
  ---@param now table result of measure(), in this run or an earlier one
  function session.merge(before, now)
    local joined, settled, wanting = {}, true, false
    for pass, visit in pairs(now) do
      local all = before and before[pass].visits or {}
      all[#all + 1] = visit
      local quiet
      joined[pass], quiet = combine(all, watch, (visits + 2) // 3, options.statistic)
      settled = settled and joined[pass].half_width_seconds <= target * joined[pass].seconds and 2 * quiet >= visits
      wanting = wanting or 2 * quiet < visits
    end
    return joined, settled, wanting
  end

  --- Adds a visit of an earlier run to the memory record of this machine.
  function session.recall(visit)
    for _, result in pairs(visit) do watch:recall(result.memory_seconds) end
  end

  --- Waits until memory is undisturbed. False: the deadline (in sample.now() time) passed, or Ctrl-C was pressed.
  function session.await(deadline)
    while watch:ratio(watch:last(3)) > watch:limit() do
      if sample.now() > deadline or sample.interrupted() then return false end
      sample.pause(0.003)
      for _ = 1, 3 do watch:add(pool:probe()) end
    end
    return true
  end
end

--- Opens a session: pins the thread, creates the operand pool, describes the machine.
---@param options table visits (per shape), threads, processor, seed, cold_bytes, budget_seconds, target, min_repeats,
--- max_repeats, limit_bytes, statistic, share, together
function backend.open(options)
  options = options or {}
  local threads = options.threads or 1
  prepare_environment(threads)
  local ok, why = backend.available()
  if not ok then return nil, error_module.new("missing", "%s", why) end
  local cpu = backend.core()
  local pinned, unpinned = pin(cpu, options, threads)
  if not pinned then return nil, unpinned end
  cpu.set_threads(threads)
  local pool, failure = cpu.pool(options.cold_bytes or COLD_BYTES, options.seed or 1)
  if not pool then
    if open_sessions == 0 then cpu.unpin() end
    return nil, failure
  end
  local place = table.concat(pinned, ", ")
  local watch = sample_sentinel.new(undisturbed[place])
  for _ = 1, 5 do watch:add(pool:probe()) end
  local timing, visits = timing_of(cpu, options), options.visits or 3
  local session = { backend = backend, visits = visits, timing = timing,
    -- min_repeats run even if they take up to this many budgets.
    resolved = { budget_seconds = timing.budget_seconds, target = timing.target, min_repeats = timing.min_repeats,
      max_repeats = timing.max_repeats, most_budgets = 4 },
    device = machine.processor().device,
    header = header_of(cpu, options, visits, pinned) }
  timing.budget_seconds, timing.keep_raw = timing.budget_seconds / visits, true
  add_measuring(session, pool, watch, options)
  add_visits(session, pool, watch, options)

  local open = true
  function session.close()
    if not open then return end
    open = false
    undisturbed[place] = watch:undisturbed()
    pool:close()
    open_sessions = open_sessions - 1
    if open_sessions == 0 then cpu.unpin() end
  end
  open_sessions = open_sessions + 1
  return session
end

return backend
