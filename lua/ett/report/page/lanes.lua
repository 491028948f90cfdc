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

local chunk_events = 8192
local most_labels = 50000 -- further ones are stored without details
local least_bins, most_bins = 1024, 16384

local most_characters = 400 -- of a detail

--- Details of a label: a line "field: value" for each pair of arguments with a value.
function lanes.details(...)
  local lines, given = {}, { ... }
  for i = 1, select("#", ...), 2 do
    local value = given[i + 1] and tostring(given[i + 1]) or ""
    if #value > most_characters then value = value:sub(1, most_characters) .. "…" end
    if value ~= "" then lines[#lines + 1] = given[i] .. ": " .. value end
  end
  return table.concat(lines, "\n")
end

---@param page table from ett.report.page
---@param given table from =, to = (ticks), tick = (seconds), kinds = { { name, colour } }
function lanes.new(page, given)
  return setmetatable({ page = page, from = given.from, to = given.to, tick = given.tick, kinds = given.kinds,
    groups = {}, marks = {}, names = {}, name_index = {}, labels = {}, label_kinds = {},
    label_index = {}, part_lists = {}, part_index = {},
    part_of = {}, events = 0, left_out = 0 }, Timeline)
end

--- The number of a label.
---@param kind integer of the list of kinds, from 1
---@param detail string? "field: value" lines
---@param bytes number? that the event moves
---@param class integer? for Timeline:parts
function Timeline:label(name, kind, detail, bytes, class)
  local n = self.name_index[name]
  if not n then
    n = #self.names + 1
    self.names[n], self.name_index[name] = name, n
  end
  if #self.labels >= most_labels then detail, bytes = nil, nil end
  local key = ("%d\0%d\0%s\0%s\0%s"):format(n, kind, detail or "", bytes or "", class or "")
  local label = self.label_index[key]
  if not label then
    label = #self.labels + 1
    self.label_index[key], self.label_kinds[label] = label, kind - 1
    self.labels[label] = json.array { n - 1, kind - 1, detail or "", bytes or 0, class or 0 }
  end
  return label
end

--- The parts of those events of a lane whose label has a class: { { label, resource, start, duration }, … }, ticks from
--- the event's start. Lanes of a resource draw them. The same list may serve several lanes.
function Timeline:parts(lane, class, list)
  if not lane then return end
  local n = self.part_index[list]
  if not n then
    n = #self.part_lists + 1
    local copy = {}
    for i, part in ipairs(list) do copy[i] = json.array { part[1] - 1, part[2], part[3], part[4] } end
    self.part_index[list], self.part_lists[n] = n, json.array(copy)
  end
  self.part_of[("%d:%d"):format(lane, class)] = n - 1
end

--- Begins a group of lanes. open = false: drawn closed at first.
function Timeline:group(given)
  self.groups[#self.groups + 1] = { name = given.name, open = given.open ~= false, lanes = {} }
end

--- Adds a lane to the last group; nothing when it has no events.
---@param given table name =, start =, duration =, label = (lists of one length), wait = the first part of each event;
---  open = false: nested events hidden at first; overview = true: without the events themselves
---@return integer? number of the lane
function Timeline:lane(given)
  if #given.start == 0 then return end
  local bins = least_bins -- of the overview: one for some events
  while bins < most_bins and bins * 8 < #given.start do bins = bins * 2 end
  local packed = pack.lane { start = given.start, duration = given.duration, label = given.label,
    kind = self.label_kinds, wait = given.wait, from = self.from, to = self.to, bins = bins,
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
  self.lane_count = (self.lane_count or 0) + 1
  list[#list + 1] = { name = given.name, id = self.lane_count, rows = packed.rows, count = #given.start,
    bins = bins, open = given.open ~= false, waits = given.wait ~= nil, overview = self.page:blob(packed.overview),
    chunks = json.array(chunks) }
  return self.lane_count
end

--- Adds a lane that draws one resource: its parts of the events in another lane (the number that `lane` returned).
function Timeline:resource(name, like, resource)
  if not like then return end
  local list = self.groups[#self.groups].lanes
  list[#list + 1] = { name = name, rows = 1, count = 0, open = true, like = like, resource = resource }
end

--- A named stretch above the lanes.
function Timeline:mark(name, from, to) self.marks[#self.marks + 1] = json.array { name, from, to } end

--- The timeline in the form that the script reads.
function Timeline:finish()
  local groups = {}
  for _, group in ipairs(self.groups) do
    if #group.lanes > 0 then
      group.lanes = json.array(group.lanes)
      groups[#groups + 1] = group
    end
  end
  local parts = #self.part_lists > 0 and { lists = json.array(self.part_lists), of = self.part_of }
  return { from = self.from, to = self.to, tick = self.tick, kinds = json.array(self.kinds),
    groups = json.array(groups), marks = json.array(self.marks), events = self.events, left_out = self.left_out,
    parts = parts and self.page:pack_json(parts) or nil,
    labels = self.page:pack_json { names = json.array(self.names), list = json.array(self.labels) } }
end

return lanes
