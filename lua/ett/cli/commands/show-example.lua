--- Prints a bundled example.
local error_module = require "ett.base.error"
local find = require "ett.base.find"

return {
  name = "show-example",
  summary = "print a bundled example",
  usage = "show-example NAME",
  description = "`ett show-example NAME > mine.lua; ett run mine.lua` starts a model of your own.",
  run = function(_, words)
    if #words ~= 1 then
      error_module.raise("usage", "show-example: expected one NAME; `ett list-examples` lists them")
    end
    local name = words[1]:gsub("%.lua$", "")
    local path = find.path("examples", name)
    if not path then
      error_module.raise("usage", "show-example: no example '%s'%s; `ett list-examples` lists them", name,
        error_module.suggestion(name, find.names "examples"))
    end
    local text, err = require("ett.io").read(path)
    if not text then error(err, 0) end
    io.write(text)
    local folder = path:match "^(.*)/init%.lua$"
    if folder then io.stderr:write(("ett: note: it needs the files of its folder: cp -r '%s' .\n"):format(folder)) end
    return 0
  end,
}
