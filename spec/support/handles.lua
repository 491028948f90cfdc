--- Finds ett objects (userdata whose type is named "ett.…") that are still reachable after all specs of a file: a
-- library keeps them and everything that they reference.
local handles = {}

-- Objects that stay on purpose, and scratch without resources.
local allowed = { ["null"] = true, ["ett.buffer"] = true, ["ett.trace.reader"] = true }

local function type_name(object)
  local meta = debug.getmetatable(object)
  local name = type(meta) == "table" and rawget(meta, "__name")
  return type(name) == "string" and name or nil
end

--- Names of the types of reachable objects, with their counts, sorted: {"ett.csv (2)"}.
---@param skip table<any, boolean>? values that are not searched
---@return string[]
function handles.open(skip)
  collectgarbage()
  collectgarbage()
  local seen, queue, counts = { [handles] = true }, { debug.getregistry() }, {}
  for value in pairs(skip or {}) do seen[value] = true end
  local function push(value)
    local kind = type(value)
    if (kind == "table" or kind == "function" or kind == "userdata" or kind == "thread") and not seen[value] then
      seen[value] = true
      queue[#queue + 1] = value
    end
  end
  while #queue > 0 do
    local value = table.remove(queue)
    local kind = type(value)
    push(debug.getmetatable(value))
    if kind == "table" then
      for key, item in next, value do
        push(key)
        push(item)
      end
    elseif kind == "function" then
      local i = 1
      while true do
        local name, item = debug.getupvalue(value, i)
        if not name then break end
        push(item)
        i = i + 1
      end
    elseif kind == "userdata" then
      local name = type_name(value)
      if name and name:match("^ett%.") and not allowed[name] then counts[name] = (counts[name] or 0) + 1 end
      local i = 1
      while true do
        local item, there = debug.getuservalue(value, i)
        if not there then break end
        push(item)
        i = i + 1
      end
    end
  end
  local open = {}
  for name, count in pairs(counts) do open[#open + 1] = ("%s (%d)"):format(name, count) end
  table.sort(open)
  return open
end

return handles
