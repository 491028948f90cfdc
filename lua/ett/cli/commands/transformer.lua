--- `ett transformer`: FLOP and traffic of a whole training run, counted by the ledger. ett.ledger.run computes; this
-- file declares the options and prints.
local error_module = require "ett.base.error"
local front = require "ett.cli.ledger"
local json = require "ett.json"
local merged = require "ett.base.merged"
local named = require "ett.cli.named"
local run_module = require "ett.ledger.run"
local simple = require "ett.ledger.simple_transformer"
local violations = require "ett.ledger.violations"

local options = front.wholes({
  { "batch_size", "samples per batch" }, { "num_experts", "experts; tokens are split among them" },
  { "seq_len", "tokens per sample" }, { "num_layers", "layers", required = true },
  { "d_model", "model width", required = true },
  { "d_ffn_ratio", "ratio of the feed-forward width to the model width (default 4)" },
  { "d_ffn", "feed-forward width", open = true },
  { "d_head", "width of a head" }, { "num_heads", "heads (default d_model / d_head)", open = true },
  { "p_data", "ranks of the data axis" }, { "p_pipe", "ranks of the pipeline" },
  { "p_exp", "ranks of the expert axis" }, { "p_seq", "ranks of the sequence axis" },
  { "p_tensor_int", "ranks that split heads and feed-forward width" },
  { "p_tensor_ext", "ranks that split the model width" },
}, require("ett.ledger.transformer").parameters)
options[#options + 1] = { "net_precision_bytes", "N", "bytes per word on the network", kind = "whole", default = 2 }
for _, option in ipairs {
  { "dataset_size", "TOKENS", "tokens of the run", kind = "positive", required = true },
  { "total_attn_width_ratio", "R", "ratio of the width of all heads to the model width", kind = "number" },
  { "cluster_flop_rate", "R", "FLOP/s of one cluster (one rank)", kind = "positive" },
  { "use_glu", "feed-forward layers have a gate" },
  { "no_multi_query_attn", "every head has its own keys and values (default: all heads share them)" },
  { "activation_checkpointing", "repeat the forward pass in the backward pass" },
  { "consecutive_attn_and_ffn", "run feed-forward after attention (default: in parallel)" },
  { "skip_efficiency_check", "allow inefficient runs" },
  { "fwd_only", "count the forward pass only" },
  { "as", "NAME", "version of the public program; both give the same result", choices = { "readme", "head" },
    extension = true },
  { "utilization", "U", "without --cluster_flop_rate: fraction of the device's peak that products reach",
    kind = "number", least = 1e-6, most = 1, default = simple.parameters.base_utilization, extension = true },
  { "sensitivities", "with --cluster: print the effect of more bandwidth, memory speed, FLOP/s, batch and replicas",
    extension = true },
  { "entries", "print the FLOP and words of each operation and axis", extension = true },
} do options[#options + 1] = option end
front.add(options, { "cluster", "overlap", "schedule", "optimizer_bytes", "json" })

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
    doc.run_days = rates.seconds / 86400
  end
  return doc
end

--- The operations, each followed by its words on every axis.
local function entries_of(L)
  local list = {}
  local function add(e, axis, flop_forward, flop_backward, words)
    list[#list + 1] = { label = e.label, operation = e.operation, tensors = table.concat(e.tensors, " * "),
      dimension = e.dimension, axis = axis, flop_forward = flop_forward, flop_backward = flop_backward,
      tx_words_forward = words.tx_forward, tx_words_backward = words.tx_backward,
      rx_words_forward = words.rx_forward, rx_words_backward = words.rx_backward }
  end
  for _, e in ipairs(L:entries()) do
    add(e, nil, e.flop_forward, e.flop_backward, e)
    for _, part in ipairs(e.axes) do add(e, part.axis, 0.0, 0.0, part) end
  end
  return list
end

--- The time with traffic, with its memory in the fields of `ett predict`.
local function time_fields(time)
  local fields = merged(time, front.memory_fields(time.memory_bytes, time.memory_capacity_bytes))
  fields.memory_capacity_bytes = nil
  return fields
end

local function print_time(r, o, out)
  local time, report = r.time, require "ett.ledger.report"
  out("\nTIME WITH TRAFFIC on %s (seconds; no pipeline bubble)", o.cluster)
  out("%s", report.timing(time))
  out("\nRuntime with traffic: %s", duration(time.seconds))
  out("\nMEMORY PER RANK (GB; %s, microbatch of %g samples a replica)", o.schedule, time.memory_microbatch_samples)
  front.memory(out, time.memory_bytes, "device", time.memory_capacity_bytes, 12)
  if o.sensitivities then
    out("\nSENSITIVITIES            run time")
    front.sensitivities(out, run_module.sensitivities(r.m, o, time), { "run_time_change" })
  end
end

local function print_text(r, o)
  local out = front.lines()
  header(r.L, r.m, r.run, r.sizes, out)
  if #r.late == 0 then
    print_costs(r.m, r.costs, out)
    if r.rates then print_rates(r.rates, out) end
    if o.entries then
      out("\nFLOP AND WORDS OF EACH OPERATION (whole run and machine, forward + backward)")
      out("%s", require("ett.ledger.report").entries(r.L))
    end
    if r.time then print_time(r, o, out) end
  end
  out.print()
end

local function run(o)
  if o.sensitivities and not o.cluster then
    error_module.raise("usage", "transformer: --sensitivities needs --cluster, whose links it varies")
  end
  front.check_tokens("transformer", o)
  local r = named(run_module.new, o)
  if o.json and #r.late == 0 then
    local doc = result(r.L, r.m, r.run, r.costs, r.rates, r.sizes)
    doc.time = r.time and time_fields(r.time)
    doc.entries = o.entries and json.array(entries_of(r.L)) or nil
    if r.time and o.sensitivities then doc.sensitivities = run_module.sensitivities(r.m, o, r.time) end
    require "ett.cli.print_value"(o, doc)
    return 0
  else
    print_text(r, o)
  end
  if #r.late > 0 then error_module.raise("limit", "transformer: %s", violations.message(r.late)) end
  if o.cluster_flop_rate and not r.rates then
    error_module.raise("limit", "transformer: the run has no FLOP (0 batches): no rate or runtime; raise dataset_size")
  end
end

return {
  name = "transformer",
  summary = "count the FLOP and traffic of a whole training run, operation by operation",
  usage = "transformer --dataset_size D --num_layers L --d_model d [--NAME VALUE ...]",
  description = "Any unambiguous prefix of an option's name is accepted.",
  prefixes = true,
  words = false,
  finds = true,
  options = options,
  run = run,
}
