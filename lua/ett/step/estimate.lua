--- Estimates: the time, memory and price of one training step, with intervals and the source of each number.
--
--   local e = estimate.new { model = model, plan = plan, cluster = cluster }
--   print(e)                      -- the table; e.step_seconds, e.stages[1].memory_bytes, …
--
-- Every operator and message has a 90 % interval. For each of them, its time is moved to both ends of its interval, in
-- all runs at once, and the step is evaluated again. runtime/step/README.md describes how the changes combine, and what
-- the interval does not cover.
local architecture = require "ett.model.architecture"
local cost = require "ett.step.cost"
local detail = require "ett.profile.detail"
local energy = require "ett.step.energy"
local error_module = require "ett.base.error"
local frozen = require "ett.step.frozen"
local goodput = require "ett.step.goodput"
local json = require "ett.json"
local lower = require "ett.step.lower"
local memory = require "ett.step.memory"
local merged = require "ett.base.merged"
local model_faults = require "ett.model.faults"
local network_collectives = require "ett.profile.network.collectives"
local network_tiers = require "ett.profile.network.tiers"
local parts = require "ett.step.parts"
local times_module = require "ett.step.times"
local plan_fields = require "ett.plan.fields"
local plan_module = require "ett.plan"
local plan_rules = require "ett.plan.rules"
local quantised = require "ett.operator.quantised"
local ranks = require "ett.plan.ranks"
local step_core = require "ett.step"
local schedules = require "ett.plan.schedules"
local schema = require "ett.base.schema"
local slices = require "ett.step.slices"
local spread = require "ett.step.spread"
local stacks = require "ett.operator.stack"
local table_at = require "ett.base.table_at"

local estimate = {}

--- Correlation between the errors of different operators; its source is in runtime/step/README.md.
estimate.correlation = 0.25

local Estimate = { __name = "ett.estimate" }
Estimate.__index = Estimate

function Estimate.__tostring(self)
  return require("ett.base.pretty").plain(require("ett.report").estimate(self))
end

-- Fields for the timeline alone.
local of_timeline = { "units", "transfers", "lowered", "gathers", "host_bandwidth" }

function Estimate.__json(self)
  local e = merged(self)
  for _, name in ipairs(of_timeline) do e[name] = nil end
  return e
end

--- Adds a name to a sorted list of a line: `models`, the models of communication that timed it, or `links`, the
--- outermost links of its messages on a cluster of more than two tiers.
local function add_name(line, list, name)
  if not name or name == "none" then return end
  line[list] = line[list] or {}
  for _, known in ipairs(line[list]) do if known == name then return end end
  table.insert(line[list], name)
  table.sort(line[list])
end

--- Adds seconds of a line to the provenance of their answer.
local function source_of(line, answer, seconds)
  if not answer then return end
  answer = answer.source or answer
  local sources = line.provenance_seconds or {}
  line.provenance_seconds = sources
  sources[answer.provenance] = (sources[answer.provenance] or 0.0) + seconds
  if answer.quantisation_share then
    line.quantisation_seconds = (line.quantisation_seconds or 0.0) + answer.quantisation_share * seconds
  end
  add_name(line, "models", answer.model)
  if answer.outside and answer.provenance == "extrapolated" and seconds > (line.most_outside or 0.0) then
    line.times_outside, line.most_outside = 2 ^ answer.outside, seconds -- of the longest extrapolated time
  end
  if answer.borrowed and answer.provenance ~= "assumed" then
    line.borrowed_seconds = (line.borrowed_seconds or 0.0) + seconds
  end
  if answer.by_rates then line.rates_seconds = (line.rates_seconds or 0.0) + seconds end
  line.scaled_from, line.limited = line.scaled_from or answer.scaled_from, line.limited or answer.limited
  line.caution = line.caution or answer.caution
  line.detail = line.detail or detail.text(answer.detail)
end

--- The least certain provenance with at least 5 % of a line's time.
local function one_provenance(line)
  local total, word = 0.0, nil
  for _, name in ipairs(times_module.provenances) do
    total = total + (line.provenance_seconds and line.provenance_seconds[name] or 0)
  end
  for _, name in ipairs(times_module.provenances) do
    local seconds = line.provenance_seconds and line.provenance_seconds[name]
    if seconds and seconds >= total / 20 then word = name end
  end
  return word
end

--- Number of runs of a layer of kind k of a part in a step on a device, averaged over pipeline stages.
local function layer_runs(result, p, part, k, kind)
  return result.part_runs and result.part_runs[part][k] / p.pp or p.micro_batches / p.pp * kind.count
end

--- The line of an operation in a list { lines =, by_name = }; a new one if there is none. Lines keep the first order.
local function line_of(list, o, order)
  local id = o.name .. (o.group and " " .. o.group or "")
  local line = list.by_name[id]
  if not line then
    line = { name = o.name, kind = o.kind, group = o.group, forward_seconds = 0.0, backward_seconds = 0.0,
      recompute_seconds = 0.0, runs_per_micro_batch = 0, order = order }
    list.by_name[id] = line
    list.lines[#list.lines + 1] = line
  end
  line.order = math.min(line.order, order)
  return line
end

--- Adds runs of an operation to its line.
---@param again number of lower.repeats: runs of recomputation for each forward run
---@param split_share number of result: share of the backward passes that last longer because they are split
local function add_runs(line, o, p, runs, again, split_share)
  local forward = o.forward and runs * o.forward.seconds or 0.0
  local backward = o.backward and runs * (o.backward.seconds + split_share * (o.split and o.split.seconds or 0.0))
    or 0.0
  line.forward_seconds = line.forward_seconds + forward
  line.backward_seconds = line.backward_seconds + backward
  local waits = p.recompute == "selective" and o.repeated and runs * o.repeated.seconds or 0.0
  line.recompute_seconds = line.recompute_seconds + again * forward + waits
  local repeated = o.backward_launches == frozen.launches_with_forward and forward or 0.0
  source_of(line, o.forward, (1 + again) * forward + waits + repeated)
  source_of(line, o.backward, backward - repeated)
  if type(o.lanes) == "table" then add_name(line, "links", o.link) end
  local exposed = o.split and split_share == 1 and o.split.seconds or 0
  if o.overlapped and exposed < (1 - 1e-9) * o.beside_seconds then line.overlapped = true end
end

--- Seconds of every operation in a step on one device, averaged over pipeline stages.
local function operation_lines(lowered, p, result)
  local list = { lines = {}, by_name = {} }
  local shares = slices.repeated_shares(p, lowered, result.stages)
  for part, own in ipairs(lowered.parts) do
    for k, kind in ipairs(own.kinds) do
      local runs = layer_runs(result, p, part, k, kind)
      local per_micro_batch = result.part_runs and runs * p.pp / p.micro_batches or kind.count
      for index, uses in pairs(runs > 0 and kind.uses or {}) do
        local o = own.operations[index]
        local line = line_of(list, o, k * 1000 + index)
        line.runs_per_micro_batch = line.runs_per_micro_batch + per_micro_batch * uses
        local again = lower.repeats(p.recompute, o, kind, index, shares and shares[part][kind])
        add_runs(line, o, p, runs * uses, again, result.split_share)
      end
    end
  end
  local lines = {}
  for _, line in ipairs(list.lines) do
    line.seconds = line.forward_seconds + line.backward_seconds + line.recompute_seconds
    line.provenance = one_provenance(line)
    if line.provenance ~= "extrapolated" then line.times_outside = nil end
    -- A device that waits only for slower launches has no line for its host.
    if line.seconds ~= 0 or line.name ~= "host" then lines[#lines + 1] = line end
  end
  table.sort(lines, function(a, b) return a.order < b.order end)
  for _, line in ipairs(lines) do line.order, line.most_outside = nil, nil end
  return lines
end

--- Seconds of a stage in which gathers of weights overlap computing under ZeRO-3. The gather of a pass's first layer
--- overlaps nothing (ett_messages_with_gathers); computing during the others is slower by `share`.
---@param gathers table of ett.step.slices, for each slot
---@param waits number seconds by which gathers lengthen the stage's passes
local function gathered_beside(p, stage, gathers, share, waits)
  if not (p.overlap_parameters and p.prefetch > 0) then return 0.0 end
  local passes, sum = p.micro_batches * p.pp * p.vp / #gathers, 0.0
  for slot = stage, #gathers, p.pp do
    for _, own in ipairs { gathers[slot].F, gathers[slot].B } do
      sum = sum + passes * (own.seconds + share * (own.seconds - own.first))
    end
  end
  return math.max(0.0, sum - waits)
end

--- Seconds of the messages of the plan and of the updates by name, averaged over pipeline stages.
---@param gathers table? of ett.step.slices
local function message_seconds(result, p, lowered, gathers)
  local share = gathers and stacks.gather_communication_share(lowered.stack)
  local sums = {}
  for stage, s in ipairs(result.stages) do
    -- Under ZeRO-3 the passes wait for weights; micro-batches are not paired there.
    local passes = p.micro_batches * (s.micro_batch_forward_seconds + s.micro_batch_backward_seconds)
    local gather, gather_hidden = s.gather_exposed_seconds, s.gather_seconds - s.gather_exposed_seconds
    if gathers then
      gather = math.max(0.0,
        passes - s.forward_seconds - s.backward_seconds - s.recompute_seconds - s.offload_seconds)
      gather_hidden = gathered_beside(p, stage, gathers, share, gather)
    end
    for name, seconds in pairs { sends = s.send_seconds, boundary = s.boundary_seconds, offload = s.offload_seconds,
      gradient = s.gradient_exposed_seconds, gradient_hidden = s.gradient_seconds - s.gradient_exposed_seconds,
      tied = s.tied_embedding_seconds, optimizer = s.optimizer_kernel_seconds,
      newton = s.newton_seconds, momenta = s.newton_message_seconds, on_host = slices.host_seconds(s), gather = gather,
      gather_hidden = gather_hidden } do
      sums[name] = (sums[name] or 0.0) + seconds / p.pp
    end
  end
  return sums
end

--- Where the times of the demands of each kind come from: { [kind] = { provenance, models, links } }.
local function message_sources(demands, p, times, width)
  local sources, own = {}, times:for_stack(p.stack)
  for _, d in ipairs(demands) do
    local _, _, _, from, _, model = own:of_demand(d, p.dtype, width)
    local source = table_at(sources, d.kind)
    source.provenance = times_module.worse(source.provenance, from)
    add_name(source, "models", model)
    add_name(source, "links", d.topology and network_tiers.outermost(times.cluster, d.topology))
  end
  return sources
end

--- Lines of the messages of the plan: sends between stages, gradients, weights.
---@param sums table of message_seconds
---@param sources table of message_sources
local function message_lines(p, sums, sources, lowered)
  local lines = {}
  -- Seconds without a message of that name are rounding errors of the sums.
  local function add(name, group, seconds, hidden)
    local source = sources[name]
    if not source or seconds <= 0 and hidden <= 0 then return nil end
    local line = { name = name, kind = "collective", group = group, seconds = seconds, overlapped_seconds = hidden,
      provenance = source.provenance, models = source.models, links = source.links }
    lines[#lines + 1] = line
    return line
  end
  add("send_recv", "pp", p.overlap_sends and 0.0 or sums.sends, p.overlap_sends and sums.sends or 0.0)
  if sums.boundary > 0 then
    local line = { name = "all_gather", kind = "collective", group = "tp", seconds = sums.boundary }
    source_of(line, lowered.gather.forward, sums.boundary)
    line.provenance = one_provenance(line)
    lines[#lines + 1] = line
  end
  local scattered = sources.reduce_scatter ~= nil
  local gradients = add(scattered and "reduce_scatter" or "all_reduce", "dp", sums.gradient, sums.gradient_hidden)
  if gradients and scattered and (p.shard or p.dp * p.cp) < p.dp * p.cp then gradients.reduced_over_replicas = true end
  add("all_reduce", "tied embedding", sums.tied, 0.0)
  add("all_gather", "dp", sums.gather, sums.gather_hidden)
  add(p.zero == 3 and "all_to_all" or "all_gather", "dp momenta", sums.momenta, 0.0)
  for _, each in ipairs { { "offload", sums.offload }, { "optimizer", sums.on_host } } do
    local name, seconds = each[1], each[2]
    if seconds > 0 then
      lines[#lines + 1] = { name = name, kind = "collective", group = "host", seconds = seconds,
        provenance = "assumed" }
    end
  end
  return lines
end

--- Subtracts the hidden part of the experts' all-to-alls from their line.
---@return number exposed, number hidden seconds of a device, averaged over pipeline stages
local function expose_exchange(lines, result, p)
  local exposed, hidden = 0.0, 0.0
  for _, s in ipairs(result.stages) do hidden = hidden + s.all_to_all_overlapped_seconds / p.pp end
  for _, line in ipairs(lines) do
    if line.name == "all_to_all" and line.group == "ep" then
      line.overlapped_seconds = hidden
      line.seconds = math.max(0.0, line.seconds - hidden)
      exposed = exposed + line.seconds
    end
  end
  return exposed, hidden
end

-- Names of groups in `place` of ett.step, for lines that have other names.
local placed_as = { dp = "data", ["dp momenta"] = "data", ["tied embedding"] = "pp" }

--- Sets the number of nodes that a group of each line spans.
local function add_nodes(lines, c_plan)
  local nodes = {}
  for _, line in ipairs(lines) do
    local group = placed_as[line.group] or line.group
    if group ~= "host" then
      nodes[group] = nodes[group] or step_core.place(c_plan, group).nodes
      line.nodes = nodes[group]
    end
  end
end

local function percent_of(step, ...)
  for _, lines in ipairs { ... } do
    for _, line in ipairs(lines) do line.percent = 100 * line.seconds / step end
  end
end

--- A warning if samples are faster than the rates that `ett cluster init` measured, as on a busy machine; else nil.
local function too_fast(e, device)
  local names = {}
  for _, line in ipairs(device.probed and e.operators or {}) do
    if line.limited then names[#names + 1] = line.name end
  end
  if #names == 0 then return nil end
  return ("%s: the samples are faster than the cluster's rates, which limit the times; measure the rates again on an "
    .. "idle machine (`ett cluster init`)"):format(table.concat(names, ", "))
end

-- estimate -> contradictions of its cluster's numbers, and groups that cross nodes
local contradictions = setmetatable({}, { __mode = "k" })

--- The warnings about the samples and links that an estimate's times come from, and about software that cannot run it.
---@return string[]
function estimate.cautions(e)
  local list, seen = { table.unpack(contradictions[e] or {}) }, {}
  for _, line in ipairs(e.operators) do
    if line.caution and not seen[line.caution] then list[#list + 1] = line.caution end
    seen[line.caution or ""] = true
  end
  return list
end

local inside_nodes = { tp = true, cp = true, ep = true }

-- A warning about groups that would fit into a node but cross nodes, because the size of a node is not a multiple of
-- theirs: "groups of 32 devices (ep) cross nodes of 72". A plan with a rank_map gets none; that is the user's choice.
local function crossing(e, cluster)
  local p, node, found = e.plan, cluster.gpus_per_node, {}
  for _, line in ipairs(p.rank_map and {} or e.collectives) do
    local group = line.group
    if inside_nodes[group] and line.nodes > 1 and not found[group] then
      local block = ranks.block(p, group)
      found[group] = block < node and ("groups of %d devices (%s) cross nodes of %d"):format(block, group, node) or nil
      found[#found + 1] = found[group]
    end
  end
  if #found == 0 then return nil end
  local whole = cluster.allotment
  return table.concat(found, ", ") .. (whole and ("; for a job that gets %d of the %d, give --cluster %s"):format(
    require("ett.profile.cluster").get(whole).gpus_per_node, node, whole) or "")
end

-- A warning if registered buffers are assumed for messages that cross nodes.
local function registered_over_nodes(e, stack)
  if not stack.registered_buffers then return nil end
  for _, line in ipairs(e.collectives) do
    if (line.group == "dp" or line.group == "edp") and line.nodes > 1 then
      return ("registered_buffers: %s of %s crosses nodes, where NCCL occupies as many multiprocessors as without")
        :format(line.name, line.group)
    end
  end
end

-- A warning if a loop runs the experts: other releases of the same software are many times faster.
local function looped_experts(model, stack)
  return model.hyper.experts and stack.grouped == "loop" and ("stack %s: a loop of the host runs the experts one after "
    .. "the other, as in Transformers 4; for one grouped kernel (Transformers 5) give stack=%s:grouped=kernel")
    :format(stack.name, stack.name) or nil
end

-- The warnings about fields of the stack that have no effect under the plan.
---@param c table the layers' configuration
local function idle_fields(p, c, stack)
  local list = {}
  for field, given in pairs { combine = stack.combine ~= "fused", pads_copies = stack.pads_copies } do
    if given and c.mask_capacity then
      list[#list + 1] = field .. " has no effect: products with one-hot masks move the tokens (pad_to_capacity)"
    end
  end
  if stack.fp32_norms and not quantised.format_of(p) then
    list[#list + 1] = "fp32_norms has no effect: it needs frozen_weights"
  end
  if stack.fp32_adapters and not quantised.casts_adapters(p, stack) then
    list[#list + 1] = "fp32_adapters has no effect: it needs lora_rank and a dtype of 16 bits, without frozen_weights"
  end
  if stack.quantised_inputs > 0 and (quantised.format_of(p) or "int8") == "int8" then
    list[#list + 1] = "quantised_inputs has no effect: it needs frozen_weights of 4 bits"
  end
  table.sort(list)
  return list
end

-- A warning if stages may lack the weights that a layer reuses.
local function reused_elsewhere(plan, model)
  for _, layer in ipairs(plan.pp > 1 and model.layers or {}) do
    for _, entry in ipairs(layer.ops) do
      if entry.reused then
        return ("layer '%s': reuses weights of '%s'; a stage without their first run counts neither a copy of them nor "
          .. "the sum of their gradients over the stages"):format(layer.name, entry.op)
      end
    end
  end
end

-- A warning if the attention kernel of the software has no backward pass for heads as large as a layer's.
local function large_heads(lowered, device, stack)
  local dim, most = 0, nil
  for _, own in ipairs(not device.vendor and device.generation ~= "tpu" and lowered.parts or {}) do
    for _, o in ipairs(own.operations) do
      local s = o.family == "attention" and o.backward and o.shape.head_dim and o.shape
      local limit = s and stacks.most_head_dim(stack, device.generation, s)
      local own_dim = limit and math.max(s.head_dim, s.value_dim or 0) or 0
      if own_dim > math.max(limit or 0, dim) then dim, most = own_dim, limit end
    end
  end
  return most and ("attention of stack %s: '%s' cannot train heads of %d values here (at most %d). The software then "
    .. "runs another kernel. ett assumes that it is as fast. With PyTorch's attention, give attention=efficient in the "
    .. "stack"):format(stack.name, stack.attention, dim, most)
end

-- A warning if the software runs on GPUs only, and the devices are TPUs.
local function without_tpus(device, stack)
  return device.generation == "tpu" and not stack.runs_on_tpus and ("the stack %s does not run on TPUs, stack=maxtext "
    .. "does"):format(stack.name) or nil
end

-- A warning if tensor ranks share a head that Liger computes in chunks. Its function has no form for a part of the
-- vocabulary (ops/fused_linear_cross_entropy.py); its losses for tensor ranks are others, such as pull request 1428.
local function divided_chunks(plan, stack)
  return stack.cross_entropy == "linear" and plan.tp > 1 and ("the stack %s: cross_entropy=linear does not divide the "
    .. "vocabulary over tp = %d; give tp=1 or cross_entropy=recomputed"):format(stack.name, plan.tp) or nil
end

-- The warning about operators whose times are assumed. own: the profile of the cluster's samples, if it has any.
local function assumed_warning(assumed, own)
  if #assumed == 0 then return nil end
  local text = { "no samples of " .. table.concat(assumed, ", ") .. ": assumed from the device's rates" }
  local seen = {}
  for _, name in ipairs(own and own.too_few and assumed or {}) do
    local shapes, pool, least = own:too_few(name)
    if shapes and not seen[pool] then
      seen[pool] = true
      text[#text + 1] = ("%s has samples of %d shape%s, and other shapes need a fit, from at least %d"):format(pool,
        shapes, shapes == 1 and "" or "s", least)
    end
  end
  return table.concat(text, "; ")
end

---@param host string? of memory.warning
---@param recipe boolean? whether `recipe` of the plan has an effect; nil: unknown
local function warnings_of(e, cluster, lowered, model, host, profile, recipe)
  local list, stack = model_faults(model, lowered.configuration), lowered.stack
  local outside = cluster.gpus_per_node and cluster.gpus_per_node < e.devices
  contradictions[e] = network_tiers.contradictions(cluster, outside)
  table.insert(contradictions[e], crossing(e, cluster))
  for _, own in ipairs(e.devices > 1 and (cluster.parts or { cluster }) or {}) do
    table.insert(contradictions[e], network_collectives.table_warning(own))
  end
  table.insert(contradictions[e], plan_fields.foreign_stage(e.plan, stack))
  table.insert(contradictions[e], without_tpus(cluster.device, stack))
  table.insert(contradictions[e], divided_chunks(e.plan, stack))
  list[#list + 1] = large_heads(lowered, cluster.device, stack)
  list[#list + 1] = host
  list[#list + 1] = slices.warning(e.plan, lowered)
  list[#list + 1] = slices.repeated_warning(e.plan, lowered)
  list[#list + 1] = slices.never_repeated(e.plan, lowered)
  list[#list + 1] = slices.absent_modules(e.plan, model)
  list[#list + 1] = goodput.warning(e)
  list[#list + 1] = parts.rate_warning(cluster, e)
  list[#list + 1] = too_fast(e, cluster.device)
  for _, caution in ipairs(estimate.cautions(e)) do list[#list + 1] = caution end
  list[#list + 1] = registered_over_nodes(e, stack)
  list[#list + 1] = looped_experts(model, stack)
  list[#list + 1] = reused_elsewhere(e.plan, model)
  for _, idle in ipairs(idle_fields(e.plan, lowered.configuration, stack)) do list[#list + 1] = idle end
  local assumed = {}
  for _, line in ipairs(e.operators) do
    -- `host` is the wait for launches, from the stack's costs.
    if line.provenance == "assumed" and line.name ~= "host" then assumed[#assumed + 1] = line.name end
  end
  list[#list + 1] = assumed_warning(assumed, profile and profile.own)
  local idle = plan_fields.idle(e.plan, { experts = e.model.hyper.experts ~= nil,
    predictions = plan_rules.prediction_layers(model) > 0, failures = e.goodput_percent ~= nil,
    power = e.kwh_per_step ~= nil, recipe = recipe ~= false })
  return table.move(idle, 1, #idle, #list + 1, list)
end

-- A note if the device waits for the host at least a tenth of the step. CUDA graphs can hold neither a loop over
-- experts, which reads positions from the device, nor hooks of the host that gather weights.
local function host_note(e, stack)
  for _, line in ipairs(e.operators) do
    local share = line.name == "host" and line.seconds / e.step_seconds or 0.0
    if share >= 0.1 then
      local gathers = stack.gather_seconds > 0 and plan_fields.gathers_weights(e.plan)
      local loops = e.model.hyper.experts and stack.grouped == "loop"
      return ("the device waits %.0f %% of the step until the host %s: %slarger micro-batches shorten this time")
        :format(100 * share, gathers and "gathers weights and launches kernels" or "launches kernels",
        (gathers or loops) and "" or "CUDA graphs (fields graphs and graphed of a stack) or ")
    end
  end
end

--- The notes of an estimate. On a device without measured kernels all operators are marked as assumed.
local function notes_of(e, cluster, model, times, stack)
  local p, operators = e.plan, e.operators
  local notes = model.notes and table.move(model.notes, 1, #model.notes, 1, {}) or {}
  local profile, device = times.profile, times.cluster.device
  local own = profile and profile.own
  local used = profile and profile.tables_used and profile:tables_used()
  if p.stack and profile and used ~= "all" and (own or not profile.tables) then
    notes[#notes + 1] = ("operator times come from %s: the stack '%s' changes only memory, launches and overlaps")
      :format(not (own or profile.other) and "the device's rates" or used and "samples, where there are any"
      or "samples", p.stack)
  end
  if device.assumed and profile and profile.device_times then
    for _, line in ipairs(operators) do
      if line.provenance_seconds then line.provenance_seconds = { assumed = line.seconds } end
      line.provenance = "assumed"
    end
    notes[#notes + 1] = (device.matrix_side and "no table of kernels of '%s': products and attention have published "
      .. "rates, and other operator times are those of %s, scaled by the devices' rates"
      or "no kernel of '%s' was measured: operator times are those of %s, scaled by the devices' rates"):format(
      device.name, table.concat(device.neighbours or {}, " or "))
  end
  if own and own.accepted then
    notes[#notes + 1] = ("operator times are samples of '%s', accepted for the device '%s'"):format(own.accepted,
      device.name)
  end
  for _, text in ipairs(plan_fields.decimals({ p.seq }, model.hyper)) do notes[#notes + 1] = text end
  notes[#notes + 1] = cost.note(e, cluster)
  notes[#notes + 1] = host_note(e, stack)
  notes[#notes + 1] = memory.note(e)
  return notes
end

--- Adds values of the whole cluster and run: variation, energy, goodput, money.
---@param slowed function of ett.step.variation
local function add_outlook(e, cluster, tokens, lowered, result, model, slowed)
  local p = e.plan
  if p.jitter > 0 or p.slow_share > 0 or p.rank_slowdown then require("ett.step.variation").add(e, slowed) end
  local placed = parts.shares(cluster, p, e.devices)
  local part_runs = placed and parts.runs(placed, p, lowered.kinds)
  local repeated = slices.repeated_shares(p, lowered, result.stages)
  energy.add(e, cluster, function(part)
    local own, again = lowered.parts[part], repeated and repeated[part]
    local shares = energy.mean_shares(model, p, own)
    return function(visit)
      for k, kind in ipairs(own.kinds) do
        local per_stage = part_runs and part_runs[part][k] / p.pp or layer_runs(result, p, part, k, kind)
        for index, o in ipairs(own.operations) do -- fixed order: reproducible digits
          local runs = per_stage * (kind.uses[index] or 0) * (shares[o] or 1)
          visit(o, runs * (1 + lower.repeats(p.recompute, o, kind, index, again and again[kind])), runs)
        end
      end
    end
  end, placed)
  local mean = parts.mean_cluster(cluster, e.devices)
  goodput.add(e, mean, tokens and cost.steps(tokens, e.tokens_per_step))
  cost.add(e, mean, tokens)
end

--- Bytes/s of the host link for each part of the cluster; nil without offloading.
local function host_bandwidth(c_plan, p)
  if p.offload_activations + p.offload_gradients + p.offload_optimizer + p.offload_weights == 0 then return nil end
  local list = {}
  for i = 3, c_plan.parts and #c_plan.parts or 0, 4 do list[#list + 1] = c_plan.parts[i] end
  if #list == 0 then list[1] = c_plan.host_bandwidth end
  return list
end

-- Seconds of a step in which a device does nothing; less than 1e-12 of it is rounding of the sums.
local function idle_of(step, busy) return step - busy > 1e-12 * step and step - busy or 0.0 end

local function add_seconds(lines, sum)
  for _, line in ipairs(lines) do sum = sum + line.seconds end
  return sum
end

--- The result of a plan, with its units and transfers if wanted.
---@param evaluate fun(keep_units: boolean): table? nil while demands have no time
---@param answer fun() gives them times
local function evaluated(evaluate, answer, units)
  local result = evaluate(false)
  if not result then
    answer()
    result = evaluate(false)
  end
  if units then -- evaluated again: keeping units changes the rounding, and `result` must equal the result of a sweep
    local kept = evaluate(true)
    result.units, result.transfers = kept.units, kept.transfers
  end
  return result
end

-- The result of a lowered plan, with its units and transfers if wanted; the plan as C reads it.
local function solved(p, cluster, times, hidden, program, demands, workspace, units)
  local orders, label = schedules.orders(p)
  local c_plan = plan_fields.to_c(p, require("ett.profile.cluster").placement(cluster))
  c_plan.orders = orders
  return evaluated(function(keep_units)
    return schedules.call(label, program.evaluate, program, c_plan, demands, workspace, keep_units)
  end, function() times:for_stack(p.stack):answer(demands, p.dtype, hidden, true) end, units), c_plan
end

-- The steps of a plan with other values of each field that it leaves open. Refused plans are left out. So are numbers
-- of chunks that lengthen the step, because chunks only serve to shorten it. Plans with the same program share it, and
-- all plans share the times of messages.
local function open_steps(given, cluster, p, lowered, times, step, demands, workspace)
  local model, key_of = given.model, plan_fields.program_keys(p, plan_fields.schema)
  local lists, key = {}, key_of(p)
  local function step_seconds(change)
    local q = plan_module.changed(p, given.plan, change, model, cluster)
    if change.stack then times:of_plan(q):share(times:of_plan(p)) end
    local other <close> = key_of(q) ~= key and lower.program(model, q, times).program or nil
    -- A refused plan may leave messages without a time.
    local fresh <close> = demands:untimed_after(0) and step_core.demands() or nil
    return solved(q, cluster, times, model.hyper.hidden, other or lowered.program, fresh or demands,
      workspace).step_seconds
  end
  local others = plan_fields.other_values(given.plan, p, lowered.stack, model.hyper.layers, model.hyper.experts,
    cluster.device.generation)
  for i, changes in ipairs(others) do
    lists[i] = {}
    for _, change in ipairs(changes) do
      local ok, seconds = pcall(step_seconds, change)
      if ok then
        if not change.vp or seconds < step then table.insert(lists[i], seconds) end
      elseif not times_module.refuses[error_module.from(seconds).kind] then
        error(seconds, 0)
      end
    end
  end
  return lists
end

-- The interval of a step; half-width of other runs as a share of the devices' time, reasons for a wide interval, and
-- whether `recipe` has an effect. Stated times of the host have no interval: they are added to that of the devices.
---@param device number seconds of the devices
---@param shares table of ett.step.spread
local function interval_of(given, cluster, p, lowered, times, device, shares, c_plan, demands, workspace)
  local no_host = { data_seconds = 0, stall_seconds = 0 }
  local low, high = lowered.program:interval(merged(c_plan, no_host), demands, workspace, estimate.correlation)
  local share, own_run, reasons, recipe = times:step_spread(shares, p)
  low, high = spread.widened(device, low, high, share, own_run)
  low, high = spread.opened(device, low, high, open_steps(given, cluster, merged(p, no_host), lowered, times, device,
    demands, workspace))
  if not spread.matters(device, high, share, own_run) then reasons = {} end
  return spread.with_host(low, p), spread.with_host(high, p), own_run, reasons, recipe
end

local fields = { model = "model", plan = "table", cluster = "cluster", profile = "profile?", times = "table?",
  units = "boolean?", tokens = { "positive", optional = true, most = 1 << 60 },
  interval = { "boolean", default = true } }

--- Makes an estimate.
---@param given table { model, plan, cluster, profile?, times?, units?, tokens?, interval }: model from ett.model,
---  plan as ett.plan takes it, cluster a name, file or table; tokens of a whole run; interval = false: without one
function estimate.new(given)
  given = schema.check(given, fields, "ett.estimate", "argument")
  local _ <close> = stacks.hold()
  local cluster = given.cluster
  if not (type(cluster) == "table" and cluster.path) then cluster = require("ett.profile.cluster").get(cluster) end
  local model = given.model
  local p = plan_module.new(given.plan, model, cluster)
  local times = given.times or times_module.new(cluster, given.profile)
  local lowered = lower.program(model, p, times)
  local demands <close> = step_core.demands()
  local workspace <close> = step_core.workspace()
  local program <close> = lowered.program
  local result, c_plan = solved(p, cluster, times, model.hyper.hidden, program, demands, workspace, given.units)
  local step, device = result.step_seconds, result.device_seconds
  local devices, tokens = plan_module.devices(p), plan_module.tokens(p)
  local collectives, computed = {}, {}
  for _, line in ipairs(operation_lines(lowered, p, result)) do
    table.insert(line.kind == "collective" and collectives or computed, line)
  end
  local exchange_exposed, exchange_hidden = expose_exchange(collectives, result, p)
  local gathers = slices.gathers(p, lowered, result)
  local sums = message_seconds(result, p, lowered, gathers)
  local sources = message_sources(result.demands, p, times, model.hyper.hidden)
  local messages = message_lines(p, sums, sources, lowered)
  table.move(messages, 1, #messages, #collectives + 1, collectives)
  computed[#computed + 1] = { name = "optimizer", kind = "operator", seconds = sums.optimizer,
    provenance = sources.optimizer and sources.optimizer.provenance }
  if sums.newton > 0 then
    computed[#computed + 1] = { name = "newton_schulz", kind = "operator", seconds = sums.newton,
      provenance = lowered.newton_provenance }
  end
  local busy = add_seconds(collectives, add_seconds(computed, 0.0))
  percent_of(step, computed, collectives)
  add_nodes(collectives, c_plan)
  local low, high, own_run, reasons, recipe
  if given.interval then
    local shares = spread.shares(lowered, computed, collectives, device)
    low, high, own_run, reasons, recipe = interval_of(given, cluster, p, lowered, times, device, shares, c_plan,
      demands, workspace)
  end
  local peak, host = parts.peak(cluster, p, devices), memory.warning(result.stages, cluster) -- before parts.add
  local model_flops = result.flops * p.tp * p.cp * p.dp
  local e = setmetatable({
    composition = "default", cluster = cluster.name, device = cluster.device.name, devices = devices,
    model = { name = model.name, parameters = architecture.parameters(model, p.seq), hyper = model.hyper },
    plan = p, stack = lowered.stack.name,
    left_open = json.array(plan_fields.left_open(given.plan, p, lowered.stack, model.hyper.experts)),
    step_seconds = step, low_seconds = low, high_seconds = high, interval_percent = 90,
    own_run_seconds = own_run and own_run * device, wide_because = reasons and json.array(reasons),
    tokens_per_step = tokens, tokens_per_second = tokens / step,
    tokens_per_second_per_device = tokens / step / devices,
    model_flops_per_step = model_flops, peak_flops_per_second = peak,
    mfu_percent = peak and 100 * model_flops / (step * devices * peak) or nil,
    pipeline_seconds = result.pipeline_seconds, bubble_percent = 100 * result.bubble_fraction,
    data_wait_seconds = math.max(0.0, p.data_seconds - device),
    idle_seconds = idle_of(step, busy), idle_percent = 100 * idle_of(step, busy) / step,
    operators = json.array(computed), collectives = json.array(collectives), stages = result.stages,
    gradient_exposed_seconds = sums.gradient, gradient_overlapped_seconds = sums.gradient_hidden,
    all_to_all_exposed_seconds = exchange_exposed, all_to_all_overlapped_seconds = exchange_hidden,
    memory_bytes = result.memory_bytes, memory_limit_bytes = cluster.device.memory_bytes,
    fits = result.fits and (cluster.parts ~= nil or result.memory_bytes <= cluster.device.memory_bytes),
    units = result.units, transfers = result.transfers, lanes = network_tiers.lanes(cluster),
    lowered = given.units and lowered or nil, gathers = given.units and gathers or nil,
    host_bandwidth = given.units and host_bandwidth(c_plan, p) or nil,
  }, Estimate)
  parts.add(e, cluster)
  memory.add(e, lowered.stack)
  if model.hyper.experts then
    e.busiest_expert_rank_percent = 100 * lowered.configuration.expert_load
    e.dropped_tokens_percent = 100 * (1 - lowered.configuration.expert_kept)
  end
  for _, s in ipairs(e.stages) do
    s.percent = 100 * (s.forward_seconds + s.backward_seconds + s.recompute_seconds) / step
  end
  add_outlook(e, cluster, cost.tokens("estimate", given.tokens, p), lowered, result, model,
    function(factors) return program:slowed(c_plan, demands, workspace, factors) end)
  e.warnings = json.array(warnings_of(e, cluster, lowered, model, host, times.profile, recipe))
  e.notes = json.array(notes_of(e, cluster, model, times, lowered.stack))
  return e
end

return setmetatable(estimate, { __call = function(_, given) return estimate.new(given) end })
