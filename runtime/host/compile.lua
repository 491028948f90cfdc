--- Writes lib/ett/compiled (host/compiled.h) when ett is built: ett run compile.lua out=FILE list=FILE,
-- a list of Lua files, one a line.
local host, io_module = require "ett.host", require "ett.io"

local given = require("ett").options { out = { "string" }, list = { "string" } }

-- Bytes before a chunk's name, and the name "@" as Lua writes it.
local header_bytes, name = 32, "\x82@"

-- Bytes of a constant after its tag. The other tags are those of strings.
local constant_bytes = { [0x00] = 0, [0x01] = 0, [0x11] = 0, [0x03] = 8, [0x13] = 8 }

-- The size 0 as Lua writes it.
local none = "\x80"

--- A reader of a chunk: `number` returns a size or line, the others move on.
local function reader(chunk)
  local at = header_bytes + 1
  local read = {}
  function read.at() return at end
  function read.skip(bytes) at = at + bytes end
  function read.number()
    local value = 0
    while true do
      local byte = chunk:byte(at)
      value, at = value << 7 | byte & 0x7f, at + 1
      if byte & 0x80 ~= 0 then return value end
    end
  end
  function read.string() read.skip(math.max(0, read.number() - 1)) end
  function read.constant()
    local bytes = constant_bytes[chunk:byte(at)]
    at = at + 1
    if bytes then read.skip(bytes) else read.string() end
  end
  return read
end

--- A chunk without the names of local variables. A third of the strings of a chunk are such names, and Lua looks up
-- each of them when it loads the chunk. Messages and tracebacks still have the file, the line and the other names.
local function without_local_names(chunk)
  local read, pieces, kept = reader(chunk), {}, 1
  local function skip_each(bytes) read.skip(read.number() * bytes) end
  local function skip_numbers(count)
    for _ = 1, count do read.number() end
  end
  local function strip_function()
    read.string() -- the file
    skip_numbers(2) -- its first and last line
    read.skip(3) -- parameters, whether more can follow, stack
    skip_each(4) -- instructions
    for _ = 1, read.number() do read.constant() end
    skip_each(3) -- variables of functions around it
    for _ = 1, read.number() do strip_function() end
    skip_each(1) -- lines, relative to the one before
    skip_numbers(2 * read.number()) -- absolute lines
    pieces[#pieces + 1] = chunk:sub(kept, read.at() - 1) .. none
    for _ = 1, read.number() do -- local variables: name, first and last instruction
      read.string()
      skip_numbers(2)
    end
    kept = read.at()
    for _ = 1, read.number() do read.string() end -- names of the variables of functions around it
  end
  strip_function()
  assert(read.at() == #chunk + 1, "this Lua writes its chunks in another form")
  return table.concat(pieces) .. chunk:sub(kept)
end

local chunks = {}
for path in io.lines(given.list) do
  local text = assert(io_module.read(path))
  local loaded, fault = load(text, "@", "t")
  local chunk = string.dump(loaded or error(path .. fault, 0))
  assert(chunk:sub(header_bytes + 1, header_bytes + #name) == name, "this Lua writes its chunks in another form")
  chunks[#chunks + 1] = { hash = io_module.hash(text), code = without_local_names(chunk) }
end
table.sort(chunks, function(a, b) return a.hash < b.hash end)

local header, entry = "=c8c128I8", "=c40I8I8"
local parts = { string.pack(header, "ettlua1", host.lua:sub(1, 127), #chunks) }
local offset = string.packsize(header) + #chunks * string.packsize(entry)
for _, chunk in ipairs(chunks) do
  parts[#parts + 1] = string.pack(entry, chunk.hash, offset, #chunk.code)
  offset = offset + #chunk.code
end
for _, chunk in ipairs(chunks) do parts[#parts + 1] = chunk.code end
assert(io_module.write(given.out, table.concat(parts)))
