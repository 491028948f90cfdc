--- `ett transcript`: runs a CLI transcript (spec/cli/*.t; format in spec/cli/README.md).
local function matches(pattern, line)
  if pattern == line then return true end
  if not pattern:find("...", 1, true) then return false end
  local lua_pattern = pattern:gsub("[%^%$%(%)%%%.%[%]%*%+%-%?]", "%%%0"):gsub("%%%.%%%.%%%.", ".*")
  return line:match("^" .. lua_pattern .. "$") ~= nil
end

local function lines_match(expected, i, actual, j)
  while i <= #expected do
    if expected[i] == "..." then
      for k = j, #actual + 1 do if lines_match(expected, i + 1, actual, k) then return true end end
      return false
    end
    if j > #actual or not matches(expected[i], actual[j]) then return false end
    i, j = i + 1, j + 1
  end
  return j == #actual + 1
end

local function read_cases(path)
  local cases, case, needs = {}, nil, nil -- case is nil between an empty line and the next command
  for line in assert(io.open(path)):lines() do
    if line:sub(1, 2) == "$ " then
      case = { command = line:sub(3), expected = {}, status = 0, needs = needs }
      cases[#cases + 1], needs = case, nil
    elseif line:sub(1, 2) == "> " and case and #case.expected == 0 then
      case.command = case.command .. "\n" .. line:sub(3)
    elseif line:match("^%?%d+$") and case then
      case.status = tonumber(line:sub(2))
    elseif not case and line:match "^# needs %S+$" then
      needs = line:match "%S+$"
    elseif line == "" then
      case = nil
    elseif case then
      case.expected[#case.expected + 1] = line == "." and "" or line
    end -- otherwise a comment
  end
  return cases
end

local function lines_of(text)
  local lines = {}
  for line in (text:find "\n$" and text or text .. "\n"):gmatch "(.-)\n" do lines[#lines + 1] = line end
  return text == "" and {} or lines
end

-- Runs a command in a separate folder: its output lines and its exit status. In the source tree, a plain call of ett
-- runs in a forked child (spec/support/command.lua).
local function answer(case, path, forks)
  local words = forks and case.command:match "^ett " and forks.words(case.command:sub(5))
  if words then
    local output, status = require("ett.base.folder").within(function(folder) return forks.ett(folder, words) end)
    return lines_of(output), status
  end
  local folders, host, quote = require "ett.base.folder", require "ett.host", require("ett.base.shell").quote
  return folders.within(function(folder)
    local script = ("cd %s && export PATH=%s:$PATH ETT_ROOT=%s SPEC=%s && (%s\n) 2>&1"):format(quote(folder),
      quote(host.prefix .. "/bin"), quote(host.root), quote(path:match("^(.*)/[^/]*$") or "."), case.command)
    local pipe = assert(io.popen(script, "r"))
    local actual = {}
    for line in pipe:lines() do actual[#actual + 1] = line end
    local _, _, status = pipe:close()
    return actual, status
  end)
end

return {
  name = "transcript",
  starts = true,
  summary = "run CLI transcripts and compare their output",
  usage = "transcript FILE ...",
  hidden = true,
  run = function(_, files)
    local failed, passed, skipped = 0, 0, 0
    local support = require("ett.host").root .. "/spec/support"
    package.path = package.path .. ";" .. support .. "/?.lua"
    local forks = require("lfs").attributes(support) and pcall(require, "ett.testing") and require "command" or nil
    for _, path in ipairs(files) do
      for _, case in ipairs(read_cases(path)) do
        if case.needs and not pcall(require, case.needs) then
          skipped = skipped + 1
          print(("skipped, %s is not built: $ %s"):format(case.needs, case.command))
        else
          local actual, status = answer(case, path, forks)
          if status == case.status and lines_match(case.expected, 1, actual, 1) then
            passed = passed + 1
          else
            failed = failed + 1
            print(("%s: $ %s\n--- expected (exit %d)\n%s\n--- got (exit %d)\n%s\n"):format(path, case.command,
              case.status, table.concat(case.expected, "\n"), status, table.concat(actual, "\n")))
          end
        end
      end
    end
    print(("%d passed, %d failed%s"):format(passed, failed, skipped > 0 and (", %d skipped"):format(skipped) or ""))
    return failed == 0 and passed > 0 and 0 or 1
  end,
}
