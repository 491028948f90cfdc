--- Comparisons and inferred plans as lines of text.
local by = require "ett.base.by"
local plan_module = require "ett.plan"
local schema = require "ett.base.schema"
local shell = require "ett.base.shell"
local text = require "ett.trace.text"

local report = {}

local function ms(seconds) return seconds and seconds * 1e3 or nil end

local function percent(ratio) return ratio and ("%+.1f %%"):format(100 * (ratio - 1)) or "" end

--- Lines of an inferred plan: most certain fields first.
function report.layout(found)
  local rows, order = {}, { certain = 1, likely = 2, guess = 3 }
  for _, name in ipairs(schema.keys(found)) do
    local each = found[name]
    rows[#rows + 1] = { field = name, value = tostring(each.value), sure = each.sure, why = each.why }
  end
  table.sort(rows, by(function(row) return order[row.sure] end, "field"))
  return text.table({ { key = "field", title = "field" }, { key = "value", title = "value" },
    { key = "sure", title = "how sure" }, { key = "why", title = "why" } }, rows)
end

local function append(lines, more) table.move(more, 1, #more, #lines + 1, lines) end

local function operator_rows(result)
  local rows = {}
  for _, row in ipairs(result.operators) do
    if row.share >= 0.001 or row.predicted_seconds then
      rows[#rows + 1] = { name = row.name, pass = row.pass, runs = row.count // result.devices,
        measured = row.measured_seconds * 1e6, predicted = row.predicted_seconds and row.predicted_seconds * 1e6 or nil,
        off = percent(row.ratio), share = ("%.1f %%"):format(100 * row.share), from = row.provenance or "" }
    end
  end
  return rows
end

local function collective_rows(result)
  local rows = {}
  for _, row in ipairs(result.collectives) do
    rows[#rows + 1] = { name = row.group and ("%s (%s)"):format(row.name, row.group) or row.name, runs = row.count,
      ranks = row.group_size, bytes = row.bytes, measured = row.measured_seconds * 1e6,
      waiting = row.waiting_seconds and row.waiting_seconds * 1e6, transfer = row.transfer_seconds
        and row.transfer_seconds * 1e6, predicted = row.predicted_seconds and row.predicted_seconds * 1e6,
      off = percent(row.ratio) }
  end
  return rows
end

local rates = { burst = "products at burst rates", sustained = "products at the rates of long steps" }

local function stage_lines(result)
  local rows = {}
  for i, row in ipairs(result.stages) do
    rows[i] = { stage = row.stage, unit = row.unit, count = row.count, measured = ms(row.measured_seconds),
      predicted = ms(row.predicted_seconds), off = percent(row.ratio) }
  end
  return text.table({ { key = "stage", title = "stage" }, { key = "unit", title = "" },
    { key = "count", title = "runs" }, { key = "measured", title = "measured ms" },
    { key = "predicted", title = "predicted ms" }, { key = "off", title = "error" } }, rows)
end

--- The stack of a comparison, and one that fits better.
local function stack_lines(result)
  local best = result.stacks[1]
  local at = rates[result.rate] or ("operators as measured on the cluster %s"):format(result.rate)
  for _, each in ipairs(result.stacks) do if each.error < best.error then best = each end end
  local lines = { ("stack %s, %s: %d of %d operators within 10 %%, mean error %.1f %%"):format(
    result.stack, at, result.within_ten_percent, result.compared, 100 * (math.exp(result.error) - 1)) }
  if best.stack ~= result.stack then
    lines[2] = ("note: the stack %s fits better: %.1f %%"):format(best.stack, 100 * (math.exp(best.error) - 1))
  end
  return lines
end

local parts = { { "kernel_seconds", "kernels slower (+) or faster (-) than predicted" },
  { "bandwidth_seconds", "transfers slower or faster than predicted" },
  { "late_ranks_seconds", "waiting for late ranks" }, { "host_seconds", "waiting for the host" },
  { "other_idle_seconds", "other idle time" }, { "not_in_model_seconds", "kernels without a match in the model" },
  { "overlap_seconds", "overlap of the above (-)" } }

local function split_lines(split)
  local lines = { ("recorded span of a device %.3f ms, predicted time of the same runs %.3f ms; the difference:")
    :format(ms(split.measured_seconds), ms(split.predicted_seconds)) }
  for _, part in ipairs(parts) do
    lines[#lines + 1] = ("  %10.3f ms  %s"):format(ms(split.residual[part[1]]), part[2])
  end
  return lines
end

local function fields_used(subject)
  local words = {}
  for _, name in ipairs(schema.keys(subject.used)) do
    local value = subject.plan[name]
    if value == nil then value = subject.model.hyper[name] end
    local how = subject.used[name]
    words[#words + 1] = ("%s=%s%s"):format(name, tostring(value), how == "given" and "" or how == "certain" and ""
      or "?")
  end
  return table.concat(words, " ")
end

--- The command that searches the layouts of the compared model on as many devices.
local function search_line(result, subject)
  local plan, hyper = subject.plan, subject.model.hyper
  local words = { "ett search --model " .. shell.quote(subject.model_name), "--cluster "
    .. shell.quote(subject.cluster.name), "--devices " .. plan_module.devices(plan), "--global-batch "
    .. plan.global_batch, "--seq " .. plan.seq, "dtype=" .. plan.dtype, result.stack and "stack=" .. result.stack }
  local own = { vocab_multiple = true }
  for name in pairs(subject.used) do own[name] = true end
  for _, name in ipairs(schema.keys(own)) do
    local value = hyper[name]
    if value ~= nil and plan[name] == nil and type(value) ~= "table" then
      words[#words + 1] = shell.quote(name .. "=" .. tostring(value))
    end
  end
  return "find a better layout of a training step: " .. table.concat(words, " ")
end

--- Lines of a comparison.
---@param result table of ett.loop.against
---@param subject table of ett.loop.subject
function report.against(result, subject)
  local lines = { ("against %s on %s: %s"):format(subject.model.name, subject.cluster.name, fields_used(subject)),
    "(a question mark: inferred from the trace, not certain)" }
  local function section(more)
    lines[#lines + 1] = ""
    append(lines, more)
  end
  if #result.operators > 0 then
    section(text.table({ { key = "name", title = "operator, mean per run" }, { key = "pass", title = "pass" },
      { key = "runs", title = "runs" }, { key = "measured", title = "measured us" },
      { key = "predicted", title = "predicted us" }, { key = "off", title = "error" },
      { key = "share", title = "share of kernels" }, { key = "from", title = "from" } }, operator_rows(result)))
  end
  if #result.collectives > 0 then
    section(text.table({ { key = "name", title = "collective" }, { key = "runs", title = "runs" },
      { key = "ranks", title = "ranks" }, { key = "bytes", title = "bytes" },
      { key = "measured", title = "measured us" }, { key = "waiting", title = "waiting us" },
      { key = "transfer", title = "transfer us" }, { key = "predicted", title = "predicted us" },
      { key = "off", title = "error" } }, collective_rows(result)))
  end
  if #result.stages > 0 then section(stage_lines(result)) end
  if result.split then section(split_lines(result.split)) end
  if result.stack then section(stack_lines(result)) end
  for _, note in ipairs(result.notes) do lines[#lines + 1] = "note: " .. note end
  section { search_line(result, subject) }
  return lines
end

function report.left_out(list, medians)
  local rows, lines = {}, {}
  for _, row in ipairs(list) do
    local with, without = row.with, row.without
    rows[#rows + 1] = with and { trace = row.trace, operators = with.operators, measured = ms(with.measured_seconds),
      without = percent(1 + without.error), with = percent(1 + with.error),
      operator_without = ("%.1f %%"):format(100 * without.operator_error),
      operator_with = ("%.1f %%"):format(100 * with.operator_error) } or nil
  end
  if #rows > 0 then
    append(lines, text.table({ { key = "trace", title = "trace left out" }, { key = "operators", title = "operators" },
      { key = "measured", title = "measured ms" }, { key = "without", title = "error, no samples" },
      { key = "with", title = "error, others' samples" },
      { key = "operator_without", title = "median of operators, no samples" },
      { key = "operator_with", title = "others' samples" } }, rows))
    lines[#lines + 1] = ""
    lines[#lines + 1] = ("median over the traces: %.1f %% without samples, %.1f %% with those of the other traces")
      :format(100 * medians.without, 100 * medians.with)
  end
  for _, row in ipairs(list) do
    if row.reason then lines[#lines + 1] = ("not compared: %s: %s"):format(row.trace, row.reason) end
  end
  return lines
end

return report
