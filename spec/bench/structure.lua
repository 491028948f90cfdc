--- The structure of the tree: cycles, arrows between rooms, sizes, missing names, long sentences.
--- spec/structure_spec.lua holds the first five.
local bench = { summary = "the structure of the source tree" }

local function help_texts()
  local host = require "ett.host"
  local parts = {}
  for _, entry in ipairs(require("ett.base.find").list "lua/ett/cli/commands") do
    local pipe = io.popen(("'%s/bin/ett' %s --help 2>&1"):format(host.prefix, entry.name))
    parts[#parts + 1] = pipe:read("a")
    pipe:close()
  end
  return parts
end

local function english(structure, tree)
  local count, long = 0, {}
  local function add(name, text)
    local n, found = structure.long_sentences(text, 25)
    count = count + n
    for _, sentence in ipairs(found) do long[#long + 1] = name .. ": " .. sentence end
  end
  for _, path in ipairs(tree.files "README%.md$") do add(path, tree.read(path)) end
  for _, text in ipairs(help_texts()) do add(text:match("usage: ett ([^\n%s]+)") or "help", text) end
  return count, long
end

function bench.run(opts)
  local structure, tree = require "structure", require "tree"
  local rows = {}
  local function list(measure, found, most)
    rows[#rows + 1] = { measure = measure, value = #found, target = "<= " .. most, pass = #found <= most }
    for _, item in ipairs(found) do rows[#rows + 1] = { measure = "    " .. item, value = "" } end
  end
  list("cycles among Lua modules", structure.cycles(structure.lua_modules()), 0)
  local c_files = structure.c_files()
  list("cycles among C files and rooms", structure.cycles(structure.rooms(c_files)), 0)
  list("arrows against the design's order", structure.wrong_arrows(), 0)
  list("rooms of more than 20 files", structure.crowded_rooms(20), 0)
  list("functions of more than 80 lines", structure.long_functions(80), 0)
  list("files and modules that are named and not there", structure.missing_names(), 0)
  local count, long = english(structure, tree)
  local share = 100 * #long / count
  rows[#rows + 1] = { measure = ("sentences over 25 words in READMEs and --help, of %d"):format(count),
    value = ("%.1f %%"):format(share), target = "<= 2 %", pass = share <= 2 }
  if opts.json then
    for _, item in ipairs(long) do rows[#rows + 1] = { measure = "    " .. item, value = "" } end
  end
  rows[#rows + 1] = { measure = "lines of product code, without coefficients (`functions` splits them)",
    value = structure.product_lines() }
  return rows
end

return bench
