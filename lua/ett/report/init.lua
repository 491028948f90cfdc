--- Estimates as text for people and as data for programs.
local tables = require "ett.report.table"
local columns = tables.lines

local report = {}

local function time_text(seconds)
  if seconds >= 1 then return ("%.3f s"):format(seconds) end
  if seconds >= 1e-3 then return ("%.3f ms"):format(seconds * 1e3) end
  return ("%.1f us"):format(seconds * 1e6)
end

report.time = time_text

local function gigabytes(bytes) return ("%.2f"):format(bytes / 1e9) end

local function add_all(to, lines) table.move(lines, 1, #lines, #to + 1, to) end

local function milliseconds(seconds) return ("%.3f"):format(seconds * 1e3) end

local function breakdown(lines, title, list)
  if #list == 0 then return end
  local rows = { { title, "ms", "%", "from" } }
  for _, line in ipairs(list) do
    local name = line.name .. (line.group and (" (%s)"):format(line.group) or "")
    local from = line.provenance or "-"
    local how = { line.scaled_from and "scaled from " .. line.scaled_from }
    if from == "extrapolated" and line.times_outside then
      how[#how + 1] = ("%.2f times outside"):format(line.times_outside)
    end
    add_all(how, line.models or {})
    add_all(how, line.links or {})
    if #how > 0 then from = ("%s (%s)"):format(from, table.concat(how, ", ")) end
    if line.reduced_over_replicas then from = from .. ", with all_reduce over the replicas" end
    if (line.quantisation_seconds or 0) > 0 then
      from = ("%s, %s ms of it quantisation"):format(from, milliseconds(line.quantisation_seconds))
    end
    if (line.overlapped_seconds or 0) > 0 then
      from = ("%s, %s ms more overlapped"):format(from, milliseconds(line.overlapped_seconds))
    end
    rows[#rows + 1] = { "  " .. name, milliseconds(line.seconds), ("%.1f"):format(line.percent), from }
  end
  lines[#lines + 1] = ""
  add_all(lines, columns(rows, "lrrl"))
end

local repeated_layers = { block = " of at most %s in a slice", every = " of 1 in %s", uniform = " in groups of %s" }

local function layer_count(n) return ("%d layer%s"):format(n, n == 1 and "" or "s") end

--- "layer 3", or "layers 0, 1, 3".
local function layer_list(ids) return (#ids == 1 and "layer " or "layers ") .. table.concat(ids, ", ") end

local function plan_text(p, stack)
  local words = {}
  for _, name in ipairs { "pp", "tp", "dp" } do words[#words + 1] = ("%s %d"):format(name, p[name]) end
  for _, name in ipairs { "cp", "ep", "vp" } do
    if p[name] > 1 then words[#words + 1] = ("%s %d"):format(name, p[name]) end
  end
  words[#words + 1] = ("micro-batch %d x %d"):format(p.micro_batch, p.micro_batches)
  words[#words + 1] = ("sequence %d"):format(p.seq)
  words[#words + 1] = p.dtype
  words[#words + 1] = p.schedule
  if p.recompute ~= "none" then
    words[#words + 1] = p.recompute .. " recompute"
      .. (p.recompute_layers and repeated_layers[p.recompute_method]:format(layer_count(p.recompute_layers)) or "")
      .. (p.recompute_layer_ids and " of " .. layer_list(p.recompute_layer_ids) or "")
      .. (p.recompute_modules and " of " .. table.concat(p.recompute_modules, " and ") or "")
      .. (p.recompute_keeps and " keeping " .. table.concat(p.recompute_keeps, " and ") or "")
  end
  if p.zero > 0 then words[#words + 1] = "ZeRO-" .. p.zero end
  if p.overlap_all_to_all == "shared_experts" then words[#words + 1] = "all-to-all beside shared experts" end
  if p.overlap_all_to_all == "batch" then words[#words + 1] = "all-to-all beside another micro-batch" end
  if p.deduplicate_tokens then words[#words + 1] = "deduplicated tokens" end
  if p.sequence_parallel then words[#words + 1] = "sequence parallel" end
  if p.lora_rank then
    words[#words + 1] = ("LoRA rank %d"):format(p.lora_rank)
      .. (p.lora_targets and " on " .. table.concat(p.lora_targets, " and ") or "")
    if (p.frozen_weights or "none") ~= "none" then words[#words + 1] = "frozen weights in " .. p.frozen_weights end
  end
  if p.frozen_layers > 0 then words[#words + 1] = layer_count(p.frozen_layers) .. " frozen" end
  words[#words + 1] = "stack " .. stack
  return table.concat(words, ", ")
end

--- Lists words after a title, as many as fit the terminal behind the titles; without one, 100 columns of them a row.
---@param between string? default ", "
local function add_words(rows, title, words, between)
  local text, terminal = "", require("ett.host").columns
  local most = terminal and math.max(terminal - #"throughput  " + 1, 20) or 100 -- a space ends each word
  for i, word in ipairs(words) do
    local more = word .. (i < #words and (between or ", ") or "")
    if #text + #more > most then rows[#rows + 1], title, text = { title, text }, "", "" end
    text = text .. more
  end
  if text ~= "" then rows[#rows + 1] = { title, text } end
end

--- A table of the stages: equal neighbours share a row, columns of zeros are left out.
---@param shown { [1]: string, [2]: fun(stage: table): number }[] column, its value
---@param text fun(value: number): string
local function stage_rows(e, heading, shown, text)
  local used = {}
  for _, column in ipairs(shown) do
    local zero = true
    for _, s in ipairs(e.stages) do zero = zero and column[2](s) == 0 end
    if not zero then used[#used + 1] = column end
  end
  local head = { heading, "layers" }
  for i, column in ipairs(used) do head[i + 2] = column[1] end
  if e.parts then head[#head + 1] = "devices" end
  local rows, first, last = { head }, 1, nil
  for i, s in ipairs(e.stages) do
    local row = { "", ("%d"):format(s.layers) }
    for k, column in ipairs(used) do row[k + 2] = text(column[2](s)) end
    if e.parts then row[#row + 1] = table.concat(s.devices, ", ") end
    local cells = table.concat(row, " ")
    if cells ~= last then rows[#rows + 1], first, last = row, i, cells end
    rows[#rows][1] = i > first and ("  %d-%d"):format(first, i) or "  " .. i
  end
  return columns(rows, "l" .. ("r"):rep(#used + 1) .. "l")
end

local function field(name) return function(s) return s[name] end end

local function sum(...)
  local names = { ... }
  return function(s)
    local total = 0.0
    for _, name in ipairs(names) do total = total + s[name] end
    return total
  end
end

local stage_times = { { "forward", field "forward_seconds" }, { "backward", field "backward_seconds" },
  { "recompute", field "recompute_seconds" }, { "gradients", field "gradient_exposed_seconds" },
  { "update", sum("optimizer_seconds", "gather_exposed_seconds") } }

local stage_memory = { { "weights", field "weight_bytes" }, { "gradients", field "gradient_bytes" },
  { "optimizer", field "optimizer_bytes" }, { "activations", field "activation_bytes" },
  { "temporary", sum("temporary_bytes", "working_bytes", "update_bytes", "fragment_bytes") },
  { "software", sum("cached_bytes", "workspace_bytes", "communicator_bytes", "context_bytes") },
  { "total", field "memory_bytes" } }

-- A positive number with `count` digits (default 3), without an exponent and without zeros at its end.
local function digits(value, count)
  local decimals = value > 0 and (count or 3) - 1 - math.floor(math.log(value, 10)) or 0
  local text = ("%%.%df"):format(math.max(0, math.min(20, decimals))):format(value)
  return decimals > 0 and text:gsub("0+$", ""):gsub("%.$", "") or text
end

-- Seconds or hours with three digits.
local function about(seconds)
  if seconds >= 7200 then return digits(seconds / 3600) .. " h" end
  return digits(seconds) .. " s"
end

-- The unit of a large number and its suffix: 1e12 and " T".
local function in_unit(value)
  if value >= 1e12 then return 1e12, " T" end
  if value >= 1e9 then return 1e9, " B" end
  if value >= 1e6 then return 1e6, " M" end
  return 1, ""
end

-- A positive number with two decimals, or with three digits below 0.1.
local function figure(value) return value < 0.1 and digits(value) or ("%.2f"):format(value) end

-- The range of an energy as text; nothing for an estimate without its interval.
local function energy_range(e, value)
  local each = value / e.kwh_per_step
  return e.low_kwh_per_step and (" [%s, %s]"):format(digits(e.low_kwh_per_step * each),
    digits(e.high_kwh_per_step * each)) or ""
end

--- Time, cost and energy of a run over `tokens` as rows of { name, text }; none if the plan states no tokens.
function report.run(e)
  if not e.run_steps then return {} end
  local unknown = not e.goodput_percent and not e.plan.failures_per_device_day
  local function range(value, unit) -- nothing for an estimate without its interval
    local each = value / unit / e.step_seconds
    return e.low_seconds and (" [%s, %s]"):format(figure(e.low_seconds * each), figure(e.high_seconds * each)) or ""
  end
  local unit, suffix = in_unit(e.run_tokens)
  if not e.run_days then
    return { { "run", ("%s%s tokens never end: failures come before the next checkpoint"):format(
      digits(e.run_tokens / unit, 4), suffix) } }
  end
  local rows = { { "run", ("%s%s tokens in %s days%s%s (%d step%s)"):format(
    digits(e.run_tokens / unit, 4), suffix, figure(e.run_days), unknown and " without failures" or "",
    range(e.run_days, 1) .. (e.low_seconds and (" at %d %%"):format(e.interval_percent) or ""),
    e.run_steps, e.run_steps == 1 and "" or "s") } }
  local parts = { e.price_source and "price " .. e.price_source }
  if e.run_dollars then
    unit, suffix = in_unit(e.run_dollars)
    parts[1] = ("USD %s%s%s"):format(figure(e.run_dollars / unit), suffix, range(e.run_dollars, unit))
  end
  if e.run_kwh then
    parts[#parts + 1] = ("%s MWh%s, %s t CO2"):format(digits(e.run_kwh / 1e3, 4), energy_range(e, e.run_kwh / 1e3),
      digits(e.run_co2_kg / 1e3))
  end
  if #parts > 0 then rows[2] = { "", table.concat(parts, ", ") } end
  return rows
end

local function outlook_rows(rows, e)
  if e.data_wait_seconds > 0 or e.plan.stall_seconds > 0 then
    rows[#rows + 1] = { "waiting", ("the devices wait %s for data, %s for their hosts"):format(
      time_text(e.data_wait_seconds), time_text(e.plan.stall_seconds)) }
  end
  if e.varied_p50_seconds then
    rows[#rows + 1] = { "variation", ("p50 %s, p90 %s, p99 %s, mean %s"):format(time_text(e.varied_p50_seconds),
      time_text(e.varied_p90_seconds), time_text(e.varied_p99_seconds), time_text(e.varied_mean_seconds)) }
  end
  if e.kwh_per_step then
    rows[#rows + 1] = { "energy", ("%s kWh%s per step, %s kg CO2 (%.0f W per device, %.0f W for its share of the node, "
      .. "PUE %.2f)"):format(digits(e.kwh_per_step, 4), energy_range(e, e.kwh_per_step),
      digits(e.co2_kg_per_step), e.device_watts, e.overhead_watts, e.pue) }
  end
  if e.goodput_percent then
    rows[#rows + 1] = { "goodput", ("%.2f %% (a failure every %s; checkpoints of %s every %s)"):format(
      e.goodput_percent, about(e.failure_interval_seconds), about(e.checkpoint_write_seconds),
      about(e.checkpoint_interval_seconds)) }
  end
  for _, line in ipairs(report.run(e)) do rows[#rows + 1] = line end
end

local function memory_rows(e)
  local rows = { { ("memory of stage %d"):format(e.fullest_stage), "GB", "%", "from" } }
  for _, line in ipairs(e.memory) do
    rows[#rows + 1] = { "  " .. line.name, gigabytes(line.bytes), ("%.1f"):format(100 * line.bytes / e.memory_bytes),
      line.source }
  end
  return rows
end

--- A count of parameters: "6.74 B", "124.44 M", "980.00 K".
local function parameters_text(count)
  if count >= 1e9 then return ("%.2f B"):format(count / 1e9) end
  if count >= 1e6 then return ("%.2f M"):format(count / 1e6) end
  return ("%.2f K"):format(count / 1e3)
end

--- "256 x H100-SXM-80GB", or the devices of each part.
local function devices_text(e)
  local words = {}
  for _, part in ipairs(e.parts or { e }) do
    if part.devices > 0 then words[#words + 1] = ("%d x %s"):format(part.devices, part.device) end
  end
  return table.concat(words, " and ")
end

--- An estimate as a table for people. Times of operators and collectives are per device,
--- averaged over pipeline stages; with the idle time they add up to the step.
function report.estimate(e)
  local lines = {
    ("%s (%s parameters) on %s (%s)"):format(e.model.name, parameters_text(e.model.parameters), devices_text(e),
      e.cluster),
    plan_text(e.plan, e.stack), "",
  }
  local rows = {
    { "step time", time_text(e.step_seconds) .. (e.low_seconds and ("   [%s, %s] at %d %%"):format(
      time_text(e.low_seconds), time_text(e.high_seconds), e.interval_percent) or "") },
    { "throughput", ("%.0f tokens/s, %.1f per device"):format(e.tokens_per_second, e.tokens_per_second_per_device) },
  }
  if e.mfu_percent then rows[#rows + 1] = { "MFU", ("%.1f %%"):format(e.mfu_percent) } end
  rows[#rows + 1] = { "bubble", ("%.1f %% of the pipeline"):format(e.bubble_percent) }
  rows[#rows + 1] = { "memory", ("%s GB of %s GB on the fullest device%s"):format(gigabytes(e.memory_bytes),
    gigabytes(e.memory_limit_bytes), e.fits and "" or (": the estimate exceeds the memory by %s GB"):format(
      gigabytes(e.memory_bytes - e.memory_limit_bytes))) }
  if e.fit_advice then rows[#rows + 1] = { "", e.fit_advice } end
  if e.host_bytes > 0 then
    rows[#rows + 1] = { "host", ("%s GB of a device in its host's memory"):format(gigabytes(e.host_bytes)) }
  end
  if e.gradient_exposed_seconds + e.gradient_overlapped_seconds > 0 then
    rows[#rows + 1] = { "gradients", ("%s exposed, %s overlapped"):format(time_text(e.gradient_exposed_seconds),
      time_text(e.gradient_overlapped_seconds)) }
  end
  if e.all_to_all_exposed_seconds + e.all_to_all_overlapped_seconds > 0 then
    rows[#rows + 1] = { "all-to-all", ("%s exposed, %s overlapped"):format(time_text(e.all_to_all_exposed_seconds),
      time_text(e.all_to_all_overlapped_seconds)) }
  end
  if e.busiest_expert_rank_percent and (e.busiest_expert_rank_percent ~= 100 or e.dropped_tokens_percent > 0) then
    rows[#rows + 1] = { "experts", ("the busiest rank has %.1f %% of the mean load, %.2f %% of token copies are "
      .. "dropped"):format(e.busiest_expert_rank_percent, e.dropped_tokens_percent) }
  end
  if e.dollars_per_step then
    local dollars = e.dollars_per_step
    rows[#rows + 1] = { "cost", ("USD %s per step, %.2f per billion tokens (%.2f per device hour)"):format(
      dollars < 0.1 and digits(dollars, 4) or ("%.4f"):format(dollars), e.dollars_per_billion_tokens,
      e.price_per_device_hour) }
    if e.price_source and e.price_source ~= "given" then rows[#rows + 1] = { "", "price: " .. e.price_source } end
  end
  outlook_rows(rows, e)
  add_words(rows, "wide", e.wide_because or {}, "; ")
  add_words(rows, "left open", e.left_open)
  add_all(lines, columns(rows, "ll"))
  breakdown(lines, "operator", e.operators)
  breakdown(lines, "collective", e.collectives)
  lines[#lines + 1] = ""
  lines[#lines + 1] = ("idle %s ms, %.1f %%"):format(milliseconds(e.idle_seconds), e.idle_percent)
  lines[#lines + 1] = ""
  add_all(lines, stage_rows(e, "stage, ms", stage_times, milliseconds))
  lines[#lines + 1] = ""
  add_all(lines, stage_rows(e, "stage, GB", stage_memory, gigabytes))
  lines[#lines + 1] = ""
  add_all(lines, columns(memory_rows(e), "lrrl"))
  if #e.warnings > 0 then
    lines[#lines + 1] = ""
    for _, text in ipairs(e.warnings) do lines[#lines + 1] = "warning: " .. text end
  end
  if #e.notes > 0 then
    if #e.warnings == 0 then lines[#lines + 1] = "" end
    for _, text in ipairs(e.notes) do lines[#lines + 1] = "note: " .. text end
  end
  return tables.fit(table.concat(lines, "\n"))
end

-- Field of a sweep's row, title, format, factor.
local outlook_columns = { { "dollars_per_step", "USD per step", "%.4f", 1 }, { "run_days", "days", "%.2f", 1 },
  { "run_dollars", "USD", "%.0f", 1 }, { "run_kwh", "MWh", "%.4g", 1e-3 },
  { "goodput_percent", "goodput %", "%.2f", 1 }, { "varied_p50_seconds", "p50 ms", "%.3f", 1e3 },
  { "varied_p99_seconds", "p99 ms", "%.3f", 1e3 } }

--- The best rows of a sweep as a table for people.
function report.sweep(s, limit)
  local lines = { ("%s on %s: %d plans evaluated, %d refused, best by %s"):format(s.model, s.cluster, s.evaluated,
    s.refused, s.objective) }
  if s.refusal then lines[2] = "first refusal: " .. s.refusal end
  for _, note in ipairs(s.notes) do lines[#lines + 1] = "note: " .. note end
  for _, text in ipairs(s.warnings) do lines[#lines + 1] = "warning: " .. text end
  lines[#lines + 1] = ""
  if s.fit_advice then table.insert(lines, 1, s.fit_advice) end
  local header, counted = {}, true -- whether a column of its own has the micro-batches
  for i, name in ipairs(s.fields) do header[i], counted = name, counted and name ~= "micro_batches" end
  if counted then header[#header + 1] = "micro-batches" end
  for _, name in ipairs { "devices", "step ms", "tokens/s", "bubble %", "memory GB", "fits" } do
    header[#header + 1] = name
  end
  local more = {}
  local shown = table.move(s.rows, 1, math.min(limit or 20, #s.rows), 1, {})
  for _, column in ipairs(outlook_columns) do
    local stated = false
    for _, r in ipairs(shown) do stated = stated or r[column[1]] ~= nil end
    if stated then more[#more + 1], header[#header + 1] = column, column[2] end
  end
  local rows = { header }
  for _, r in ipairs(shown) do
    local cells = {}
    for k, name in ipairs(s.fields) do
      cells[k] = name == "parameters" and ("%.2f B"):format(r[name] / 1e9) or tables.value(r[name])
    end
    if counted then cells[#cells + 1] = ("%d"):format(r.micro_batches) end
    for _, cell in ipairs { ("%d"):format(r.devices), milliseconds(r.step_seconds),
      ("%.0f"):format(r.tokens_per_second), ("%.1f"):format(r.bubble_percent), gigabytes(r.memory_bytes),
      s:answer(r) } do
      cells[#cells + 1] = cell
    end
    for _, column in ipairs(more) do
      local value = r[column[1]]
      cells[#cells + 1] = value and column[3]:format(value * column[4]) or "-"
    end
    rows[#rows + 1] = cells
  end
  add_all(lines, columns(rows, ("r"):rep(#header)))
  local left = s.evaluated - (limit or 20)
  if left > 0 then lines[#lines + 1] = ("... and %d more (--json prints all)"):format(left) end
  return tables.fit(table.concat(lines, "\n"))
end

return report
