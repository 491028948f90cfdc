--- `ett sample` from the command line: results and messages.
local command = require "command"
local ended = command.ended
local host = require "ett.host"
local lfs = require "lfs"

if not require("needs").cpu("ett sample", _ENV) then return end

local folder = command.each_folder(_ENV)
local function run(arguments, before) return command.ett(folder, arguments, before) end
local function write(name, text) command.write(folder, name, text) end

local function campaign(shapes)
  return ("return { name = 'c', visits = 1, cold_bytes = 1 << 20, "
    .. "min_repeats = 1, max_repeats = 2, samples = { { operator = 'gelu', "
    .. "shapes = %s } } }\n"):format(shapes)
end

describe("ett sample", function()
  it("measures, and says where the rows are", function()
    write("c.lua", campaign "{ tokens = { 16, 32 }, width = 8 }")
    local text = ended(0, run "sample c.lua --out out")
    assert.matches("out/%S+_gelu_fp32%.csv: 2 measured, 0 failed, %d disturbed", text)
    assert.matches("gelu: 2 shapes to measure, 0 measured before", text)
  end)

  it("names a syntax error of an operator's file", function()
    lfs.mkdir(folder .. "/operators")
    write("operators/broken.lua", "local op = { name = 'broken'\nreturn op\n")
    write("c.lua", "return { name = 'c', samples = { { operator = 'broken', shapes = { x = 1 } } } }\n")
    assert.matches("broken%.lua:2: '}' expected", ended(1, run "sample c.lua"))
  end)

  it("a kernel that the CPU lacks is recorded for each shape with the reason", function()
    lfs.mkdir(folder .. "/operators")
    write("operators/strange.lua", [[
      local op = { name = "strange", summary = "x", family = "elementwise", schema = { n = "count" } }
      function op.shape() return { n = 1 } end
      function op.flops() return 1.0 end
      function op.bytes() return 1.0 end
      function op.kernel_shape(s) return { rows = s.n, cols = 1 } end
      return op
    ]])
    write("c.lua", "return { name = 'c', samples = { { operator = 'strange', shapes = { n = { 1, 2 } } } } }\n")
    local text = ended(1, run "sample c.lua --out out --quiet")
    assert.matches("0 measured, 2 failed", text)
    assert.matches("it has no 'kernel', no 'cpu' and no family that runs here", text)
  end)

  it("a full disk stops it without losing rows; it continues when there is space", function()
    write("c.lua", campaign "{ tokens = { start = 1, stop = 400 }, width = 8 }")
    local text = ended(1, run("sample c.lua --out out --quiet", "ulimit -f 9;")) -- 9 blocks of 512 or 1024 bytes
    assert.matches("cannot append to 'out/%S+_gelu_fp32%.csv': File too large", text)
    local path = folder .. "/" .. text:match("'(out/%S+%.csv)'")
    local held = require("ett.sampling.store").held(path, 2)
    -- A row and all that can be marked of it are less than 300 bytes, a row alone is more than 24.
    assert.is_true(held.rows > 10 and held.rows < 400)
    assert.matches((": %d measured"):format(400 - held.rows), ended(0, run "sample c.lua --out out --quiet"))
    assert.equal(400, require("ett.sampling.store").held(path, 2).rows)
  end)

  it("a folder that cannot be written is an error before anything is measured", function()
    write("c.lua", campaign "{ tokens = 16, width = 8 }")
    assert.matches("cannot make folder '/proc/nowhere'", ended(1, run "sample c.lua --out /proc/nowhere"))
  end)

  it("Ctrl-C finishes the running shape and leaves a valid table", function()
    write("c.lua", "return { name = 'c', visits = 1, cold_bytes = 1 << 20, samples = { { operator = 'gelu', "
      .. "shapes = { tokens = { start = 1, stop = 40000 }, width = 64 } } } }\n")
    local text = command.shell(([[cd '%s'; env --default-signal=INT '%s/bin/ett' sample c.lua --out out --quiet & n=0
      until grep -q '^9,64' out/*.csv 2>/dev/null || [ $n -gt 3000 ]; do sleep 0.05; n=$((n + 1)); done
      kill -INT $!; wait $!]]):format(folder, host.prefix))
    local path = text:match("(out/%S+%.csv): ")
    assert(path, text)
    local measured = math.tointeger(tonumber(text:match(": (%d+) measured")))
    local held = require("ett.sampling.store").held(folder .. "/" .. path, 2)
    assert.is_true(measured > 0 and measured < 40000)
    assert.equal(measured, held.rows)
  end)

  it("shows the rate of this run, without the visits of one that was killed", function()
    lfs.mkdir(folder .. "/operators")
    local operator = assert(io.open(host.root .. "/spec/samplers/fixture/operators/spec_sleep.lua")):read "a"
    write("operators/spec_sleep.lua", operator)
    write("c.lua", "return { name = 'c', visits = 8, min_repeats = 1, max_repeats = 1, budget_seconds = 0.01, "
      .. "cold_bytes = 1 << 20, samples = { { operator = 'spec_sleep', "
      .. "shapes = { microseconds = 20000, number = { start = 1, stop = 3 } } } } }\n")
    command.shell(([[cd '%s'; '%s/bin/ett' sample c.lua --out out --quiet & n=0
      until [ "$(cat out/*.visits 2>/dev/null | wc -l)" -gt 10 ] || [ $n -gt 6000 ]; do sleep 0.02; n=$((n + 1)); done
      kill -KILL $!; wait $!]]):format(folder, host.prefix))
    local text = ended(0, run "sample c.lua --out out")
    local rate = tonumber(text:match "spec_sleep: 1/3  ([%d.]+) shapes/s")
    assert(rate, text)
    assert.is_true(rate <= 1 / 8 / 0.02, text) -- a visit of one shape takes at least 20 ms
  end)

  it("continues from the tables, independent of the machine's clock", function()
    write("c.lua", campaign "{ tokens = { 16, 32 }, width = 8 }")
    local text = ended(0, run "sample c.lua --out out --quiet --limit 1")
    for _, date in ipairs { "2099-01-01", "1980-01-01" } do -- clocks of a file server ahead of and behind this machine
      os.execute(("touch -d %s '%s'/out/*.csv '%s/c.lua'"):format(date, folder, folder))
      text = ended(0, run "sample c.lua --out out --quiet")
      assert.matches(date == "2099-01-01" and ": 1 measured" or ": 0 measured", text)
    end
    local body = io.open(folder .. "/" .. text:match("(out/%S+%.csv)")):read("a")
    assert.equal(2, select(2, body:gsub("\n%d+,8,", "")))
    assert.is_nil(body:find(os.date "%Y-%m", 1, true)) -- no date that two machines could disagree about
  end)

  it("refuses wrong usage", function()
    write("c.lua", campaign "{ tokens = 16, width = 8 }")
    local function says(arguments, pattern) assert.matches(pattern, ended(2, run("sample " .. arguments))) end
    says("", "give one campaign; `ett list campaigns` lists the bundled ones")
    says("c.lua --parts 2 --part 3", "%-%-part must be 1 to 2 %(%-%-parts%), got 3")
    says("c.lua --precision fp16", "the back end 'cpu' measures fp32, not 'fp16'")
    says("c.lua --backend mpi --device 5", "^ett: sample: %-%-device is not supported by the back end mpi: mpirun or "
      .. "srun places the ranks %(%-%-bind%-to, %-%-cpu%-bind%)\n$")
    says("c.lua --backend nccl --device_num 0", "%-%-device is not supported by the back end nccl: a rank uses the GPU")
    local text = ended(2, run "sample c.lua --backend nosuch")
    assert.equal("ett: unknown back end 'nosuch'; known are cpu, cuda, mpi, nccl, torch\n", text)
    says("c.lua --tagret-error 1", "unknown option '%-%-tagret%-error'; did you mean '%-%-target%-error'")
  end)

  for _, order in ipairs { "one table after the other", "tables that take turns" } do
    it("--raw keeps every repeat behind a row, and goes on: " .. order, function()
      local turns = order:find "turns" and "interleave = true," or ""
      write("c.lua", "return { name = 'c', visits = 2, cold_bytes = 1 << 20, "
        .. "min_repeats = 20, max_repeats = 40, budget_seconds = 5, " .. turns .. " samples = { "
        .. "{ operator = 'gelu', shapes = { tokens = { 16, 32, 48 }, width = 8 } }, "
        .. "{ operator = 'optimizer', shapes = { params = { 100, 200 } } } } }\n")
      local sample_table = require "ett.samples.table"
      ended(0, run "sample c.lua --out out --quiet --raw --limit 2")
      local text = ended(0, run "sample c.lua --out out --quiet --raw")
      for name, passes in pairs { gelu = { "forward", "backward" }, optimizer = { "update" } } do
        local path = text:match("(out/%S+_" .. name .. "_fp32%.csv)")
        local rows, repeats = 0, {}
        for line in io.lines(folder .. "/" .. path) do
          local mark = sample_table.mark(line)
          if mark and mark.kind == "repeats" then
            repeats[mark.pass] = mark
          elseif line:match("^%d") then
            rows = rows + 1
            local columns = {}
            for word in line:gmatch("[^,]+") do columns[#columns + 1] = tonumber(word) end
            for i, pass in ipairs(passes) do
              local mark_of = assert(repeats[pass], line)
              assert.equal(mark_of.key .. ",", line:sub(1, #mark_of.key + 1))
              assert.is_true(#mark_of.seconds >= 2, line) -- a busy machine disturbs some of 20
              local time = require("ett.sample").stats(mark_of.seconds).low * 1e6
              assert.near(columns[#columns - #passes + i], time, 1e-4 * time)
            end
            repeats = {}
          end
        end
        assert.equal(name == "gelu" and 3 or 2, rows)
      end
      -- To the readers of tables they are comments.
      assert.equal(3, #sample_table.read(folder .. "/" .. text:match("(out/%S+_gelu_fp32%.csv)")).rows)
    end)
  end

  it("lists, measures one shape and profiles it, as the reference's run modes do", function()
    write("c.lua", campaign "{ tokens = { 16, 32 }, width = 8 }")
    assert.matches("# gelu: 2 shapes\ntokens,width\n16,8\n32,8\n", (run "sample c.lua --list"))
    assert.matches("forward +[%d.]+ us", (run "sample c.lua --run get_one"))
    assert.matches("# backward: every repeat %(us%)\n1,[%d.]+\n", (run "sample c.lua --run get_profiler"))
    assert.matches("# backward: every repeat %(us%)\n1,[%d.]+\n", (run "sample c.lua --run get_one --raw"))
    assert.is_nil((run "sample c.lua --run get_one"):find("every repeat", 1, true))
    assert.is_nil((io.open(folder .. "/samples")))
  end)
end)
