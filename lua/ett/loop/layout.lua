--- Infers the plan and the model from a recorded run and the workload card beside it; each field has its certainty and
--- its reason.
--
--   local found = layout.read(view)
--   found.tp --> { value = 8, sure = "certain", why = "the ranks of the tensor-parallel groups" }
--
-- "certain": the trace states it, or two sources agree. "likely": one source with another possible meaning, or the
-- workload card alone. "guess": a default of training programs that the trace does not contradict. Fields that neither
-- shows have no entry.
local against_names = { masked_softmax = "fused_softmax", softmax = "unfused" }
local dtype_bytes = require("ett.base.schema").dtype_bytes
local operators = require "ett.trace.operators"

local layout = {}

--- Sets a field that is still open. A field of the workload card becomes certain if the trace agrees. It is replaced if
--- the trace is certain of another value.
local function set(found, name, value, sure, why)
  local known = found[name]
  if value == nil or known and not known.of_card then return end
  if not known then
    found[name] = { value = value, sure = sure, why = why }
  elseif known.value == value and sure ~= "guess" then
    found[name] = { value = value, sure = "certain", why = why .. ", and the workload card" }
  elseif known.value ~= value and sure == "certain" then
    why = ("%s; the workload card has %s"):format(why, known.value)
    found[name] = { value = value, sure = sure, why = why }
  elseif known.value ~= value and sure ~= "guess" and not known.differs then
    known.differs = true
    known.why = ("%s; the trace shows %s (%s)"):format(known.why, value, why)
  end
end

--- The plan's fields in the workload card beside the trace. Its batch is not read: it may be that of a rank or of all.
local function read_card(view, found)
  local card = view:card()
  local function read(name, value)
    if value then
      found[name] = { value = value, sure = "likely", why = "the workload card " .. card.file, of_card = true }
    end
  end
  for _, degree in ipairs { "tp", "pp", "dp", "cp", "ep" } do
    local value = math.tointeger(card[degree])
    read(degree, value and math.max(1, value)) -- 0: unused
  end
  read("seq", math.tointeger(card.seq_len))
  local precision = type(card.precision) == "string" and card.precision:lower()
  read("dtype", precision and dtype_bytes[precision] and precision)
end

--- The fields without the marks that only `set` reads.
local function finished(found)
  for _, each in pairs(found) do each.of_card, each.differs = nil, nil end
  return found
end

local function value_of(found, name) return found[name] and found[name].value end

--- The most frequent key of counts, the smallest of equally frequent ones; nil for an empty table.
local function most(counts)
  local best
  for key, n in pairs(counts) do
    if not best or n > counts[best] or n == counts[best] and key < best then best = key end
  end
  return best
end

local function count(counts, key, by)
  if key ~= nil then counts[key] = (counts[key] or 0) + (by or 1) end
end

--- Forward runs of one device in order, by family, and counts of other runs.
local function survey(device)
  local s = { forward = {}, gemm = {}, backward = 0, recompute = {}, embedding = {}, norm = {}, update = 0, dtypes = {},
    core = {}, whats = {} }
  for _, run in ipairs(device.runs) do
    local o = run.operation
    if o and o.family == "optimizer" then s.update = s.update + 1 end
    if run.pass == "backward" then s.backward = s.backward + (o and 1 or 0) end
    if run.pass == "recompute" and o then s.recompute[#s.recompute + 1] = run end
    if o and run.pass == "forward" and o.family ~= "optimizer" then
      s.forward[#s.forward + 1] = run
      if s[o.family] then table.insert(s[o.family], run) end
      if o.what then count(s.whats, o.what) end
      if o.family == "gemm" then count(s.dtypes, o.dtype) end
    end
  end
  return s
end

local function read_width(s, found)
  local cols = {}
  for _, run in ipairs(s.embedding) do count(cols, run.operation.cols) end
  set(found, "hidden", most(cols), "certain", "width of the embedding")
  for _, run in ipairs(s.norm) do count(cols, run.operation.cols) end
  local norm = most(cols)
  if norm and value_of(found, "hidden") == norm and #s.norm > 0 then
    found.hidden.why = "width of embedding and norms"
  end
  set(found, "hidden", norm, "likely", "width of the norms")
  local whats = {}
  for _, run in ipairs(s.norm) do count(whats, (run.operation.what:gsub("^add_", ""))) end
  set(found, "norm", most(whats), "certain", "the norms' operators")
  set(found, "dtype", most(s.dtypes), "certain", "inputs of the products")
end

--- Attention: the runs of its core, and the local heads, head dimension, sequence and batch in them.
local function read_attention(s, found)
  local cores, shape = {}, nil
  for i, run in ipairs(s.forward) do
    local o, after = run.operation, s.forward[i + 1]
    if o.family == "attention" then
      cores[#cores + 1] = i
      shape = shape or { batch = o.batch, heads = o.heads, kv_heads = o.kv_heads, dim = o.head_dim, seq_q = o.seq_q,
        seq_k = o.seq_k, kind = "flash" }
    elseif o.family == "bmm" and o.m == o.n then -- queries times keys: a square of the sequence, then a softmax
      local softmax
      for j = i + 1, math.min(i + 4, #s.forward) do
        local next_one = s.forward[j].operation
        if next_one.family == "bmm" then break end
        softmax = softmax or (next_one.family == "softmax" and next_one.what)
      end
      if softmax and after then
        cores[#cores + 1] = i
        shape = shape or { products = o.batch, dim = o.k, seq_q = o.m, seq_k = o.n, kind = against_names[softmax] }
      end
    end
  end
  if not shape then return cores end
  set(found, "attention", shape.kind, "certain", "the operators of its core")
  set(found, "head_dim", shape.dim, "certain", "operands of attention")
  if shape.seq_q == shape.seq_k then
    set(found, "seq", shape.seq_q, "certain", "queries and keys of attention")
  else
    set(found, "seq", shape.seq_k, "likely", "keys of attention: it has fewer queries")
  end
  return cores, shape
end

--- The products around the attention core of the first layer: { qkv = summed n of the products before it, proj, up,
--- down }.
local function around(s, found, at)
  local hidden, parts = value_of(found, "hidden"), { qkv = 0, up = {} }
  for i = at - 1, 1, -1 do
    local o = s.forward[i].operation
    if o.family == "gemm" then
      if o.k ~= hidden then break end
      parts.qkv, parts.products, parts.bias = parts.qkv + o.n, (parts.products or 0) + 1, #(o.dims[3] or {}) == 1
      parts.first = parts.first or o
      if parts.products == 3 or parts.qkv > hidden / 2 and parts.products == 1 and o.n % 3 == 0 then break end
    elseif o.family == "norm" and o.cols == hidden or o.family == "embedding" then
      break
    end
  end
  for i = at + 1, #s.forward do
    local o = s.forward[i].operation
    if o.family == "attention" then break end
    if o.family == "gemm" then
      if not parts.proj then
        if o.n ~= hidden then return parts end
        parts.proj = o
      elseif o.n == hidden then
        parts.down = o
        return parts
      elseif o.k == hidden then
        parts.up[#parts.up + 1] = o
      end
    end
  end
  return parts
end

local function read_degree(found, parts, shape, groups)
  local hidden, local_width = value_of(found, "hidden"), parts.proj and parts.proj.k
  local by_width = local_width and hidden % local_width == 0 and hidden // local_width or nil
  local said = groups.tp
  if said and by_width == said then
    set(found, "tp", said, "certain", "tensor-parallel groups, and the width of the output projection")
  elseif said then
    set(found, "tp", said, "likely", "tensor-parallel groups")
  elseif by_width and by_width > 1 then
    set(found, "tp", by_width, "likely", "the output projection takes 1/tp of the width; no group shows it")
  elseif by_width then
    set(found, "tp", 1, "certain", "the output projection takes the whole width")
  end
  local tp = value_of(found, "tp") or 1
  local heads = local_width and local_width % shape.dim == 0 and local_width // shape.dim or nil
  if heads then
    set(found, "heads", heads * tp, "certain", "width of the output projection over that of a head")
    local kv = (parts.qkv - heads * shape.dim) / (2 * shape.dim)
    kv = math.tointeger(kv) or shape.kv_heads ~= heads and shape.kv_heads or nil
    if kv and kv >= 1 and heads % kv == 0 then
      set(found, "kv_heads", kv * tp, kv == 1 and tp > 1 and "guess" or "certain",
        kv == 1 and tp > 1 and "one on each rank: they may be copies" or "width of the products before attention")
    end
    local batch = shape.batch or shape.products and shape.products % heads == 0 and shape.products // heads
    set(found, "micro_batch", batch or nil, "certain", "batch of attention")
  end
  set(found, "qkv_bias", parts.bias and true or nil, "certain", "the products before attention have a bias")
  if parts.down then
    set(found, "ffn", parts.down.k * tp, found.tp and found.tp.sure or "guess",
      "width of the second product of the MLP")
    local gated = #parts.up == 2 or parts.up[1] and parts.up[1].n == 2 * parts.down.k
    set(found, "gated_mlp", gated or false, "certain", "products of the MLP")
  end
end

--- Sizes of all-reduces over tensor ranks: bytes of a product's output, which identify them if no group is named.
local function output_bytes(s)
  local sizes = {}
  for _, run in ipairs(s.gemm) do
    local o = run.operation
    count(sizes, (o.m + 0.0) * o.n * math.max(2, dtype_bytes[o.dtype] or 2)) -- 16 bits of products of narrower operands
  end
  return sizes
end

--- The degree that a group's size states. Experts, and data with context parallelism, have sizes of their own.
local function degree_of(dimension, each)
  local name = tostring(each.group_description):lower()
  if dimension ~= "ep" and name:find "expert" then return dimension .. " of experts" end
  return dimension == "dp" and name:find "%f[%a]cp%f[%A]" and "dp with cp" or dimension
end

--- Sizes of the groups of each dimension, the kinds of collectives in each, and the elements in those of data
--- parallelism.
local function read_groups(device, s)
  local sizes, kinds, elements, outputs = {}, {}, {}, output_bytes(s)
  if not device.lane then return sizes, kinds, elements end
  local dimensions = device.lane:dimensions()
  local calls = dimensions.sequence:totals()
  for c, case in ipairs(dimensions.cases) do
    local each = case.each
    local sum = each.kind == "all_reduce" and s.backward == 0 and each.bytes and (outputs[each.bytes + 0.0] or 0) > 1
    local dimension = case.dimension or sum and "sums" or "unknown"
    local degree = degree_of(dimension, each)
    sizes[degree] = sizes[degree] or {}
    count(sizes[degree], each.group_size or dimension == "sums" and device.process.world_size or nil,
      calls[c])
    kinds[dimension] = kinds[dimension] or {}
    count(kinds[dimension], each.kind, calls[c])
    if dimension == "dp" and each.bytes and each.element_bytes then
      count(elements, each.kind, calls[c] * each.bytes / each.element_bytes)
    end
  end
  local found = {}
  for degree, counts in pairs(sizes) do found[degree] = most(counts) end
  return found, kinds, elements
end

local function read_vocabulary(s, found, cores)
  local last = s.gemm[#s.gemm]
  last = last and last.operation
  local tp, runs = value_of(found, "tp") or 1, 0
  for _, run in ipairs(s.gemm) do
    if last and run.operation.n == last.n and run.operation.k == last.k then runs = runs + 1 end
  end
  local seldom = runs < cores or last and last.n > 2 * last.k
  if last and last.k == value_of(found, "hidden") and seldom then
    -- A vocabulary as wide as the MLP: each layer also has products with the head's shape.
    found.head_runs = cores > 0 and runs - cores * ((runs - 1) // cores) or runs
    set(found, "vocab", last.n * tp, found.tp and found.tp.sure or "likely", "the head's product, with its padding")
  end
  local seq, whole = value_of(found, "seq") or 1, value_of(found, "vocab")
  for _, run in ipairs(s.embedding) do
    local o = run.operation
    if o.rows >= seq and o.vocab > 4 * seq then
      set(found, "vocab", o.vocab == whole and o.vocab or o.vocab * (whole and 1 or tp), "likely",
        "rows of the embedding")
    elseif whole and seq > 1 and o.rows % seq == 0 and o.vocab >= seq and o.vocab ~= whole
      and o.vocab * tp ~= whole then
      set(found, "max_positions", o.vocab, "likely", "rows of a second embedding, at least the sequence")
    end
  end
end

--- Layers and micro-batches of a step. They follow from how often attention's core and the embedding or head run.
local function read_counts(view, s, found, cores)
  local steps, source = #view:steps(), "ProfilerStep ranges"
  if view.options.step or steps == 0 then steps, source = 1, "one step is assumed" end
  if s.update > 0 and (#view:steps() == 0 or view.options.step == nil and s.update < steps) then
    steps, source = s.update, "updates of the optimizer"
  end
  local ends = {}
  for _, run in ipairs(s.forward) do
    local o = run.operation
    if o.family == "cross_entropy" then count(ends, "loss") end
  end
  ends.head, found.head_runs = found.head_runs, nil
  local tokens = value_of(found, "seq") and value_of(found, "micro_batch")
    and value_of(found, "seq") * value_of(found, "micro_batch")
  for _, run in ipairs(s.embedding) do if run.operation.rows == tokens then count(ends, "embedding") end end
  local micro = ends.head or ends.loss or ends.embedding
  if micro and micro % steps == 0 then
    set(found, "micro_batches", micro // steps, source == "one step is assumed" and s.backward > 0 and "likely"
      or "certain", ("runs of the %s in a step; %s"):format(ends.head and "head" or ends.loss and "loss"
        or "embedding", source))
  elseif s.backward == 0 then
    set(found, "micro_batches", 1, "guess", "no pass has a head or an embedding")
  end
  micro = micro or 1
  if #cores > 0 and #cores % micro == 0 then
    set(found, "layers_of_stage", #cores // micro, "certain", "runs of attention in a micro-batch")
  end
end

local function read_recompute(s, found)
  if s.backward == 0 then return end
  local families = {}
  for _, run in ipairs(s.recompute) do count(families, run.operation.family) end
  if #s.recompute == 0 then
    set(found, "recompute", "none", "certain", "no forward operator ran in the backward pass")
  elseif (families.gemm or 0) > 0 then
    local forward = #s.gemm
    local half = families.gemm < 0.75 * forward
    set(found, "recompute", half and "policy" or "full", half and "likely" or "certain",
      ("%d of %d products ran again in the backward pass"):format(families.gemm, forward))
  else
    set(found, "recompute", "selective", "certain", "attention's core ran again in the backward pass")
  end
end

--- The ZeRO stage (Rajbhandari et al. 2020). Stages 1 and 2 gather the weights once for each update. Stage 2 scatters
--- the gradients of each micro-batch. Stage 3 gathers the weights of each micro-batch, forward and backward.
local function read_zero(found, data, elements)
  if (data.all_gather or 0) > 0 and (data.reduce_scatter or 0) > 0 then
    local layers, scattered = value_of(found, "layers_of_stage"), elements.reduce_scatter or 0
    local times = scattered > 0 and (elements.all_gather or 0) / scattered or 0
    if times > 1.5 then
      set(found, "zero", 3, "likely", ("weights are gathered %.3g times for each reduction of gradients"):format(times))
    elseif times > 0 and times < 1 / 1.5 then
      set(found, "zero", 2, "likely", ("gradients are scattered %.3g times for each gather of weights"):format(
        1 / times))
    elseif layers and data.all_gather >= layers then
      set(found, "zero", 3, "likely", "weights are gathered for each layer")
    else
      set(found, "zero", 1, layers and "likely" or "guess", "gradients are scattered, weights gathered")
    end
  elseif (data.all_reduce or 0) > 0 then
    set(found, "zero", 0, "likely", "gradients are summed on all ranks")
  end
end

--- The number of stages. Sends between stages show a pipeline: it has the ranks that the other dimensions leave over.
---@param others integer? product of the other degrees
local function read_stages(found, world, kinds, others)
  if kinds.pp then
    set(found, "pp", world and others and world >= others and world // others or nil, "likely",
      "sends between stages; ranks left over by the other dimensions")
    return
  end
  local unknown = kinds.unknown
  if unknown and (unknown.send_recv or unknown.send) then return end
  set(found, "pp", 1, world and "certain" or "likely", "no sends between stages")
end

--- Data-parallel ranks if no group shows them, and degrees of 1 that follow from missing collectives.
local function read_rest(found, recorded, tp, cp)
  local world, kinds, pp = recorded.world, recorded.kinds, value_of(found, "pp")
  if world and pp and world % (tp * cp * pp) == 0 and not kinds.unknown then
    local rest = world // (tp * cp * pp)
    set(found, "dp", rest, rest == 1 and "certain" or "likely", "ranks left over by the other dimensions")
  end
  if not world and not recorded.has_lane then
    local processes = recorded.processes
    set(found, "dp", processes, "guess", processes == 1 and "one process was recorded"
      or ("%d processes were recorded"):format(processes))
  end
  if not world and recorded.has_lane and next(kinds) == nil then
    set(found, "dp", 1, "likely", "no collective was recorded")
    set(found, "tp", 1, "likely", "no collective was recorded")
  end
  if not kinds.unknown and next(kinds) then set(found, "tp", 1, "likely", "all collectives serve another dimension") end
end

--- Sequence parallelism, which replaces the sums of tensor parallelism by gathers and scatters.
local function read_sequence(found, collectives)
  if not collectives then return end
  local replaced = (collectives.reduce_scatter or 0) > 0 and (collectives.all_gather or 0) > 0
  set(found, "sequence_parallel", replaced, "certain",
    replaced and "gathers and scatters of tensor parallelism" or "sums of tensor parallelism")
end

--- The degrees of parallelism that the groups of the collectives show.
---@param recorded table world, groups, kinds, elements, number of processes, has_lane
local function read_parallel(found, recorded)
  local groups, kinds = recorded.groups, recorded.kinds
  local tp = value_of(found, "tp") or groups.tp or 1
  local cp, both = groups.cp or value_of(found, "cp") or 1, groups["dp with cp"]
  local dp = groups.dp or both and both % cp == 0 and both // cp or nil
  read_stages(found, recorded.world, kinds, dp and tp * cp * dp)
  if dp then set(found, "dp", dp, "certain", "data-parallel groups") end
  if groups.ep then set(found, "ep", groups.ep, "certain", "expert-parallel groups") end
  if groups.cp then set(found, "cp", groups.cp, "certain", "context-parallel groups") end
  read_rest(found, recorded, value_of(found, "tp") or tp, cp)
  read_zero(found, kinds.dp or {}, recorded.elements)
  read_sequence(found, kinds.tp)
end

--- The order of the units of a stage as text: "F1 F2 B1 …" in order of start.
local function order_of(record)
  local units = {}
  for _, kind in ipairs { "fwd", "bwd" } do
    for _, at in ipairs(record[kind .. "_start"] or {}) do units[#units + 1] = { at, kind } end
  end
  table.sort(units, function(a, b) return a[1] < b[1] end)
  return units
end

--- The schedule, from the number of forward units before the first backward unit on the first stage.
function layout.schedule_of(units, pp, rank)
  local forward, before, seen = 0, nil, false
  for _, unit in ipairs(units) do
    if unit[2] == "fwd" then
      forward = forward + 1
    elseif not seen then
      before, seen = forward, true
    end
  end
  if not seen then return nil end
  if before == forward and forward > pp - rank then return "gpipe" end
  if before == math.min(forward, pp - rank) then return "1f1b" end
  return before > pp - rank and "interleaved" or nil
end

--- The plan of a folder of per-micro-batch timings.
local function read_timings(found, timings, raw)
  local pp = #timings.ranks
  local config = timings.config
  set(found, "pp", pp, config.pp_size == pp and "certain" or "likely", "files of stages")
  local first = timings.ranks[1]
  local last = first.iterations[#first.iterations]
  local micro = first.timings[last].n_fwd
  set(found, "micro_batches", micro, config.num_mbs == micro and "certain" or "likely", "forward units of a stage")
  for _, field in ipairs { "tp", "dp", "ep", "vp" } do
    set(found, field, math.tointeger(tonumber(config[field .. "_size"])), "certain", "config.json")
  end
  local name = raw and layout.schedule_of(raw, pp, first.rank)
  set(found, "schedule", name, "likely", "forward units of the first stage before its first backward one")
  return found
end

--- Infers plan and model: { [field] = { value, sure, why } }. Fields that need shapes are left out if the trace has no
--- shapes.
---@param view table opened with against.args
function layout.read(view)
  local found = {}
  read_card(view, found)
  if not view.trace then
    local timings = view.cache.pipeline
    local first = timings.ranks[1]
    return finished(read_timings(found, timings, order_of(first.records[first.iterations[#first.iterations]])))
  end
  local devices = operators.of_view(view, true)
  if #devices == 0 then view:missing("needs kernels launched by a host; a TPU trace has none") end
  local device = devices[1]
  for _, other in ipairs(devices) do if #other.runs > #device.runs then device = other end end
  local s = survey(device)
  local training = s.backward > 0 or view:training()
  if training ~= nil then
    set(found, "training", training, (training or #s.forward > 0) and "certain" or "likely",
      training and "it has a backward pass" or "no backward pass")
  end
  read_width(s, found)
  local groups, kinds, elements = read_groups(device, s)
  local cores, shape = read_attention(s, found)
  if shape and value_of(found, "hidden") then
    read_degree(found, around(s, found, cores[#cores > 1 and 2 or 1]), shape, groups)
    read_vocabulary(s, found, #cores)
  end
  if groups.tp then set(found, "tp", groups.tp, "likely", "tensor-parallel groups") end
  if groups.sums then
    set(found, "tp", groups.sums, "likely", "forward sums with the bytes of a product's output")
  end
  if shape then read_counts(view, s, found, cores) end
  if shape then set(found, "dropout", (s.whats.dropout or 0) > 0, "likely", "runs of dropout on the device") end
  read_recompute(s, found)
  read_parallel(found, { world = device.process.world_size or math.tointeger(view:card().devices), groups = groups,
    kinds = kinds, elements = elements, processes = #view:processes(), has_lane = device.lane ~= nil })
  if shape and value_of(found, "layers_of_stage") then
    local pp = value_of(found, "pp") or 1
    set(found, "layers", value_of(found, "layers_of_stage") * pp, pp == 1 and "certain" or "guess",
      pp == 1 and "runs of attention in a micro-batch" or "all stages hold the same number of layers")
  end
  return finished(found)
end

return layout
