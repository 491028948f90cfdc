--- Drives a page in headless Chromium over WebDriver (browser.py). Specs skip where Chromium is missing.
local json = require "ett.json"

local browser = {}

--- Why no page can be driven here, or nil.
function browser.missing()
  for _, command in ipairs { "chromium", "chromedriver", "python3" } do
    if not os.execute(("command -v %s > /dev/null 2>&1"):format(command)) then return command .. " is not installed" end
  end
end

--- Runs steps on a page; returns the result of each, and what the console said. Fails when the page does.
---@param file string
---@param steps table[] as browser.py takes them
function browser.drive(file, steps)
  local root = require("ett.host").root
  return require("ett.base.folder").within(function(folder)
    assert(require("ett.io").write(folder .. "/steps.json", json.encode(json.array(steps))))
    local pipe = io.popen(("timeout 200 python3 '%s/spec/support/browser.py' '%s' '%s/steps.json' 2>&1"):format(root,
      file, folder))
    local text = pipe:read("a")
    assert(pipe:close(), text)
    local results = json.decode(text)
    return results, table.remove(results)
  end)
end

return browser
