--- A model and a plan as the configuration of a trainer.
--
--   local text, left_out = require("ett.import.export").text("megatron", model, plan)
--
-- left_out: sentences about what that configuration cannot state. Formats with comments begin with them.
local error_module = require "ett.base.error"
local schema = require "ett.base.schema"

local export = {}

export.formats = { "deepspeed", "megatron", "torchtitan" }

--- The text of a format, and what it leaves out.
---@param format string one of export.formats
---@param model table of ett.model
---@param plan table a clean plan (of an estimate: e.plan)
---@return string text, string[] left_out
function export.text(format, model, plan)
  schema.argument(model, "model", "ett.export.text", "model")
  schema.argument(plan, "table", "ett.export.text", "plan")
  local known = false
  for _, name in ipairs(export.formats) do known = known or name == format end
  if not known then
    error_module.raise("usage", "unknown format '%s'%s; known are %s", tostring(format),
      error_module.suggestion(tostring(format), export.formats), table.concat(export.formats, ", "))
  end
  local left_out = {}
  local function leave_out(...) left_out[#left_out + 1] = (...):format(select(2, ...)) end
  local lines = require("ett.import.export." .. format)(model, plan, leave_out)
  if type(lines) == "string" then return lines, left_out end
  local text = {}
  for _, sentence in ipairs(left_out) do text[#text + 1] = "# not stated here: " .. sentence end
  table.move(lines, 1, #lines, #text + 1, text)
  return table.concat(text, "\n") .. "\n", left_out
end

return export
