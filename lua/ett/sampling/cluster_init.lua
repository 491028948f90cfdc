--- Writes a cluster file for this machine: devices, memory, NUMA nodes and network cards from the system, rates from
--- short probes.
local error_module = require "ett.base.error"
local ett_io = require "ett.io"
local folder_module = require "ett.base.folder"
local quote = require("ett.base.shell").quote
local find = require "ett.base.find"
local lfs = require "lfs"
local gpu = require "ett.sampling.cluster_init_gpu"
local mpirun = require "ett.sampling.mpirun"
local sample = require "ett.sample"

local cluster_init = {}

local function first_line(path)
  local text = ett_io.read(path)
  return text and text:match("^[^\n]*")
end

local function memory_bytes()
  for line in io.lines("/proc/meminfo") do
    local kilobytes = line:match("^MemTotal:%s+(%d+)")
    if kilobytes then return tonumber(kilobytes) * 1024.0 end
  end
end

--- Network cards that are up: list of { name, kind = "ethernet", "infiniband" or "virtual" (a bridge, the end of a
--- container's link), megabits per second or nil }.
---@param root string path of the kernel's device tree, normally "/sys"
function cluster_init.network_cards(root)
  local cards = {}
  for _, name in ipairs(folder_module.names(root .. "/class/net", "^[^.]")) do
    local card = ("%s/class/net/%s"):format(root, name)
    if name ~= "lo" and first_line(card .. "/operstate") == "up" then
      local speed = tonumber(first_line(card .. "/speed") or "")
      cards[#cards + 1] = { name = name, megabits = speed and speed > 0 and speed or nil,
        kind = lfs.attributes(card .. "/device") and "ethernet" or "virtual" }
    end
  end
  for _, name in ipairs(folder_module.names(root .. "/class/infiniband", "^[^.]")) do
    local port = ("%s/class/infiniband/%s/ports/1"):format(root, name)
    if (first_line(port .. "/state") or "ACTIVE"):find "ACTIVE" then
      local gigabits = tonumber((first_line(port .. "/rate") or ""):match("^([%d.]+)"))
      cards[#cards + 1] = { name = name, kind = "infiniband",
        megabits = gigabits and math.floor(gigabits * 1000 + 0.5) }
    end
  end
  return cards
end

--- Best rates of one processor by short probes: FLOP/s of a product, bytes/s of a copy.
local function cpu_rates()
  local backend = find.load("samplers", "cpu")
  local session = error_module.must(backend.open { visits = 1 })
  local cpu = require "ett.cpu"
  local pool = assert(cpu.pool(256 << 20, 1))
  local options = { budget_seconds = 0.3, max_repeats = 40 }
  local product = assert(pool:measure({ { kind = "linear", pass = "forward", batch = 1, m = 768, n = 768, k = 768 } },
    options))
  local copy = assert(pool:measure({ { kind = "scale", pass = "forward", rows = 4096, cols = 4096 } }, options))
  pool:close()
  session.close()
  return { device = session.device, flops = 2.0 * 768 ^ 3 / product.min_seconds,
    bandwidth = 8.0 * 4096 * 4096 / copy.min_seconds }
end

--- Fewest undisturbed repeats of a message. A probe ends without them if its ranks rarely start together.
local least_repeats = 10

--- Best bandwidth and latency between two ranks of this machine, and the fewest undisturbed `repeats` of a message; or
--- nil and the reason.
local function wire_rates()
  local available, missing = mpirun.available()
  if not available then return nil, missing end
  local text, why = folder_module.within(function(folder)
    local script = folder_module.write(folder .. "/wires.lua", ([[
      local job = require("ett.dist").open()
      local repeats, seconds = math.huge, {}
      for i, message in ipairs { { kind = "send_recv", count = 1 }, { kind = "send_recv", count = 1048576 },
        { kind = "all_reduce", count = 1048576, in_place = true } } do
        message.min_repeats, message.budget_seconds = %d, 0.3
        local result = assert(job.world:time(message))
        seconds[i] = result.min_seconds
        repeats = math.min(repeats, result.repeats - result.dropped)
      end
      if job.rank == 0 then io.stdout:write(("wires %%.9g %%.9g %%.9g %%d\n"):format(seconds[1], seconds[2], seconds[3],
        repeats)) end
    ]]):format(least_repeats))
    local ok, text = pcall(mpirun.run, 2, "run " .. quote(script), { what = "cluster init", log = folder .. "/log",
      bound = true })
    if not ok and error_module.from(text).kind == "interrupt" then error(text, 0) end
    return ok and text or "", not ok and tostring(text) or nil
  end)
  local latency, send, reduce, repeats = text:match("wires (%S+) (%S+) (%S+) (%d+)")
  if not latency then return nil, why or "the ranks printed no times" end
  latency, send, reduce, repeats = tonumber(latency), tonumber(send), tonumber(reduce), tonumber(repeats)
  -- Bus bandwidth of nccl-tests: an all-reduce of S bytes over n ranks moves 2 (n - 1) / n S.
  return { latency = latency, repeats = repeats, send_bandwidth = 4194304 / math.max(send - latency, 1e-9),
    bandwidth = 4194304 / math.max(reduce - 2 * latency, 1e-9) }
end

--- The back end for this machine: the given one ("cpu" or "cuda"), else "cuda" if there is a device. Second result: the
--- reason why no GPU can be used, or nil.
local function choose(asked)
  if asked == "cpu" then return "cpu" end
  local why, kind = gpu.missing()
  if not why then return "cuda" end
  if asked then error_module.raise("missing", "cluster init: --backend cuda: %s", why) end
  return "cpu", kind ~= "missing" and why or nil
end

--- Facts of this machine, measured and read.
---@param asked string? "cpu" or "cuda"; nil: the GPUs if there are any
function cluster_init.look(asked)
  local backend, unusable = choose(asked)
  local facts = { host = sample.hostname(), processors = sample.processors(), memory_bytes = memory_bytes(),
    numa_nodes = #folder_module.names("/sys/devices/system/node", "^node%d+$"),
    cards = cluster_init.network_cards "/sys", date = os.date "%Y-%m-%d", unusable_gpu = unusable }
  if backend == "cuda" then
    facts.gpu = gpu.look()
    return facts
  end
  facts.cpu = cpu_rates()
  if facts.processors > 1 then facts.wire, facts.no_wire = wire_rates() end
  return facts
end

local function number(value) return ("%.4g"):format(value) end

local function describe_cpu(add, name, facts)
  local ranks = facts.processors
  if not facts.wire and ranks > 1 then
    add("-- The link is not measured, but assumed to have half the memory's bandwidth: %s.",
      ((facts.no_wire or "no MPI"):gsub("%s+", " ")))
    facts.wire = { bandwidth = facts.cpu.bandwidth / 2, send_bandwidth = facts.cpu.bandwidth / 2, latency = 1e-6,
      source = "half the memory's bandwidth, 1 us assumed" }
  end
  if ranks > 1 and (facts.wire.repeats or least_repeats) < least_repeats then
    add("-- The link was measured on a busy machine: %d undisturbed repeats of a message. Measure it again on an idle "
      .. "machine (`ett cluster init`).", facts.wire.repeats)
  end
  add("return {")
  add("  name = %q, summary = \"%d processors of %s\", source = probe,", name, ranks, facts.cpu.device)
  add("  gpus_per_node = %d, nodes = 1, stack = \"cpu\",", ranks)
  add("  device = {")
  add("    name = %q, source = probe .. \": a 768^3 product, a copy of 64 MiB, one thread\",", facts.cpu.device)
  add("    vendor = \"cpu\", -- of processors: none of a GPU's kernels or protocols")
  add("    peak_flops = { fp32 = %s }, memory_bandwidth = %s, probed = true, memory_bytes = %s,",
    number(facts.cpu.flops), number(facts.cpu.bandwidth), number(facts.memory_bytes / ranks))
  add("  },")
  if facts.wire and ranks > 1 then
    add("  links = { intra = { name = \"shared memory\", bandwidth = %s, send_bandwidth = %s, latency = %s,",
      number(facts.wire.bandwidth), number(facts.wire.send_bandwidth), number(facts.wire.latency))
    add("    source = probe .. \": %s\" } },", facts.wire.source or "two MPI ranks, 4 MiB")
  else
    add("  links = {},")
  end
  add("}")
end

--- The text of a cluster file: of the GPUs if facts.gpu is set, else of the CPUs.
---@param name string
---@param facts table of look()
function cluster_init.text(name, facts)
  local lines = {}
  local function add(format, ...) lines[#lines + 1] = format:format(...) end
  add("--- %s: written by `ett cluster init %s` from facts of the machine.", facts.host, name)
  add("-- %d processors, %d NUMA node(s).", facts.processors, math.max(1, facts.numa_nodes))
  for _, card in ipairs(facts.cards) do
    add("-- network card %s: %s", card.name, card.megabits and ("%d Mbit/s"):format(card.megabits) or "speed unknown")
  end
  if facts.unusable_gpu then add("-- No GPU could be used: %s.", (facts.unusable_gpu:gsub("%s+", " "))) end
  add("local probe = \"measured by ett cluster init on %s\"", facts.date)
  if facts.gpu then gpu.describe(add, name, facts) else describe_cpu(add, name, facts) end
  return table.concat(lines, "\n") .. "\n"
end

--- Writes FOLDER/NAME.lua; refuses to overwrite, and writes nothing if a probe fails.
---@param backend string? as of look()
---@return string path, string text
function cluster_init.write(name, folder, backend)
  if not name:match("^[%a][%w_%-]*$") then
    error_module.raise("usage", "cluster init: a name is letters, digits, '_' and '-', got '%s'", name)
  end
  local path = ("%s/%s.lua"):format(folder, name)
  if lfs.attributes(path) then
    error_module.raise("usage", "cluster init: '%s' exists already; remove it, or give another name or --out", path)
  end
  local text = cluster_init.text(name, cluster_init.look(backend))
  folder_module.make(folder)
  return folder_module.write(path, text), text
end

return cluster_init
