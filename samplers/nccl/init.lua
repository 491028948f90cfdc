--- NCCL back end: collectives between GPUs, one rank per GPU, bootstrapped by MPI.
--
-- Counts are in elements, and bandwidths are those of nccl-tests. Algorithm bandwidth is message bytes over time; bus
-- bandwidth is that times the fraction of the message that crosses a rank's link (its doc/PERFORMANCE.md).
local comm = require "ett.comm"
local error_module = require "ett.base.error"
local machine = require "ett.sampling.machine"
local read = require("ett.io").read
local sample = require "ett.sample"
local dtype_bytes = require("ett.base.schema").dtype_bytes

local backend = {
  name = "nccl",
  measures = "collective",
  summary = "collectives between GPUs by NCCL, with ranks started by MPI",
  needs = "NCCL, MPI, and one GPU per rank",
  placed = "a rank uses the GPU of its local rank (CUDA_VISIBLE_DEVICES selects)",
  precisions = { fp16 = true, bf16 = true, fp32 = true, fp8 = true },
}

--- true, or nil and a message that names the missing part.
function backend.available()
  local nccl, why = error_module.part("ett.nccl", "the NCCL back end", "install NCCL's and CUDA's development files")
  if not nccl then return nil, why end
  local version, err = nccl.available()
  if not version then return nil, tostring(err.message) end
  local devices
  devices, err = require("ett.cuda").available()
  if not devices then return nil, tostring(err.message) end
  if devices == 0 then return nil, "this machine has no CUDA device" end
  if not pcall(require, "ett.dist") then
    return nil, "the NCCL back end needs MPI to connect its ranks: install libopenmpi-dev and openmpi-bin "
      .. "and rebuild"
  end
  return true
end

--- Algorithm and bus bandwidth in bytes/s of `bytes` moved by n ranks in `seconds`.
function backend.bandwidth(collective, bytes, ranks, seconds)
  local algorithm = bytes / seconds
  return algorithm, algorithm * comm.factor(collective, ranks)
end

-- NCCL's names of collectives. Other kinds are sends and receives, which have no algorithm.
local nccl_names = { all_reduce = "AllReduce", all_gather = "AllGather", reduce_scatter = "ReduceScatter",
  broadcast = "Broadcast" }

--- NCCL reports its choice of algorithm and protocol only in its log: rank 0 of a communicator writes "AllReduce:
--- 1048576 Bytes -> Algo RING proto SIMPLE ...". If the user has set NCCL_DEBUG, the log is left to the user.
local function open_log()
  if os.getenv("NCCL_DEBUG") then return nil end
  local path = os.tmpname()
  sample.default_environment("NCCL_DEBUG", "INFO")
  sample.default_environment("NCCL_DEBUG_SUBSYS", "TUNING")
  sample.default_environment("NCCL_DEBUG_FILE", path)
  local log, at = {}, 0
  --- Algorithm and protocol of the last call of that collective since the previous choice().
  function log.choice(collective)
    local name = nccl_names[collective]
    if not name then return "point to point" end
    local text, found = read(path), nil
    if not text then return nil end
    text, at = text:sub(at + 1), #text
    for bytes, algorithm, protocol in text:gmatch(name .. ": (%d+) Bytes %-> Algo (%S+) proto (%S+)") do
      -- Skips the four-byte all-reduce that starts every run.
      if name ~= "AllReduce" or bytes ~= "4" or not found then found = algorithm:lower() .. ", " .. protocol:lower() end
    end
    return found
  end
  function log.close() os.remove(path) end
  return log
end

--- Ends the campaign on all ranks: aborts the job with this rank's error message.
local function lose(job, named, failure)
  local object = error_module.new("lost", "rank %d, %s: %s; the rows are safe, run the same command again", job.rank,
    named, failure.message)
  object.fatal = true
  error(object, 0)
end

--- Properties of this rank's GPU | nil, error.
local function device_info(job, cuda)
  local devices = cuda.available()
  if job.local_rank >= devices then
    return nil, error_module.new("missing", "rank %d is number %d on its node, which has %d CUDA device%s; start "
      .. "one rank a GPU", job.rank, job.local_rank + 1, devices, devices == 1 and "" or "s")
  end
  local device, err = cuda.open(job.local_rank)
  if not device then return nil, err end
  local info = device:info()
  device:close()
  return info
end

--- The lines on the job for the header of a table.
local function header_of(job, info, version, log)
  return {
    { "machine", sample.hostname() },
    { "device", ("%s, %d ranks on %d nodes"):format(info.name, job.size, job.nodes) },
    { "driver", machine.driver_text(info.driver_version) },
    { "clock", ("%.0f MHz maximum, memory %.0f MHz"):format(info.clock_hz / 1e6, info.memory_clock_hz / 1e6) },
    { "libraries", ("NCCL %d.%d.%d; %s"):format(version // 10000, version // 100 % 100, version % 100,
      job.library) },
    { "algorithm", ("%s, protocol %s%s"):format(os.getenv("NCCL_ALGO") or "NCCL's choice",
      os.getenv("NCCL_PROTO") or "NCCL's choice", log and ", noted above each row" or "") },
    { "bandwidth", "as nccl-tests defines it: algbw is bytes over time, busbw its share on a rank's link" },
  }
end

--- Every rank checks its request and allocates its buffers; if one rank fails, none starts. A wrong request fails on
--- every rank; memory may run out on a single rank.
local function agreed(session, request)
  local ready, failure = session.comm:prepare(request)
  if not ready and failure.kind == "lost" then session.lose(failure) end
  local ranks = session.group:size()
  local first = -session.group:reduce(ready and -ranks or -session.group:rank(), "max")
  if first == ranks then return true end
  return nil, failure or error_module.new("memory", "out of memory on the device of rank %d", math.floor(first))
end

--- Seconds of each run on the slowest rank; equal on every rank.
local function timed(session, request)
  local seconds, failure = session.comm:time(request)
  if not seconds then session.lose(failure) end
  for i, value in ipairs(seconds) do seconds[i] = session.group:reduce(value, "max") end
  return seconds
end

--- Repeats a collective until its time has the target precision or the budget is spent.
local function repeated(session, request)
  local r, began = session.resolved, sample.now()
  request.repeats = math.min(request.repeats, r.max_repeats)
  local seconds = timed(session, request)
  while #seconds < r.max_repeats do
    local stats = sample.stats(seconds)
    -- All ranks hold equal numbers and decide equally; the clock is rank 0's.
    local spent = session.group:reduce(sample.now() - began, "max")
    if #seconds >= r.min_repeats and stats.half_width <= r.target * stats.low_mean or spent > r.budget_seconds then
      break
    end
    request.repeats = math.min(10, r.max_repeats - #seconds)
    local more = timed(session, request)
    table.move(more, 1, #more, #seconds + 1, seconds)
  end
  return seconds, sample.stats(seconds)
end

--- Opens a session; every rank of the job must call it. A rank uses the GPU of its local rank.
---@param options table precision, min_repeats, max_repeats, budget_seconds, target, statistic, keep_raw, share
function backend.open(options)
  options = options or {}
  local ok, why = backend.available()
  if not ok then return nil, error_module.new("missing", "%s", why) end
  local nccl, job = require "ett.nccl", require("ett.dist").open()
  if job.size < 2 then
    return nil, error_module.new("missing", "collectives need at least 2 ranks: run under mpirun -n 2 or srun -n 2")
  end
  local info, err = device_info(job, require "ett.cuda")
  if not info then return nil, err end
  local share, precision = options.share, options.precision or "bf16"
  local log = open_log() -- before the library is loaded
  local session = {
    backend = backend, resolved = { budget_seconds = options.budget_seconds or 1, target = options.target or 0.02,
      min_repeats = options.min_repeats or 10, max_repeats = options.max_repeats or 100 },
    device = (info.name:gsub("[^%w%-]", "")), header = header_of(job, info, nccl.available(), log),
  }
  local named = ("device %d (%s)"):format(job.local_rank, info.name)
  function session.lose(failure) lose(job, named, failure) end

  local mpi = require("ett.base.find").load("samplers", "mpi")
  --- nodes x ranks per node that this job can form for a target.
  function session.topologies(target) return mpi.topologies(job, target) end

  --- Forms the communicator of a topology; every rank of the job must call it.
  function session.use(topology)
    if session.comm then session.comm:close() end
    mpi.form_group(session, job, topology, share)
    session.comm = nil
    if not session.member then return end
    local id = session.group:rank() == 0 and assert(nccl.unique_id()) or ""
    id = session.group:share_text(id)
    session.comm = assert(nccl.open { device = job.local_rank, rank = session.group:rank(),
      size = session.group:size(), id = id })
  end

  --- Times a collective of `count` elements on the current communicator: result | nil, error.
  function session.measure_collective(target, count)
    local request = { kind = target.collective, count = count, dtype = precision,
      in_place = target.in_place or false, repeats = 5 }
    local all, refused = agreed(session, request)
    if not all then return nil, refused end
    local seconds, stats = repeated(session, request)
    local choice = log and session.group:rank() == 0 and log.choice(target.collective)
    local median = options.statistic == "median"
    local time = median and stats.median or stats.low_mean
    local algorithm, bus = backend.bandwidth(target.collective, count * dtype_bytes[precision], session.group:size(),
      time)
    return { seconds = time, min_seconds = stats.min, median_seconds = stats.median,
      half_width_seconds = stats.half_width, known_to = not median and stats.half_width / time or nil,
      repeats = #seconds, dropped = 0,
      raw_seconds = options.keep_raw and seconds or nil,
      note = ("algbw %.2f GB/s, busbw %.2f GB/s%s"):format(algorithm / 1e9, bus / 1e9,
        choice and ", " .. choice or "") }
  end

  function session.close()
    if session.comm then session.comm:close() end
    if session.group then session.group:close() end
    if log then log.close() end
  end
  return session
end

return backend
