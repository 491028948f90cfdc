--- `ett simple-transformer`: a batch of a feed-forward-only transformer in time.
-- The arithmetic is in lua/ett/ledger/simple_transformer.lua; this file reads and prints.
local arguments = require "ett.ledger.arguments"
local chips = require "ett.ledger.chips"
local error_module = require "ett.base.error"
local ledger = require "ett.ledger"
local simple = require "ett.ledger.simple_transformer"
local violations = require "ett.ledger.violations"

local function chip_names(version)
  local names = {}
  for _, chip in ipairs(chips) do
    if version ~= "readme" or not chip.head_only then names[#names + 1] = chip.name end
  end
  return names
end

local function flags_of(version)
  local readme = version == "readme"
  local flags = {
    { "--precision_bits", "int", 8, help = "bits of weights, activations and traffic" },
    { "--n_layers", "int", required = true, help = "layers" },
    { "--d_model", "int", required = true, help = "model width" },
    { "--d_internal_ratio", "int", 5, help = "inner width over model width" },
    { "--n_experts", "int", 1, help = "experts, each on its own chips" },
    { "--n_routed_experts", "int", 1, help = "experts that take each token" },
    { "--dataset_size", "float", help = "tokens (default 20 for each parameter)" },
    { "--batch_size", "int", 2048, help = "samples a batch" },
    { "--microbatch_size", "int", 1, help = "samples a microbatch, over all replicas" },
    { "--seq_len", "int", 2048, help = "tokens a sample" },
    { "--chip_type", "choice", not readme and "H100" or nil, choices = chip_names(version), help = "chip" },
    { "--pp", "int", 1, help = "pipeline stages" },
    { "--pipeline_interleaving", "int", 1, help = "passes through the stages" },
    { "--dp", "int", 1, help = "replicas" },
    { "--tp", "int", 1, help = "degree over the inner width" },
    { "--tp2", "int", 1, help = "degree over the model width" },
    { "--as", "choice", "corrected", extension = true, choices = { "readme", "head", "corrected" },
      help = "which version of the model" },
    { "--json", "switch", extension = true, help = "print JSON" },
    { "--csv", "switch", extension = true, help = "print CSV" },
    { "--traceback", "switch", extension = true, help = "print where an error was raised" },
  }
  local function add(flag) flags[#flags + 1] = flag end
  if not readme then
    add { "--network_bandwidth", "float", positive = true, help = "bytes/s of a chip (default the chip's)" }
    add { "--base_utilization", "float", 0.6, positive = true, help = "fraction of peak that a matmul reaches" }
  end
  if version == "corrected" then
    add { "--overlap", "float", 1, extension = true, help = "fraction of traffic that may hide behind work" }
    add { "--latency_seconds", "float", 0, extension = true, help = "of one hop" }
    add { "--node_chips", "int", 1, extension = true, positive = true, help = "chips that share a node's links" }
    add { "--node_bandwidth", "float", extension = true, positive = true,
      help = "bytes/s inside a node (default the chip's network)" }
    add { "--zero", "choice", "0", extension = true, choices = { "0", "1", "2", "3" }, help = "ZeRO stage" }
    add { "--schedule", "choice", "1f1b", extension = true, choices = { "1f1b", "gpipe" },
      help = "gpipe holds every microbatch's activations, 1f1b a pipeline's worth" }
    add { "--recompute", "switch", extension = true, help = "keep layer inputs only, repeat the forward pass" }
    add { "--gradient_bytes", "float", 2, extension = true, help = "bytes of a gradient" }
    add { "--optimizer_bytes", "float", 12, extension = true, help = "bytes of optimizer state a parameter" }
    add { "--memory_bytes", "float", extension = true, positive = true, help = "memory of a chip (default the chip's)" }
    add { "--cluster", "text", extension = true, help = "cluster file whose device and links replace the chip's" }
    add { "--sensitivities", "switch", extension = true, help = "what 10 % more of each quantity changes" }
  end
  return flags
end

local function version_of(argv)
  for i, word in ipairs(argv) do
    local value = word == "--as" and argv[i + 1] or word:match("^%-%-as=(.*)$")
    if value == "readme" or value == "head" then return value end
  end
  return "corrected"
end

--- Parameters for the model from flags and chip.
local function parameters(o, version)
  local chip
  for _, candidate in ipairs(chips) do
    if candidate.name == o.chip_type then chip = candidate end
  end
  if not chip then
    error_module.raise("limit", "simple-transformer: the readme version's default chip 'h100' is not among its chips; "
      .. "give --chip_type: %s", table.concat(chip_names(version), ", "))
  end
  local m = {}
  for name in pairs(simple.parameters) do m[name] = o[name] and o[name] + 0.0 end
  m.dataset_size = o.dataset_size
  m.chip_flops, m.chip_memory, m.chip_capacity = chip.flops, chip.memory, chip.capacity
  m.chip_network = o.network_bandwidth or version == "readme" and chip.readme_network or chip.network
  m.base_utilization = o.base_utilization or 1
  if version ~= "corrected" then return m, chip end
  for name in pairs(simple.corrections) do m[name] = o[name] end
  m.recompute, m.gpipe, m.zero = o.recompute and 1 or 0, o.schedule == "gpipe" and 1 or 0, tonumber(o.zero)
  m.memory_reserve = 0.1
  if o.cluster then
    chip = require("ett.ledger.links").chip(o.cluster)
    m.chip_flops, m.chip_memory, m.chip_capacity = chip.flops, chip.memory, chip.capacity
    m.chip_network = o.network_bandwidth or chip.network
    if not o.given.node_chips then m.node_chips = chip.node_chips end
    m.node_network = o.node_bandwidth or chip.node_network
    if not o.given.latency_seconds then m.latency_seconds = chip.latency_seconds end
  end
  m.node_network = m.node_network or o.node_bandwidth or m.chip_network
  m.chip_capacity = o.memory_bytes or m.chip_capacity
  return m, chip
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
  for _, name in ipairs { "weights", "gradients", "optimizer", "activations", "total" } do
    out("%-16s %11.3f", name, r.memory[name] / 1e9)
  end
  out("%-16s %11.3f  %s", "usable", r.memory_limit / 1e9, r.memory.total <= r.memory_limit and "fits" or "DOES NOT FIT")
  out("\nTOTAL\n Run time: %6.1f days", r.days)
  out(" FLOP:             %.2e", r.flop)
  out(" FLOP per expert:  %.2e", r.flop / m.n_experts)
end

--- What 10 % more of each quantity changes: { name, factor, run_time_change, utilization_change (fractions) }.
local function sensitivities(m)
  local program = simple.compile("corrected", m)
  local base, rows = program:evaluate {}, {}
  local function add(name, factor, changes)
    local changed = program:evaluate(changes)
    if changed.feasible == 1 then
      rows[#rows + 1] = { name = name, factor = factor, run_time_change = changed.days / base.days - 1,
        utilization_change = changed.utilization / base.utilization - 1 }
    end
  end
  for _, name in ipairs { "chip_flops", "chip_memory", "chip_network", "node_network", "base_utilization",
    "overlap" } do
    add(name, 1.1, { [name] = math.min(m[name] * 1.1, name == "overlap" and 1 or math.huge) })
  end
  add("batch_size", 2, { batch_size = m.batch_size * 2 }) -- doubled: these must stay whole
  add("dp", 2, { dp = m.dp * 2, microbatch_size = m.microbatch_size * 2 })
  return rows
end

local function print_sensitivities(rows, out)
  out("\nSENSITIVITIES (+10 %%)     run time  utilization")
  for _, row in ipairs(rows) do
    local name = row.factor == 1.1 and row.name or ("%s x %g"):format(row.name, row.factor)
    out("%-20s %+10.2f %% %+10.2f %%", name, row.run_time_change * 100, row.utilization_change * 100)
  end
end

local function result(m, r, chip, version)
  local doc = { as = version, chip = chip.name, chips = r.chips, parameters = r.P, parameters_per_token = r.N,
    tokens = r.D, batches = r.batches, flop_per_batch = r.flop_batch, batch_seconds = r.batch,
    bubble_seconds = r.bubble, full_seconds = r.full, gradient_seconds = r.gradient, utilization = r.utilization,
    run_days = r.days, run_flop = r.flop, microbatches = r.microbatches, n_experts = m.n_experts }
  if r.phases then
    doc.phases, doc.memory_bytes = {}, r.memory
    doc.memory_usable_bytes, doc.fits = r.memory_limit, r.memory.total <= r.memory_limit
    for name, p in pairs(r.phases) do
      doc.phases[name] = { seconds = p.seconds, compute_seconds = p.compute, memory_seconds = p.memory,
        network_seconds = p.network, bound_by = simple.binding(p) }
    end
  end
  return doc
end

local function print_csv(doc)
  local names, values = {}, {}
  for name, value in pairs(doc) do
    if type(value) ~= "table" then names[#names + 1] = name end
  end
  table.sort(names)
  for i, name in ipairs(names) do
    values[i] = type(doc[name]) == "number" and ("%.17g"):format(doc[name]) or tostring(doc[name])
  end
  print(table.concat(names, ",") .. "\n" .. table.concat(values, ","))
end

local function run(argv)
  local version = version_of(argv)
  local flags = flags_of(version)
  local o = arguments.parse("simple-transformer", flags, argv)
  if o.help then
    print(arguments.help("simple-transformer", "time a batch and a run of a feed-forward-only transformer", flags))
    return 0
  end
  local unusable = arguments.unusable(flags, o)
  if #unusable > 0 then error_module.raise("limit", "simple-transformer: %s", violations.message(unusable)) end
  local m, chip = parameters(o, version)
  local L = ledger.new()
  local r = simple.describe(L, m, version)
  r.n_experts = m.n_experts
  local broken = violations.list(L)
  if #broken == 0 and (r.days - r.days ~= 0 or r.utilization - r.utilization ~= 0 or r.flop - r.flop ~= 0) then
    broken[1] = { text = "the run has no finite time; the rates, widths and sizes must be greater than 0" }
  end
  if #broken > 0 then error_module.raise("limit", "simple-transformer: %s", violations.message(broken)) end
  if o.json then
    local doc = result(m, r, chip, version)
    if o.sensitivities then doc.sensitivities = sensitivities(m) end
    io.write(require("ett.json").encode(doc, { indent = 2 }))
    return 0
  elseif o.csv and o.sensitivities then
    print("quantity,factor,run_time_change,utilization_change")
    for _, row in ipairs(sensitivities(m)) do
      print(("%s,%g,%.17g,%.17g"):format(row.name, row.factor, row.run_time_change, row.utilization_change))
    end
    return 0
  elseif o.csv then
    print_csv(result(m, r, chip, version))
    return 0
  end
  local lines = {}
  local function out(...) lines[#lines + 1] = string.format(...) end
  header(m, r, chip, version, out)
  if version == "corrected" then
    corrected(m, r, out)
    if o.sensitivities then print_sensitivities(sensitivities(m), out) end
  else
    published(r, version, out)
  end
  print(table.concat(lines, "\n"))
  return 0
end

return {
  name = "simple-transformer",
  summary = "time a batch and a run of a feed-forward-only transformer, with traffic and memory",
  usage = "simple-transformer --n_layers L --d_model d [--flag value ...]",
  raw = true,
  run = run,
}
