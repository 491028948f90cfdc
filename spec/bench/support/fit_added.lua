--- Fits the last factor of spec/support/published_factors.lua alone, leaving out one source each, onto the values that
--- spec/support/published_left_out.lua has of the others, and adds it there. For a factor added after a fit of all.
--
--   ett run spec/bench/support/fit_added.lua
package.path = package.path .. ";" .. require("ett.host").root .. "/spec/support/?.lua"
local factors = require "published_factors"
local published = require "published"
local left = require "published_left_out"

local factor, shipped = factors.list[#factors.list], factors.shipped()
local step, huber = 0.06, 0.12

-- The rows that it moves, each with the size of its group in the fit of all.
local rows, sizes = {}, {}
local function group_of(row) return published.source(row) .. row.device .. row.arch .. tostring(row.precision) end
local function seconds(row) return published.estimate(row).step_seconds end
for _, row in ipairs(assert(published.rows())) do
  if published.is_fitted(row) then
    sizes[group_of(row)] = (sizes[group_of(row)] or 0) + 1
    if factor.on(row) then
      factor[2].set(factor.prior)
      local slow = seconds(row)
      factor[2].set(1)
      if slow ~= seconds(row) then rows[#rows + 1] = row end
    end
  end
end

-- Its value without a source, from Gauss-Newton steps as in fit_published.lua.
local function fit(others, left_out)
  local at = math.log(factor.shipped)
  for _ = 1, 6 do
    factors.apply(others)
    local pull = 0.02 / factor.spread ^ 2
    local a, b = pull, pull * (math.log(factor.prior) - at)
    for _, row in ipairs(rows) do
      if published.source(row) ~= left_out then
        factor[2].set(math.exp(at))
        local e = math.log(seconds(row) / row.step_seconds)
        factor[2].set(math.exp(at + step))
        local slope = (math.log(seconds(row) / row.step_seconds) - e) / step
        local weight = math.min(8, sizes[group_of(row)]) ^ -0.5 * math.min(1, huber / math.max(1e-9, math.abs(e)))
        a, b = a + weight * slope * slope, b - weight * slope * e
      end
    end
    at = at + math.max(-0.2, math.min(0.2, b / a))
  end
  return math.exp(at)
end

local moved = {}
for _, row in ipairs(rows) do moved[published.source(row)] = true end
local all = fit(shipped)
print(("%s: %d rows, %.4g"):format(factor[1], #rows, all))
local path = require("ett.host").root .. "/spec/support/published_left_out.lua"
local file = assert(io.open(path))
local text = file:read "a"
file:close()
for source, others in pairs(left.factors) do
  assert(#others < #factors.list, "the values are there")
  others[#others + 1] = factor.shipped
  local value = moved[source] and fit(others, source) or all
  if moved[source] then print(source, ("%.4g"):format(value)) end
  local from = assert(text:find(("[%q] = {"):format(source), 1, true))
  local to = assert(text:find(" },", from, true))
  text = text:sub(1, to - 1) .. (", %.5g"):format(value) .. text:sub(to)
end
local note = ".lua.\n-- The last, " .. factor[1] .. ", was fitted alone, by fit_added.lua.\n"
file = assert(io.open(path, "w"))
file:write((text:gsub("%.lua%.\n", note, 1)))
file:close()
