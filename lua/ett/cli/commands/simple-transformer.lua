--- `ett simple-transformer`: the time of a batch of a feed-forward-only transformer. ett.ledger.simple_transformer
-- computes; this file declares the options and prints.
local error_module = require "ett.base.error"
local front = require "ett.cli.ledger"
local ledger = require "ett.ledger"
local options_module = require "ett.base.options"
local simple = require "ett.ledger.simple_transformer"
local violations = require "ett.ledger.violations"

local default_chip = "H100"

local function common(version)
  local list = front.wholes({
    { "precision_bits", "bits of weights, activations and traffic" }, { "n_layers", "layers", required = true },
    { "d_model", "model width", required = true },
    { "d_internal_ratio", "ratio of the inner width to the model width" },
    { "n_experts", "experts, each on its own chips" }, { "n_routed_experts", "experts per token" },
    { "batch_size", "samples per batch" }, { "microbatch_size", "samples per microbatch, over all replicas" },
    { "seq_len", "tokens per sample" }, { "pp", "pipeline stages" },
    { "pipeline_interleaving", "times that a microbatch passes through the stages" }, { "dp", "replicas" },
    { "tp", "tensor-parallel ranks that split the inner width" },
    { "tp2", "tensor-parallel ranks that split the model width" },
  }, simple.parameters)
  for _, option in ipairs {
    { "dataset_size", "TOKENS", "tokens of the run (default 20 per parameter)", kind = "positive" },
    { "chip_type", "NAME", version == "readme" and "chip" or ("chip (default %s)"):format(default_chip),
      choices = simple.chip_names(version) },
    { "as", "NAME", "version of the model: readme and head are the public programs",
      choices = { "readme", "head", "corrected" }, default = "corrected", extension = true },
  } do list[#list + 1] = option end
  if version ~= "readme" then
    table.move({
      { "network_bandwidth", "B", "network bandwidth of a chip in bytes/s (default the chip's)", kind = "positive" },
      { "base_utilization", "U", "fraction of the peak FLOP/s that a product reaches", kind = "number",
        least = 1e-6, most = 1, default = simple.parameters.base_utilization },
    }, 1, 2, #list + 1, list)
  end
  return front.add(list, { "json" })
end

local corrections = {
  { "latency_seconds", "S", "latency of one hop (default 0, or the cluster's)", kind = "number", least = 0, most = 10 },
  { "node_chips", "N", "chips that share a node's links (default 1, or the cluster's)", kind = "count" },
  { "node_bandwidth", "B", "bandwidth inside a node in bytes/s (default the chip's network)", kind = "positive" },
  { "zero", "N", "ZeRO stage", choices = { "0", "1", "2", "3" }, default = "0" },
  { "recompute", "store only the inputs of layers, and repeat the forward pass" },
  { "gradient_bytes", "B", "bytes of a gradient", kind = "number", least = 0, most = 64,
    default = simple.corrections.gradient_bytes },
  { "memory_bytes", "B", "memory of a chip (default the chip's)", kind = "positive" },
  { "sensitivities", "print the effect of 10 % more of each quantity" },
}

local function options_of(version)
  local list = common(version)
  if version ~= "corrected" then return list end
  for _, option in ipairs(corrections) do
    option.extension = true
    list[#list + 1] = option
  end
  return front.add(list, { "overlap", "schedule", "optimizer_bytes", "cluster" })
end

local command = {
  name = "simple-transformer",
  summary = "estimate time, traffic and memory of a batch and a run of a feed-forward-only transformer",
  usage = "simple-transformer --n_layers L --d_model d [--NAME VALUE ...]",
  description = "Any unambiguous prefix of an option's name is accepted.",
  prefixes = true,
  words = false,
  finds = true,
}

local function version_of(argv)
  for i, word in ipairs(argv) do
    local value = word == "--as" and argv[i + 1] or word:match("^%-%-as=(.*)$")
    if value == "readme" or value == "head" then return value end
  end
  return "corrected"
end

local function header(m, r, chip, version, out)
  local head = version ~= "readme"
  out("Model Shape: %d x (%d x %d) (top %d of %d routing)", m.n_layers, m.d_model, r.d_int, m.n_routed_experts,
    m.n_experts)
  out("Parameters: %.2e%s, Training Tokens: %.2e", r.P, head and (" (%.2e per token)"):format(r.N) or "", r.D)
  out("%d %ss%s", r.chips, chip.name, head and (": (%.1f 8-bit TFLOP/s; %.2f TB/s IO; %s GB/s network), "
    .. "Base Utilization: %.2f"):format(m.chip_flops / 1e12, m.chip_memory / 1e12,
      ("%.1f"):format(ledger.round(m.chip_network / 1e8) / 10), m.base_utilization) or "")
  out("Pipeline steps: %d stages x %d interleaving; boundary interval: %d; bubble layers: %d", m.pp,
    m.pipeline_interleaving, r.interval, r.bubble_layers)
  out("FLOP per batch: %.2e", r.flop_batch)
  out("Matmuls per chip per layer: 2 matrices x 1 experts = 2")
  out("Matmul shape: %d d_int x %d d_model x %d tokens", r.a, r.c, r.tokens)
end

local function published(r, version, out)
  local head = version == "head"
  out("\nBATCH TIME")
  out("Pipeline bubble time: %9.4f secs", r.bubble)
  out("Pipeline full time:   %9.4f secs%s", r.full, head and (" (FLOP: %9.4f secs, net: %9.4f secs)")
    :format(r.full_flop, r.full_net) or "")
  out("Gradient reduction:   %9.4f secs", r.gradient)
  out("Total batch time:     %9.4f secs", r.batch)
  out("\nUtilization:          %9.4f", r.utilization)
  if head then
    out("\nTOTAL\n Run time: %6.1f days", r.days)
    out(" FLOP:             %.2e", r.flop)
    out(" FLOP per expert:  %.2e", r.flop / r.n_experts)
  else
    out("\nTOTAL RUN TIME\n%6.1f days", r.days)
  end
end

local phase_names = { "bubble", "full", "gradient", "optimizer" }

local function corrected(m, r, out)
  out("\nBATCH TIME (secs)      total    compute     memory    network  bound by")
  for _, name in ipairs(phase_names) do
    local p = r.phases[name]
    out("%-16s %11.4f %10.4f %10.4f %10.4f  %s", name == "full" and "steady state" or name, p.seconds, p.compute,
      p.memory, p.network, simple.binding(p))
  end
  out("%-16s %11.4f", "batch", r.batch)
  out("\nUtilization:          %9.4f", r.utilization)
  out("\nMEMORY PER CHIP (GB)")
  front.memory(out, r.memory, "usable", r.memory_limit, 16)
  out("\nTOTAL\n Run time: %6.1f days", r.days)
  out(" FLOP:             %.2e", r.flop)
  out(" FLOP per expert:  %.2e", r.flop / m.n_experts)
end

local function result(m, r, chip, version)
  local doc = { as = version, chip = chip.name, chips = r.chips, parameters = r.P, parameters_per_token = r.N,
    tokens = r.D, batches = r.batches, flop_per_batch = r.flop_batch, batch_seconds = r.batch,
    bubble_seconds = r.bubble, full_seconds = r.full, gradient_seconds = r.gradient, utilization = r.utilization,
    run_days = r.days, run_flop = r.flop, microbatches = r.microbatches, n_experts = m.n_experts }
  if r.phases then
    doc.phases = {}
    for name, value in pairs(front.memory_fields(r.memory, r.memory_limit)) do doc[name] = value end
    for name, p in pairs(r.phases) do
      doc.phases[name] = { seconds = p.seconds, compute_seconds = p.compute, memory_seconds = p.memory,
        network_seconds = p.network, bound_by = simple.binding(p) }
    end
  end
  return doc
end

local function described(o, version)
  local m, chip = require "ett.cli.named"(simple.of, o, version)
  local L = ledger.new()
  local r = simple.describe(L, m, version)
  r.n_experts = m.n_experts
  local broken = violations.list(L)
  if #broken == 0 and (r.days - r.days ~= 0 or r.utilization - r.utilization ~= 0 or r.flop - r.flop ~= 0) then
    broken[1] = { text = "the run has no finite time; the rates, widths and sizes must be greater than 0" }
  end
  if #broken == 0 and version == "corrected" and r.batches == 0 then
    broken[1] = { text = ("the run has no batch: 20 tokens for each of %.15g parameters are fewer than a batch of "
      .. "%.15g; give --dataset_size"):format(r.P, m.batch_size * m.seq_len) }
  end
  if #broken > 0 then error_module.raise("limit", "simple-transformer: %s", violations.message(broken)) end
  return m, r, chip
end

--- The options depend on the version, so the command parses its words itself.
function command.asks_help(argv)
  command.options = options_of(version_of(argv))
  for _, word in ipairs(argv) do
    if word == "--help" or word == "-h" then return true end
  end
end

function command.run(argv)
  local version = version_of(argv)
  local o = options_module.parse(command, argv)
  if o.path then require("ett.base.find").set_folders(o.path) end
  front.check_tokens("simple-transformer", o)
  if o.cluster and o.chip_type then
    error_module.raise("usage", "simple-transformer: give --chip_type or --cluster, not both")
  end
  o.chip_type = o.chip_type or version ~= "readme" and default_chip or nil
  local m, r, chip = described(o, version)
  local rows = o.sensitivities and simple.sensitivities(m)
  if o.json then
    local doc = result(m, r, chip, version)
    doc.sensitivities = rows or nil
    require "ett.cli.print_value"(o, doc)
    return 0
  end
  local out = front.lines()
  header(m, r, chip, version, out)
  if version == "corrected" then
    corrected(m, r, out)
    if rows then
      out("\nSENSITIVITIES (+10 %%)     run time  utilization")
      front.sensitivities(out, rows, { "run_time_change", "utilization_change" }, 1.1)
    end
  else
    published(r, version, out)
  end
  out.print()
end

command.raw = true
return command
