--- Time of a metered run: the compute of each meter and the traffic of each axis.
--
-- Axes are placed on the machine from the innermost outwards. An axis whose span (its degree times those inside it)
-- fits in a node uses the node's link, others the network. Ranks send and receive simultaneously, so an axis takes
-- max(Tx, Rx) / bandwidth. Each of the (degree - 1) steps of an operation's ring adds a latency. Traffic of different
-- axes on one link is added; a fraction `overlap` of it may hide behind computing.
-- Memory traffic: a product reads its inputs. A sum or copy writes its result, and a chain of them only the last one.
-- The backward pass doubles both. Attention scores are written, as without a fused kernel.
local by = require "ett.base.by"
local ledger = require "ett.ledger"

local timing = {}

timing.inner_first = { "TENSOR_INT", "TENSOR_EXT", "EXP", "SEQ", "PIPE", "DATA" }

local function placement(L, order, node_chips)
  local degree, span, places = {}, 1, {}
  for _, axis in ipairs(L:axes()) do degree[axis.name] = ledger.value(axis.degree) end
  local seen = {}
  local function place(name)
    seen[name] = true
    span = span * degree[name]
    places[name] = { span = span, degree = degree[name], link = span <= node_chips and "intra" or "inter" }
  end
  for _, name in ipairs(order) do if degree[name] then place(name) end end
  for _, axis in ipairs(L:axes()) do if not seen[axis.name] then place(axis.name) end end
  return places
end

local function hidden(busy, traffic, overlap)
  return busy + (1 - overlap) * traffic + math.max(0, overlap * traffic - busy)
end

--- The resource that limits a time, from the seconds of each; "-" if none takes time.
function timing.bound_by(compute, memory, network)
  if compute + memory + network == 0 then return "-" end
  if network > math.max(compute, memory) then return "network" end
  return memory > compute and "memory" or "compute"
end

-- A quantity of an entry (flop, tx, rx) in all passes. Checkpointing repeats the forward pass.
local function passes(e, quantity, options)
  local forward, backward = ledger.value(e[quantity .. "_forward"]), ledger.value(e[quantity .. "_backward"])
  if options.forward_only then return forward end
  return (options.checkpointing and 2 or 1) * forward + backward
end

-- Adds words that an entry sends over an axis to the line of this axis in its phase.
local function add_words(run, phase, axis, words)
  local options, place = run.options, run.places[axis]
  local link = options.links[place.link] or options.links.intra or options.links.inter
  local line = phase.by_axis[axis]
  if not line then
    line = { axis = axis, link = link.name or place.link, degree = place.degree, seconds = 0, bytes = 0 }
    phase.by_axis[axis] = line
    phase.axes[#phase.axes + 1] = line
  end
  local bytes = words * options.bytes / run.ranks
  local messages = (options.operations and options.operations[phase.name] or 0) * (options.forward_only and 1 or 2)
  line.bytes = line.bytes + bytes
  line.seconds = line.seconds + bytes / link.bytes_per_second
    + messages * (place.degree - 1) * (link.latency_seconds or 0)
end

-- The phases of a ledger, one for each meter, with their FLOP, words of memory, and lines of axes.
local function phases_of(L, run)
  local options, phases, by_name = run.options, {}, {}
  local memory_passes = options.forward_only and 1 or options.checkpointing and 4 or 3
  for _, e in ipairs(L:entries()) do
    local phase = by_name[e.meter]
    if not phase then
      phase = { name = e.meter, flop = 0, words = 0, axes = {}, by_axis = {} }
      by_name[e.meter] = phase
      phases[#phases + 1] = phase
    end
    phase.flop = phase.flop + passes(e, "flop", options)
    phase.words = phase.words + ledger.value(e.rank_words) * memory_passes
    for _, part in ipairs(e.axes) do
      local words = math.max(passes(part, "tx", options), passes(part, "rx", options))
      if words > 0 then add_words(run, phase, part.axis, words) end
    end
  end
  return phases
end

local function bound_of(t) return timing.bound_by(t.compute_seconds, t.memory_seconds, t.network_seconds) end

-- Computes the times of a phase from its FLOP, words and lines.
local function time_phase(run, phase)
  local options = run.options
  phase.compute_seconds = phase.flop / (run.ranks * options.flops * (options.utilization or 1))
  phase.network_seconds = 0
  for _, line in ipairs(phase.axes) do phase.network_seconds = phase.network_seconds + line.seconds end
  phase.memory_seconds = options.memory and phase.words * options.bytes / options.memory or 0
  phase.by_axis, phase.words = nil, nil
  phase.seconds = hidden(math.max(phase.compute_seconds, phase.memory_seconds), phase.network_seconds,
    options.overlap or 1)
  phase.bound_by = bound_of(phase)
  table.sort(phase.axes, by("-seconds", "axis"))
end

--- Times ledger L. options: flops (peak FLOP/s of a rank), utilization (fraction of it that matmuls reach), memory
--- (bytes/s of a rank; nil: not counted), bytes (per word), links ({ intra =, inter = } of ett.ledger.links, or one of
--- them), node_chips, overlap (0 to 1), order (axes, innermost first), forward_only, checkpointing, operations (meter
--- name -> number of runs of its operations, for latency). Returns { seconds, compute_seconds, memory_seconds,
--- network_seconds, bound_by, phases = { { name, axes = { { axis, link, seconds, bytes } }, and the same fields } } }.
function timing.of(L, options)
  local run = { options = options, ranks = ledger.value(L:clusters()),
    places = placement(L, options.order or timing.inner_first, options.node_chips or 1) }
  local result = { seconds = 0, compute_seconds = 0, memory_seconds = 0, network_seconds = 0,
    phases = phases_of(L, run), places = run.places }
  for _, phase in ipairs(result.phases) do
    time_phase(run, phase)
    for _, field in ipairs { "seconds", "compute_seconds", "memory_seconds", "network_seconds" } do
      result[field] = result[field] + phase[field]
    end
  end
  result.bound_by = bound_of(result)
  return result
end

return timing
