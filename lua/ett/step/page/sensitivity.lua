--- The most effective changes of a step: each rate increased by 10 %, and each plan field changed.
local by = require "ett.base.by"
local fields = require "ett.plan.fields"
local memory = require "ett.step.memory"
local merged = require "ett.base.merged"
local schedules = require "ett.plan.schedules"
local times_module = require "ett.step.times"
local what_if = require "ett.step.what_if"

local sensitivity = {}

local part_names = { compute = "matrix products and attention", node = "links inside a node",
  memory = "other operators, which memory bandwidth bounds", network = "network between nodes",
  host = "the host, which launches kernels and holds offloaded bytes," }

--- The changes of a plan to evaluate: { { text, { field = value } } }.
local function changes(p)
  local list = {}
  local function try(text, change) list[#list + 1] = { text, change } end
  for _, name in ipairs { "tp", "pp", "cp", "ep", "micro_batch", "recompute_layers" } do
    for _, value in pairs(p[name] and what_if.powers(p[name]) or {}) do
      try(("%s %d → %d"):format(name, p[name], value), { [name] = value })
    end
  end
  if p.schedule == "1f1b" and p.pp > 1 then
    for _, vp in ipairs { 2, 4 } do
      try(("interleaved, vp %d"):format(vp), { schedule = "interleaved", vp = vp })
    end
  end
  local known = schedules.memo()
  for _, name in ipairs(schedules.names()) do
    if name ~= p.schedule and name ~= "interleaved" and p.pp > 1 then
      local properties = known:properties(name)
      try("schedule " .. name, { schedule = name, vp = properties.exact_chunks and properties.chunks or 1 })
    end
  end
  for _, field in ipairs(fields.list) do
    local name, kind = field[1], field[2]
    if kind == "boolean" then
      try(("%s %s → %s"):format(name, p[name], not p[name]), { [name] = not p[name] })
    elseif field.one_of then
      for _, value in ipairs(field.one_of) do
        if value ~= p[name] then try(("%s %s → %s"):format(name, p[name], value), { [name] = value }) end
      end
    end
  end
  return list
end

--- Rows sorted by their gain: { { kind = "rate" | "plan", text =, seconds =, saved = (share of the step), memory_bytes
--- =, fits = (yes, no, or the chance) } }.
---@param e table the estimate
---@param what table the argument of estimate.new
function sensitivity.of(e, what)
  local rows = {}
  local function add(kind, text, seconds, of)
    if math.abs(seconds / e.step_seconds - 1) > 1e-6 then
      rows[#rows + 1] = { kind = kind, text = text, seconds = seconds, saved = 1 - seconds / e.step_seconds,
        memory_bytes = of.memory_bytes, fits = memory.answer(of.fits, of.fit_percent / 100) }
    end
  end
  local cluster = what.cluster
  if not (type(cluster) == "table" and cluster.path) then cluster = require("ett.profile.cluster").get(cluster) end
  local own = { model = what.model, cluster = cluster, plan = e.plan,
    times = what.times or times_module.new(cluster, what.profile) }
  for _, gain in ipairs(what_if.gains(own, e.step_seconds)) do
    add("rate", part_names[gain.part] .. " 10 % faster", gain.step_seconds, e)
  end
  for _, change in ipairs(changes(e.plan)) do
    local plan = what_if.plan(e.plan, what.plan, change[2])
    local other = plan and not what_if.is_foreign(e.plan, plan) and what_if.estimate(merged(own, { plan = plan }))
    if other then add("plan", change[1], other.step_seconds, other) end
  end
  table.sort(rows, by("-saved", "text"))
  return rows
end

return sensitivity
