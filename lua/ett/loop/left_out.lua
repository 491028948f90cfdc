--- Measures how much samples of other traces improve a prediction: every trace is left out once, and predicted without
--- samples and with the samples of the others.
--
-- The comparison covers the operators in both model and trace, and the transfers of collectives: the work of a step
-- without waiting and idle time. Both predictions use the stack that fits the trace best.
local against = require "ett.loop.against"
local error_module = require "ett.base.error"
local folders = require "ett.base.folder"
local stats = require "ett.trace.stats"
local subject = require "ett.loop.subject"
local tables = require "ett.loop.tables"
local trace_samples = require "ett.trace.samples"

local left_out = {}

--- Measured and predicted seconds of a device's work, and the median error of its operators.
local function work(result)
  local measured, predicted, errors = 0.0, 0.0, {}
  for _, row in ipairs(result.operators) do
    if row.predicted_seconds then
      measured = measured + row.total_seconds / result.devices
      predicted = predicted + row.predicted_seconds * row.count / result.devices
      errors[#errors + 1] = math.abs(row.ratio - 1)
    end
  end
  for _, row in ipairs(result.collectives) do
    if row.predicted_seconds and row.transfer_seconds then
      measured = measured + row.transfer_seconds * row.count
      predicted = predicted + row.predicted_seconds * row.count
    end
  end
  if #errors == 0 then
    error_module.raise("missing", "no operator of the trace matches the model that was inferred from it")
  end
  return { measured_seconds = measured, predicted_seconds = predicted, error = predicted / measured - 1,
    operator_error = stats.median(errors), operators = #errors }
end

local function predicted(path, given, options)
  local view <close> = assert(require("ett.trace.view").open(path, { args = against.args, align = options.align }))
  return work(against.compare(view, subject.of(view, given))), options.device or trace_samples.device_name(view.trace)
end

--- The result of fn; nil and the message if the trace lacks data that fn needs.
local function unless_missing(fn, ...)
  local answer = table.pack(pcall(fn, ...))
  if answer[1] then return table.unpack(answer, 2, answer.n) end
  local why = error_module.from(answer[2])
  if why.kind ~= "missing" then error(why, 0) end
  return nil, (why.message:gsub("; give %a+ as NAME=VALUE.*$", "")) -- which --left-out does not take
end

--- The trace predicted with the samples of all others.
local function with_others(paths, out, device, options)
  local result
  folders.within(function(folder)
    local into = tables.new()
    into.device = device
    for i, path in ipairs(paths) do
      if i ~= out then unless_missing(tables.gather, into, path, options) end
    end
    tables.write(into, folder)
    result = predicted(paths[out], { cluster = options.cluster, samples = folder }, options)
  end)
  return result
end

--- Leaves every trace out once.
---@param paths string[] two traces or more, of one device
---@param options table { cluster?, device?, align? } as of tables.gather
---@return table[] { trace, without, with = { measured_seconds, predicted_seconds, error, operator_error, operators } },
---  or { trace, reason } for a trace without a comparable model
function left_out.measure(paths, options)
  if #paths < 2 then error_module.raise("usage", "samples from-trace: --left-out needs two traces or more") end
  local list, first = {}, nil
  for i, path in ipairs(paths) do
    local row = { trace = path }
    local answer, device = unless_missing(predicted, path, { cluster = options.cluster }, options)
    row.without, row.reason = answer, not answer and device or nil
    if answer then
      first = first or { device = device, path = path }
      if device ~= first.device then
        error_module.raise("format", "%s: recorded on '%s', %s on '%s'; give traces of one device", path,
          device or "unknown", first.path, first.device or "unknown")
      end
    end
    list[i] = row
  end
  for i, row in ipairs(list) do
    if row.without then row.with, row.reason = unless_missing(with_others, paths, i, first.device, options) end
  end
  return list
end

--- Medians over the compared traces: { without, with }; nil if there are none.
function left_out.medians(list)
  local medians = {}
  for _, side in ipairs { "without", "with" } do
    local errors = {}
    for _, row in ipairs(list) do if row[side] then errors[#errors + 1] = math.abs(row[side].error) end end
    medians[side] = #errors > 0 and stats.median(errors) or nil
  end
  return medians
end

return left_out
