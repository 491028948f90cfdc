--- Kills `ett sample` at random moments until its campaign is done, and counts rows.
local lfs = require "lfs"
local sample = require "ett.sample"

local bench = { summary = "a campaign killed by SIGKILL at random moments" }

local function rows_of(folder)
  local seen, rows, twice = {}, 0, 0
  for entry in lfs.dir(folder) do
    if entry:match("%.csv$") then
      for line in io.lines(folder .. "/" .. entry, "L") do
        if line:match("^%d") and line:sub(-1) == "\n" then
          rows = rows + 1
          -- Times follow the shape's integers: 2 of the one table, 3 of the other.
          local key = entry .. line:match(entry:match("spec_sleep") and "^%d+,%d+," or "^%d+,%d+,%d+,")
          if seen[key] then twice = twice + 1 end
          seen[key] = true
        end
      end
    end
  end
  return rows, twice
end

local function alive(pid)
  local stat = io.open(("/proc/%d/stat"):format(pid))
  if not stat then return false end
  local state = (stat:read("a") or ""):match("%) (%a)")
  stat:close()
  return state ~= nil and state ~= "Z"
end

function bench.run(opts)
  local kills = opts.kills or 50
  local folder = os.tmpname()
  os.remove(folder)
  lfs.mkdir(folder)
  local host = require "ett.host"
  local file = host.root .. "/spec/samplers/fixture/kill.lua"
  local random, killed, resumed, before, lost, most_twice, growing = 12345, 0, 0, 0, 0, 0, 0
  local function command()
    return ("'%s/bin/ett' sample '%s' --out '%s' --quiet >/dev/null 2>'%s/err'"):format(
      host.prefix, file, folder, folder)
  end
  local done = false
  local finished = 0
  while killed < kills do
    local pipe = io.popen(("%s & echo $!"):format((command():gsub("^", "exec "))))
    local pid = tonumber(pipe:read("l"))
    random = (random * 1103515245 + 12345) % 2147483648
    -- Every fifth kill falls anywhere, starting up included; the others once a row was added (a header is none).
    local fraction, grows = random / 2147483648, killed % 5 ~= 0
    while grows and alive(pid) and rows_of(folder) <= before do sample.pause(0.001) end
    local until_ = sample.now() + (grows and 0.1 or 0.3) * fraction
    while sample.now() < until_ and alive(pid) do sample.pause(0.001) end
    if grows then growing = growing + 1 end
    if alive(pid) then
      os.execute(("kill -9 %d 2>/dev/null"):format(pid))
      while alive(pid) do sample.pause(0.001) end
      killed = killed + 1
    else
      finished = finished + 1
      done = true
    end
    pipe:close()
    local rows, twice = rows_of(folder)
    if grows and rows > before then resumed = resumed + 1 end
    if rows < before then lost = lost + before - rows end
    most_twice = math.max(most_twice, twice)
    before = rows
    if done then -- start over: the moments must fall within the work
      for entry in lfs.dir(folder) do
        if entry:match("%.csv") then os.remove(folder .. "/" .. entry) end
      end
      before, done = 0, false
    end
  end
  os.execute(command())
  local rows, twice = rows_of(folder)
  twice = math.max(twice, most_twice)
  os.execute(("rm -rf '%s'"):format(folder))
  local whole = 150 + 7 * 8 * 3
  return {
    { measure = "rows lost", value = lost + whole - rows, target = "0", pass = lost == 0 and rows == whole },
    { measure = "rows twice", value = twice, target = "0", pass = twice == 0 },
    { measure = ("kills (%d campaigns finished between)"):format(finished), value = killed, target = tostring(kills),
      pass = killed == kills },
    { measure = "runs that went on with new rows, of those killed after one", value = resumed,
      target = tostring(growing), pass = resumed == growing },
  }
end

return bench
