--- Reads XML with Python's expat, a strict parser that shares no code with ett.
local folders = require "ett.base.folder"

local xml = {}

local reader = [[
import json, sys, xml.etree.ElementTree as tree
def node(e):
    text = (e.text or "") + "".join(c.tail or "" for c in e)
    return {"name": e.tag.split("}")[-1], "attributes": e.attrib, "text": text, "children": [node(c) for c in e]}
print(json.dumps(node(tree.parse(sys.argv[1]).getroot())))
]]

local function filled(node)
  table.move(node.children, 1, #node.children, 1, node)
  for _, child in ipairs(node) do filled(child) end
  return node
end

--- The root of a document, { name =, attributes = { name = value }, text =, children … }. Raises if the text is not
--- well-formed.
function xml.read(text)
  return folders.within(function(folder)
    folders.write(folder .. "/read.py", reader)
    folders.write(folder .. "/text.xml", text)
    local pipe = io.popen(("python3 '%s/read.py' '%s/text.xml' 2>&1"):format(folder, folder))
    local answer = pipe:read "a"
    assert(pipe:close(), answer)
    return filled(require("ett.json").decode(answer))
  end)
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
