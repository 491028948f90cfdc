--- A recorded run beside the estimate of a plan: every operator and collective measured and predicted, and what the
--- difference of the step is made of.
local collective = require "ett.trace.collective"
local expected = require "ett.loop.expected"
local match = require "ett.loop.match"
local operators = require "ett.trace.operators"
local sources = require "ett.loop.sources"
local stacks = require "ett.operator.stack"
local stats = require "ett.trace.stats"
local times_module = require "ett.step.times"
local wires = require "ett.loop.wires"

local against = {}

--- A line whose time is at most this share of all operators' is listed, but does not decide which stack fits.
local least_share = 0.005

--- Whether a compiler (Triton, as torch.compile calls it) wrote most of a line's elementwise kernels.
local function is_generated(line)
  local generated = 0
  for _, entry in ipairs(line.entries) do if entry.operator.family ~= "elementwise" then return false end end
  for name, ticks in pairs(line.kernels) do
    if name:find "^triton_" then generated = generated + ticks end
  end
  return 2 * generated > line.ticks
end

--- Seconds that the model's operators of a line take in its pass; nil where they have none there.
---@param times table of ett.step.times
---@param generated table? the same for kernels that a compiler wrote
local function seconds_of(line, times, generated, dtype)
  if not line.entries then return nil end
  local sum, provenance = 0.0, nil
  if generated and is_generated(line) then times = generated end
  local pass = line.pass == "backward" and "backward" or "forward"
  for _, entry in ipairs(line.entries) do
    local answer = times:operator(entry.operator, entry.shape, dtype, pass)
    sum = sum + entry.times * answer.seconds
    provenance = times_module.worse(provenance, answer.provenance)
  end
  return sum, provenance
end

--- Lines as { name, pass, count, measured_seconds (mean of a run), predicted_seconds, ratio, … }.
local function compare(lines, view, times, generated, dtype)
  local list, total = {}, 0.0
  for _, line in ipairs(lines) do total = total + line.ticks end
  for _, line in ipairs(lines) do
    local predicted, provenance = seconds_of(line, times, generated, dtype)
    local measured = view:s(line.ticks) / math.max(1, line.count)
    list[#list + 1] = { name = line.name, pass = line.pass, count = line.count, measured_seconds = measured,
      median_seconds = view:s(stats.median(line.list)), predicted_seconds = predicted, provenance = provenance,
      ratio = predicted and measured > 0 and predicted / measured or nil, share = stats.ratio(line.ticks, total),
      total_seconds = view:s(line.ticks), between = line.gap or nil, hosts = line.hosts }
  end
  return list
end

--- How far a comparison is off: the time-weighted mean of |ln(predicted / measured)|, and its lines within 10 %.
local function score(list)
  local sum, weight, near, count = 0.0, 0.0, 0, 0
  for _, row in ipairs(list) do
    if row.ratio and row.share >= least_share then
      local w = row.total_seconds
      sum, weight, count = sum + w * math.abs(math.log(row.ratio)), weight + w, count + 1
      if math.abs(row.ratio - 1) <= 0.1 then near = near + 1 end
    end
  end
  return weight > 0 and sum / weight or math.huge, near, count
end

--- Every stack with every source of times (ett.loop.sources), those that predict the recorded operators best first:
--- { stack, rate, times, generated, error, within, lines }. `only`: the given stack, or nil.
local function rank_stacks(lines, view, subject, only)
  local list, gathers, from = {}, subject.plan.zero == 3, sources.of(subject)
  for _, name in ipairs(stacks.names()) do
    -- Stacks that gather weights beside computing are of plans that do.
    local possible = name == only or gathers or not stacks.get(name).sharded
    for _, rate in ipairs(possible and from or {}) do
      local times, generated = rate[2]:for_stack(name), rate[3] and rate[3]:for_stack(name)
      local off, near, count = score(compare(lines, view, times, generated, subject.plan.dtype))
      list[#list + 1] = { stack = name, rate = rate[1], times = times, generated = generated, error = off,
        within = near, lines = count }
    end
  end
  table.sort(list, function(a, b)
    if only and a.stack ~= b.stack and (a.stack == only or b.stack == only) then return a.stack == only end
    if a.error ~= b.error then return a.error < b.error end
    if a.rate ~= b.rate then return a.rate > b.rate end
    return a.stack < b.stack
  end)
  return list
end

--- Attention that the trace ran: "flash", "fused_softmax", "unfused"; nil where it shows none.
function against.attention_of(devices)
  local seen = {}
  for _, device in ipairs(devices) do
    for _, run in ipairs(device.runs) do
      local o = run.operation
      if o and o.family == "attention" then seen.flash = true end
      if o and o.family == "bmm" then seen.products = true end
      if o and o.family == "softmax" then seen[o.what] = true end
    end
  end
  if seen.flash then return "flash" end
  if not seen.products then return nil end
  return seen.masked_softmax and "fused_softmax" or seen.softmax and "unfused" or nil
end

--- Where the time of the recorded span went, mean over devices, beside the prediction of the same runs, in seconds:
--- the difference is the sum of `residual`.
local function split(view, rows, collectives)
  local lanes = view:lane_list()
  if #lanes == 0 then return nil end
  local span, idle_host, idle, kernels, other = 0.0, 0.0, 0.0, 0.0, 0.0
  for _, lane in ipairs(lanes) do
    span = span + view:s(lane:span_ticks()) / #lanes
    local gaps = lane:gaps()
    local host = require("ett.bulk").idle(lane:launches(), (select(2, lane:launches())), gaps)
    idle, idle_host = idle + view:s(gaps:measure()) / #lanes, idle_host + view:s(host) / #lanes
  end
  local predicted = 0.0
  for _, row in ipairs(rows) do
    local mine = row.total_seconds / #lanes
    if row.predicted_seconds then
      kernels = kernels + mine
      predicted = predicted + row.predicted_seconds * row.count / #lanes
    else
      other = other + mine
    end
  end
  local transfer, waiting, wire = 0.0, 0.0, 0.0
  for _, row in ipairs(collectives) do
    transfer = transfer + (row.transfer_seconds or row.measured_seconds) * row.count
    waiting = waiting + (row.waiting_seconds or 0.0) * row.count
    wire = wire + (row.predicted_seconds or row.transfer_seconds or row.measured_seconds) * row.count
  end
  local explained = kernels + other + transfer + waiting + idle
  return { measured_seconds = span, predicted_seconds = predicted + wire,
    residual = { kernel_seconds = kernels - predicted, bandwidth_seconds = transfer - wire,
      late_ranks_seconds = waiting, host_seconds = idle_host, other_idle_seconds = idle - idle_host,
      not_in_model_seconds = other, overlap_seconds = span - explained } }
end

--- Compares a trace with a plan.
---@param view table of ett.trace.view, opened with against.args
---@param subject table { model, plan (clean), cluster, profile? }
---@return table { operators, collectives, split, stacks, stack, attention, notes }
function against.compare(view, subject)
  local devices = operators.of_view(view)
  local plan, notes = subject.plan, { table.unpack(subject.notes or {}) }
  local present = match.present(devices)
  local lines, absent = match.lines(devices, expected.sequence(subject.model, plan, present), present)
  local ranked = rank_stacks(lines, view, subject, plan.stack)
  local best = ranked[1]
  local times = best.times
  local rows = compare(lines, view, times, best.generated, plan.dtype)
  local off, near, count = score(rows)
  local ran = against.attention_of(devices)
  local assumed = subject.model.hyper.attention or "flash"
  if ran and ran ~= assumed then
    notes[#notes + 1] = ("the trace ran attention '%s', the model has '%s': give attention=%s"):format(ran, assumed,
      ran)
  end
  if #absent > 0 then
    notes[#notes + 1] = ("the trace has no run of the model's %s"):format(table.concat(absent, ", "))
  end
  if count == 0 then
    notes[#notes + 1] = "no operator of the model has the shape of a recorded one: the plan or the model is another"
  end
  local collectives = wires.compare(view, times, subject)
  for _, each in ipairs(ranked) do each.times, each.generated = nil, nil end
  return { operators = rows, collectives = collectives, split = split(view, rows, collectives), stacks = ranked,
    stack = best.stack, rate = best.rate, error = off, within_ten_percent = near, compared = count, attention = ran,
      notes = notes,
    devices = #devices }
end

--- Args of events that a comparison reads.
against.args = { table.unpack(operators.args) }
table.move(collective.args, 1, #collective.args, #against.args + 1, against.args)

return against
