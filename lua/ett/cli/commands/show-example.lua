--- Prints a bundled example, or a file of an example's folder.
local error_module = require "ett.base.error"
local find = require "ett.base.find"

--- The path of NAME, or of FOLDER/FILE below the examples; nil if there is none.
local function path_of(name)
  local path = find.path("examples", name)
  if path or not (name:match "^[%w_][%w_%-]*/[%w_][%w_%-%.]*$" or name:match "^[%w_][%w_%-]*$") then return path end
  for _, root in ipairs(find.roots()) do
    for _, ending in ipairs { "", ".md", ".lua", "/README.md" } do
      local candidate = ("%s/examples/%s%s"):format(root, name, ending)
      if require("lfs").attributes(candidate, "mode") == "file" then return candidate end
    end
  end
end

return {
  name = "show-example",
  offers = "examples",
  summary = "print a bundled example",
  usage = "show-example NAME|FOLDER/FILE",
  description = "`ett show-example NAME > mine.lua; ett run mine.lua` starts a model of your own.\n"
    .. "`ett show-example planning` prints a table of questions, and `planning/best_plan` one page.",
  run = function(_, words)
    if #words ~= 1 then
      error_module.raise("usage", "show-example: expected one NAME; `ett list-examples` lists them")
    end
    local name = words[1]
    local path = path_of(name) or path_of((name:gsub("%.lua$", "")))
    if not path then
      local names = {}
      for i, entry in ipairs(require("ett.base.catalog").list "examples") do names[i] = entry.name end
      error_module.raise("usage", "show-example: no example '%s'%s; `ett list-examples` lists them", name,
        error_module.suggestion(name, names))
    end
    io.write(error_module.must(require("ett.io").read(path)))
    local folder = path:match "^(.*)/init%.lua$"
    if folder then
      io.stderr:write(("ett: note: this example needs the other files of its folder: cp -r '%s' .\n"):format(folder))
    end
  end,
}
