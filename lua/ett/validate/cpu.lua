--- `ett validate` on processors: the CPU back end, and ranks over MPI (the interface is in ett.validate).
--
-- The truth is the wall time of the step (ett.validate.training). Operators are sampled by as many ranks at once as
-- will compute, each shape by all of them: they share caches and memory. What the ranks cost each other is sampled in
-- place (ett.validate.wires). Samples and steps take turns (ett.validate.ranks), and the samples come together in a
-- view of the profile (ett.validate.view).
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local folders = require "ett.base.folder"
local campaigns = require "ett.validate.campaign"
local ranks = require "ett.validate.ranks"
local validate = require "ett.validate"
local view_module = require "ett.validate.view"
local wires = require "ett.validate.wires"

local validate_cpu = {}
local Backend = { precision = "fp32" }
Backend.__index = Backend

---@param options table out, layouts, sizes, scale, check (operators' results, before they are sampled; true), on_stage
function validate_cpu.open(options)
  local ok, why = find.load("samplers", "cpu").available()
  if not ok then error_module.raise("missing", "%s", why) end
  for _, name in ipairs(options.layouts) do
    if name ~= "1x1" then
      ok, why = require("ett.sampling.mpirun").available()
      if not ok then error_module.raise("missing", "layout %s needs several ranks: %s", name, why) end
    end
  end
  return setmetatable({ options = options, measured = {} }, Backend)
end

local function count_of(name)
  local layout = validate.layouts[name]
  return layout[1] * layout[2] * layout[3]
end

--- Samples and trains with a number of ranks, all layouts of so many at once: they need the same operators.
---@return table { near = profile, far = profile, host = and retention = of ett.validate.ranks.run, [layout's name] =
--- { rows =, results = } }
local function measure(options, count, steps)
  local given = { count = count, campaigns = {}, near_bytes = view_module.near_bytes,
    far_bytes = view_module.far_bytes, check = options.check, layouts = {}, steps = steps,
    effort = options.scale, folder = options.out }
  local names = {}
  for _, name in ipairs(options.layouts) do
    if count_of(name) == count then
      local layout = validate.layouts[name]
      names[#names + 1] = name
      given.layouts[#names] = { plan = { dp = layout[1], tp = layout[2], pp = layout[3] },
        cases = validate.cases(options.sizes, name) }
    end
  end
  for i, kind in ipairs { "near", "far" } do
    local folder = folders.make(("%s/ranks_%d_%s"):format(options.out, count, kind))
    given.campaigns[i] = { folder = folder, file = campaigns.write(folder .. "/operators.lua", "cpu", options.scale,
      view_module[kind .. "_bytes"]) }
  end
  local listed = table.concat(names, ", ")
  given.what = ("layout%s %s"):format(#names > 1 and "s" or "", listed)
  options.on_stage(("layout%s %s: %d rank%s sample%s and train%s %d configurations, in turn"):format(
    #names > 1 and "s" or "", listed, count, count > 1 and "s" or "", count > 1 and "" or "s", count > 1 and "" or "s",
    #options.sizes))
  local answer = ranks.run(given)
  local measured = { host = answer.host, retention = answer.retention }
  for i, name in ipairs(names) do
    measured[name] = answer.layouts[i]
    if count > 1 then
      wires.write(("%s/wires_%s.csv"):format(options.out, name), answer.layouts[i].rows, given.layouts[i].plan,
        answer.host, count)
    end
  end
  for i, kind in ipairs { "near", "far" } do
    measured[kind] = require("ett.profile").from_samples({ given.campaigns[i].folder }, { cache = false })
  end
  return measured
end

function Backend:view(name, _, steps)
  local count = count_of(name)
  local measured = self.measured[count] or measure(self.options, count, steps)
  self.measured[count] = measured
  local rows = measured[name].rows
  local view = view_module.new(measured.near, measured.far, { host = measured.host, rows = rows,
    retention = measured.retention, tp = validate.layouts[name][2], share = wires.share(count) })
  return view, { crowded = view.share > 1, ranks_per_processor = view.share, host = measured.host,
    retention = measured.retention, collectives = view:held_out(), collective_samples = #rows,
    disturbed_collective_samples = wires.disturbed(rows) }
end

function Backend:trainer(_, name)
  local results = self.measured[count_of(name)][name].results
  return function(i) return results[i] end
end

function Backend.close() end

return validate_cpu
