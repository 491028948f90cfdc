--- inflate(texts): inflates base64 texts with Python's zlib, an oracle that shares no code with ISA-L.
---@param texts string[]
---@return string[]
return function(texts)
  return require("ett.base.folder").within(function(folder)
    require("ett.base.folder").write(folder .. "/x", table.concat(texts, "\n"))
    local pipe = io.popen(("python3 -c 'import base64,zlib\nfor t in open(\"%s/x\").read().split(\"\\n\"): "
      .. "print(zlib.decompress(base64.b64decode(t, validate=True), -15).hex())'"):format(folder))
    local list = {}
    for i = 1, #texts do
      list[i] = assert(pipe:read("l")):gsub("%x%x", function(pair) return string.char(tonumber(pair, 16)) end)
    end
    assert(pipe:close())
    return list
  end)
end
