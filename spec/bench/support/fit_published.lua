--- Fits the factors of spec/support/published_factors.lua to published steps: to all sources, and without one source
-- each.
--
--   ett run spec/bench/support/fit_published.lua [only=hopper,apart] [rounds=3] [most=8] [out=FILE] [write=true]
--
-- only: patterns; factors whose names match none of them keep their values. write: the factors fitted on all sources
-- go into in_step.lua and the stacks.
-- Gauss-Newton on log(estimated / measured): Huber weights; each source and device has the weight of the square root
-- of its rows; each factor is pulled to its prior. Fits without a source use the derivatives of the last round.
package.path = package.path .. ";" .. require("ett.host").root .. "/spec/support/?.lua"
local factors = require "published_factors"
local published = require "published"

local options = require("ett").options { only = "string?", rounds = { "count", default = 3 },
  most = { "count", default = 8 },
  write = { "boolean", default = false },
  out = { "string", default = "spec/support/published_left_out.lua" } }

local huber, step = 0.12, 0.06
local count = #factors.list

local chosen, acting = {}, {}
for i, factor in ipairs(factors.list) do
  chosen[i] = not options.only
  for pattern in (options.only or ""):gmatch "[^,]+" do chosen[i] = chosen[i] or factor[1]:find(pattern) ~= nil end
  if chosen[i] then acting[#acting + 1] = factor end
end
assert(#acting > 0, "no factor matches " .. tostring(options.only))

-- Whether a factor of the fit acts on a row.
local function is_moved(row)
  for _, factor in ipairs(acting) do
    if not factor.on or factor.on(row) then return true end
  end
  return false
end

local function group_of(row) return published.source(row) .. row.device .. row.arch .. tostring(row.precision) end

-- The rows of the fit: about `options.most` of each group, evenly spaced.
local function fitted_rows()
  local rows, sizes, seen = {}, {}, {}
  for _, row in ipairs(assert(published.rows())) do
    if published.is_fitted(row) and is_moved(row) then sizes[group_of(row)] = (sizes[group_of(row)] or 0) + 1 end
  end
  for _, row in ipairs(assert(published.rows())) do
    if published.is_fitted(row) and is_moved(row) then
      local group = group_of(row)
      seen[group] = (seen[group] or 0) + 1
      if seen[group] % math.max(1, sizes[group] // options.most) == 0 then rows[#rows + 1] = row end
    end
  end
  return rows
end

-- log(estimated / measured) of each row; false if ett has no estimate, nil if `on` excludes the row.
local function errors(rows, theta, on)
  local values = {}
  for i = 1, count do values[i] = math.exp(theta[i]) end
  factors.apply(values)
  local out = {}
  for i, row in ipairs(rows) do
    local ok, e = not on or on(row), nil
    if ok then ok, e = pcall(published.estimate, row) end
    out[i] = ok and math.log(e.step_seconds / row.step_seconds) or false
  end
  return out
end

-- Solves a x = b in place; a is symmetric and positive.
local function solve(a, b)
  local n = #b
  for i = 1, n do
    for j = i + 1, n do
      local f = a[j][i] / a[i][i]
      for k = i, n do a[j][k] = a[j][k] - f * a[i][k] end
      b[j] = b[j] - f * b[i]
    end
  end
  for i = n, 1, -1 do
    for k = i + 1, n do b[i] = b[i] - a[i][k] * b[k] end
    b[i] = b[i] / a[i][i]
  end
  return b
end

--- The best step from theta for linear errors; rows of `left_out` are excluded.
local function linear_fit(rows, errors_at, slopes, theta, left_out)
  local sizes = {}
  for _, row in ipairs(rows) do sizes[group_of(row)] = (sizes[group_of(row)] or 0) + 1 end
  local moved = {}
  for i = 1, count do moved[i] = 0.0 end
  for _ = 1, 12 do
    local a, b = {}, {}
    for i, factor in ipairs(factors.list) do
      a[i] = {}
      for j = 1, count do a[i][j] = 0.0 end
      local pull = chosen[i] and 0.02 / factor.spread ^ 2 or 1
      a[i][i], b[i] = pull, chosen[i] and pull * (math.log(factor.prior) - theta[i]) or 0
    end
    for r, row in ipairs(rows) do
      local e = errors_at[r]
      if e and published.source(row) ~= left_out then
        local now = e
        for i = 1, count do now = now + slopes[i][r] * moved[i] end
        local weight = sizes[group_of(row)] ^ -0.5 * math.min(1, huber / math.max(1e-9, math.abs(now)))
        for i = 1, count do
          local s = slopes[i][r]
          if s ~= 0 then
            b[i] = b[i] - weight * s * e
            for j = 1, count do a[i][j] = a[i][j] + weight * s * slopes[j][r] end
          end
        end
      end
    end
    moved = solve(a, b)
  end
  local made = {}
  for i, factor in ipairs(factors.list) do
    local least = factor.least or -math.huge
    made[i] = math.max(least, theta[i] + math.max(-0.5, math.min(0.5, moved[i])))
  end
  return made
end

local function mean(rows, list)
  local sum, n = 0.0, 0
  for i in ipairs(rows) do
    if list[i] then sum, n = sum + math.abs(math.exp(list[i]) - 1), n + 1 end
  end
  return 100 * sum / n
end

local rows, theta = fitted_rows(), {}
for i, factor in ipairs(factors.list) do theta[i] = math.log(factor.shipped) end
local at, slopes
for round = 1, options.rounds do
  at, slopes = errors(rows, theta), {}
  io.stderr:write(("round %d: %.2f %%\n"):format(round, mean(rows, at)))
  for i = 1, count do
    local moved = table.move(theta, 1, count, 1, {})
    moved[i] = moved[i] + step
    local there = chosen[i] and errors(rows, moved, factors.list[i].on) or {}
    slopes[i] = {}
    for r = 1, #rows do slopes[i][r] = at[r] and there[r] and (there[r] - at[r]) / step or 0.0 end
  end
  theta = linear_fit(rows, at, slopes, theta)
end
local last = theta
local final = errors(rows, last)
io.stderr:write(("fitted on all: %.2f %%\n"):format(mean(rows, final)))
for i, factor in ipairs(factors.list) do print(("%-36s %.5g"):format(factor[1], math.exp(last[i]))) end
if options.write then factors.write() end

-- Factors that the fit leaves alone keep their values of an earlier fit without the source.
local earlier = require("published_left_out").factors
local sources = require("ett.base.schema").keys(earlier)
for _, row in ipairs(rows) do
  local name = published.source(row)
  if not earlier[name] then
    earlier[name] = {}
    sources[#sources + 1] = name
  end
end
table.sort(sources)

local function line(name)
  local theta_of, words, lines = linear_fit(rows, final, slopes, last, name), {}, {}
  for i = 1, count do
    words[i] = ("%.5g"):format(not chosen[i] and earlier[name][i] or math.exp(theta_of[i]))
  end
  for i = 1, count, 9 do lines[#lines + 1] = table.concat(words, ", ", i, math.min(i + 8, count)) end
  return "{\n      " .. table.concat(lines, ",\n      ") .. " }"
end

local file = assert(io.open(options.out, "w"))
file:write("--- Factors of published_factors.lua fitted without one source each, by ",
  "spec/bench/support/fit_published.lua.\nreturn {\n  factors = {\n")
for _, name in ipairs(sources) do file:write(("    [%q] = %s,\n"):format(name, line(name))) end
file:write("  },\n}\n")
file:close()
