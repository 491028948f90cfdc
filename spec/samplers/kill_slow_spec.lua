--- The measure "a campaign killed at random moments", with fewer kills than the bench; and visits that outlive a kill.
local bench = require("ett.base.find").load("spec/bench", "campaign_kill")

it("a campaign killed by SIGKILL at random moments loses and repeats no row, and continues each time", function()
  local rows = bench.run { kills = 15 }
  for _, row in ipairs(rows) do assert.is_true(row.pass, row.measure .. ": " .. tostring(row.value)) end
end)

describe("a campaign whose tables take turns, killed between the visits of a block", function()
  local lfs, host, sample = require "lfs", require "ett.host", require "ett.sample"
  local visits_of_a_shape, shapes = 6, 30 + 4

  --- Whole lines of the folder's files of that ending but their first line, by shape.
  local function lines_of(folder, ending, shape_of)
    local all, most, count = 0, 0, {}
    for name in lfs.dir(folder) do
      if name:match("%." .. ending .. "$") then
        for line in io.lines(folder .. "/" .. name, "L") do
          local shape = line:sub(-1) == "\n" and shape_of(line, name)
          if shape then
            all = all + 1
            count[name .. shape] = (count[name .. shape] or 0) + 1
            most = math.max(most, count[name .. shape])
          end
        end
      end
    end
    return all, most
  end
  local function visits(folder)
    return lines_of(folder, "visits", function(line) return line:match('"shape":"([%d,]+)"') end)
  end
  local function rows(folder)
    return lines_of(folder, "csv", function(line, name)
      return line:match(name:match "spec_sleep" and "^(%d+,%d+),%d" or "^(%d+,%d+,%d+),%d")
    end)
  end

  it("continues with the stored visits", function()
    local folder = require("command").folder()
    local file = host.root .. "/spec/samplers/fixture/kill_visits.lua"
    local command = ("exec '%s/bin/ett' sample '%s' --out '%s' --quiet >/dev/null"):format(host.prefix, file, folder)
    local held = 0
    for kill = 1, 3 do
      local pipe = io.popen(command .. " & echo $!")
      local pid = tonumber(pipe:read("l"))
      local wanted = held + 15
      local deadline = sample.now() + 60
      while visits(folder) < wanted and sample.now() < deadline do sample.pause(0.002) end
      os.execute(("kill -9 %d"):format(pid))
      pipe:close()
      sample.pause(0.2)
      local now, most = visits(folder)
      assert.is_true(now >= wanted, ("%d visits are kept after kill %d, %d were seen"):format(now, kill, wanted))
      assert.is_true(most <= visits_of_a_shape, ("a shape was visited %d times"):format(most))
      assert.equals(0, (rows(folder))) -- the block was not over
      held = now
    end
    os.execute(command)
    local written, most = rows(folder)
    assert.equals(shapes, written)
    assert.equals(1, most)
    assert.equals(0, (visits(folder))) -- no longer needed
    require("command").remove(folder)
  end)
end)
