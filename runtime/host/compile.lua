--- Writes lib/ett/compiled (host/compiled.h) when ett is built: ett run compile.lua out=FILE list=FILE,
-- a list of Lua files, one a line.
local host, io_module = require "ett.host", require "ett.io"

local given = require("ett").options { out = { "string" }, list = { "string" } }

-- Bytes before a chunk's name, and the name "@" as Lua writes it.
local header_bytes, name = 32, "\x82@"

local chunks = {}
for path in io.lines(given.list) do
  local text = assert(io_module.read(path))
  local loaded, fault = load(text, "@", "t")
  local chunk = string.dump(loaded or error(path .. fault, 0))
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
