--- The structure of the tree, measured from its text: uses between modules, lengths of functions, files named in
-- comments, lengths of sentences. spec/structure_spec.lua compares it with the design; `ett bench structure` prints
-- it.
local tree = require "tree"

local structure = {}

--- Folders of description files: any number of files is allowed.
structure.description_folders = {
  "^operators$", "^clusters", "^lua/architectures$", "^lua/schedules$", "^lua/stacks$", "^lua/collectives$",
  "^lua/models$", "^lua/ett/metrics$", "^lua/ett/cli/commands$", "^lua/ett/trace/communication$",
  "^lua/ett/ledger/searchable$", "^samplers/campaigns$", "^examples", "^spec",
}

-- Room -> the rooms that it may use directly; those that they may use follow.
local lua_order = {
  base = {}, report = { "base" }, operator = { "base" }, model = { "operator" }, plan = { "model" },
  samples = { "base" }, profile = { "model", "samples", "report" }, step = { "plan", "profile", "report" },
  search = { "step", "ledger" }, sampling = { "profile", "samples", "report" }, trace = { "report", "operator" },
  metrics = { "trace" }, ledger = { "profile", "report" }, loop = { "step", "trace" },
  validate = { "sampling", "step", "loop" },
  import = { "profile", "step", "search" },
  cli = { "public", "search", "sampling", "validate", "metrics", "ledger", "import" },
  public = { "base" }, -- lua/ett/init.lua; it loads modules by their names
  operators = { "operator" }, architectures = { "model" }, models = {}, schedules = { "plan" }, collectives = {},
  clusters = {}, campaigns = { "sampling" }, samplers = { "sampling", "trace" },
}

local c_order = {
  base = {}, io = { "base" }, comm = { "base" }, ["regress/serve"] = { "io" }, ["regress/fit"] = { "regress/serve" },
  ["step/pipeline"] = { "base" }, step = { "comm", "regress/serve", "step/pipeline" }, ["trace/table"] = { "io" },
  ["trace/read/json"] = { "trace/table" },
  ["trace/read"] = { "trace/read/json" }, ["trace/query"] = { "trace/table" }, ledger = { "base" },
  pack = { "base" }, ["bind/pack"] = { "bind", "pack" },
  bind = { "base", "io" }, -- what all bindings share
  ["bind/comm"] = { "bind", "comm" }, ["bind/host"] = { "bind", "host" }, ["bind/io"] = { "bind", "io" },
  ["bind/ledger"] = { "bind", "ledger" }, ["bind/regress"] = { "bind", "regress/fit" },
  ["bind/step"] = { "bind", "step" }, search = { "step" }, ["bind/search"] = { "bind/step", "search" },
  ["bind/trace"] = { "bind", "trace/read", "trace/query" }, host = { "base", "bind" },
  ["samplers/core"] = { "bind", "io" }, ["samplers/cpu"] = { "samplers/core" }, ["samplers/cuda"] = { "samplers/core" },
  ["samplers/nccl"] = { "samplers/cuda" }, ["samplers/mpi"] = { "samplers/core" },
}

local function closure(order)
  local reach = {}
  local function visit(room)
    if reach[room] then return reach[room] end
    local set = { [room] = true }
    reach[room] = set
    for _, used in ipairs(order[room] or {}) do
      for name in pairs(visit(used)) do set[name] = true end
    end
    return set
  end
  for room in pairs(order) do visit(room) end
  return reach
end

-- Lua: modules, their rooms, and the modules that they use.

local function lua_room(path)
  return path:match("^lua/ett/([%w_]+)/") or path:match("^lua/ett/init%.lua$") and "public"
    or path:match("^samplers/(campaigns)/") or path:match("^lua/([%w_]+)/") or path:match("^([%w_]+)/")
end

local function module_name(path)
  local inside = path:match("^lua/(ett.*)%.lua$")
  if not inside then return path end
  return (inside:gsub("/init$", ""):gsub("/", "."))
end

local function without_comments(text) return (text:gsub("%-%-%[(=*)%[.-%]%1%]", ""):gsub("%-%-[^\n]*", "")) end

--- Every Lua module of the product: name -> { path, room, uses = { name -> true } }; "require" inside functions counts,
--- and a name built from a prefix ("ett.validate." .. x) uses all modules with that prefix.
function structure.lua_modules()
  if structure.kept_modules then return structure.kept_modules end
  local modules = {}
  structure.kept_modules = modules
  for _, path in ipairs(tree.files "%.lua$") do
    if path:match("^lua/") or path:match("^operators/") or path:match("^samplers/")
      or path:match("^clusters/") and not path:match("coefficients") then
      modules[module_name(path)] = { path = path, room = lua_room(path), uses = {} }
    end
  end
  for name, module in pairs(modules) do
    local code = without_comments(tree.read(module.path))
    for used in code:gmatch("[\"'](ett[%w_%.]*)[\"']") do
      if modules[used] and used ~= name and code:find("require%s*%(?%s*[\"']" .. used:gsub("%.", "%%.") .. "[\"']") then
        module.uses[used] = true
      end
    end
    for prefix in code:gmatch("require%s*%(%s*[\"'](ett%.[%w_%.]*%.)[\"']%s*%.%.") do
      for used in pairs(modules) do
        if used ~= name and used:sub(1, #prefix) == prefix then module.uses[used] = true end
      end
    end
  end
  return modules
end

-- C: files, their rooms, and the files that they include.

local function c_room(path) return path:match("^runtime/(.*)/[^/]+$") or path:match("^(samplers/.*)/[^/]+$") end

--- Every C file of the product: path -> { room, uses = { path -> true } }.
function structure.c_files()
  if structure.kept_files then return structure.kept_files end
  local files = {}
  structure.kept_files = files
  for _, path in ipairs(tree.files "%.[ch]$") do
    if path:match("^runtime/") or path:match("^samplers/") then
      files[path] = { path = path, room = c_room(path), uses = {} }
    end
  end
  for path, file in pairs(files) do
    for name in tree.read(path):gmatch("#include \"([^\"]+)\"") do
      for _, used in ipairs { "runtime/" .. name, name, path:match("^(.*/)") .. name } do
        if files[used] and used ~= path then file.uses[used] = true end
      end
    end
  end
  return files
end

--- The rooms of a graph of files, as a graph: room -> { room, uses }.
function structure.rooms(graph)
  local rooms = {}
  for _, node in pairs(graph) do rooms[node.room] = rooms[node.room] or { room = node.room, uses = {} } end
  for _, node in pairs(graph) do
    for used in pairs(node.uses) do
      if graph[used].room ~= node.room then rooms[node.room].uses[graph[used].room] = true end
    end
  end
  return rooms
end

--- Cycles of a graph: its strongly connected components of more than one node (Tarjan 1972), as "a <-> b".
function structure.cycles(graph)
  local index, low, on_stack, stack, count, found = {}, {}, {}, {}, 0, {}
  local function close_component(name)
    local component = {}
    repeat
      local top = table.remove(stack)
      on_stack[top] = nil
      component[#component + 1] = top
    until top == name
    if #component > 1 then
      table.sort(component)
      found[#found + 1] = table.concat(component, " <-> ")
    end
  end
  local function visit(name)
    count = count + 1
    index[name], low[name], on_stack[name] = count, count, true
    stack[#stack + 1] = name
    for used in pairs(graph[name].uses) do
      if not index[used] then
        visit(used)
        low[name] = math.min(low[name], low[used])
      elseif on_stack[used] then
        low[name] = math.min(low[name], index[used])
      end
    end
    if low[name] == index[name] then close_component(name) end
  end
  for name in pairs(graph) do if not index[name] then visit(name) end end
  table.sort(found)
  return found
end

--- Uses between rooms that the design forbids, as "a uses b".
function structure.wrong_arrows()
  local found = {}
  for _, pair in ipairs { { structure.lua_modules(), lua_order }, { structure.c_files(), c_order } } do
    local graph, reach = pair[1], closure(pair[2])
    for _, node in pairs(graph) do
      for used in pairs(node.uses) do
        local room, other = node.room, graph[used].room
        if room ~= other and not (reach[room] and reach[room][other]) then
          found[#found + 1] = ("%s uses %s (%s -> %s)"):format(node.path, graph[used].path, room, other)
        end
      end
    end
  end
  table.sort(found)
  return found
end

--- Source files of each folder that is a room: "folder: N files".
function structure.crowded_rooms(most)
  local counts, found = {}, {}
  for _, path in ipairs(tree.files "%.%w+$") do
    local folder, extension = path:match("^(.*)/[^/]*%.(%w+)$")
    if folder and extension:match("^[lchph]") and not path:match("README%.md$") then
      counts[folder] = (counts[folder] or 0) + 1
    end
  end
  for folder, count in pairs(counts) do
    local free = false
    for _, pattern in ipairs(structure.description_folders) do free = free or folder:match(pattern) ~= nil end
    if count > most and not free then found[#found + 1] = ("%s: %d files"):format(folder, count) end
  end
  table.sort(found)
  return found
end

-- Functions and their lengths.

local block_words = { ["function"] = true, ["if"] = true, ["do"] = true, ["repeat"] = true, ["end"] = true,
  ["until"] = true }

--- Position after a string that begins at `at`.
local function after_string(text, at)
  local quote = "[\\" .. text:sub(at, at) .. "]"
  at = text:find(quote, at + 1)
  while at and text:sub(at, at) == "\\" do at = text:find(quote, at + 2) end
  return (at or #text) + 1
end

-- Lua tokens that open and close blocks, with their lines. Comments and strings are skipped.
local function lua_blocks(text)
  local position, line, counted, tokens = 1, 1, 1, {}
  while true do
    local at, last, word = text:find("([%a_\"'%[%-][%w_]*)", position)
    if not at then return tokens end
    local level = text:match("^%-%-%[(=*)%[", at) or text:match("^%[(=*)%[", at)
    if level then
      position = (select(2, text:find("]" .. level .. "]", at, true)) or #text) + 1
    elseif text:match("^%-%-", at) then
      position = text:find("\n", at, true) or #text + 1
    elseif text:match("^[\"']", at) then
      position = after_string(text, at)
    else
      if block_words[word] then
        line, counted = line + select(2, text:sub(counted, at):gsub("\n", "")), at + 1
        tokens[#tokens + 1] = { word = word, line = line }
      end
      position = text:match("^[%[%-]", at) and at + 1 or last + 1
    end
  end
end

local function long_lua_functions(path, most, found)
  local open, text = {}, tree.read(path)
  if select(2, text:gsub("\n", "")) <= most then return end
  for _, token in ipairs(lua_blocks(text)) do
    local word = token.word
    if word == "function" or word == "if" or word == "do" or word == "repeat" then
      open[#open + 1] = token
    elseif word == "end" or word == "until" then
      local from = table.remove(open)
      local length = from and token.line - from.line + 1 or 0
      if from and from.word == "function" and length > most then
        found[#found + 1] = ("%s:%d: %d lines"):format(path, from.line, length)
      end
    end
  end
end

-- clang-format puts only the last braces of functions and types into the first column.
local function long_c_functions(path, most, found)
  local start, number
  number = 0
  for text in (tree.read(path) .. "\n"):gmatch("([^\n]*)\n") do
    number = number + 1
    if text:match("^[%a_].*%(") and not text:match(";%s*$") and not text:match("^typedef") then
      start = number
    elseif text:match("^}") then
      if start and text == "}" and number - start + 1 > most then
        found[#found + 1] = ("%s:%d: %d lines"):format(path, start, number - start + 1)
      end
      start = nil
    end
  end
end

local function product(path)
  return path:match("^runtime/") or path:match("^samplers/") or path:match("^lua/") or path:match("^operators/")
    or path:match("^clusters/") and not path:match("coefficients")
end

--- Functions of more than `most` lines, their signature and end included: "file:line: N lines".
function structure.long_functions(most)
  local found = {}
  for _, path in ipairs(tree.files "%.lua$") do
    if product(path) then long_lua_functions(path, most, found) end
  end
  for _, path in ipairs(tree.files "%.[ch]$") do
    if product(path) then long_c_functions(path, most, found) end
  end
  return found
end

--- Whether a file counts as product code: Lua, C and Python, without coefficient files.
function structure.is_product(path) return product(path) and path:match("%.[lchp][uy]?a?$") ~= nil end

--- Files of product code.
function structure.product_files()
  local list = {}
  for _, path in ipairs(tree.files()) do
    if structure.is_product(path) then list[#list + 1] = path end
  end
  return list
end

--- Their lines.
function structure.product_lines()
  local lines = 0
  for _, path in ipairs(structure.product_files()) do
    lines = lines + select(2, tree.read(path):gsub("\n", ""))
  end
  return lines
end

-- Files and modules that comments and pages name.

local function comments_of(path, text)
  if path:match("%.md$") then return text:gsub("\n```.-\n```", "\n") end
  local parts = {}
  if path:match("%.lua$") then
    for comment in text:gmatch("%-%-[^\n]*") do parts[#parts + 1] = comment end
  else
    for comment in text:gmatch("/%*.-%*/") do parts[#parts + 1] = comment end
    for comment in text:gmatch("//[^\n]*") do parts[#parts + 1] = comment end
  end
  return table.concat(parts, "\n")
end

local function known_names()
  local exact, base = {}, {}
  for _, path in ipairs(tree.files()) do
    exact[path], base[path:match("[^/]+$")] = true, true
    for suffix in path:gmatch("()/") do exact[path:sub(suffix + 1)] = true end
  end
  return exact, base
end

-- Whether a file named in a comment exists. C files are found by name alone, others only if their path begins with a
-- folder of the tree.
local function missing_file(name, exact, base)
  local clean = name:gsub("^%./", "")
  if clean:match("^_") or clean:match("%u%u_") or clean:match("foo") or clean:match("^x%.") then return false end
  if clean:match("%.[ch]$") then return not exact[clean] and not base[clean] end
  local top = clean:match("^([%w_%-]+)/")
  local ours = { runtime = 1, lua = 1, operators = 1, clusters = 1, samplers = 1, spec = 1, examples = 1, cmake = 1 }
  return ours[top] ~= nil and not exact[clean] and not clean:match("%u%u") and not clean:match("/mine") and
    not clean:match("/my_")
end

--- Files and modules named in comments and pages that do not exist: "file: name".
function structure.missing_names()
  local exact, base = known_names()
  local modules, found = structure.lua_modules(), {}
  local system = { ["lua.h"] = 1, ["cuda.h"] = 1, ["nccl.h"] = 1, ["nvrtc.h"] = 1, ["cublasLt.h"] = 1, ["cudnn.h"] = 1,
    ["cupti.h"] = 1, ["cudnn_graph.h"] = 1, ["mpi.h"] = 1, ["a.c"] = 1, ["c_api.h"] = 1,
    ["node/scaled_dot_product_flash_attention.h"] = 1 }
  for _, path in ipairs(tree.files "%.%w+$") do
    if path:match("%.[lchm][ud]?a?$") and not path:match("coefficients") and not path:match("^spec/fuzz/corpus") then
      local text = comments_of(path, tree.read(path))
      for word in text:gmatch("[%w_%-%./]+") do
        local name = word:find(".", 2, true) and word:match("^[%w_%-%./]+%.%l+") or ""
        local file = name:match("^[%w_%-%./]*[%w_]%.[lchmpt][udhyx]?a?t?$")
        if file and not system[file] and missing_file(file, exact, base) then
          found[#found + 1] = path .. ": " .. file
        end
      end
      for room, leaf in text:gmatch("%f[%w]ett%.([%l_]+)%.([%l_]+)") do
        local folder = exact["lua/ett/" .. room .. "/README.md"] and not modules["ett." .. room]
        if folder and not modules["ett." .. room .. "." .. leaf] then
          found[#found + 1] = ("%s: ett.%s.%s"):format(path, room, leaf)
        end
      end
    end
  end
  table.sort(found)
  return found
end

-- English.

-- Table cells, list items and entries of a definition list (an indented term, two spaces or more, its explanation:
-- the options of `--help`) are sentences of their own.
local function sentences_of(text, visit)
  text = text:gsub("\n```.-\n```", "\n\n"):gsub("\n    [^\n]*", "\n"):gsub("`[^`\n]*`", "code")
  for paragraph in (text .. "\n\n"):gmatch("(.-)\n%s*\n") do
    local plain = {}
    for line in (paragraph .. "\n"):gmatch("([^\n]*)\n") do
      local item = line:match("^%s*[%-%*]%s+(.*)") or line:match("^%s*%d+[%.%)]%s+(.*)")
      local explanation = line:match("^%s+%S.-%s%s+(%S.*)")
      if line:match("^|") then
        for cell in line:gmatch("[^|]+") do sentences_of(cell, visit) end
      elseif item or explanation then
        plain[#plain + 1] = ". " .. (item or explanation)
      elseif not line:match("^#") then
        plain[#plain + 1] = line
      end
    end
    for sentence in (table.concat(plain, " ") .. " "):gmatch("(.-)[%.%?!:][%)\"']*%s+") do
      local words = select(2, sentence:gsub("%f[%w][%w'%-_%.]*", ""))
      if words > 0 then visit(sentence, words) end
    end
  end
end

--- Sentences of a text of Markdown or of `--help`: their number, and those of more than `most` words.
---@return integer count, string[] long
function structure.long_sentences(text, most)
  local count, long = 0, {}
  sentences_of(text, function(sentence, words)
    count = count + 1
    if words > most then long[#long + 1] = ("%d words: %s"):format(words, sentence:match("^%s*(.-)%s*$")) end
  end)
  return count, long
end

return structure
