--- `ett validate` on one GPU (the interface is in ett.validate).
--
-- A step is one CUDA graph: the host launches it once, and the device goes from kernel to kernel by itself. What is
-- left of launching is measured, in the same minute, on the same device:
--   alone      events around a graph of one empty kernel, L2 overwritten before: what a sample has beside its kernels
--   chained    what one more empty kernel adds to a graph
--   marked     an empty kernel between two events of a list that is launched kernel by kernel
--   launch     wall time of a graph of one empty kernel, less the kernel: once a step
-- So an operator adds its sample less (alone - chained) to a step, and a step costs `launch` more than its operators.
-- A sample finds its operands in memory, not in L2; what an operator of the step finds in L2, from the one before it,
-- makes it faster than predicted.
local campaigns = require "ett.validate.campaign"
local error_module = require "ett.base.error"
local must = error_module.must
local find = require "ett.base.find"
local folders = require "ett.base.folder"
local kernels = require "ett.validate.kernels_cuda"
local model = require "ett.validate.model"
local sample = require "ett.sample"

local validate_cuda = {}
local Backend = {}
Backend.__index = Backend

--- Precisions of a training step here: fp16 would need its losses scaled, fp8 its operands.
validate_cuda.precisions = { "bf16", "fp32" }

local TIME_LIMIT_SECONDS = find.load("samplers", "cuda").time_limit_seconds
local WARM_STEPS, PARTED_STEPS = 3, 3

--- true, or nil and why no GPU can be used.
function validate_cuda.available() return find.load("samplers", "cuda").available() end

--- bf16 where the device multiplies it and cuDNN is there for its attention.
local function usual_precision(info)
  return info.capability >= 80 and require("ett.cuda").versions():find "cuDNN" and "bf16" or "fp32"
end

---@param options table out, layouts, sizes, scale, check (operators' results, before they are sampled; true), device
--- (ordinal, 0), precision (that of the device), on_stage
function validate_cuda.open(options)
  local ok, why = validate_cuda.available()
  if not ok then error_module.raise("missing", "%s; ett validate --backend cpu needs none", why) end
  for _, name in ipairs(options.layouts) do
    if name ~= "1x1" then
      error_module.raise("usage", "validate: layout %s needs the back end cpu; on a GPU a step is one device's, 1x1",
        name)
    end
  end
  local known = options.precision == nil
  for _, name in ipairs(validate_cuda.precisions) do known = known or name == options.precision end
  if not known then
    error_module.raise("usage", "validate: the back end cuda trains in %s, not in '%s'",
      table.concat(validate_cuda.precisions, " or "), options.precision)
  end
  local ordinal = options.device or 0
  local device = must(require("ett.cuda").open(ordinal))
  local info = device:info()
  local precision = options.precision or usual_precision(info)
  if precision == "bf16" and info.capability < 80 then
    device:close()
    error_module.raise("missing", "device %d (%s) has compute capability %d.%d, bf16 needs 8.0; choose fp32", ordinal,
      info.name, info.capability // 10, info.capability % 10)
  end
  return setmetatable({ options = options, handle = device, ordinal = ordinal, precision = precision,
    named = ("device %d (%s)"):format(ordinal, info.name),
    device = { name = info.name, peak_flops = 1e14, memory_bytes = info.memory_bytes + 0.0, memory_bandwidth = 1e12 } },
    Backend)
end

local empty = 'extern "C" __global__ void nothing(float *x) {}\n'

local function empty_list(device, count)
  local work = must(device:work "fp32")
  local ok, raised = pcall(function()
    local x = must(work:tensor { 1, dtype = "fp32", fill = "zero" })
    for _ = 1, count do
      must(work:kernel { source = empty, name = "nothing", label = "launch costs", grid = 1, block = 32,
        args = { { tensor = x } } })
    end
    must(work:ready { time_limit_seconds = TIME_LIMIT_SECONDS })
  end)
  if ok then return work end
  work:close()
  error(raised, 0)
end

--- What launching costs on a device: { alone_seconds, chained_seconds, marked_seconds, launch_seconds }.
function validate_cuda.launch_costs(device)
  local many = 129
  local one <close> = empty_list(device, 1)
  local list <close> = empty_list(device, many)
  local function median(work)
    return sample.stats(must(work:time { repeats = 21, time_limit_seconds = TIME_LIMIT_SECONDS })).median
  end
  local alone = median(one)
  local chained = math.max(0.0, (median(list) - alone) / (many - 1))
  local walls, marked, ends = {}, {}, {}
  for i = 1, 21 do walls[i] = must(one:run(TIME_LIMIT_SECONDS)) end
  for i = 1, many do ends[i] = i end
  for _ = 1, 5 do
    local parts = must(list:time_parts(ends, TIME_LIMIT_SECONDS))
    table.move(parts, 2, many, #marked + 1, marked) -- the first follows what holds the device up
  end
  return { alone_seconds = alone, chained_seconds = chained, marked_seconds = sample.stats(marked).median,
    launch_seconds = math.max(0.0, sample.stats(walls).median - chained) }
end

--- The profile as a step sees it.
local View = { share = 1, collectives = {} }
View.__index = View

function View:alone(name, shape, dtype, pass)
  local answer = self.profile:operator(name, shape, dtype, pass)
  if not answer then return nil end
  local least, beside = self.costs.chained_seconds, self.costs.alone_seconds - self.costs.chained_seconds
  local function added(seconds) return math.max(seconds - beside, least) end
  return { seconds = added(answer.seconds), low_seconds = added(answer.low_seconds),
    high_seconds = added(answer.high_seconds), provenance = answer.provenance, detail = answer.detail }
end

View.operator = View.alone
function View.collective() end
function View.added() end
function View.expect() end

--- A view of a profile of samples; costs as validate_cuda.launch_costs has them.
function validate_cuda.view(profile, costs, precision)
  return setmetatable({ profile = profile, costs = costs, launch_seconds = costs.launch_seconds, stretch = {},
    plan = { dtype = precision, accumulate_gradients = true } }, View)
end

--- Samples the operators.
local function sample_operators(self)
  local options = self.options
  local folder = ("%s/gpu_%s"):format(options.out, self.precision)
  folders.make(folder)
  local file = campaigns.write(folder .. "/operators.lua", "cuda", options.sizes, options.scale, self.precision)
  campaigns.run(file, self.named, self.precision, { out = folder, device = self.ordinal, check = options.check })
  return require("ett.profile").from_samples({ folder }, { cache = false })
end

function Backend:view()
  self.options.on_stage(("sampling operators on %s in %s"):format(self.named, self.precision))
  local profile = sample_operators(self)
  self.costs = validate_cuda.launch_costs(self.handle)
  return validate_cuda.view(profile, self.costs, self.precision), { collectives = {}, crowded = false,
    ranks_per_processor = 1, host = self.costs }
end

--- Mean time of every kind of call over some steps of it, less what the events cost, in the order of first calls.
local function lines(parts, steps, costs)
  local list, by_record = {}, {}
  for i, record in ipairs(parts) do
    local line = by_record[record]
    if not line then
      line = { name = record.name, operator = record.operator, pass = record.pass, shape = record.shape, calls = 0,
        seconds = 0.0 }
      by_record[record], list[#list + 1] = line, line
    end
    local times = {}
    for k, step in ipairs(steps) do times[k] = step[i] end
    line.calls = line.calls + 1
    line.seconds = line.seconds + math.max(0.0, sample.stats(times).median
      - (costs.marked_seconds - costs.chained_seconds))
  end
  return list
end

--- Trains a case: the step is the median wall time of `steps` steps as graphs, the operators' times are of a few more
--- steps launched one operator after the other.
local function train(self, case, steps)
  local own = kernels.new(self.handle, self.precision, TIME_LIMIT_SECONDS)
  local ok, result = xpcall(function()
    local trainer = model.new { hyper = case.hyper, plan = case.plan, backend = own }
    local walls, first_loss, last_loss = {}, nil, nil
    for i = 1, WARM_STEPS + steps do
      last_loss = trainer:step()
      first_loss = first_loss or last_loss
      if i > WARM_STEPS then walls[#walls + 1] = own.wall_seconds end
    end
    local parted = {}
    for i = 1, PARTED_STEPS do parted[i] = own:timed_step(trainer) end
    local wall = sample.stats(walls).median
    return { step_seconds = wall, wall_seconds = wall, steps = steps, disturbed = false, first_loss = first_loss,
      last_loss = last_loss, records = lines(own.parts, parted, self.costs) }
  end, error_module.from)
  own:close()
  if ok then return result end
  if not result.message:find(self.named, 1, true) then error_module.label(result, self.named) end
  error(result, 0)
end

--- Larger models come later: where one does not fit, those before it still can be run.
function Backend:trainer(cases, name, steps)
  self.options.on_stage(("layout %s: training %d configurations on %s"):format(name, #cases, self.named))
  return function(i)
    local ok, result = pcall(train, self, cases[i], steps)
    if ok then return result end
    if result.kind == "memory" and i > 1 then
      result.message = ("%s; --configurations %d leaves it out"):format(result.message, i - 1)
    end
    error(result, 0)
  end
end

function Backend:close() self.handle:close() end

return validate_cuda
