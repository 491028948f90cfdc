--- Device rows of XLA on TPU: which are communication, and the two halves of an asynchronous collective.
--
-- The hlo_category of a row states its opcode, else its HLO text (long_name). An asynchronous collective has two rows:
-- OPCODE-start and OPCODE-done, send and send-done, recv and recv-done, or async-start and async-done around any
-- operation (async-update between them). XLA names these wrappers by the wrapped opcode: "reduce-scatter-start.3"
-- (HloAsyncInstruction in xla/hlo/ir/hlo_instructions.cc). The collective lasts from the start of the first half to the
-- end of the last, and the core works on other rows between them.
--
-- The only operand of a last half is its first half: "%ag.1 = f32[8] all-gather-done((…) %all-gather-start.3)". Without
-- the text, a last half ends the open first half of its name, else the only open one of its opcode. The line "Async XLA
-- Ops" of an XPlane is not used: Chrome traces lack it (ConvertXPlaneToTraceEvents in XLA skips kXlaAsyncOpLineName).
local comm = require "ett.trace.comm"
local interval = require "ett.interval"
local stats = require "ett.trace.stats"

local xla = {}

local wrapper_halves = { start = true, update = true, done = true }

--- The opcode of a row without the suffix of its half, and the half: "start", "update", "done", or nil if it is whole.
---@param category string? hlo_category
---@param text string? long_name
---@param name string? the row's name
function xla.operation(category, text, name)
  local word = category or comm.opcode(text)
  if type(word) ~= "string" then return nil end
  local half = word:match "^async%-(%l+)$"
  if wrapper_halves[half] then
    local wrapped = (name or ""):match "^%a[%a%-]*" or ""
    return wrapped:gsub("%-" .. half .. "$", ""), half -- "all-gather-start.2", and "all-gather.1.call-start"
  end
  local opcode, last = word:match "^(.*)%-(%l+)$"
  if last == "start" or last == "done" then return opcode, last end
  return word, (word == "send" or word == "recv") and "start" or nil
end

--- The rows that are communication.
---@param kernels any selection of rows of a TPU
function xla.communication(kernels)
  local rows = kernels - kernels
  local function add(category, text, name, events)
    local opcode = xla.operation(category, text, name)
    if opcode and comm.is_tpu_opcode(opcode) then rows = rows + events end
  end
  for _, group in ipairs(kernels:group { "arg:hlo_category" }) do
    local category = group.hlo_category
    if category and not tostring(category):find "^async%-" then
      add(category, nil, nil, group.events)
    else
      for _, each in ipairs(group.events:group { "arg:long_name", "name" }) do
        add(category, each.long_name, each.name, each.events)
      end
    end
  end
  return rows
end

--- The name of a row's instruction, and that of a later half's operand if the text states it.
local function names_of(name, text)
  if type(text) ~= "string" then return name end
  local operands = text:match "%-done(%b())" or text:match "%-update(%b())"
  return text:match "^%%?(%S+) = " or name,
    operands and (operands:match "%%([^%s,%)]+)" or operands:match "([%w%.%-_]+)%)$")
end

--- The open first halves of a line: their places by name, and by opcode as { [place] = true }.
local function new_line() return { named = {}, of_opcode = {} } end

local function open_half(line, place, opcode, name)
  local of_opcode = line.of_opcode[opcode] or {}
  line.of_opcode[opcode] = of_opcode
  if line.named[name] then of_opcode[line.named[name]] = nil end -- it runs again without having ended
  line.named[name], of_opcode[place] = place, true
end

--- The place of the first half that a later half continues, or nil.
local function first_half(line, opcode, half, name, operand)
  local of_opcode = line.of_opcode[opcode] or {}
  if operand then
    local place = line.named[operand]
    return place and of_opcode[place] and place or nil
  end
  for _, suffix in ipairs { "-start", "" } do
    local place = line.named[(name:gsub("%-" .. half, suffix))]
    if place and of_opcode[place] then return place end
  end
  local only = next(of_opcode)
  return only and next(of_opcode, only) == nil and only or nil
end

---@class ett.XlaPair
---@field ts integer start of the first half
---@field stop integer end of the last half
---@field first integer place of the first half in `rows`
---@field last integer place of the last half

---@class ett.XlaPairs
---@field rows any the communication rows of a device in order of start; a place is a number in them
---@field place table<integer, integer> places by row
---@field at table<integer, ett.XlaPair> pairs by the place of their first half
---@field of_last table<integer, ett.XlaPair> pairs by the place of their last half
---@field inner table<integer, true> places of later halves of pairs
---@field spans any interval set of the pairs
---@field half table<integer, true> places of halves without their other half
---@field alone integer number of these

--- The asynchronous collectives among communication rows of a device.
---@return ett.XlaPairs
function xla.pairs(rows)
  local sorted = rows:sort "ts"
  local c = stats.columns(sorted, { "row", "track", "ts", "end", "name", "hlo_category", "long_name" })
  local out = { rows = sorted, place = {}, at = {}, of_last = {}, inner = {}, half = {}, alone = 0 }
  local lines, spans, names, updates = {}, {}, {}, {}
  local function close(line, opcode, first, last)
    local pair = { ts = c.ts[first], stop = math.max(c["end"][last], c["end"][first]), first = first, last = last }
    out.at[first], out.of_last[last], spans[#spans + 1] = pair, pair, { pair.ts, pair.stop }
    out.half[first], out.half[last], out.inner[last] = nil, nil, true
    line.named[names[first]], line.of_opcode[opcode][first] = nil, nil
    for _, update in ipairs(updates[first]) do
      line.named[names[update]], out.half[update], out.inner[update] = nil, nil, true
    end
  end
  for i, row in ipairs(c.row) do
    out.place[row] = i
    local text = c.long_name[i] or nil
    local opcode, half = xla.operation(c.hlo_category[i] or nil, text, c.name[i] or nil)
    if half then
      local line = lines[c.track[i]] or new_line()
      lines[c.track[i]], out.half[i] = line, true
      local name, operand = names_of(c.name[i] or "", text)
      names[i] = name
      local first = half ~= "start" and first_half(line, opcode, half, names[i], operand)
      if half == "start" then
        updates[i] = {}
        open_half(line, i, opcode, names[i])
      elseif first and half == "update" then
        line.named[names[i]] = first
        table.insert(updates[first], i)
      elseif first then
        close(line, opcode, first, i)
      end
    end
  end
  for _ in pairs(out.half) do out.alone = out.alone + 1 end
  out.spans = interval.new(spans)
  return out
end

--- The first element of a tuple's shape, or the shape itself: "(f32[8]{0}, u32[], token[])" -> "f32[8]{0}".
local function first_shape(shape)
  local inner = type(shape) == "string" and shape:match "^%s*%((.*)%)%s*$"
  if not inner then return shape end
  local depth = 0
  for at, bracket in inner:gmatch "()([%(%)%[%]{},])" do
    if bracket == "," and depth == 0 then return inner:sub(1, at - 1) end
    if bracket ~= "," then depth = depth + (bracket:find "[%(%[{]" and 1 or -1) end
  end
  return inner
end

--- The shape of the message of a collective, from the shapes of its row or of both halves. A send gives its operand, a
--- context and a token, and send-done only a token. A recv-done gives the message and a token (HloSendInstruction and
--- HloRecvDoneInstruction in xla/hlo/ir/hlo_instructions.cc).
function xla.message_shape(opcode, first, last)
  if opcode == "send" then return first_shape(first) end
  if opcode == "recv" then return first_shape(last or first) end
  return last or first
end

--- Rows of asynchronous wrappers whose names do not say what they wrap ("async-collective-start.2").
local function is_unnamed(name)
  local word = name:match "^async%-([%a%-]+)"
  return word == "start" or word == "done" or word == "collective-start" or word == "collective-done"
end

--- Warnings of halves without their other half, and of wrappers of unknown operations.
---@return table[] list { file =, code =, message =, count = }
function xla.warnings(view)
  local alone, list = 0, {}
  for _, lane in ipairs(view:lane_list()) do alone = alone + (lane.tpu and lane:asynchronous().alone or 0) end
  if alone > 0 then
    list[1] = { file = view.path, code = "async_half", count = alone, message = "an asynchronous collective has only "
      .. "one of its two rows; it counts with the time of that row and without bytes" }
  end
  local unnamed = #view:named_rows("unnamed_async", { "kernel" }, is_unnamed)
  if unnamed > 0 then
    list[#list + 1] = { file = view.path, code = "async_wrapper", count = unnamed, message = "the row of an "
      .. "asynchronous operation does not say what it wraps (async-collective-start, async-start); it counts as "
      .. "compute" }
  end
  return list
end

return xla
