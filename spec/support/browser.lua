--- Drives a page in headless Chromium over WebDriver (browser.py). Specs skip where Chromium is missing.
local json = require "ett.json"

local browser = {}

--- The reason why no page can be driven here, or nil.
function browser.missing()
  for _, command in ipairs { "chromium", "chromedriver", "python3" } do
    if not os.execute(("command -v %s > /dev/null 2>&1"):format(command)) then return command .. " is not installed" end
  end
end

local driver -- the open browser: its input, and the folder with the pipe of its answers

local function open()
  local folder = require("command").folder()
  local pipe, said = folder .. "/answers", folder .. "/said"
  assert(os.execute(("mkfifo '%s'"):format(pipe)))
  -- After an error the pipe holds the error instead of an answer. At the normal end the folder is removed.
  local input = assert(io.popen(("{ timeout 500 python3 '%s/spec/support/browser.py' '%s' || cat '%s' >'%s'; } "
    .. ">'%s' 2>&1"):format(require("ett.host").root, pipe, said, pipe, said), "w"))
  return setmetatable({ input = input, folder = folder, pipe = pipe }, { __gc = function(self)
    require("command").remove(self.folder)
    self.input:close()
  end })
end

--- Runs steps on pages. The calls of a process share one browser, because its start takes longer than most pages.
---@param pages table[] { file, steps as browser.py takes them }
---@return table[] for each page { results of its steps, text of the console }
function browser.drive_all(pages)
  local all = {}
  for _, page in ipairs(pages) do
    all[#all + 1] = { open = page[1] }
    table.move(page[2], 1, #page[2], #all + 1, all)
    all[#all + 1] = { console = true }
  end
  driver = driver or open()
  driver.input:write(json.encode(json.array(all)), "\n")
  driver.input:flush()
  local pipe <close> = assert(io.open(driver.pipe))
  local text = pipe:read "a"
  local answers = json.decode(text)
  if type(answers) ~= "table" then
    driver = nil
    error(text, 2)
  end
  local list, at = {}, 0
  for i, page in ipairs(pages) do
    local count = #page[2]
    list[i] = { table.move(answers, at + 2, at + 1 + count, 1, {}), answers[at + count + 2] }
    at = at + count + 2
  end
  return list
end

--- Runs steps on a page; returns the result of each, and the text of the console. Fails if the page fails.
function browser.drive(file, steps) return table.unpack(browser.drive_all { { file, steps } }[1]) end

return browser
