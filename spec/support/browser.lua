--- Drives a page in headless Chromium over WebDriver (browser.py). Specs skip where Chromium is missing.
local json = require "ett.json"

local browser = {}

--- Why no page can be driven here, or nil.
function browser.missing()
  for _, command in ipairs { "chromium", "chromedriver", "python3" } do
    if not os.execute(("command -v %s > /dev/null 2>&1"):format(command)) then return command .. " is not installed" end
  end
end

--- Runs steps on pages, one after another in one browser: its start takes longer than most pages.
---@param pages table[] { file, steps as browser.py takes them }
---@return table[] for each page { results of its steps, what the console said }
function browser.drive_all(pages)
  local all, root = {}, require("ett.host").root
  for _, page in ipairs(pages) do
    all[#all + 1] = { open = page[1] }
    table.move(page[2], 1, #page[2], #all + 1, all)
    all[#all + 1] = { console = true }
  end
  local answers = require("ett.base.folder").within(function(folder)
    assert(require("ett.io").write(folder .. "/steps.json", json.encode(json.array(all))))
    local pipe = io.popen(("timeout 200 python3 '%s/spec/support/browser.py' '%s/steps.json' 2>&1"):format(root,
      folder))
    local text = pipe:read("a")
    assert(pipe:close(), text)
    return (json.decode(text))
  end)
  local list, at = {}, 0
  for i, page in ipairs(pages) do
    local count = #page[2]
    list[i] = { table.move(answers, at + 2, at + 1 + count, 1, {}), answers[at + count + 2] }
    at = at + count + 2
  end
  return list
end

--- Runs steps on a page; returns the result of each, and what the console said. Fails when the page does.
function browser.drive(file, steps)
  return table.unpack(browser.drive_all { { file, steps } }[1])
end

return browser
