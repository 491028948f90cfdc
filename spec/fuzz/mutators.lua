--- Random values, and random changes of tables and texts, of the fuzzing scripts.
local random = math.random
local m = {}

function m.pick(list) return list[random(#list)] end
local pick = m.pick

m.numbers = { 0, 1, 2, 3, 4, 7, 8, 64, 128, 1024, -1, -8, 1 << 31, 1 << 62, math.mininteger, 0.5, 1.5, -0.5,
  1e-300, 1e300, 1e9, 1e12, 0 / 0, 1 / 0, -1 / 0 }
m.texts = { "", "a", "bf16", "ring", "1f1b", "llama", "../x", "a\nb", "\27[31m", ("x"):rep(300), "%s%d", "true",
  "8" }

function m.any(depth)
  local kind = random(depth > 2 and 4 or 6)
  if kind <= 2 then return pick(m.numbers) end
  if kind == 3 then return pick(m.texts) end
  if kind == 4 then return random(2) == 1 end
  local t = {}
  for i = 1, random(0, 3) do t[random(2) == 1 and i or pick(m.texts)] = m.any(depth + 1) end
  return t
end

function m.copy(value)
  if type(value) ~= "table" then return value end
  local t = {}
  for key, each in pairs(value) do t[key] = m.copy(each) end
  return t
end

function m.sorted(t)
  local keys = {}
  for key in pairs(t) do keys[#keys + 1] = key end
  table.sort(keys, function(a, b) return tostring(a) < tostring(b) end)
  return keys
end

-- A field somewhere in the tables is replaced, removed or added.
local function mutate(value)
  local t = value
  while true do
    local keys = m.sorted(t)
    local key = #keys > 0 and pick(keys)
    if key and type(t[key]) == "table" and random(3) > 1 then
      t = t[key]
    else
      local act = random(5)
      if act == 1 or not key then t[pick(m.texts)] = m.any(0) elseif act == 2 then t[key] = nil
      elseif act == 3 and type(t[key]) == "number" then t[key] = t[key] * pick { 0, -1, 1e-9, 1e9, 2, 3 }
      else t[key] = m.any(0) end
      return
    end
  end
end

--- A copy of a table with one to three changes.
function m.mutated(value)
  local new = m.copy(value)
  for _ = 1, random(3) do mutate(new) end
  return new
end

--- A Lua expression of a value; "@text" is an expression itself.
function m.source(value)
  if type(value) == "string" then return value:sub(1, 1) == "@" and value:sub(2) or ("%q"):format(value) end
  if type(value) ~= "table" then
    if value ~= value then return "0/0" end
    return value == math.huge and "1/0" or value == -math.huge and "-1/0" or ("%q"):format(value)
  end
  local parts = {}
  for _, key in ipairs(m.sorted(value)) do
    local plain = type(key) == "string" and key ~= "true" and key:find "^%a[%w_]*$" and key -- no other keyword in texts
    parts[#parts + 1] = ("%s = %s"):format(plain or ("[%s]"):format(m.source(key)), m.source(value[key]))
  end
  return "{ " .. table.concat(parts, ", ") .. " }"
end

-- Changes of a text at a random place: a function of the text, the place and other words that such a text may hold.
local changes = {
  function(text, at) return text:sub(1, at - 1) .. string.char(random(0, 255)) .. text:sub(at + 1) end,
  function(text, at) return text:sub(1, at) .. text:sub(at + random(40)) end,
  function(text, at) return text:sub(1, at + random(40)) .. text:sub(at + 1) end,
  function(text, at) return random(4) == 1 and text:sub(1, at) or text end,
  function(text, at) return text:sub(1, at - 1) .. text:sub(at):gsub("%d[%d.]*", tostring(pick(m.numbers)), 1) end,
  function(text, at, words) return text:sub(1, at - 1) .. text:sub(at):gsub("%a[%w_%-]*", function()
    return tostring(pick(random(3) == 1 and m.texts or words))
  end, 1) end,
  function(text, at, words) -- a copied line; a word in place of its last
    local line = text:match("[^\n]*\n", at) or ""
    return text .. (random(2) == 1 and line or line:gsub("[^%s]+\n$", function() return pick(words) .. "\n" end))
  end,
}

--- A text with one to four changes.
function m.damaged(text, words)
  for _ = 1, random(4) do
    if #text > 0 then text = pick(changes)(text, random(#text), words or m.texts) end
  end
  return text
end

return m
