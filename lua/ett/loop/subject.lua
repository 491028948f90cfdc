--- The subject of a comparison with a recorded run: a model under a plan on a cluster. Missing fields are inferred from
--- the trace (ett.loop.layout).
local architecture = require "ett.model.architecture"
local clusters = require "ett.profile.cluster"
local error_module = require "ett.base.error"
local find = require "ett.base.find"
local layout = require "ett.loop.layout"
local merged = require "ett.base.merged"
local model_module = require "ett.model"
local physics = require "ett.profile.physics"
local plan_module = require "ett.plan"
local schema = require "ett.base.schema"
local trace_samples = require "ett.trace.samples"

local subject = {}

local file_fields = { model = "string?", hyper = "table?", plan = "table?", cluster = "any?", profile = "any?" }

--- Reads a file PLAN.lua, which returns { model = name, hyper = {…}, plan = {…}, cluster = name }; all fields are
--- optional.
function subject.file(path) return schema.check(find.load_file(path), file_fields, path) end

--- The first cluster with the device that the trace names, or nil.
function subject.cluster_of(view)
  local gpu = view.trace and trace_samples.device_name(view.trace)
  if not gpu or gpu == "cpu" then return nil, gpu end
  for _, name in ipairs(clusters.names()) do
    local cluster = clusters.get(name)
    if physics.same_device(gpu, cluster.device) then return cluster, gpu end
  end
  return nil, gpu
end

--- The cluster with a folder of samples; the kernel tables of its device supply the rest.
function subject.with_samples(cluster, folder)
  if folder:sub(1, 1) ~= "/" then folder = require("lfs").currentdir() .. "/" .. folder end
  return merged(cluster, { profile = { folder = folder, borrow = cluster.device.folder and "device" or nil } })
end

--- Fills plan and hyper-parameters with the fields of `given`, else with inferred fields.
local function fill(given, found, rules, notes)
  local values, used = {}, {}
  for _, name in ipairs(schema.keys(rules)) do
    local each = found[name]
    if given[name] ~= nil then
      values[name], used[name] = given[name], "given"
      if each and each.value ~= given[name] and each.sure ~= "guess" then
        notes[#notes + 1] = ("%s=%s was given, but the trace shows %s (%s: %s)"):format(name, tostring(given[name]),
          tostring(each.value), each.sure, each.why)
      end
    elseif found[name] then
      values[name], used[name] = found[name].value, found[name].sure
    end
  end
  return values, used
end

--- An architecture with the norm and the MLP of the trace.
local function architecture_of(found)
  local gated = found.gated_mlp and found.gated_mlp.value
  local rms = found.norm and found.norm.value == "rms_norm"
  return (gated or rms) and "llama" or "gpt"
end

local function missing_fields(hyper)
  local list = {}
  for _, name in ipairs { "layers", "hidden", "heads", "vocab" } do
    if hyper[name] == nil then list[#list + 1] = name .. "=" end
  end
  return list
end

-- The model of a config.json or of lua/models; nil for the name of an architecture.
local function whole_model(name, hyper)
  if model_module.is_file(name) then return model_module.huggingface(name, hyper) end
  return model_module.is_preset(name) and model_module.new(name, hyper) or nil
end

-- Notes the sizes of a model that the trace contradicts.
local function note_other_sizes(model, found, notes)
  for _, name in ipairs { "layers", "hidden", "heads", "ffn" } do
    local each = found[name]
    local own = model.hyper[name]
    if each and own and each.value ~= own and each.sure ~= "guess" then
      notes[#notes + 1] = ("%s has %s=%s, but the trace shows %s (%s: %s)"):format(model.name, name,
        own, tostring(each.value), each.sure, each.why)
    end
  end
end

-- A model of an architecture with the given hyper-parameters, else with those of the trace; the certainty of each.
local function inferred_model(name, given, found, notes)
  local hyper, used = fill(given, found, architecture.fields(name), notes)
  if found.vocab and not given.vocab then hyper.vocab_multiple = 1 end
  local missing = missing_fields(hyper)
  if #missing > 0 then
    error_module.raise("missing", "the trace does not show the model's %s; give them as NAME=VALUE, or a public model "
      .. "or a config.json as model=NAME", table.concat(missing, ", "))
  end
  return model_module.new(name, hyper), used
end

--- The model, plan and cluster.
---@param view table of ett.trace.view
---@param given table { model, hyper, plan, cluster, profile, samples (a folder) } from the user
---@return table { model, model_name, plan, cluster, profile, read (ett.loop.layout), used = { [field] = "given" or the
---  certainty }, notes (given fields that the trace contradicts) }
function subject.of(view, given)
  local found, notes = layout.read(view), {}
  local name = given.model or architecture_of(found)
  local model, used_hyper = whole_model(name, given.hyper), {}
  if model then
    note_other_sizes(model, found, notes)
    for field in pairs(given.hyper or {}) do used_hyper[field] = "given" end
  else
    model, used_hyper = inferred_model(name, given.hyper or {}, found, notes)
  end
  local plan, used_plan = fill(given.plan or {}, found, plan_module.schema, notes)
  plan.micro_batches = plan.micro_batches or not plan.global_batch and 1 or nil
  if not plan.seq then
    error_module.raise("missing", "the trace does not show the plan's seq=; give it as NAME=VALUE")
  end
  local gpu = view.trace and trace_samples.device_name(view.trace)
  local cluster = given.cluster or subject.cluster_of(view)
  if not cluster then
    error_module.raise("missing", "no cluster has the trace's device '%s'; give one with --cluster", gpu or "unknown")
  end
  cluster = clusters.get(cluster)
  local device = cluster.device
  if gpu and gpu ~= "cpu" and device and not physics.same_device(gpu, device) then
    notes[#notes + 1] = ("the trace was recorded on '%s', %s has '%s'"):format(gpu, cluster.name, device.name)
  end
  if given.samples then cluster = subject.with_samples(cluster, given.samples) end
  return { model = model, model_name = name, plan = plan_module.new(plan, model, cluster), cluster = cluster,
    profile = given.profile, read = found, used = merged(used_hyper, used_plan), notes = notes }
end

return subject
