--- Matches recorded runs of operators with the operators of a model.
--
-- An operator whose key (ett.loop.expected) is in both trace and model is an anchor, and its runs are matched by key.
-- Runs between two anchors belong to the model's operators between the same two: compiled kernels have no shapes, and
-- unfused attention has others. If there are several such operators, only their joint time is known. An operator that
-- joins an anchor (operators/README.md) is timed with that anchor.
local expected = require "ett.loop.expected"
local schema = require "ett.base.schema"

local match = {}

local function joined(set) return table.concat(schema.keys(set), " + ") end

--- Merges operators that join an anchor into it. Returns all others, or the key of the anchor if none is left.
local function without_joined(entries, anchors)
  local left, home = {}, nil
  for _, entry in ipairs(entries) do
    local joined_to
    for _, key in ipairs(entry.operator.joins and schema.keys(anchors) or {}) do
      if anchors[key].names[entry.operator.joins] then joined_to = key end
    end
    if joined_to then
      home = joined_to
      anchors[home].joined = entry
      anchors[home].names[entry.name] = true
    else
      left[#left + 1] = entry
    end
  end
  left.home = #left == 0 and home or nil
  return left
end

--- Anchors by key: { names = set, entry }, and the operators between neighbouring anchors: by "KEY > KEY".
local function index_of(sequence, present)
  local anchors, gaps, before, between = {}, {}, "start", {}
  local function close(key)
    local gap = before .. " > " .. key
    -- Equal pairs of neighbours enclose the same operators; the first occurrence is used.
    if not gaps[gap] then gaps[gap] = between end
    before, between = key, {}
  end
  for _, entry in ipairs(sequence) do
    if entry.key and present[entry.key] then
      local anchor = anchors[entry.key] or { names = {}, entry = entry, key = entry.key }
      anchors[entry.key] = anchor
      anchor.names[entry.name] = true
      if entry.beside then anchor.joined, anchor.names[entry.beside.name] = entry.beside, true end
      close(entry.key)
    else
      between[#between + 1] = entry
    end
  end
  close "end"
  for gap, entries in pairs(gaps) do gaps[gap] = without_joined(entries, anchors) end
  return anchors, gaps
end

local product = require("ett.operator").products

local function new_line(name, pass, entries)
  return { name = name, pass = pass, entries = entries, ticks = 0, count = 0, list = {}, places = {}, kernels = {},
    hosts = {} }
end

--- Counts an execution of a line: its ticks, and its first run.
local function count(line, device, ticks, first)
  line.count = line.count + 1
  line.list[line.count], line.places[line.count] = ticks, { device = device, from = first.ts }
end

local function add_run(line, run)
  line.ticks = line.ticks + run.ticks
  line.hosts[run.name] = (line.hosts[run.name] or 0) + run.ticks
  for name, ticks in pairs(run.kernels) do line.kernels[name] = (line.kernels[name] or 0) + ticks end
end

local State = {}
State.__index = State

--- The line of a name and, for an anchor, its key: two shapes of one operator are two lines.
function State:line(name, pass, entries, key)
  local id = name .. " " .. pass .. " " .. (key or "")
  local line = self.lines[id]
  if not line then
    line = new_line(name, pass, entries)
    self.lines[id], self.order[#self.order + 1] = line, line
  end
  return line
end

--- Whether the runs hold a product if the operators do; if not, the trace did not run these operators.
local function holds_products(entries, runs)
  local wanted, found = false, false
  for _, entry in ipairs(entries) do wanted = wanted or product[entry.operator.family] end
  for _, run in ipairs(runs) do found = found or run.operation and product[run.operation.family] end
  return not wanted or found
end

--- Adds the pending time of a line to its last run.
local function add_pending(line)
  if line.pending and line.count > 0 then
    line.list[line.count], line.pending = line.list[line.count] + line.pending, nil
  end
end

function State:anchor_line(pass, key)
  local anchor = self.anchors[key]
  return self:line(joined(anchor.names), pass, { anchor.entry, anchor.joined }, key)
end

--- Adds runs to a neighbouring run of the anchor: the previous one, or in the backward pass the next one.
function State:add_to_anchor(pass, key, runs)
  local line = self:anchor_line(pass, key)
  for _, run in ipairs(runs) do
    add_run(line, run)
    line.pending = (line.pending or 0) + run.ticks
  end
  if pass ~= "backward" then add_pending(line) end
end

--- Adds the runs between two anchors to the model's operators between them, or to those not in the model.
function State:close_gap(pass, from, to, runs)
  local gap = pass == "backward" and to .. " > " .. from or from .. " > " .. to
  local entries = self.gaps[gap]
  if entries and not holds_products(entries, runs) then entries = nil end
  if #runs == 0 then
    for _, entry in ipairs(entries or {}) do self.absent[entry.name] = true end
    return
  end
  if entries and entries.home then return self:add_to_anchor(pass, entries.home, runs) end
  local line
  if entries and #entries > 0 then
    local names = {}
    for _, entry in ipairs(entries) do names[entry.name], self.ran[entry.name] = true, true end
    line = self:line(joined(names), pass, entries)
    line.gap = true
  end
  local before = line and line.ticks
  for _, run in ipairs(runs) do
    local target = line or self.absorb and self.last
    if target and not line then
      target.list[target.count] = target.list[target.count] + run.ticks
    elseif not target then
      target = self:line("not in the model: " .. run.name, pass, nil)
      count(target, self.device, run.ticks, run)
    end
    add_run(target, run)
  end
  if line then count(line, self.device, line.ticks - before, runs[1]) end
end

--- Adds a run whose launch was not recorded, as at the start of a recording.
local function add_unlinked(state, run)
  local line = state:line("not in the model: launched before the recording", "forward", nil)
  count(line, state.device, run.ticks, run)
  add_run(line, run)
end

function State:walk(pass, runs)
  local before, between = pass == "backward" and "end" or "start", {}
  for _, run in ipairs(runs) do
    local key = run.operation and expected.meet(run.operation)
    local anchor = key and self.anchors[key]
    if anchor then
      self:close_gap(pass, before, key, between)
      before, between = key, {}
      local line = self:anchor_line(pass, key)
      count(line, self.device, run.ticks, run)
      add_run(line, run)
      add_pending(line)
      self.last = line
    else
      between[#between + 1] = run
    end
  end
  if #between > 0 then self:close_gap(pass, before, pass == "backward" and "start" or "end", between) end
end

function match.present(devices)
  local present = {}
  for _, device in ipairs(devices) do
    for _, run in ipairs(device.runs) do
      if run.operation and run.operation.family ~= "optimizer" then present[expected.meet(run.operation)] = true end
    end
  end
  return present
end

--- Lines of a trace under a model: { name, pass, entries (of the model; nil: not in the model), ticks, count, list
--- (ticks of each run), places (device and start of each run), kernels, hosts (ticks by host operator), gap }, in
--- order of appearance.
---@param devices table[] of ett.trace.operators.of_view
---@param sequence table[] of expected.sequence
---@param present table<string, boolean> of match.present
---@return table[] lines, string[] absent names of model operators without a run in the trace
---@param absorb boolean? add operations that are not in the model to the preceding anchor
function match.lines(devices, sequence, present, absorb)
  local state = setmetatable({ lines = {}, order = {}, absent = {}, ran = {}, absorb = absorb }, State)
  state.anchors, state.gaps = index_of(sequence, present)
  for i, device in ipairs(devices) do
    state.device = i
    local by_pass = { forward = {}, backward = {}, recompute = {}, update = {} }
    for _, run in ipairs(device.runs) do
      if run.node then table.insert(by_pass[run.pass], run) else add_unlinked(state, run) end
    end
    for _, pass in ipairs { "forward", "recompute", "backward" } do state:walk(pass, by_pass[pass]) end
    for _, run in ipairs(by_pass.update) do
      local line = state:line("optimizer", "update", nil)
      line.update = true
      count(line, i, run.ticks, run)
      add_run(line, run)
    end
  end
  local absent = {}
  for name in pairs(state.absent) do if not state.ran[name] then absent[#absent + 1] = name end end
  table.sort(absent)
  return state.order, absent
end

return match
