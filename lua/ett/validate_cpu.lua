--- `ett validate` on processors: the CPU back end, and ranks over MPI (the interface is in ett.validate).
--
-- The truth is the wall time of the step, the median of those that nothing disturbed (ett.validate_ranks,
-- ett.validate_watch). Operators are sampled by as many ranks at once as will compute, each shape by all of them: they
-- share caches and memory. What the ranks cost each other is sampled in place (ett.validate_wires), in turn
-- with the steps, and both come together in a view of the profile (ett.validate_view).
local error_module = require "ett.error"
local find = require "ett.find"
local folders = require "ett.folder"
local campaigns = require "ett.validate_campaign"
local quote = require("ett.shell").quote
local ranks = require "ett.validate_ranks"
local validate = require "ett.validate"
local view_module = require "ett.validate_view"
local wires = require "ett.validate_wires"

local validate_cpu = {}
local Backend = { precision = "fp32" }
Backend.__index = Backend

---@param options table out, layouts, scale, check (operators' results, before they are sampled; true), on_stage
function validate_cpu.open(options)
  local ok, why = find.load("samplers", "cpu").available()
  if not ok then error_module.raise("missing", "%s", why) end
  for _, name in ipairs(options.layouts) do
    if name ~= "1x1" then
      ok, why = ranks.available()
      if not ok then error_module.raise("missing", "layout %s needs several ranks: %s", name, why) end
    end
  end
  return setmetatable({ options = options, profiles = {} }, Backend)
end

--- Samples the operators with `count` ranks at once, on operands that rotate through `cold_bytes`, and
--- returns the profile.
local function profile(folder, count, options, cold_bytes)
  folders.make(folder)
  local file = campaigns.write(folder .. "/operators.lua", "cpu", options.scale, cold_bytes)
  if count == 1 then
    campaigns.run(file, "this machine", Backend.precision, { out = folder, device = 0, check = options.check })
  else
    ranks.launch(count, ("sample %s --out %s --quiet%s"):format(quote(file), quote(folder),
      options.check == false and " --no-check" or ""), "sampling operators")
  end
  return require("ett.profile").from_samples({ folder }, { cache = false })
end

--- The profiles of so many ranks at once, with operands near and far.
function Backend:profiles_of(count)
  local pair, options = self.profiles[count], self.options
  if pair then return pair end
  options.on_stage(("sampling operators with %d rank%s"):format(count, count > 1 and "s at once" or ""))
  pair = {}
  for _, name in ipairs { "near", "far" } do
    pair[name] = profile(("%s/ranks_%d_%s"):format(options.out, count, name), count, options,
      view_module[name .. "_bytes"])
  end
  self.profiles[count] = pair
  return pair
end

function Backend:view(name, cases, steps)
  local options, layout = self.options, validate.layouts[name]
  local count = layout[1] * layout[2] * layout[3]
  local pair = self:profiles_of(count)
  local seen
  if count > 1 then
    options.on_stage(("layout %s: sampling its collectives and training %d configurations on %d ranks, in turn"):format(
      name, #cases, count))
    seen, self.measured = ranks.run { plan = { dp = layout[1], tp = layout[2], pp = layout[3] }, count = count,
      cases = cases, steps = steps, effort = options.scale, folder = options.out, name = name }
  else
    find.load("samplers", "cpu").core().pin(0)
    seen = { host = require("ett.validate_kernels_cpu").host_seconds() }
  end
  seen.tp = layout[2]
  local view = view_module.new(pair.near, pair.far, seen)
  return view, { crowded = view.share > 1, ranks_per_processor = view.share, host = seen.host,
    collectives = view:held_out(), collective_samples = #(seen.rows or {}),
    disturbed_collective_samples = wires.disturbed(seen.rows or {}) }
end

function Backend:trainer(cases, name, steps)
  local measured = self.measured
  if not measured then
    self.options.on_stage(("layout %s: training %d configurations on one rank"):format(name, #cases))
    measured = ranks.train(cases, steps)
  end
  self.measured = nil
  return function(i) return measured[i] end
end

function Backend.close() end

return validate_cpu
