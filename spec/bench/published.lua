--- Published measured steps against ett's estimates of them: a scoreboard by source and hardware.
-- Rows of reliability A and A- on GPUs that the bundled clusters cover. Nothing is fitted on them.
package.path = package.path .. ";" .. require("ett.host").root .. "/spec/support/?.lua"
local published = require "published"

local bench = { summary = "published measured steps: scoreboard by source and hardware, nothing fitted on them" }

local function estimate(row, profiles)
  local cluster = published.cluster(row)
  local dtype = published.dtype(row)
  if not cluster then return nil, "no bundled cluster" end
  if not dtype then return nil, "precision " .. tostring(row.precision) .. " is not modelled" end
  local ok, answer = pcall(function()
    local name, hyper = published.model(row)
    local model = require("ett.model").new(name, hyper)
    local key = cluster.name .. cluster.device.name
    profiles[key] = profiles[key] or require("ett.profile.of_cluster").open(cluster)
    profiles[key].cluster = cluster -- same device, this row's network
    return require("ett.step.estimate").new { model = model, plan = published.plan(row, dtype), cluster = cluster,
      profile = profiles[key] }
  end)
  if not ok then return nil, tostring(answer):match("^[^\n]*") end
  return answer
end

local function summary(errors)
  if #errors == 0 then return nil end
  local sum, signed, sorted = 0, 0, {}
  for i, e in ipairs(errors) do
    sum, signed, sorted[i] = sum + math.abs(e), signed + e, math.abs(e)
  end
  table.sort(sorted)
  return 100 * sum / #errors, 100 * signed / #errors, 100 * sorted[(#sorted + 1) // 2]
end

local function group_row(name, errors, target)
  local mape, bias, median = summary(errors)
  if not mape then return { measure = name, value = "no rows", target = target and ("<= %g %%"):format(target) } end
  return { measure = name, value = ("%.2f %%"):format(mape), rows = #errors, mape_percent = mape,
    bias_percent = bias, median_percent = median, target = target and ("<= %g %%"):format(target) or
    ("n=%d %+.1f"):format(#errors, bias), pass = target and mape <= target or nil }
end

function bench.run(opts)
  local rows, why = published.rows()
  if not rows then return { { measure = "published steps", value = "skipped: " .. why } } end
  local profiles, groups, names, refused, details, inside = {}, {}, {}, {}, {}, 0
  local function add(name, e)
    if not groups[name] then
      groups[name] = {}
      names[#names + 1] = name
    end
    table.insert(groups[name], e)
  end
  local special = { vtrain = {}, calculon = {}, megatron = {}, neox_a100 = {}, neox_gh200 = {} }
  for _, row in ipairs(rows) do
    local covered = row.reliability ~= "B" and published.cluster(row) ~= nil and row.category ~= "lora"
    if covered then
      local answer, reason = estimate(row, profiles)
      if answer then
        local e = answer.step_seconds / row.step_time_s - 1
        if answer.low_seconds <= row.step_time_s and row.step_time_s <= answer.high_seconds then inside = inside + 1 end
        details[#details + 1] = { measure = row.id, value = ("%.4g s"):format(answer.step_seconds),
          target = ("%.4g s"):format(row.step_time_s), error_percent = 100 * e,
          step_seconds = answer.step_seconds, measured_seconds = row.step_time_s }
        add(("%s, %s"):format(published.source(row), published.hardware(row)), e)
        if row.id:match "^vtrain_multi" then table.insert(special.vtrain, e) end
        if row.id:match "^korth22" then table.insert(special.calculon, e) end
        if row.id:match "^korth22" or row.id:match "^sc21" then table.insert(special.megatron, e) end
        if row.id:match "^neox_A100" then table.insert(special.neox_a100, e) end
        if row.id:match "^neox_GH200" then table.insert(special.neox_gh200, e) end
      else
        refused[reason] = (refused[reason] or 0) + 1
      end
    end
  end
  local out = {
    group_row("vTrain, public multi-node rows, MAPE", special.vtrain, 12),
    group_row("Calculon's Megatron rows that are public (Korthikanti), MAPE", special.calculon, 6),
    group_row("the same and SC21 table 1 (Megatron-LM, multi-GPU), MAPE", special.megatron),
    group_row("Perlmutter A100: GPT-20B, Llemma-7B, MAPE", special.neox_a100, 4),
    group_row("Vista GH200: GPT-20B, Llemma-7B, MAPE", special.neox_gh200, 8),
  }
  if #details > 0 then
    out[#out + 1] = { measure = "inside the 90 % interval of their estimate, all rows",
      value = ("%.1f %%"):format(100 * inside / #details), target = ("n=%d of %d"):format(inside, #details) }
  end
  table.sort(names)
  for _, name in ipairs(names) do out[#out + 1] = group_row(name, groups[name]) end
  local reasons = require("ett.base.schema").keys(refused)
  for _, reason in ipairs(reasons) do
    out[#out + 1] = { measure = "not estimated: " .. reason:sub(1, 90), value = refused[reason] }
  end
  if opts.json or os.getenv "ETT_BENCH_ROWS" then
    for _, d in ipairs(details) do out[#out + 1] = d end
  end
  return out
end

return bench
