--- PyTorch back end: runs a campaign in the user's own PyTorch.
--
-- One Python process (worker.py) serves a session. On a GPU torch.profiler records each shape, and ett.trace reads
-- device time from the Kineto trace. On the host each pass is timed by the clock.
local error_module = require "ett.base.error"
local folder_module = require "ett.base.folder"
local host = require "ett.host"
local json = require "ett.json"
local lfs = require "lfs"
local machine = require "ett.sampling.machine"
local quote = require("ett.base.shell").quote
local read = require("ett.io").read
local sample = require "ett.sample"

local backend = {
  name = "torch",
  summary = "operators by the user's own PyTorch",
  needs = "Python 3 with PyTorch (ETT_PYTHON names another interpreter)",
  precisions = { fp16 = true, bf16 = true, fp32 = true },
}

local START_LIMIT_SECONDS, SHAPE_LIMIT_SECONDS = 120, 600

--- Runs Python code; true if it exits with 0.
local function runs(python, text)
  return os.execute(("%s -c %s >/dev/null 2>&1"):format(quote(python), quote(text))) == true
end

--- The interpreter that has PyTorch: that of ETT_PYTHON, else python3, else the system's. nil and the missing part.
function backend.interpreter()
  local given = os.getenv "ETT_PYTHON"
  local found
  for _, python in ipairs(given and { given } or { "python3", "/usr/bin/python3" }) do
    if runs(python, "import importlib.util as u; exit(u.find_spec('torch') is None)") then return python end
    found = found or runs(python, "") and python
  end
  if found then
    return nil, ("'%s' has no PyTorch; install it there or name another interpreter in ETT_PYTHON"):format(found)
  end
  return nil, ("no Python interpreter '%s'; install Python 3 or name one in ETT_PYTHON"):format(given or "python3")
end

--- true, or nil and a message that names the missing part.
function backend.available()
  local python, why = backend.interpreter()
  return python and true, why
end

local function read_answer(path)
  local answer = json.read(path)
  if answer then os.remove(path) end
  return answer
end

--- Waits for the worker's answer; nil and the reason if it died or timed out.
local function wait_for(path, log, limit_seconds)
  local began = sample.now()
  while true do
    local answer = read_answer(path)
    if answer then return answer end
    if lfs.attributes(log .. ".ended") then
      answer = read_answer(path) -- the answer may have arrived just before the worker ended
      if answer then return answer end
      local text = read(log) or ""
      return nil, error_module.new("lost", "the Python process ended: %s", text:match("([^\n]+)%s*$") or "no message")
    end
    if sample.now() - began > limit_seconds then
      return nil, error_module.new("lost", "the Python process did not answer within %d seconds", limit_seconds)
    end
    sample.pause(0.005)
  end
end

--- Seconds of each occurrence of a pass in a trace: device rows launched inside it. Uses the campaign's target (a path
--- of host events) if each iteration has one, else the range of the pass. The second result then gives the reason.
local function pass_seconds(trace, pass, target, active)
  local durations = require("ett.trace.samples").durations
  local seconds, list, note = {}, nil, nil
  if target then
    list = durations(trace, target)
    if #list ~= active then
      note = ("%s timed by its range: the trace has %d events of the target '%s' in %d iterations"):format(pass, #list,
        type(target[#target]) == "table" and table.concat(target[#target], "', '") or tostring(target[#target]), active)
      list = nil
    end
  end
  for i, microseconds in ipairs(list or durations(trace, { "ett " .. pass })) do seconds[i] = microseconds * 1e-6 end
  return seconds, note
end

--- Starts the Python process, which writes its properties to FOLDER/hello.
local function start_worker(python, folder, options, log)
  local device = options.device == "cpu" and "cpu" or ("cuda:%d"):format(options.device or 0)
  local threads = options.threads and ("OMP_NUM_THREADS=%d OPENBLAS_NUM_THREADS=%d"):format(options.threads,
    options.threads) or ""
  local worker = assert(io.popen(("{ %s %s -B %s %s %s >%s 2>&1; : >%s; }"):format(threads, quote(python),
    quote(host.root .. "/samplers/torch/worker.py"), device, quote(folder .. "/hello"), quote(log),
    quote(log .. ".ended")), "w"))
  worker:setvbuf("line")
  return worker
end

--- The lines on the interpreter and its device for the header of a table. Entries with a field `family` apply only to
--- operators of that family.
local function header_of(hello, options, warmup, active)
  local on_device = hello.device ~= "cpu"
  return {
    { "machine", sample.hostname() },
    { "device", on_device and hello.device
      or ("%s, %d processors"):format(machine.processor().model, sample.processors()) },
    { "driver", on_device and (machine.gpu_driver() or "unknown") or "none" },
    { "clock", on_device and machine.gpu_clock_text(options.device or 0)
      or ("%s MHz nominal"):format(machine.processor().mhz or "?") },
    { "libraries", ("PyTorch %s%s"):format(hello.torch, hello.cuda and ", CUDA " .. hello.cuda or "") },
    { "time", on_device and "device rows of the profiler's trace, caches as the pass before left them"
      or ("clock of the host around each pass, %d thread%s"):format(hello.threads, hello.threads > 1 and "s" or "") },
    { "iterations", ("%d timed after %d"):format(active, warmup) },
    not hello.fused_attention and { "attention", "written out with matmul and softmax: this PyTorch has no "
      .. "scaled_dot_product_attention", family = "attention" } or nil,
  }
end

--- Lets the worker run an operator; returns its answer and the path of the trace | nil, error.
local function run(session, op, s, request)
  session.count = session.count + 1
  local trace_path = ("%s/%d.json"):format(session.folder, session.count)
  local answer_path = ("%s/%d.answer"):format(session.folder, session.count)
  request.operator, request.source, request.shape, request.passes = op.name, op.torch, s, op.passes
  request.trace, request.answer = trace_path, answer_path
  session.worker:write(json.encode(request), "\n")
  session.worker:flush()
  local answer, failure = wait_for(answer_path, session.log, SHAPE_LIMIT_SECONDS)
  if not answer then return nil, failure end
  if answer.ok then return answer, trace_path end
  local what = ("%s: %s"):format(op.name, answer.message)
  if answer.kind == "lost" then
    what = ("%s; %s cannot be used by this process any more: its rows are safe, run the same command again to "
      .. "continue after this shape"):format(what, session.torch_device)
  end
  return nil, error_module.new(answer.kind, "%s", what)
end

--- The results of every pass | nil, error.
---@param seconds table pass -> its seconds in every iteration
---@param options table statistic, keep_raw
local function results_of(seconds, op, options)
  local results = {}
  for _, pass in ipairs(op.passes) do
    local list = seconds[pass]
    if #list == 0 then
      return nil, error_module.new("model", "%s: the trace has no rows of its %s pass", op.name, pass)
    end
    local stats = sample.stats(list)
    local median = options.statistic == "median"
    results[pass] = { seconds = median and stats.median or stats.low_mean,
      known_to = not median and stats.half_width / stats.low_mean or nil, min_seconds = stats.min,
      median_seconds = stats.median, mean_seconds = stats.mean, half_width_seconds = stats.half_width,
      repeats = #list, dropped = 0, raw_seconds = options.keep_raw and list or nil }
  end
  return results
end

--- The results of every pass in a Kineto trace of a GPU | nil, error.
---@param targets table the campaign's path of host events of each pass
---@param options table? statistic, keep_raw
function backend.traced(path, op, targets, active, options)
  local trace, failure = require("ett.trace").open(path, { profile_mode = "torch" })
  if not trace then return nil, failure end
  local seconds, notes = {}, {}
  for i, pass in ipairs(op.passes) do
    seconds[pass], notes[#notes + 1] = pass_seconds(trace, pass, targets[i], active)
  end
  trace:close()
  local results
  results, failure = results_of(seconds, op, options or {})
  if results and #notes > 0 then results.note = table.concat(notes, "; ") end
  return results, failure
end

--- Opens a session: starts the worker.
---@param options table precision, warmup, active (or a campaign's schedule), statistic, keep_raw, threads (of the
--- host), device (number of a GPU; "cpu" forces the host)
function backend.open(options)
  options = options or {}
  local python, why = backend.interpreter()
  if not python then return nil, error_module.new("missing", "%s", why) end
  local folder, schedule = folder_module.temporary(), options.schedule or {}
  local warmup = options.warmup or schedule.warmup and schedule.wait + schedule.warmup or 6
  local active = options.active or schedule.active or 10
  local session = { backend = backend, keeps_schedule = true, folder = folder, log = folder .. "/log", count = 0 }
  session.worker = start_worker(python, folder, options, session.log)
  function session.close()
    if not session.worker then return end
    session.worker:close()
    session.worker = nil
    folder_module.remove(folder)
  end
  local hello, err = wait_for(folder .. "/hello", session.log, START_LIMIT_SECONDS)
  if not hello then
    session.close()
    return nil, err
  end
  session.torch_device = hello.device
  session.device = hello.device == "cpu" and machine.processor().device or (hello.device:gsub("[^%w%-]", ""))
  session.header = header_of(hello, options, warmup, active)

  --- Times every pass of an operator on a shape: { forward = result, … } | nil, error.
  ---@param target table? of the campaign; its `targets` name the host events of each pass
  function session.measure(op, s, _, target)
    if not op.torch then
      return nil, error_module.new("model", "operator '%s' cannot run under PyTorch: it has no field 'torch'", op.name)
    end
    local answer, path = run(session, op, s, { dtype = options.precision or "bf16", warmup = warmup, active = active })
    if not answer then return nil, path end
    if answer.seconds then return results_of(answer.seconds, op, options) end
    local results, failure = backend.traced(path, op, target and target.targets or {}, active, options)
    if results then os.remove(path) end
    return results, failure
  end

  return session
end

return backend
