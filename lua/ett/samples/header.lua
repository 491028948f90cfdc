--- The header of a sample table: comments to every reader of the rows.
local campaign = require "ett.sampling.campaign"
local host = require "ett.host"
local one_line = require("ett.samples.marks").one_line

local sample_header = {}

local function least_unless(resolved)
  return resolved.most_budgets and (" unless they take %d budgets"):format(resolved.most_budgets) or ""
end

--- What the run was asked for, and what its back end made of what was left open.
local function options_text(session, run)
  local r = session.resolved or {}
  local words = { ("backend %s, parts %d, part %d"):format(session.backend.name, run.parts, run.part) }
  local function add(format, value) words[#words + 1] = value and format:format(value) or nil end
  add("budget %g s", r.budget_seconds)
  add("target %g %%", r.target and 100 * r.target)
  add("at least %d repeats" .. least_unless(r), r.min_repeats)
  add("at most %d repeats", r.max_repeats)
  add("%d visits", session.passes)
  add("in blocks of %d", session.passes and run.campaign.block)
  add("at most %d shapes", run.limit)
  add("operands up to %g bytes", run.limit_bytes)
  if run.interleave then add("%s", "tables take turns") end
  return table.concat(words, ", ")
end

--- What a table's rows were measured with and the next would not be. A back end's header entry is compared where it has
--- `decides`, a function that takes from its text what must not change.
---@param held table name -> text of the header lines of a table
---@return table[] { name =, was =, is =, line = of a header } each
function sample_header.changed(session, held)
  local list = {}
  for _, entry in ipairs(session.header) do
    local name, text = entry[1], one_line(entry[2])
    if entry.decides and held[name] then
      local was, is = entry.decides(held[name]), entry.decides(text)
      if was ~= is then
        list[#list + 1] = { name = name, was = was or held[name], is = is, line = ("# %s: %s"):format(name, text) }
      end
    end
  end
  return list
end

--- The header of a new table: where, with what and how its rows were measured, then the names of its columns.
---@param session table of the back end: its own header, resolved (what it took where the campaign says nothing)
---@param target table of the campaign
---@param run table of ett.sampler
---@param columns string[]
function sample_header.text(session, target, run, columns)
  local lines = {}
  local function add(name, value)
    if value then lines[#lines + 1] = ("# %s: %s"):format(name, one_line(value)) end
  end
  add("ett", host.version)
  add("campaign", ("%s %s"):format(run.campaign.name, run.campaign.fingerprint))
  add("backend", session.backend.name)
  for _, entry in ipairs(session.header) do add(entry[1], entry[2]) end
  if target.kind == "operator" then
    add("operator", target.operator.name)
    add("operator file", campaign.operator_fingerprint(target.operator))
    add("passes", table.concat(target.operator.passes, " "))
  else
    add("collective", ("%s, %s"):format(target.collective, target.in_place and "in place" or "out of place"))
  end
  if run.verdict then add("checked", run.verdict.text) end
  add("precision", run.precision)
  add("seed", run.campaign.seed)
  local schedule = run.campaign.schedule
  if schedule and not session.keeps_schedule then
    add("schedule", ("warmed until stable in place of wait %d, warmup %d%s; active %d: at least so many repeats%s")
      :format(schedule.wait, schedule.warmup, schedule.warmup_shapes and " and warmup_shapes" or "", schedule.active,
      least_unless(session.resolved or {})))
  end
  add("options", options_text(session, run))
  lines[#lines + 1] = table.concat(columns, ",")
  return table.concat(lines, "\n") .. "\n"
end

return sample_header
