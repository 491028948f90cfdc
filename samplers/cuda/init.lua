--- CUDA back end: the operators of the library on one GPU.
--
-- An operator's own `kernel(k, s, pass)` says what runs (samplers/README.md lists the primitives); this file
-- records it into a work list, makes it one CUDA graph and times that with CUDA events.
local error_module = require "ett.error"
local find = require "ett.find"
local sample = require "ett.sample"

local backend = {
  name = "cuda",
  summary = "operators on a GPU: cuBLASLt, cuDNN, and the operators' own CUDA C by NVRTC",
  needs = "an NVIDIA driver, the CUDA toolkit and cuDNN",
  precisions = { fp16 = true, bf16 = true, fp32 = true, fp8 = true },
}

local TIME_LIMIT_SECONDS = 60

--- true, or nil and one sentence on what is missing.
function backend.available()
  local ok, cuda = pcall(require, "ett.cuda")
  if not ok then
    return nil, "the CUDA back end is not built: install the CUDA toolkit (cuda.h, nvrtc.h, cublasLt.h) and build again"
  end
  local count, err = cuda.available()
  if not count then return nil, tostring(err.message) end
  if count == 0 then return nil, "this machine has no CUDA device" end
  return true
end

--- Line of a file at which a piece of it starts, so that compiler messages name the operator's own lines.
local function first_line_of(path, source)
  local file = path and io.open(path, "r")
  if not file then return 1 end
  local text = file:read("a")
  file:close()
  local at = text:find(source, 1, true)
  if not at then return 1 end
  return 1 + select(2, text:sub(1, at - 1):gsub("\n", ""))
end

--- The primitives that an operator's kernel() calls, recording into `sink`: an object with tensor, kernel,
--- gemm and attention as a work list of ett.cuda has them.
---@param precision string the campaign's precision; under fp8 only GEMM operands are fp8
function backend.primitives(sink, op, precision, options)
  options = options or {}
  local k = { backend = "cuda", dtype = precision }
  local seed = options.seed or 1
  local sources = {}

  local function must(value, err)
    if value == nil then error(err, 0) end
    return value
  end

  function k.tensor(spec)
    seed = seed + 1
    local fill = spec.fill or "normal"
    local dtype = spec.dtype or (fill == "index" and "int64") or (precision == "fp8" and "bf16") or precision
    local described = { table.unpack(spec) }
    described.dtype, described.fill, described.high, described.seed = dtype, fill, spec.high, seed
    return { tensor = must(sink:tensor(described)), spec = described }
  end

  -- Under fp8 the operands of a product are fp8 copies of the same size; the result stays bf16.
  local narrow = {}
  local function operand(tensor)
    if precision ~= "fp8" then return tensor.tensor end
    if not narrow[tensor] then
      local spec = { table.unpack(tensor.spec) }
      spec.dtype, spec.fill, spec.seed = "fp8", "normal", tensor.spec.seed
      narrow[tensor] = must(sink:tensor(spec))
    end
    return narrow[tensor]
  end

  function k.gemm(g)
    must(sink:gemm { a = operand(g.a), b = operand(g.b), c = g.c.tensor, m = g.m, n = g.n, k = g.k,
      batch = g.batch or 1, trans_a = g.trans_a, trans_b = g.trans_b, accumulate = g.accumulate,
      autotune = options.autotune or false })
  end

  function k.attention(a)
    local call = {}
    for name, value in pairs(a) do call[name] = type(value) == "table" and value.tensor or value end
    must(sink:attention(call))
  end

  function k.kernel(launch)
    local source = launch.source or op.cuda
    if not source then
      error_module.raise("model", "operator '%s' launches '%s' without a source: give 'source' or the field 'cuda'",
        op.name, tostring(launch.name))
    end
    sources[source] = sources[source] or first_line_of(op.path, source)
    local args = {}
    for i, arg in ipairs(launch.args) do args[i] = type(arg) == "table" and { tensor = arg.tensor } or arg end
    must(sink:kernel { source = source, name = launch.name, label = (op.path or op.name):match("[^/]+$"),
      first_line = sources[source], grid = launch.grid, block = launch.block, shared = launch.shared or 0,
      args = args })
  end

  --- On CUDA every recording becomes one graph; the function only has to run.
  function k.graph(fn) return fn(k) end

  return k
end

--- Records one pass of an operator into a sink; raises when the operator cannot run here.
function backend.record(sink, op, s, pass, precision, options)
  if not op.kernel then
    error_module.raise("model", "operator '%s' cannot run on CUDA: it has no 'kernel' function", tostring(op.name))
  end
  op.kernel(backend.primitives(sink, op, precision, options), s, pass)
end

--- Seconds of a work list: repeats until the low mean is known to `target` or the budget is spent.
local function time_work(work, options)
  local budget, target = options.budget_seconds or 0.05, options.target or 0.01
  local seconds, err = work:time { repeats = 3, time_limit_seconds = TIME_LIMIT_SECONDS }
  if not seconds then return nil, err end
  local most = options.max_repeats or 200
  local began = sample.now()
  repeat
    local stats = sample.stats(seconds)
    if #seconds >= (options.min_repeats or 7) and stats.half_width <= target * stats.low_mean then break end
    local batch = math.max(1, math.min(20, most - #seconds))
    local more
    more, err = work:time { repeats = batch, time_limit_seconds = TIME_LIMIT_SECONDS }
    if not more then return nil, err end
    table.move(more, 1, #more, #seconds + 1, seconds)
  until #seconds >= most or sample.now() - began > budget
  local stats = sample.stats(seconds)
  return { seconds = stats.low_mean, min = stats.min, median = stats.median, mean = stats.mean,
    half_width = stats.half_width, repeats = #seconds, dropped = 0,
    raw_seconds = options.keep_raw and seconds or nil }
end

-- A chain of dependent multiply-adds takes as long as the SM clock says: its time against the best
-- seen tells a throttled device.
local probe_source = [[
extern "C" __global__ void clock_probe(float *out, long long n) {
  float x = threadIdx.x;
  for (long long i = 0; i < n; i++) x = x * 0.999f + 0.5f;
  out[threadIdx.x] = x;
}
]]

local function make_probe(device)
  local work, err = device:work("fp32")
  if not work then return nil, err end
  local out
  out, err = work:tensor { 32, dtype = "fp32", fill = "zero" }
  if not out then return nil, err end
  local ok
  ok, err = work:kernel { source = probe_source, name = "clock_probe", label = "clock probe", grid = 1, block = 32,
    args = { { tensor = out }, 20000 } }
  if ok then ok, err = work:ready() end
  if not ok then return nil, err end
  local best
  return function()
    local seconds = work:time { repeats = 3, flush = false }
    if not seconds then return 1 end
    local now = math.min(table.unpack(seconds))
    best = math.min(best or now, now)
    return now / best
  end
end

--- After these the context is gone: the campaign must end, its finished rows safe.
local function lost(err, op)
  if err.kind == "io" or err.kind == "limit" then
    local object = error_module.new("lost", "%s: %s", op.name, err.message)
    return object
  end
  return error_module.from(err)
end

--- Opens a session on one device.
---@param options table device (ordinal), precision, seed, budget_seconds, target, max_repeats, keep_raw,
--- autotune, profile
function backend.open(options)
  options = options or {}
  local ok, why = backend.available()
  if not ok then return nil, error_module.new("missing", "%s", why) end
  local cuda = require "ett.cuda"
  local device, err = cuda.open(options.device or 0)
  if not device then return nil, err end
  local info = device:info()
  local clock_ratio
  clock_ratio, err = make_probe(device)
  if not clock_ratio then return nil, err end
  local precision = options.precision or "bf16"
  local session = {
    backend = backend,
    device = (info.name:gsub("[^%w%-]", "")),
    header = {
      { "machine", sample.hostname() },
      { "device", ("%s, sm_%d, %d SMs, %.1f GiB"):format(info.name, info.capability, info.multiprocessors,
        info.memory_bytes / 2 ^ 30) },
      { "driver", ("CUDA %d.%d"):format(info.driver_version // 1000, info.driver_version % 1000 // 10) },
      { "clock", ("%.0f MHz maximum, memory %.0f MHz"):format(info.clock_hz / 1e6, info.memory_clock_hz / 1e6) },
      { "gemm", options.autotune and "cuBLASLt, autotuned" or "cuBLASLt, first heuristic" },
    },
  }

  --- Times every pass of an operator on a shape: { forward = result, … } | nil, error.
  function session.measure(op, s)
    local results = {}
    for _, pass in ipairs(op.passes) do
      local work <close>, failure = device:work(precision == "fp8" and "bf16" or precision)
      if not work then return nil, failure end
      local recorded, raised = pcall(backend.record, work, op, s, pass, precision,
        { seed = options.seed, autotune = options.autotune })
      if not recorded then return nil, lost(error_module.from(raised), op) end
      local ready
      ready, failure = work:ready { time_limit_seconds = TIME_LIMIT_SECONDS }
      if not ready then return nil, lost(failure, op) end
      local ratio = clock_ratio()
      local result
      result, failure = time_work(work, options)
      if not result then return nil, lost(failure, op) end
      result.clock_ratio, result.slow_clock = ratio, ratio > 1.05
      if options.profile then result.kernels = work:profile() end
      results[pass] = result
    end
    return results
  end

  function session.close() device:close() end
  return session
end

local compiled = {} -- cubins by precision, capability and source

--- Compiles every kernel an operator launches, without a device: list of { name=, bytes= }; raises on the first
--- that does not compile, with the compiler's message on the operator's own lines.
function backend.compile(op, s, pass, precision, capability)
  local cuda = require "ett.cuda"
  local kernels, tensors = {}, 0
  local sink = {
    tensor = function()
      tensors = tensors + 1
      return tensors
    end,
    gemm = function(_, g)
      kernels[#kernels + 1] = { name = "gemm", m = g.m, n = g.n, k = g.k }
      return true
    end,
    attention = function()
      kernels[#kernels + 1] = { name = "attention" }
      return true
    end,
    kernel = function(_, launch)
      local key = ("%s %d %s"):format(precision, capability, launch.source)
      if not compiled[key] then
        local cubin, err = cuda.compile { source = launch.source, label = launch.label,
          first_line = launch.first_line, dtype = precision, capability = capability }
        if not cubin then return nil, err end
        compiled[key] = cubin
      end
      local cubin = compiled[key]
      -- A cubin names its functions in its string table.
      if not cubin:find(launch.name, 1, true) then
        return nil, error_module.new("model", "%s: the source has no function '%s'", op.name, launch.name)
      end
      kernels[#kernels + 1] = { name = launch.name, bytes = #cubin }
      return true
    end,
  }
  backend.record(sink, op, s, pass, precision)
  return kernels
end

--- Loads an operator by name or file for use here (its path is kept for messages).
function backend.operator(name)
  local op, path = find.load("operators", name)
  op.path = path
  return op
end

return backend
