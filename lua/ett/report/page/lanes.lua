--- The lanes of a timeline page, drawn by lanes.js: events over time, in groups of lanes.
--
--   local t = lanes.new(page, { from = 0, to = 1000000, tick = 1e-9, kinds = { { "compute", "compute" } } })
--   local label = t:label("gemm", 1, "shape: 4 x 8", 64)     -- name, kind, details by line, bytes
--   t:group { name = "rank 0" }
--   t:lane { name = "stream 7", start = { 0, 500 }, duration = { 400, 300 }, label = { label, label } }
--   page.data.timeline = t:finish()
--
-- Times are integers, in ticks. A label is what events share; each distinct one is stored once.
local json = require "ett.json"
local pack = require "ett.pack"

local lanes = {}
local Timeline = {}
Timeline.__index = Timeline

local chunk_events = 16384

---@param page table from ett.report.page
---@param given table from =, to = (ticks), tick = (seconds), kinds = { { name, colour } }, bins = of the overviews
function lanes.new(page, given)
  return setmetatable({ page = page, from = given.from, to = given.to, tick = given.tick, kinds = given.kinds,
    bins = given.bins or 4096, groups = {}, marks = {}, names = {}, name_index = {}, labels = {}, label_kinds = {},
    label_index = {}, events = 0, left_out = 0 }, Timeline)
end

--- The number of a label.
---@param kind integer of the list of kinds, from 1
---@param detail string? "field: value" lines
---@param bytes number? that the event moves
function Timeline:label(name, kind, detail, bytes)
  local n = self.name_index[name]
  if not n then
    n = #self.names + 1
    self.names[n], self.name_index[name] = name, n
  end
  local key = ("%d\0%d\0%s\0%s"):format(n, kind, detail or "", bytes or "")
  local label = self.label_index[key]
  if not label then
    label = #self.labels + 1
    self.label_index[key], self.label_kinds[label] = label, kind - 1
    self.labels[label] = json.array { n - 1, kind - 1, detail or "", bytes or 0 }
  end
  return label
end

--- Begins a group of lanes. open = false: drawn closed at first.
function Timeline:group(given)
  self.groups[#self.groups + 1] = { name = given.name, open = given.open ~= false, lanes = {} }
end

--- Adds a lane to the last group; nothing when it has no events.
---@param given table name =, start =, duration =, label = (lists of one length), wait = the first part of each event;
---  open = false: nested events hidden at first; overview = true: without the events themselves
function Timeline:lane(given)
  if #given.start == 0 then return end
  local packed = pack.lane { start = given.start, duration = given.duration, label = given.label,
    kind = self.label_kinds, wait = given.wait, from = self.from, to = self.to, bins = self.bins,
    chunk_events = given.overview and 0 or chunk_events }
  local chunks = {}
  for _, chunk in ipairs(packed.chunks) do
    local n = #chunks
    chunks[n + 1], chunks[n + 2], chunks[n + 3] = chunk.from, chunk.to, chunk.count
    chunks[n + 4] = self.page:blob(chunk.text)
  end
  self.events = self.events + (given.overview and 0 or #given.start)
  self.left_out = self.left_out + (given.overview and #given.start or 0)
  local list = self.groups[#self.groups].lanes
  list[#list + 1] = { name = given.name, rows = packed.rows, count = #given.start, open = given.open ~= false,
    waits = given.wait ~= nil, overview = self.page:blob(packed.overview), chunks = json.array(chunks) }
end

--- A named stretch above the lanes.
function Timeline:mark(name, from, to) self.marks[#self.marks + 1] = json.array { name, from, to } end

--- The timeline as the script takes it.
function Timeline:finish()
  local groups = {}
  for _, group in ipairs(self.groups) do
    if #group.lanes > 0 then
      group.lanes = json.array(group.lanes)
      groups[#groups + 1] = group
    end
  end
  return { from = self.from, to = self.to, tick = self.tick, kinds = json.array(self.kinds), bins = self.bins,
    groups = json.array(groups), marks = json.array(self.marks), events = self.events, left_out = self.left_out,
    labels = self.page:pack_json { names = json.array(self.names), list = json.array(self.labels) } }
end

return lanes
