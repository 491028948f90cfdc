-- The commands of the root README print what it shows. Numbers may differ by 1 %, so that a new calibration does not
-- make it wrong, and a stale page is noticed all the same. ETT_UPDATE=1 puts in what is printed now.
local files = require "ett.io"
local host = require "ett.host"
local tree = require "tree"

local path = tree.root .. "/README.md"

--- The parts of a console block: command, what it prints, exit status, the lines that are typed.
local function parse(code)
  local lines, command, expected, status, typed = {}, nil, {}, 0, {}
  for line in (code .. "\n"):gmatch("(.-)\n") do lines[#lines + 1] = line end
  for _, line in ipairs(lines) do
    if line:sub(1, 2) == "$ " and not command then
      command = line:sub(3)
      typed[1] = line
    elseif (line:sub(1, 2) == "> " or line == ">") and #expected == 0 then
      command = command .. "\n" .. line:sub(3)
      typed[#typed + 1] = line
    elseif line:match("^%?%d+$") then
      status = tonumber(line:sub(2))
    else
      expected[#expected + 1] = line
    end
  end
  return command, expected, status, table.concat(typed, "\n")
end

local function run(command)
  local folder = os.tmpname()
  os.remove(folder)
  assert(files.make_folder(folder))
  assert(files.write(folder .. "/.command", command .. "\n"))
  local pipe = assert(io.popen(("cd %s && PATH='%s/bin':$PATH sh .command 2>&1"):format(folder, host.prefix)))
  local output = pipe:read("a")
  local _, _, status = pipe:close()
  os.execute("rm -rf " .. folder)
  return output, status
end

local function words(line)
  local list = {}
  for word in line:gmatch("%S+") do list[#list + 1] = word end
  return list
end

local function close(a, b)
  if a == b then return true end
  local x, y = tonumber((a:gsub("[%[%],;%%]", ""))), tonumber((b:gsub("[%[%],;%%]", "")))
  return x ~= nil and y ~= nil and math.abs(x - y) <= math.max(0.01 * math.abs(x), 0.06)
end

local function lines_agree(shown, printed)
  local a, b = words(shown), words(printed)
  if a[#a] == "..." and #b >= #a - 1 then
    a[#a] = nil
    b = table.move(b, 1, #a, 1, {})
  end
  if #a ~= #b then return false end
  for i = 1, #a do if not close(a[i], b[i]) then return false end end
  return true
end

local function agree(shown, printed, i, j)
  while i <= #shown do
    if shown[i] == "..." then
      for k = j, #printed + 1 do if agree(shown, printed, i + 1, k) then return true end end
      return false
    end
    if j > #printed or not lines_agree(shown[i], printed[j]) then return false end
    i, j = i + 1, j + 1
  end
  return j == #printed + 1
end

local function lines_of(text)
  local list = {}
  for line in text:gmatch("([^\n]*)\n") do list[#list + 1] = line end
  return list
end

describe("README.md", function()
  local text = assert(files.read(path))
  local updated, count = text, 0
  for code in text:gmatch("\n```console\n(.-)\n```") do
    count = count + 1
    it(("command %d prints what it shows"):format(count), function()
      local command, shown, status, typed = parse(code)
      local output, got_status = run(command)
      local wildcard = false
      for _, line in ipairs(shown) do wildcard = wildcard or line:match("%.%.%.$") ~= nil end
      if os.getenv("ETT_UPDATE") and not wildcard then

        local fresh = typed .. "\n" .. output .. (got_status ~= 0 and "?" .. got_status or "")
        fresh = fresh:gsub("\n$", "")
        local start, stop = updated:find(code, 1, true)
        updated = updated:sub(1, start - 1) .. fresh .. updated:sub(stop + 1)

        assert(files.write(path, updated))
      else
        assert.equal(status, got_status, output)
        assert.is_true(agree(shown, lines_of(output), 1, 1),
          "README.md shows:\n" .. table.concat(shown, "\n") .. "\nbut this is printed:\n" .. output)
      end
    end)
  end

  it("begins with three sentences, then a command and its step time", function()
    assert.is_true(count >= 4)
    assert.matches("^# ett\n\n[^`#]+```console\n%$ ett predict [^\n]+\n[^`]-\nstep time", text)
  end)
end)
