--- Exports a model and a plan as the configuration of a trainer.
--
--   local text, left_out = require("ett.import.export").text("megatron", model, plan)
--
-- left_out: one sentence for each setting that the format cannot express. In formats with comments they also begin the
-- text.
local error_module = require "ett.base.error"
local fields = require "ett.plan.fields"
local schema = require "ett.base.schema"

local export = {}

export.formats = { "deepspeed", "megatron", "torchtitan" }

--- Plan fields that every format states; `states` of a format names its others. The format itself states the stack.
local common = [[
  bucket_bytes clip_gradients cp cp_method dp dtype ep etp global_batch gradient_dtype micro_batch micro_batches
  optimizer_bytes overlap_gradients overlap_parameters pp recompute schedule seq sequence_parallel stack tp zero ]]

--- Lists the plan fields that a format does not state and that differ from their default.
local function leave_out_others(states, plan, leave_out)
  local stated = {}
  for name in (common .. states):gmatch "%S+" do stated[name] = true end
  for _, field in ipairs(fields.list) do
    local name, value = field[1], plan[field[1]]
    if not (stated[name] or field.after) and value ~= nil and value ~= field.default then
      leave_out("%s = %s: this format has no field for it", name, type(value) == "table" and "…" or tostring(value))
    end
  end
end

--- The text of a format, and the settings that it omits.
---@param format string one of export.formats
---@param model table of ett.model
---@param plan table a clean plan (of an estimate: e.plan)
---@param cluster string? a name to list among the settings that the format omits
---@return string text, string[] left_out
function export.text(format, model, plan, cluster)
  schema.argument(model, "model", "ett.export.text", "model")
  schema.argument(plan, "table", "ett.export.text", "plan")
  local known = false
  for _, name in ipairs(export.formats) do known = known or name == format end
  if not known then
    error_module.raise("usage", "%s", error_module.unknown("format", format, export.formats))
  end
  local left_out = {}
  local function leave_out(...) left_out[#left_out + 1] = (...):format(select(2, ...)) end
  if cluster then leave_out("cluster = %s", cluster) end
  local writer = require("ett.import.export." .. format)
  local lines = writer.write(model, plan, leave_out)
  leave_out_others(writer.states, plan, leave_out)
  if type(lines) == "string" then return lines, left_out end
  local text = {}
  for _, sentence in ipairs(left_out) do text[#text + 1] = "# not stated here: " .. sentence end
  table.move(lines, 1, #lines, #text + 1, text)
  return table.concat(text, "\n") .. "\n", left_out
end

return export
