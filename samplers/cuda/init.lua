--- CUDA back end: the operators of the library on one GPU.
--
-- An operator's `kernel(k, s, pass)` calls primitives (samplers/README.md lists them). This file records them into a
-- work list, which becomes one CUDA graph; timing.lua times it with CUDA events.
local error_module = require "ett.base.error"
local must = error_module.must
local find = require "ett.base.find"
local machine = require "ett.sampling.machine"
local primitives = require "ett.operator.primitives"
local read = require("ett.io").read
local sample = require "ett.sample"
local timing = find.part("samplers/cuda", "timing")

local backend = {
  name = "cuda",
  summary = "operators on a GPU: cuBLASLt, cuDNN, and the operators' own CUDA C by NVRTC",
  needs = "an NVIDIA driver, the CUDA toolkit and cuDNN",
  precisions = { fp16 = true, bf16 = true, fp32 = true, fp8 = true },
  time_limit_seconds = timing.limit_seconds,
  filled = timing.filled,
}

-- Minimum compute capability: tensor cores support bf16 since Ampere and fp8 since Ada and Hopper.
local least_capability = { bf16 = 80, fp8 = 89 }

--- Whether a device of a compute capability (90 for 9.0) supports a precision.
function backend.has(precision, capability)
  return backend.precisions[precision] ~= nil and capability >= (least_capability[precision] or 0)
end

--- true; or nil, a message that names the missing part, and the kind of the driver's error, if any.
function backend.available()
  local cuda, why = error_module.part("ett.cuda", "the CUDA back end",
    "install the CUDA toolkit (cuda.h, nvrtc.h, cublasLt.h)")
  if not cuda then return nil, why end
  local count, err = cuda.available()
  if not count then return nil, tostring(err.message), err.kind end
  if count == 0 then return nil, "this machine has no CUDA device" end
  return true
end

--- Line of a file at which a source string starts, so that compiler messages have line numbers of the operator's file.
local function first_line_of(path, source)
  local text = path and read(path)
  local at = text and text:find(source, 1, true)
  if not at then return 1 end
  return 1 + select(2, text:sub(1, at - 1):gsub("\n", ""))
end

--- The primitives that an operator's kernel() calls. They record into `sink`: an object with tensor, kernel, gemm and
--- attention as in a work list of ett.cuda. sink:tensor may return a second number: the elements between the rows of
--- the tensor, if it is a slice of a wider one.
---@param precision string the campaign's precision; under fp8 only GEMM operands are fp8
function backend.primitives(sink, op, precision, options)
  options = options or {}
  local k = { backend = "cuda", dtype = precision }
  local seed = options.seed or 1
  local sources = {}

  function k.tensor(spec)
    seed = seed + 1
    local fill = spec.fill or "normal"
    local dtype = spec.dtype or (fill == "index" and "int64") or (precision == "fp8" and "bf16") or precision
    local described = { table.unpack(spec) }
    described.dtype, described.fill, described.high, described.seed = dtype, fill, spec.high, seed
    described.bytes = spec.dtype == "fp8" -- one-byte elements declared by an operator are masks
    local number, row = sink:tensor(described)
    return { tensor = must(number, row), spec = described, row = number and row or nil }
  end

  -- Under fp8 the operands of a product are fp8 copies with the same sizes; the result is bf16.
  local narrow = {}
  local function operand(tensor)
    if not narrow[tensor] then
      local spec = { table.unpack(tensor.spec) }
      spec.dtype, spec.fill, spec.seed = "fp8", "normal", tensor.spec.seed
      narrow[tensor] = must(sink:tensor(spec))
    end
    return narrow[tensor]
  end

  function k.gemm(g)
    -- The tensor cores of Ada and Hopper accept fp8 operands only with k innermost. Frameworks keep a transposed copy
    -- for the other order, so every fp8 product has this form. Transformer Engine accumulates forward products in the
    -- tensor cores' reduced precision.
    local fp8 = precision == "fp8" and not g.wide
    local trans_a, trans_b = g.trans_a, g.trans_b
    if fp8 then trans_a, trans_b = false, true end
    local a, b = g.a.tensor, g.b.tensor
    if fp8 then a, b = operand(g.a), operand(g.b) end
    must(sink:gemm { a = a, b = b, c = g.c.tensor, m = g.m, n = g.n, k = g.k,
      batch = g.batch or 1, trans_a = trans_a, trans_b = trans_b, accumulate = g.accumulate,
      fast = fp8 and options.pass == "forward", autotune = options.autotune or false })
  end

  function k.attention(a)
    if a.window then
      error_module.raise("argument", "attention with a sliding window cannot be measured on a GPU: omit window")
    end
    -- These masks are aligned to the top left, so with seq_q < seq_k no query would attend to the last keys.
    if a.causal and a.seq_q ~= a.seq_k then
      error_module.raise("argument", "attention with a causal mask needs seq_k = seq_q on a GPU, got seq_q %d and "
        .. "seq_k %d; make them equal, omit causal, or use the back end cpu or torch", a.seq_q, a.seq_k)
    end
    -- cuDNN's engines support only 16-bit types.
    if precision == "fp32" then return require("ett.operator.attention").launch(k, a) end
    local call = { q_row = a.q.row, kv_row = a.k.row, out_row = a.out.row }
    for name, value in pairs(a) do call[name] = type(value) == "table" and value.tensor or value end
    must(sink:attention(call))
  end

  function k.kernel(launch)
    local source = launch.source or op.cuda
    if not source then
      error_module.raise("model", "operator '%s' launches '%s' without a source: give 'source' or the field 'cuda'",
        op.name, tostring(launch.name))
    end
    sources[source] = sources[source] or not launch.label and first_line_of(op.path, source) or 1
    local args = {}
    for i, arg in ipairs(launch.args) do args[i] = type(arg) == "table" and { tensor = arg.tensor } or arg end
    local label = launch.label or (op.path or op.name):match("[^/]+$")
    must(sink:kernel { source = source, name = launch.name, label = label,
      first_line = sources[source], grid = launch.grid, block = launch.block, shared = launch.shared or 0,
      args = args, doubles = launch.doubles or op.doubles and op.doubles[launch.name] })
  end

  -- k.graph only calls its function: on CUDA every recording becomes one graph.
  return primitives.checked(op, k)
end

--- Records one pass of an operator into a sink; raises if the operator cannot run here.
function backend.record(sink, op, s, pass, precision, options)
  if not op.kernel then
    error_module.raise("model", "operator '%s' cannot run on CUDA: it has no 'kernel' function", tostring(op.name))
  end
  options = options or {}
  op.kernel(backend.primitives(sink, op, precision, { seed = options.seed, autotune = options.autotune, pass = pass }),
    s, pass)
end

--- The effect of an error on the campaign. If a kernel made the device unusable, its shape fails and this process
--- stops. A failed device, a source that does not compile and a missing library are `fatal`: the campaign ends and no
--- shape is marked.
local function judged(device, named, failure, op)
  local object = error_module.from(failure)
  local how = device:lost()
  if how then
    object = error_module.new("lost", how == "kernel" and "%s: %s: %s; this process cannot use the device any "
      .. "more: its rows are safe, run the same command again to continue after this shape"
      or "%s: %s: %s; the rows are safe, run the same command again when the device is back", op.name, named,
      object.message)
    object.fatal = how == "device"
  elseif object.kind == "format" or object.kind == "missing" then
    object.fatal = true
  end
  return object
end

--- The precision of a work list: under fp8 everything except the operands of products is bf16.
local function wide(precision) return precision == "fp8" and "bf16" or precision end

local function measure_pass(device, probe, op, s, pass, options)
  local precision = options.precision
  local work <close> = must(device:work(wide(precision)))
  backend.record(work, op, s, pass, precision, { seed = options.seed, autotune = options.autotune })
  must(work:ready { time_limit_seconds = timing.limit_seconds })
  local ratio, result = probe.ratio(), timing.work(work, options)
  result.clock_ratio, result.slow_clock = ratio, ratio > timing.slow_clock_ratio
  if options.profile then
    local kernels, failure = work:profile(timing.limit_seconds)
    if not kernels and device:lost() then error(failure, 0) end
    result.kernels, result.kernels_missing = kernels, failure and failure.message
  end
  return result
end

--- The lines on the device for the header of a table.
local function header_of(ordinal, info, probe, autotune)
  return {
    { "machine", sample.hostname() },
    { "device", ("%d, %s, sm_%d, %d SMs, %.1f GiB, L2 cache %.0f MiB"):format(ordinal, info.name, info.capability,
      info.multiprocessors, info.memory_bytes / 2 ^ 30, info.l2_bytes / 2 ^ 20) },
    { "driver", machine.driver_text(info.driver_version) },
    { "libraries", require("ett.cuda").versions() },
    { "clock", ("%.0f MHz maximum%s, memory %.0f MHz"):format(info.clock_hz / 1e6, probe.clock_hz
      and (", %.0f MHz measured"):format(probe.clock_hz / 1e6) or "", info.memory_clock_hz / 1e6) },
    { "time", ("CUDA events around a graph, L2 overwritten before each run; an empty kernel takes %.1f us"):format(
      probe.floor_seconds * 1e6) },
    { "gemm", autotune and "cuBLASLt, autotuned" or "cuBLASLt, first heuristic" },
  }
end

--- Opens a device that supports a precision, and its clock probe: device, info, probe | nil, error.
local function open_device(ordinal, precision)
  local device, err = require("ett.cuda").open(ordinal)
  if not device then return nil, err end
  local info = device:info()
  local named = ("device %d (%s)"):format(ordinal, info.name)
  if backend.has(precision, info.capability) then
    local ok, probe = pcall(timing.probe, device)
    if ok then return device, info, probe, named end
    err = error_module.from(probe)
    if device:lost() then err = error_module.new("lost", "%s failed: %s", named, err.message) end
  else
    local least = least_capability[precision]
    err = error_module.new("missing", "%s has compute capability %d.%d, %s needs %d.%d; choose %s", named,
      info.capability // 10, info.capability % 10, precision, least // 10, least % 10,
      precision == "fp8" and "bf16, fp16 or fp32" or "fp16 or fp32")
  end
  device:close()
  return nil, err
end

--- Opens a session on one device.
---@param options table device (ordinal), precision, seed, budget_seconds, target, min_repeats, max_repeats,
--- keep_raw, autotune, profile
function backend.open(options)
  options = setmetatable({ precision = (options or {}).precision or "bf16" }, { __index = options })
  local ok, why = backend.available()
  if not ok then return nil, error_module.new("missing", "%s", why) end
  local ordinal, precision = options.device or 0, options.precision
  local device, info, probe, named = open_device(ordinal, precision)
  if not device then return nil, info end
  local session = { backend = backend, resolved = timing.resolved(options), device = (info.name:gsub("[^%w%-]", "")),
    header = header_of(ordinal, info, probe, options.autotune) }

  --- Times every pass of an operator on a shape: { forward = result, … } | nil, error.
  function session.measure(op, s)
    local results = {}
    for _, pass in ipairs(op.passes) do
      local measured, result = pcall(measure_pass, device, probe, op, s, pass, options)
      if not measured then return nil, judged(device, named, result, op) end
      results[pass] = result
    end
    return results
  end

  --- Outputs of one pass on a small shape, beside double precision (ett.sampling.check).
  function session.check(op, s, pass)
    local check = find.part("samplers/cuda", "check")
    local work <close> = must(device:work(wide(precision)))
    local sink, kept = check.recorder(work)
    local ran, list, left = pcall(function()
      backend.record(sink, op, s, pass, precision, { seed = options.seed })
      return check.run(work, kept, timing.limit_seconds)
    end)
    if not ran then error(judged(device, named, list, op), 0) end
    return list, left
  end

  function session.close()
    probe.close()
    device:close()
  end
  return session
end

return backend
