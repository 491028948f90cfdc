--- A strict reader of the XML that ett writes: raises at the first violation of XML 1.0.
--
--   xml.read(text) -> { name =, attributes = { name = value }, text =, children... }
local xml = {}

local entities = { amp = "&", lt = "<", gt = ">", quot = '"', ["#39"] = "'" }

local function unescaped(text, at)
  assert(not text:find("<", 1, true), "a bare < in text at byte " .. at)
  return (text:gsub("&([^;&]*);?", function(name)
    return assert(entities[name], "an unknown or bare & at byte " .. at .. ": " .. name)
  end))
end

local function attributes(text, at)
  local found, rest = {}, text
  while rest:match("%S") do
    local name, quote, after = rest:match("^%s+([%a_][%w_:%-%.]*)=([\"'])()")
    assert(name, "no attribute at byte " .. at .. ": " .. rest)
    local stop = assert(rest:find(quote, after, true), "an attribute that does not end at byte " .. at)
    assert(found[name] == nil, "attribute " .. name .. " twice at byte " .. at)
    found[name] = unescaped(rest:sub(after, stop - 1), at)
    rest = rest:sub(stop + 1)
  end
  return found
end

function xml.read(text)
  assert(utf8.len(text), "not UTF-8")
  assert(not text:find("[%z\1-\8\11\12\14-\31]"), "a control character")
  local at = select(2, text:find("^<!DOCTYPE %w+>%s*")) or 0
  local root, stack = nil, {}
  at = at + 1
  while at <= #text do
    local open = text:find("<", at, true) or #text + 1
    local between = text:sub(at, open - 1)
    if #stack == 0 then
      assert(not between:match("%S"), "text outside of the root at byte " .. at)
    else
      stack[#stack].text = stack[#stack].text .. unescaped(between, at)
    end
    if open > #text then break end
    local close = assert(text:find(">", open, true), "a tag that does not end at byte " .. open)
    local tag = text:sub(open + 1, close - 1)
    if tag:sub(1, 1) == "/" then
      local top = assert(table.remove(stack), "an end without a start at byte " .. open)
      assert(top.name == tag:sub(2), ("</%s> ends <%s> at byte %d"):format(tag:sub(2), top.name, open))
    else
      local name, rest, empty = tag:match("^([%a_][%w_:%-%.]*)(.-)(/?)$")
      assert(name, "no tag at byte " .. open .. ": " .. tag)
      local node = { name = name, attributes = attributes(rest, open), text = "" }
      if #stack > 0 then
        table.insert(stack[#stack], node)
      else
        assert(not root, "a second root at byte " .. open)
        root = node
      end
      if empty == "" then stack[#stack + 1] = node end
    end
    at = close + 1
  end
  assert(#stack == 0, "not ended: " .. (stack[1] and stack[1].name or ""))
  return assert(root, "no root")
end

--- Every node of a name under `node`, in order.
function xml.all(node, name, into)
  into = into or {}
  for _, child in ipairs(node) do
    if child.name == name then into[#into + 1] = child end
    xml.all(child, name, into)
  end
  return into
end

return xml
