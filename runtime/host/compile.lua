--- Writes lib/ett/compiled (host/compiled.h) when ett is built: ett run compile.lua out=FILE list=FILE,
-- a list of Lua files, one a line.
local host, io_module = require "ett.host", require "ett.io"

local given = require("ett").options { out = { "string" }, list = { "string" } }

-- Bytes before a chunk's name, and the name "@" as Lua writes it.
local header_bytes, name = 32, "\x82@"

-- Reads the numbers and texts of a chunk from byte `at` on, in the form of Lua 5.4.
local Reader = {}
Reader.__index = Reader

function Reader:number()
  local value = 0
  repeat
    local byte = self.chunk:byte(self.at)
    value, self.at = value << 7 | byte & 127, self.at + 1
  until byte >= 128
  return value
end

function Reader:skip(bytes) self.at = self.at + bytes end
function Reader:skip_text() self:skip(math.max(0, self:number() - 1)) end

local constant_bytes = { [0x03] = 8, [0x13] = 8 } -- an integer, a float

-- Passes a function; adds the parts of the chunk to keep to `kept`, and 0 for the number of its local variables.
function Reader:pass_function(kept)
  self:skip_text() -- the source
  self:number() -- the first and the last line
  self:number()
  self:skip(3)
  self:skip(4 * self:number()) -- instructions
  for _ = 1, self:number() do
    local kind = self.chunk:byte(self.at)
    self:skip(1 + (constant_bytes[kind] or 0))
    if kind == 0x04 or kind == 0x14 then self:skip_text() end
  end
  self:skip(3 * self:number()) -- upvalues
  for _ = 1, self:number() do self:pass_function(kept) end
  self:skip(self:number()) -- lines
  for _ = 1, self:number() do self:number(); self:number() end
  kept[#kept + 1] = self.chunk:sub(self.from, self.at - 1) .. "\x80"
  for _ = 1, self:number() do self:skip_text(); self:number(); self:number() end
  self.from = self.at
  for _ = 1, self:number() do self:skip_text() end -- names of upvalues
end

--- The chunk without the names of local variables, which only messages of Lua use: reading them takes a twelfth of a
--- short command's instructions. Lines, fields, upvalues and functions keep their names.
local function without_locals(chunk)
  local reader, kept = setmetatable({ chunk = chunk, at = header_bytes + 1, from = 1 }, Reader), {}
  reader:pass_function(kept)
  assert(reader.at == #chunk + 1, "this Lua writes its chunks in another form")
  return table.concat(kept) .. chunk:sub(reader.from)
end

local chunks = {}
for path in io.lines(given.list) do
  local text = assert(io_module.read(path))
  local loaded, fault = load(text, "@", "t")
  local chunk = without_locals(string.dump(loaded or error(path .. fault, 0)))
  assert(chunk:sub(header_bytes + 1, header_bytes + #name) == name, "this Lua writes its chunks in another form")
  chunks[#chunks + 1] = { hash = io_module.hash(text), code = chunk }
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
