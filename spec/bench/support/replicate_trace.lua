--- Makes a large trace from a real one: repeats its events with later times.
local replicate = {}

--- Text of a (gzipped) file.
local function read(path)
  local pipe = assert(io.popen(("gzip -dcf %q"):format(path), "r"))
  local text = pipe:read("a")
  assert(pipe:close(), "cannot read " .. path)
  return text
end

--- Writes to `target` the trace at `source` with its events repeated, each copy shifted by
--- the span of the events before it, until at least `bytes` bytes are written.
---@param source string  Kineto JSON, gzipped or not
---@param target string
---@param bytes integer
---@return integer copies
---@return integer bytes written
function replicate.write(source, target, bytes)
  local text = read(source)
  local _, first = text:find('"traceEvents"%s*:%s*%[')
  local last = #text - text:reverse():find("]", 1, true)
  local head, body, tail = text:sub(1, first), text:sub(first + 1, last), text:sub(last + 1)
  -- the events between the "ts" numbers; copies differ only in these numbers
  local pieces, times, from = {}, {}, 1
  local least, most = math.maxinteger, math.mininteger
  while true do
    local _, stop, number = body:find('"ts":%s*(%d+)', from)
    if not stop then break end
    local ts = math.tointeger(tonumber(number))
    pieces[#pieces + 1] = body:sub(from, stop - #number)
    times[#times + 1] = ts
    if ts > 0 then least, most = math.min(least, ts), math.max(most, ts) end
    from = stop + 1
  end
  local rest = body:sub(from)
  local file = assert(io.open(target, "wb"))
  file:setvbuf("full", 1 << 20)
  file:write(head)
  local copies, written, period = 0, #head + #tail, most - least + 1000
  while written < bytes do
    local out = {}
    for i = 1, #pieces do
      out[2 * i - 1] = pieces[i]
      out[2 * i] = times[i] > 0 and times[i] + copies * period or times[i]
    end
    local copy = (copies > 0 and "," or "") .. table.concat(out) .. rest
    assert(file:write(copy))
    written = written + #copy
    copies = copies + 1
  end
  assert(file:write(tail))
  assert(file:close())
  return copies, written
end

return replicate
