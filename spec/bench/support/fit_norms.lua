--- Fits in_step.norm to tables of norms in training: to all rows, and without one shape or device.
--
--   ett run spec/bench/support/fit_norms.lua     -- prints the constants
--
-- `ett bench kernels` prints the errors of held-out rows. Least absolute errors of log(estimated / measured), by the
-- method of Nelder and Mead on logarithms.
package.path = package.path .. ";" .. require("ett.host").root .. "/spec/support/?.lua"
local csv, devices = require "ett.csv", require "ett.profile.device"
local kernel_tables = require "kernel_tables"
local norm, operator = require "ett.profile.kernels.norm", require "ett.operator"

local fit_norms = { kernels = { cudnn = "cudnn", pytorch = "torch", torch_compile = "compiled" } }

-- Names of the constants in in_step.norm, and textbook values as initial values of the fit. A norm that subtracts the
-- mean computes two sums of each row instead of one, so the initial values of its factors are 2.
local places = { { "start", 2e-6 }, { "second", 4e-6 }, { "share.fused", 0.8 }, { "share.torch", 0.8 },
  { "share.compiled", 0.8 }, { "row.fused", 20e-9 }, { "row.torch", 1e-6 }, { "row.compiled", 0.2e-6 },
  { "rate", 75e9 }, { "overlap", 4 }, { "centred", 2 }, { "sum_row", 2e-9 }, { "sum_rate", 20e9 },
  { "centred_backward", 2 }, { "reread.from", 0.5 }, { "reread.slope", 4 } }

--- Rows of both devices: { device, kernel, name, pass, shape, x, seconds }.
function fit_norms.rows(folder)
  local rows = {}
  for _, key in ipairs { "h200_sxm", "gb300" } do
    local file, columns = csv.read(("%s/%s/norm_training.csv"):format(folder, key)), {}
    for _, name in ipairs { "framework", "operation", "pass", "dtype" } do columns[name] = file:strings(name) end
    for _, name in ipairs { "tokens", "hidden", "time_us" } do columns[name] = file:numbers(name) end
    for i = 1, #columns.time_us do
      local op = operator.get(columns.operation[i])
      local shape = { tokens = columns.tokens[i], hidden = columns.hidden[i] }
      rows[#rows + 1] = { device = devices.get(key), kernel = fit_norms.kernels[columns.framework[i]],
        pass = columns.pass[i], seconds = columns.time_us[i] * 1e-6,
        shape = ("%s %d %d"):format(op.name, shape.tokens, shape.hidden),
        x = { rows = shape.tokens, width = shape.hidden, centred = op.centred,
          bytes = op.bytes(shape, columns.dtype[i], columns.pass[i]) } }
    end
  end
  return rows
end

local function inside(k, name)
  local group, field = name:match "^(%w+)%.(%w+)$"
  return group and k[group] or k, field or name
end

local function constants_of(logs)
  local k = { share = {}, row = {}, reread = {} }
  for i, place in ipairs(places) do
    local into, field = inside(k, place[1])
    into[field] = math.exp(logs[i])
  end
  return k
end

local function estimated(row, k) return norm.seconds(row.device, row.kernel, row.pass, row.x, k) end

-- Huber's loss: squares below 2 %. A small penalty keeps constants that no row determines at their initial values.
local function loss(rows, logs)
  local k, sum = constants_of(logs), 0.0
  for i, place in ipairs(places) do sum = sum + 0.01 * math.abs(logs[i] - math.log(place[2])) end
  for _, row in ipairs(rows) do
    local e = math.abs(math.log(estimated(row, k) / row.seconds))
    sum = sum + (e > 0.02 and e or e * e / 0.04 + 0.01)
  end
  return sum / #rows
end

-- The best corner of a simplex that starts around `from`.
local function descend(f, from, steps)
  local n, corners = #from, {}
  for i = 0, n do
    local x = table.move(from, 1, n, 1, {})
    if i > 0 then x[i] = x[i] + 0.3 end
    corners[i + 1] = { x = x, value = f(x) }
  end
  local function along(centre, worst, t)
    local x = {}
    for j = 1, n do x[j] = centre[j] + t * (centre[j] - worst.x[j]) end
    return { x = x, value = f(x) }
  end
  for _ = 1, steps do
    table.sort(corners, function(a, b) return a.value < b.value end)
    local best, worst, centre = corners[1], corners[n + 1], {}
    if worst.value - best.value < 1e-7 then break end
    for j = 1, n do
      centre[j] = 0.0
      for i = 1, n do centre[j] = centre[j] + corners[i].x[j] / n end
    end
    local made = along(centre, worst, 1)
    if made.value < best.value then
      local further = along(centre, worst, 2)
      made = further.value < made.value and further or made
    elseif made.value >= corners[n].value then
      made = along(centre, worst, -0.5)
    end
    if made.value < worst.value then
      corners[n + 1] = made
    else
      for i = 2, n + 1 do
        for j = 1, n do corners[i].x[j] = (corners[i].x[j] + best.x[j]) / 2 end
        corners[i].value = f(corners[i].x)
      end
    end
  end
  table.sort(corners, function(a, b) return a.value < b.value end)
  return corners[1].x
end

--- Constants fitted to rows. The loss has several minima, so the search also starts from a late and a soft limit of the
--- last-level cache.
function fit_norms.fit(rows)
  local best, least
  for _, reread in ipairs { { 0.5, 4 }, { 0.2, 2 }, { 0.3, 1 } } do
    local logs = {}
    for i, place in ipairs(places) do logs[i] = math.log(place[2]) end
    logs[#places - 1], logs[#places] = math.log(reread[1]), math.log(reread[2])
    for _ = 1, 6 do
      logs = descend(function(x) return loss(rows, x) end, logs, 1500)
    end
    local value = loss(rows, logs)
    if not least or value < least then best, least = logs, value end
  end
  return constants_of(best)
end

--- Mean held-out errors of each pass: all rows of one group are held out in turn.
---@param group function(row) -> name
function fit_norms.left_out(rows, group)
  local groups, sums = {}, { forward = { 0.0, 0 }, backward = { 0.0, 0 } }
  for _, row in ipairs(rows) do groups[group(row)] = true end
  for _, name in ipairs(require("ett.base.schema").keys(groups)) do
    local others = {}
    for _, row in ipairs(rows) do others[#others + 1] = group(row) ~= name and row or nil end
    local k = fit_norms.fit(others)
    for _, row in ipairs(rows) do
      local sum = sums[row.pass]
      if group(row) == name then
        sum[1], sum[2] = sum[1] + math.abs(estimated(row, k) / row.seconds - 1), sum[2] + 1
      end
    end
  end
  return sums.forward[1] / sums.forward[2], sums.backward[1] / sums.backward[2]
end

if ... == "fit_norms" then return fit_norms end

local k = fit_norms.fit(fit_norms.rows(assert(kernel_tables.folder())))
for _, place in ipairs(places) do
  local into, field = inside(k, place[1])
  print(("%-18s %.3g"):format(place[1], into[field]))
end
