--- Header lines that decide whether rows are alike. A table continues under other ones only with --continue-changed,
--- and tables with different ones are not merged.
local settings = {}

local function whole(text) return text end

-- By name of the header line: the part of its text that is compared.
local part_of = {
  ["operator file"] = whole, libraries = whole, gemm = whole,
  time = function(text) return text:match "^[^;]*" end, -- not the time of an empty kernel
  threads = function(text) return text:match "^%d+" end, -- not the processors
  timing = function(text) return (text:gsub(" of %d+ visits", "", 1)) end, -- those of ett.sampling.active are more
}

settings.names = require("ett.base.schema").keys(part_of)

--- The compared part of the text of a header line; nil if the line decides nothing or lacks that part.
---@param text string?
function settings.part(name, text) return text and part_of[name] and part_of[name](text) end

return settings
