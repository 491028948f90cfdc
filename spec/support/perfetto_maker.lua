--- Small Perfetto traces, written directly as protobuf.
--
--   local p = perfetto_maker.new()
--   p:thread(1, 100, 7, "main"); p:slice(1, 1000, 500, "aten::mm", "cpu_op", { ["Input Dims"] = "[[2]]" })
local maker = {}
maker.__index = maker

local function varint(n)
  local bytes = {}
  repeat
    local low = n & 0x7F
    n = n >> 7
    bytes[#bytes + 1] = string.char(n > 0 and low | 0x80 or low)
  until n == 0
  return table.concat(bytes)
end

local function number(field, value) return varint(field << 3) .. varint(value) end
local function bytes(field, text) return varint(field << 3 | 2) .. varint(#text) .. text end
local function double(field, value) return varint(field << 3 | 1) .. ("<d"):pack(value) end
maker.number, maker.bytes, maker.double = number, bytes, double

--- interned: names and categories by number, as Perfetto's own SDK writes them.
function maker.new(interned)
  return setmetatable({ packets = {}, interned = interned, iids = {}, last = 0 }, maker)
end

function maker:packet(...) self.packets[#self.packets + 1] = bytes(1, table.concat { number(10, 3), ... }) end

function maker:process(uuid, pid, name)
  self:packet(bytes(60, number(1, uuid) .. bytes(3, number(1, pid) .. bytes(6, name))))
end

function maker:thread(uuid, pid, tid, name, parent)
  self:packet(bytes(60, number(1, uuid) .. (parent and number(5, parent) or "")
    .. bytes(4, number(1, pid) .. number(2, tid) .. bytes(5, name))))
end

--- A track with a name and a parent only, such as a queue of a device.
function maker:track(uuid, name, parent)
  self:packet(bytes(60, number(1, uuid) .. bytes(2, name) .. number(5, parent)))
end

--- An annotation; a value { field = its encoded field } is written as it is.
local function annotation(name, value)
  local said = bytes(10, name)
  if type(value) == "table" then return bytes(4, said .. value.field) end
  if math.type(value) == "integer" then return bytes(4, said .. number(4, value)) end
  if type(value) == "number" then return bytes(4, said .. double(5, value)) end
  return bytes(4, said .. bytes(6, value))
end

--- The fields of a name or a category: its text; or its number, and once the text of the number.
function maker:said(text, by_text, by_number, list)
  if not self.interned then return bytes(by_text, text), "" end
  local key = list .. text
  if self.iids[key] then return number(by_number, self.iids[key]), "" end
  self.last = self.last + 1
  self.iids[key] = self.last
  return number(by_number, self.last), bytes(12, bytes(list, number(1, self.last) .. bytes(2, text)))
end

function maker:slice(uuid, ts, dur, name, category, args)
  local names, said_name = self:said(name, 23, 10, 2)
  local categories, said_category = self:said(category, 22, 3, 1)
  local notes = {}
  for key, value in pairs(args or {}) do notes[#notes + 1] = annotation(key, value) end
  table.sort(notes)
  self:packet(said_name, said_category, number(8, ts),
    bytes(11, number(9, 1) .. number(11, uuid) .. names .. categories .. table.concat(notes)))
  self:packet(number(8, ts + dur), bytes(11, number(9, 2) .. number(11, uuid)))
end

function maker:text() return table.concat(self.packets) end

function maker:write(path)
  local file = assert(io.open(path, "wb"))
  file:write(self:text())
  file:close()
  return path
end

return maker
