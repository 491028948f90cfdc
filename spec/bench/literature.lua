--- Measured steps of the literature against ett's estimates, each as a planner would write it: model, cluster and the
-- words of a command line. No step is one of the rows that ett's factors were fitted on.
--
-- literature.tsv has one step a line, columns separated by tabs: name, cluster (a name, or a file of support), words
-- of `ett predict` (the model first, which may be a file of architectures), the stated figure and its unit, software,
-- source, and what the source leaves open. An eighth column has the stated peak of memory: bytes, and allocated or
-- reserved (PyTorch's allocator) or used (of the device). Units: s of a step, tok(ens/s) of a device, seq(uences/s) of
-- all devices, tf (model TFLOP/s of a device) and hf (the same with a recomputed forward pass). FLOPs are those of PaLM
-- (arXiv 2204.02311, appendix B): 6 N + 12 L H a token of attention.
--
-- literature_first.tsv has the words of the plans that were edited after their first estimate, as first written: name
-- and words. Names of fields that changed are translated, and `compared=none` is added where today's plan has it.
local error_module = require "ett.base.error"
local fields = require "ett.cli.fields"
local median = require "ett.base.median"
local options = require "ett.base.options"
local regress = require "ett.regress"
local schema = require "ett.base.schema"
local decisions = dofile(require("ett.host").root .. "/spec/bench/support/decisions.lua")

local bench = { summary = "measured steps of the literature, estimated from the words of a command line",
  options = { "rows" } }

local columns = { "name", "cluster", "words", "figure", "software", "source", "open", "memory" }

-- The sets and the first step of each, in the order of the file.
local sets = { megascale_256 = "first", dgxc_llama31_8b_bf16_8 = "second", fold_mixtral_fsdp_128 = "third",
  mlperf_lora_h100_8 = "fourth", t5x_small_a100_8 = "fifth",
  fsdp_qlora_4090_lora_ddp = "sixth", kempner_7b_1 = "seventh",
  fla_mamba_h100_1_32k = "eighth", ["isambard_nano_8k/tp2_ep4"] = "ninth" }

-- The sets of which half of the steps are held out, and the seed of each.
local seeds = { fifth = 20261130, seventh = 20261207, eighth = 20261214, ninth = 20261221 }

--- Whether a step is held out: a seeded hash of its name chose half of the steps before any estimate. Of the ninth set
--- it chose half of the groups. A step of that set is named GROUP/WHAT_DIFFERS.
local function held_out(step)
  local hash, name = regress.mix(seeds[step.set]), step.name:match "^[^/]+"
  for i = 1, #name do hash = regress.mix(hash ~ name:byte(i)) end
  return hash >> 63 == 1
end

-- Beginnings of the sources that are recipes of the makers of the software: a planner who copies one says recipe=true.
local recipes = { "NVIDIA/dgxc-benchmarking", "NVIDIA NeMo documentation", "NVIDIA/NeMo", "NVIDIA-NeMo/",
  "NVIDIA/JAX-Toolbox", "MLPerf", "Nemotron-4", "MoE Parallel Folding", "pytorch/", "PyTorch", "DeepSpeed-MoE",
  "NVIDIA/Megatron-LM, pull request 5728", "NVIDIA/bionemo-framework", "AI-Hypercomputer/maxtext",
  "AI-Hypercomputer/gpu-recipes", "AI-Hypercomputer/tpu-recipes" }

local function is_recipe(source)
  for _, name in ipairs(recipes) do
    if source:sub(1, #name) == name then return true end
  end
  return false
end

--- The words of edited plans as they were first written, by name.
local function first_words()
  local words = {}
  for text in io.lines(require("ett.host").root .. "/spec/bench/literature_first.tsv") do
    local name, of_plan = text:match "^([^\t]+)\t(.+)$"
    words[name] = of_plan
  end
  return words
end

--- The steps of literature.tsv; first: with the plans as first written.
function bench.steps(first)
  local path, list, set = require("ett.host").root .. "/spec/bench/literature.tsv", {}, nil
  local earlier = first and first_words() or {}
  for text in io.lines(path) do
    local step, at = {}, 0
    for part in (text .. "\t"):gmatch "(.-)\t" do
      at = at + 1
      step[columns[at] or "more"] = part
    end
    if at > #columns or not step.open then
      error_module.raise("format", "%s:%d: expected 7 or %d columns, got %d", path, #list + 1, #columns, at)
    end
    set = sets[step.name] or set
    step.set = set
    step.held_out = seeds[set] and held_out(step)
    step.words = (earlier[step.name] or step.words) .. (is_recipe(step.source) and " recipe=true" or "")
    list[#list + 1] = step
  end
  return list
end

--- FLOPs of a trained token by the convention of the sources.
local function flops_per_token(e)
  local h = e.model.hyper
  local width = h.heads * (h.head_dim or h.hidden // h.heads)
  return 6.0 * e.model.parameters + 12.0 * h.layers * width * e.plan.seq
end

local seconds_of = {
  s = function(figure) return figure end,
  tok = function(figure, e) return e.tokens_per_step / (figure * e.devices) end,
  seq = function(figure, e) return e.plan.global_batch / figure end,
  tf = function(figure, e) return flops_per_token(e) * e.tokens_per_step / (1e12 * figure * e.devices) end,
  hf = function(figure, e) return 4 / 3 * flops_per_token(e) * e.tokens_per_step / (1e12 * figure * e.devices) end,
}

-- The field of an estimate for each kind of stated memory.
bench.memory_fields = { allocated = "allocated_bytes", reserved = "reserved_bytes", used = "memory_bytes" }

--- The estimate of the words and the cluster of a step, and a text that equal models share. Raises if refused.
function bench.estimate(step)
  local words = {}
  for word in step.words:gmatch "%S+" do words[#words + 1] = word end
  local model = table.remove(words, 1)
  if model:find "%.lua$" then model = require("ett.host").root .. "/spec/bench/architectures/" .. model end
  local plan, hyper = fields.sort("literature", options.words(words, "literature"), model)
  local file = step.cluster:find "%.lua$" and require("ett.host").root .. "/spec/bench/support/" .. step.cluster
  local names = {}
  for i, name in ipairs(schema.keys(hyper)) do names[i] = ("%s=%s"):format(name, tostring(hyper[name])) end
  return require("ett.step.estimate").new { model = fields.model(model, hyper), cluster = file or step.cluster,
    plan = fields.values(plan) }, model .. " " .. table.concat(names, " ")
end

--- Adds the estimate of a step, or the reason why it is refused.
function bench.answered(step)
  local ok, e, model = pcall(bench.estimate, step)
  if not ok then
    step.refused = tostring(e):match "^[^\n]*"
    return step
  end
  local figure, unit = step.figure:match "^(%S+) (%a+)$"
  local measured = seconds_of[unit](tonumber(figure), e)
  step.measured_seconds, step.step_seconds, step.fits = measured, e.step_seconds, e.fits
  step.error = e.step_seconds / measured - 1
  step.inside = e.low_seconds <= measured and measured <= e.high_seconds
  step.half_width = (e.high_seconds - e.low_seconds) / 2 / e.step_seconds
  step.low_seconds, step.high_seconds, step.own_run_seconds = e.low_seconds, e.high_seconds, e.own_run_seconds
  step.decision = decisions.step(e, measured, model)
  if step.memory then
    local bytes, kind = step.memory:match "^(%S+) (%a+)$"
    step.memory_kind, step.memory_error = kind, e[bench.memory_fields[kind]] / tonumber(bytes) - 1
  end
  return step
end

-- Clusters of devices other than NVIDIA GPUs since A100 with NVLink.
local other_devices = { dgx2 = true, ["dgx1.lua"] = true, l40s_node = true, frontier = true, gaudi2_node = true,
  mi300x_node = true, mi355x_node = true, ["mi325x_node.lua"] = true, ["mi350x_node.lua"] = true,
  ["l40s_4.lua"] = true, ["rtx_3090.lua"] = true, ["rtx_3090_2.lua"] = true, ["rtx_4090_2.lua"] = true,
  tpu_v4 = true, tpu_v5e = true, tpu_v5p = true, tpu_v6e = true, tpu_v7x = true }

-- Software written for training at scale, and FlashAttention's own training.
local tuned = { ["Megatron-LM"] = true, ["Megatron-LM fork"] = true, ["Megatron-Bridge"] = true, FlagScale = true,
  ["Pai-Megatron-Patch"] = true, ["Megatron-SWIFT"] = true, NeMo = true, ["NeMo Automodel"] = true,
  torchtitan = true, ["FlashAttention training"] = true, Meta = true, ["HAI-LLM"] = true }

local function kind_of(step)
  if other_devices[step.cluster] then return "kind: V100, L40S, GeForce, MI250X to MI355X, Gaudi 2, TPU" end
  return tuned[step.software] and "kind: NVIDIA since A100; Megatron, torchtitan and the like"
    or "kind: NVIDIA since A100; other software"
end

--- The figures of a group in percent, as ett bench published has them.
local function figures(name, group)
  local sum, signed, inside, sizes, halves = 0.0, 0.0, 0, {}, {}
  for i, step in ipairs(group) do
    sum, signed = sum + math.abs(step.error), signed + step.error
    sizes[i], halves[i] = math.abs(step.error), step.half_width
    if step.inside then inside = inside + 1 end
  end
  local n = #group
  return { name = name, answered = n, rows = n + (group.refused or 0), inside = inside, mape_percent = 100 * sum / n,
    median_percent = 100 * median(sizes), bias_percent = 100 * signed / n, coverage_percent = 100 * inside / n,
    half_width_percent = 100 * median(halves) }
end

--- One line of a group's errors.
local function line(f)
  return { measure = ("%s, %d"):format(f.name, f.answered), mape_percent = f.mape_percent,
    bias_percent = f.bias_percent, coverage_percent = f.coverage_percent,
    value = ("%.1f %%, median %.1f, bias %+.1f, inside %d, half-width %.0f"):format(f.mape_percent, f.median_percent,
      f.bias_percent, f.inside, f.half_width_percent) }
end

--- All estimated steps and their groups: name -> list, and the list "all". `refused` of "all" counts the others.
local function groups_of(list)
  local groups = { all = { refused = 0 } }
  local function add(name, step)
    groups[name] = groups[name] or {}
    table.insert(groups[name], step)
  end
  for _, step in ipairs(list) do
    if bench.answered(step).refused then
      groups.all.refused = groups.all.refused + 1
    else
      local run = step.own_run_seconds > 0 and "own run, or software not compared" or "recipe of compared software"
      for _, name in ipairs { "all", kind_of(step), "set " .. step.set, run } do add(name, step) end
      if seeds[step.set] then
        add(("set %s, %s"):format(step.set, step.held_out and "held out" or "read"), step)
      end
      -- A group of few steps would show the errors of single ones.
      if not step.held_out then
        for _, name in ipairs { "on " .. step.cluster, "software " .. step.software } do add(name, step) end
      end
    end
  end
  return groups
end

--- For ACCURACY.md: the figures of all steps and of each kind.
function bench.figures()
  local groups, out = groups_of(bench.steps()), {}
  for _, name in ipairs(schema.keys(groups)) do
    local kind = name == "all" and name or name:match "^kind: (.*)$"
    if kind then out[#out + 1] = figures(kind, groups[name]) end
  end
  return out
end

--- One line of the errors of stated memory for each kind and software.
local function memory_lines(list)
  local groups, out = {}, {}
  for _, step in ipairs(list) do
    if step.memory_error then
      local name = ("memory %s, %s"):format(step.memory_kind, step.software)
      groups[name] = groups[name] or { sum = 0.0, signed = 0.0, worst = 0.0, n = 0 }
      local g, off = groups[name], step.memory_error
      g.sum, g.signed, g.n = g.sum + math.abs(off), g.signed + off, g.n + 1
      if math.abs(off) > math.abs(g.worst) then g.worst = off end
    end
  end
  for _, name in ipairs(schema.keys(groups)) do
    local g = groups[name]
    out[#out + 1] = { measure = ("%s, %d"):format(name, g.n), value = ("%.1f %%, bias %+.1f, worst %+.1f"):format(
      100 * g.sum / g.n, 100 * g.signed / g.n, 100 * g.worst) }
  end
  return out
end

local function row_of(step)
  return step.refused and ("%-40s refused: %s"):format(step.name, step.refused)
    or ("%-40s %9.4g s %9.4g s %+6.1f %% %s +-%2.0f %%%s%s"):format(step.name, step.measured_seconds,
      step.step_seconds, 100 * step.error, step.inside and "in " or "out", 100 * step.half_width,
      step.memory_error and (", memory %+.1f %%"):format(100 * step.memory_error) or "",
      step.fits and "" or ", does not fit")
end

--- One line a step, without the held-out ones.
local function print_rows(list)
  for _, step in ipairs(list) do
    if not step.held_out then print(row_of(step)) end
  end
end

--- One line of the pairs of the earlier sets, of the ninth, of its two halves, and of each kind of difference.
local function decision_lines(list)
  local parts, all, out = {}, {}, {}
  local function add(name, item)
    parts[name] = parts[name] or {}
    table.insert(parts[name], item)
  end
  for _, step in ipairs(list) do
    if not step.refused then
      all[#all + 1] = step
      add(step.set == "ninth" and "ninth set" or "earlier sets", step)
      if step.set == "ninth" then add(step.held_out and "ninth set, held out" or "ninth set, read", step) end
    end
  end
  for _, name in ipairs(schema.keys(parts)) do out[#out + 1] = decisions.line(name, decisions.pairs(parts[name])) end
  parts = {}
  for _, pair in ipairs(decisions.pairs(all)) do add(pair.kind, pair) end
  for _, name in ipairs(schema.keys(parts)) do out[#out + 1] = decisions.line("all sets, " .. name, parts[name]) end
  return out
end

function bench.run(opts)
  local list, out = bench.steps(), {}
  local groups = groups_of(list)
  if opts.rows then
    print_rows(list)
    return {}
  end
  for _, name in ipairs(schema.keys(groups)) do out[#out + 1] = line(figures(name, groups[name])) end
  local first = groups_of(bench.steps(true))
  for _, name in ipairs(schema.keys(first)) do
    if not name:find "^software " and not name:find "^on " then
      out[#out + 1] = line(figures("plans as first written: " .. name, first[name]))
    end
  end
  for _, row in ipairs(memory_lines(list)) do out[#out + 1] = row end
  for _, row in ipairs(decision_lines(list)) do out[#out + 1] = row end
  for _, step in ipairs(list) do
    if step.refused then out[#out + 1] = { measure = "refused: " .. step.name, value = step.refused:sub(1, 60) } end
  end
  return out
end

return bench
