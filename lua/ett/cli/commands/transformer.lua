--- `ett transformer`: FLOP and traffic of a whole training run, metered by the ledger.
-- What is counted is in lua/ett/ledger/transformer.lua; this file reads flags and prints.
local arguments = require "ett.ledger.arguments"
local error_module = require "ett.base.error"
local ledger = require "ett.ledger"
local transformer = require "ett.ledger.transformer"
local violations = require "ett.ledger.violations"

local flags = {
  { "--batch_size", "int", 2048, help = "samples a batch" },
  { "--num_experts", "int", 1, help = "experts; tokens are split among them" },
  { "--seq_len", "int", 2048, help = "tokens a sample" },
  { "--use_glu", "switch", help = "gated feed-forward" },
  { "--no_multi_query_attn", "switch", help = "keys and values for every head" },
  { "--activation_checkpointing", "switch", help = "repeat the forward pass in the backward one" },
  { "--consecutive_attn_and_ffn", "switch", help = "attention, then feed-forward (default: in parallel)" },
  { "--skip_efficiency_check", "switch", help = "allow inefficient runs" },
  { "--fwd_only", "switch", help = "count the forward pass only" },
  { "--dataset_size", "float", required = true, help = "tokens" },
  { "--num_layers", "int", required = true, help = "layers" },
  { "--d_model", "int", required = true, help = "model width" },
  { "--d_ffn_ratio", "int", help = "feed-forward width over model width (default 4)" },
  { "--d_ffn", "int", help = "feed-forward width" },
  { "--d_head", "int", 64, help = "width of a head" },
  { "--num_heads", "int", help = "heads (default d_model / d_head)" },
  { "--total_attn_width_ratio", "float", help = "all heads' width over model width" },
  { "--p_data", "int", 1, help = "degree of the data axis" },
  { "--p_pipe", "int", 1, help = "degree of the pipeline" },
  { "--p_exp", "int", 1, help = "degree of the expert axis" },
  { "--p_seq", "int", 1, help = "degree of the sequence axis" },
  { "--p_tensor_int", "int", 1, help = "degree over heads and feed-forward width" },
  { "--p_tensor_ext", "int", 1, help = "degree over model width" },
  { "--cluster_flop_rate", "float", positive = true, help = "FLOP/s of one cluster (one rank)" },
  { "--net_precision_bytes", "int", 2, help = "bytes a word on the network" },
  { "--as", "choice", extension = true, choices = { "readme", "head" }, help = "version; both are the same here" },
  { "--cluster", "text", extension = true, help = "also time the run with traffic on a cluster's links" },
  { "--utilization", "float", 0.6, extension = true, positive = true,
    help = "of the cluster's device, without --cluster_flop_rate" },
  { "--overlap", "float", 1, extension = true, help = "fraction of traffic that may hide behind compute" },
  { "--schedule", "choice", "1f1b", extension = true, choices = { "1f1b", "gpipe" },
    help = "gpipe holds every microbatch's activations, 1f1b a pipeline's worth" },
  { "--optimizer_bytes", "float", 12, extension = true, help = "bytes of optimizer state a parameter" },
  { "--sensitivities", "switch", extension = true,
    help = "with --cluster: what more bandwidth, memory speed, FLOP/s, batch and replicas change" },
  { "--entries", "switch", extension = true, help = "print which operation and axis causes what" },
  { "--json", "switch", extension = true, help = "print JSON" },
  { "--csv", "switch", extension = true, help = "print CSV" },
  { "--traceback", "switch", extension = true, help = "print where an error was raised" },
}

local function is_multiple(value, of) return of ~= 0 and value % of == 0 end

--- The ledger's parameters from the flags, and the rules broken on the way.
local function parameters(o)
  local broken, m = {}, {}
  local function refuse(...) broken[#broken + 1] = { text = select("#", ...) > 1 and string.format(...) or ... } end
  for name in pairs(transformer.parameters) do m[name] = o[name] and o[name] + 0.0 end
  for _, name in ipairs { "use_glu", "no_multi_query_attn", "consecutive_attn_and_ffn", "activation_checkpointing",
    "fwd_only" } do m[name] = o[name] end
  if o.d_ffn and o.d_ffn_ratio then refuse("d_ffn and d_ffn_ratio exclude each other; give one") end
  m.d_ffn = m.d_ffn or m.d_model * (o.d_ffn_ratio or 4)
  if o.num_heads and o.total_attn_width_ratio then
    refuse("num_heads and total_attn_width_ratio exclude each other; give one")
  elseif not o.num_heads then
    local width = m.d_model * (o.total_attn_width_ratio or 1)
    if not is_multiple(width, m.d_head) then
      local nearest = violations.nearest_divisors(width, m.d_head)
      refuse("d_model%s = %s must be divisible by d_head = %s%s", o.total_attn_width_ratio and
        " x total_attn_width_ratio" or "", violations.show(width), violations.show(m.d_head),
        #nearest > 0 and ("; nearest passing d_head: %s"):format(table.concat(nearest, " or "):gsub("%.0", "")) or "")
    end
  end
  m.num_heads = m.num_heads or m.d_model * (o.total_attn_width_ratio or 1) / m.d_head
  for _, name in ipairs { "batch_size", "seq_len", "num_experts", "num_layers" } do
    if m[name] < 1 then refuse("%s must be at least 1, got %s", name, violations.show(m[name])) end
  end
  return m, broken
end

--- Microbatch sizes from least to most that divide the batch.
local function microbatch_sizes(m, run)
  local sizes = {}
  for size = run.least, run.most, m.p_data do
    if m.batch_size % size == 0 then sizes[#sizes + 1] = ("%d"):format(size) end
  end
  return sizes
end

local function duration(seconds)
  local unit, scale = "seconds", 1
  if seconds >= 86400 then unit, scale = "days", 86400
  elseif seconds >= 3600 then unit, scale = "hours", 3600
  elseif seconds >= 60 then unit, scale = "minutes", 60 end
  return ("%.1f %s"):format(seconds / scale, unit)
end

local function header(L, m, run, sizes, out)
  local axes = {}
  for i, axis in ipairs(L:axes()) do axes[i] = ("%s: %d"):format(axis.name, axis.degree) end
  out("N: %.3e (%.3e effective)", run.N, run.N / m.num_experts)
  out("D: %.3e", run.D)
  out("b: %d%s", m.batch_size, sizes and (" (microbatch size must be in [%s] to be efficient)")
    :format(table.concat(sizes, ", ")) or "")
  out("P: %d = {%s}\n", L:clusters(), table.concat(axes, ", "))
end

local function print_costs(m, costs, out)
  out("\nFULL TRAINING RUN COST")
  out(m.fwd_only and "    Metric            Fwd" or "    Metric            Fwd            Bwd          Total")
  for _, name in ipairs { "FLOP", "Tx", "Rx", "net" } do
    local cost = costs[name]
    local line = ("%10s    %11.3e"):format(name, cost.forward)
    if not m.fwd_only then line = line .. ("    %11.3e    %11.3e"):format(cost.backward, cost.total) end
    out("%s", line)
  end
end

local function print_rates(rates, out)
  out("\nCluster FLOP/sec:    %.3e", rates.flop)
  out("Cluster bytes/sec:   %.3e (%.3e Tx, %.3e Rx)", rates.net, rates.Tx, rates.Rx)
  out("\nTotal FLOP/sec:      %.3e", rates.flop * rates.clusters)
  out("Total bytes/sec:     %.3e (%.3e Tx, %.3e Rx)", rates.net * rates.clusters, rates.Tx * rates.clusters,
    rates.Rx * rates.clusters)
  out("\nRuntime:             %s", duration(rates.seconds))
end

--- Time with traffic on a cluster's links, one rank a device.
-- `times` multiplies rates: network, memory, flops.
local function timed(L, m, o, run, times)
  times = times or {}
  local chip = require("ett.ledger.links").chip(o.cluster)
  local function link(of)
    local faster = {}
    for name, value in pairs(of) do faster[name] = value end
    faster.bytes_per_second = of.bytes_per_second * (times.network or 1)
    return faster
  end
  local seconds = require("ett.ledger.timing").of(L, {
    flops = (o.cluster_flop_rate or chip.flops / 2) * (times.flops or 1),
    utilization = o.cluster_flop_rate and 1 or o.utilization,
    bytes = o.net_precision_bytes, memory = chip.memory * (times.memory or 1),
    links = { intra = link(chip.intra or chip.inter), inter = link(chip.inter or chip.intra) },
    node_chips = chip.node_chips, overlap = o.overlap, forward_only = m.fwd_only,
    checkpointing = m.activation_checkpointing })
  local samples = (run.least or m.p_data) / m.p_data
  seconds.memory_bytes = transformer.memory(m, run, { bytes = o.net_precision_bytes, gradient_bytes =
    o.net_precision_bytes, optimizer_bytes = o.optimizer_bytes, samples = samples, gpipe = o.schedule == "gpipe" })
  seconds.memory_microbatch_samples, seconds.memory_capacity_bytes = samples, chip.capacity
  return seconds
end

--- How the time with traffic answers: { name, factor, run_time_change (a fraction) }.
local function sensitivities(m, o, base)
  local rows = {}
  for _, change in ipairs { { "network", 1.1 }, { "memory", 1.1 }, { "flops", 1.1 }, { "batch_size", 2 },
    { "p_data", 2 } } do
    local name, factor = change[1], change[2]
    local changed, L = setmetatable({}, { __index = m }), ledger.new()
    if m[name] then changed[name] = m[name] * factor end
    local run = transformer.describe(L, changed)
    if #violations.list(L) == 0 then
      local time = timed(L, changed, o, run, { [name] = factor })
      rows[#rows + 1] = { name = name, factor = factor, run_time_change = time.seconds / base.seconds - 1 }
    end
    L:close()
  end
  return rows
end

local function result(L, m, run, costs, rates, sizes)
  local axes = {}
  for _, axis in ipairs(L:axes()) do axes[axis.name] = math.tointeger(axis.degree) end
  local doc = { parameters = run.N, parameters_effective = run.N / m.num_experts, tokens = run.D,
    batch_samples = m.batch_size, clusters = math.tointeger(L:clusters()), axes = axes, microbatch_sizes = sizes }
  for name, cost in pairs(costs) do
    local unit = name == "FLOP" and "flop" or name:lower() .. "_words"
    doc[unit] = { forward = cost.forward, backward = not m.fwd_only and cost.backward or nil, total = cost.total }
  end
  if rates then
    doc.cluster_flop_per_second, doc.cluster_bytes_per_second = rates.flop, rates.net
    doc.runtime_seconds = rates.seconds
  end
  return doc
end

local function print_csv(L, out)
  out("label,operation,tensors,dimension,axis,flop_forward,flop_backward,tx_words_forward,tx_words_backward,"
    .. "rx_words_forward,rx_words_backward")
  local line = "%s,%s,%s,%s,%s,%.17g,%.17g,%.17g,%.17g,%.17g,%.17g"
  for _, e in ipairs(L:entries()) do
    local tensors = table.concat(e.tensors, " * ")
    out(line, e.label, e.operation, tensors, e.dimension or "", "", e.flop_forward, e.flop_backward, e.tx_forward,
      e.tx_backward, e.rx_forward, e.rx_backward)
    for _, part in ipairs(e.axes) do
      out(line, e.label, e.operation, tensors, e.dimension or "", part.axis, 0, 0, part.tx_forward, part.tx_backward,
        part.rx_forward, part.rx_backward)
    end
  end
end

local function run(argv)
  local o = arguments.parse("transformer", flags, argv)
  if o.help then
    print(arguments.help("transformer", "meter the FLOP and traffic of a training run, operation by operation", flags))
    return 0
  end
  local lines = {}
  local function out(...) lines[#lines + 1] = string.format(...) end
  local broken = arguments.unusable(flags, o)
  if #broken > 0 then error_module.raise("limit", "transformer: %s", violations.message(broken)) end
  if o.sensitivities and not o.cluster then
    error_module.raise("usage", "transformer: --sensitivities needs --cluster, whose links it varies")
  end
  local m
  m, broken = parameters(o)
  local L = ledger.new()
  local described = transformer.describe(L, m, { efficiency = not o.skip_efficiency_check })
  local late = {}
  for _, violation in ipairs(violations.list(L, #broken > 0)) do
    local stage = violation.stage
    if stage == "efficiency" then violation.text = violation.text .. transformer.nearest(violation, m) end
    local early = stage == "parameters" or stage == "efficiency" or stage == "dimensions" or stage == "weights"
    table.insert(early and broken or late, violation)
  end
  local sizes
  if #broken == 0 and not o.skip_efficiency_check then
    sizes = microbatch_sizes(m, described)
    if #sizes == 0 then
      local nearest = transformer.nearest_batches(m, described.least)
      broken[1] = { text = ("no multiple of p_data = %d from %d to %d divides batch_size = %d: no efficient microbatch "
        .. "size%s"):format(m.p_data, described.least, described.most, m.batch_size, #nearest > 0 and
        "; nearest passing batch_size: " .. table.concat(nearest, " or ") or "") }
    end
  end
  if #broken > 0 then
    table.move(late, 1, #late, #broken + 1, broken)
    error_module.raise("limit", "transformer: %s", violations.message(broken))
  end
  local costs = transformer.costs(L, m)
  for _, name in ipairs { "FLOP", "Tx", "Rx" } do
    if costs[name].total - costs[name].total ~= 0 then
      error_module.raise("limit", "transformer: the count of %s is beyond numbers (%g); lower dataset_size or sizes",
        name, costs[name].total)
    end
  end
  local rates
  if o.cluster_flop_rate and costs.FLOP.total ~= 0 then
    local flop = o.cluster_flop_rate
    if costs.FLOP.total / (L:clusters() * flop) == math.huge then
      error_module.raise("limit", "transformer: at %g FLOP/s the run never ends; raise cluster_flop_rate", flop)
    end
    rates = { flop = flop, clusters = L:clusters(), seconds = costs.FLOP.total / (L:clusters() * flop) }
    for _, name in ipairs { "net", "Tx", "Rx" } do
      rates[name] = o.net_precision_bytes * costs[name].total / costs.FLOP.total * flop
    end
  end
  local time = o.cluster and #late == 0 and timed(L, m, o, described)
  if o.json and #late == 0 then
    local doc = result(L, m, described, costs, rates, sizes)
    doc.time = time or nil
    if time and o.sensitivities then doc.sensitivities = sensitivities(m, o, time) end
    io.write(require("ett.json").encode(doc, { indent = 2 }))
    return 0
  elseif o.csv and #late == 0 then
    print_csv(L, out)
  else
    header(L, m, described, sizes, out)
    if #late == 0 then
      print_costs(m, costs, out)
      if rates then print_rates(rates, out) end
      if o.entries then
        out("\nWHAT CAUSES IT (whole run and machine, forward + backward)")
        out("%s", require("ett.ledger.report").entries(L))
      end
      if time then
        out("\nTIME WITH TRAFFIC on %s (seconds; no pipeline bubble)", o.cluster)
        out("%s", require("ett.ledger.report").timing(time))
        out("\nRuntime with traffic: %s", duration(time.seconds))
        local memory = time.memory_bytes
        out("\nMEMORY PER RANK (GB; %s, microbatch of %g samples a replica)", o.schedule,
          time.memory_microbatch_samples)
        for _, name in ipairs { "weights", "gradients", "optimizer", "activations", "total" } do
          out("%-12s %12.3f", name, memory[name] / 1e9)
        end
        out("%-12s %12.3f  %s", "device", time.memory_capacity_bytes / 1e9,
          memory.total <= time.memory_capacity_bytes and "fits" or "DOES NOT FIT")
        if o.sensitivities then
          out("\nSENSITIVITIES            run time")
          for _, row in ipairs(sensitivities(m, o, time)) do
            out("%-20s %+10.2f %%", ("%s x %g"):format(row.name, row.factor), row.run_time_change * 100)
          end
        end
      end
    end
  end
  print(table.concat(lines, "\n"))
  if #late > 0 then error_module.raise("limit", "transformer: %s", violations.message(late)) end
  if o.cluster_flop_rate and not rates then
    error_module.raise("limit", "transformer: the run has no FLOP (0 batches): no rate or runtime; raise dataset_size")
  end
  return 0
end

return {
  name = "transformer",
  summary = "meter the FLOP and traffic of a whole training run, operation by operation",
  usage = "transformer --dataset_size D --num_layers L --d_model d [--flag value ...]",
  raw = true,
  run = run,
}
