--- Options and printing shared by `ett transformer` and `ett simple-transformer`.
local simple = require "ett.ledger.simple_transformer"

local front = {}

local shared = {
  cluster = { "cluster", "NAME", "cluster, by name or file, whose device and links are used", extension = true },
  overlap = { "overlap", "F", "fraction of the traffic that may overlap computing", kind = "number", least = 0,
    most = 1, default = 1, extension = true },
  schedule = { "schedule", "NAME", "gpipe stores the activations of all microbatches, 1f1b those of at most pp",
    choices = { "1f1b", "gpipe" }, default = "1f1b", extension = true },
  optimizer_bytes = { "optimizer_bytes", "B", "bytes of optimizer state per parameter", kind = "number", least = 0,
    most = 1024, default = simple.corrections.optimizer_bytes, extension = true },
  json = { "json", "print JSON", extension = true },
}

--- Adds the named shared options to a list of options.
function front.add(options, names)
  for _, name in ipairs(names) do options[#options + 1] = shared[name] end
  return options
end

--- A "whole" option for each { name, help } of a list. Those without `open` or `required` have a default.
function front.wholes(list, defaults)
  local options = {}
  for i, entry in ipairs(list) do
    options[i] = { entry[1], "N", entry[2], kind = "whole", required = entry.required,
      default = not entry.open and not entry.required and defaults[entry[1]] or nil }
  end
  return options
end

--- Refuses a run of less than one batch, which has no FLOP and no time. `--as readme|head` answers like those programs.
---@param name string the command
function front.check_tokens(name, o)
  if o.as == "readme" or o.as == "head" then return end
  local batch = o.batch_size and o.seq_len and 1.0 * o.batch_size * o.seq_len -- a product of integers could wrap
  if batch and o.dataset_size and o.dataset_size < batch then
    require("ett.base.error").raise("usage", "%s: option '--dataset_size' must be at least one batch, "
      .. "batch_size * seq_len = %.15g tokens, got %g", name, batch, o.dataset_size)
  end
end

--- Memory for JSON, named as in `ett predict`: the total, the parts, and the limit.
---@param memory table<string, number> bytes of weights, gradients, optimizer, activations, total
function front.memory_fields(memory, limit)
  local parts = {}
  for name, bytes in pairs(memory) do
    if name ~= "total" then parts[#parts + 1] = { name = name, bytes = bytes } end
  end
  table.sort(parts, function(a, b) return a.name < b.name end)
  return { memory_bytes = memory.total, memory = parts, memory_limit_bytes = limit, fits = memory.total <= limit }
end

--- A collector of lines: out(format, ...) adds a line, out.print() prints all.
function front.lines()
  local lines = {}
  return setmetatable({ print = function() print(table.concat(lines, "\n")) end },
    { __call = function(_, ...) lines[#lines + 1] = string.format(...) end })
end

--- Lines of memory in GB, and whether the total fits in `limit` bytes.
---@param memory table<string, number> bytes of weights, gradients, optimizer, activations, total
---@param name string name of the limit
---@param width integer of the first column
function front.memory(out, memory, name, limit, width)
  local line = ("%%-%ds %%%d.3f"):format(width, width == 12 and 12 or 11)
  for _, part in ipairs { "weights", "gradients", "optimizer", "activations", "total" } do
    out(line, part, memory[part] / 1e9)
  end
  out(line .. "  %s", name, limit / 1e9, memory.total <= limit and "fits" or "DOES NOT FIT")
end

--- Lines of sensitivities: a name, then the changes of the fields in percent.
---@param rows table[] { name, factor, [field] = fraction }
function front.sensitivities(out, rows, fields, plain_factor)
  for _, row in ipairs(rows) do
    local cells = { ("%-20s"):format(row.factor == plain_factor and row.name or ("%s x %g"):format(row.name,
      row.factor)) }
    for i, field in ipairs(fields) do cells[i + 1] = ("%+10.2f %%"):format(row[field] * 100) end
    out("%s", table.concat(cells, " "))
  end
end

return front
