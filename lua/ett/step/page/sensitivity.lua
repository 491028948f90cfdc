--- The most effective changes of a step: each rate increased by 10 %, and each plan field changed.
local by = require "ett.base.by"
local estimate = require "ett.step.estimate"
local faster = require "ett.step.faster"
local fields = require "ett.plan.fields"
local merged = require "ett.base.merged"
local plan_module = require "ett.plan"
local schedules = require "ett.plan.schedules"
local times_module = require "ett.step.times"

local sensitivity = {}

local part_names = { compute = "matrix products and attention", node = "links inside a node",
  memory = "other operators, which memory bandwidth bounds", network = "network between nodes" }

--- A plan with some fields changed, on the same number of devices and with the same batch: dp compensates.
local function changed(p, given, change)
  local plan = merged(plan_module.reopened(p, given), change)
  local devices, model_ranks = p.pp * p.tp * p.cp * p.dp, plan.pp * plan.tp * plan.cp
  if devices % model_ranks ~= 0 then return nil end
  plan.dp, plan.micro_batches = devices // model_ranks, nil
  if plan.pp ~= p.pp or plan.vp ~= p.vp then plan.split = nil end
  return plan
end

--- The changes of a plan to evaluate: { { text, { field = value } } }.
local function changes(p)
  local list = {}
  local function try(text, change) list[#list + 1] = { text, change } end
  for _, name in ipairs { "tp", "pp", "cp", "ep", "micro_batch" } do
    try(("%s %d → %d"):format(name, p[name], p[name] * 2), { [name] = p[name] * 2 })
    if p[name] % 2 == 0 then try(("%s %d → %d"):format(name, p[name], p[name] // 2), { [name] = p[name] // 2 }) end
  end
  if p.schedule == "1f1b" and p.pp > 1 then
    for _, vp in ipairs { 2, 4 } do
      try(("interleaved, vp %d"):format(vp), { schedule = "interleaved", vp = vp, split = false })
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

--- The estimate of a changed subject; nil if the plan is invalid.
local function again(what, change)
  local given = merged(what, change)
  given.units, given.tokens = nil, nil
  local ok, e = pcall(estimate.new, given)
  if not ok and require("ett.base.error").from(e).kind == "interrupt" then error(e, 0) end
  return ok and e or nil
end

--- Rows sorted by their gain: { { kind = "rate" | "plan", text =, seconds =, saved = (share of the step), memory_bytes
--- =, fits = } }.
---@param e table the estimate
---@param what table the argument of estimate.new
function sensitivity.of(e, what)
  local rows = {}
  local function add(kind, text, other)
    if other and math.abs(other.step_seconds / e.step_seconds - 1) > 1e-6 then
      rows[#rows + 1] = { kind = kind, text = text, seconds = other.step_seconds,
        saved = 1 - other.step_seconds / e.step_seconds, memory_bytes = other.memory_bytes, fits = other.fits }
    end
  end
  local cluster = what.cluster
  if not (type(cluster) == "table" and cluster.path) then cluster = require("ett.profile.cluster").get(cluster) end
  local times = what.times or times_module.new(cluster, what.profile)
  for _, part in ipairs(faster.parts) do
    add("rate", part_names[part] .. " 10 % faster",
      again(what, { plan = changed(e.plan, what.plan, {}), times = faster.times(times, part) }))
  end
  for _, change in ipairs(changes(e.plan)) do
    local plan = changed(e.plan, what.plan, change[2])
    if plan then
      if not plan.split then plan.split = nil end
      add("plan", change[1], again(what, { plan = plan, times = times }))
    end
  end
  table.sort(rows, by("-saved", "text"))
  return rows
end

return sensitivity
