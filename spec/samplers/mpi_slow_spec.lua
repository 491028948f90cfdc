--- The MPI back end: collectives compute what they should, and shared campaigns lose nothing.
local command = require "command"
local host = require "ett.host"

if not require("needs").ranks("the MPI back end", _ENV) then return end

local folder = command.each_folder(_ENV)
local function run(ranks, arguments, before)
  local pipe = io.popen(("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 "
    .. "%smpirun --oversubscribe --bind-to none -n %d '%s/bin/ett' %s 2>&1"):format(before or "", ranks, host.prefix,
    arguments))
  local text = pipe:read("a"):gsub("\27%[[%d;]*m", "")
  local ok = pipe:close()
  return text, ok
end

local function write(name, text) return require("ett.base.folder").write(folder .. "/" .. name, text) end

describe("the MPI back end", function()
  it("computes every collective on 3 ranks", function()
    local spec = write("ranks_spec.lua", [[
      local sample, dist = require "ett.sample", require "ett.dist"
      local world = dist.open().world
      local rank, n = world:rank(), world:size()
      local function filled(count, value)
        local t = sample.tensor(count)
        for i = 1, count do t:set(i, value(i)) end
        return t
      end
      describe("rank " .. rank, function()
        it("agrees with the definition", function()
          local t = filled(6, function(i) return i * (rank + 1) end)
          world:run("all_reduce", t)
          for i = 1, 6 do assert.equal(i * n * (n + 1) / 2, t:get(i)) end
          local top = filled(6, function(i) return i % 2 == 0 and rank or -rank end)
          world:run("all_reduce_max", top)
          for i = 1, 6 do assert.equal(i % 2 == 0 and n - 1 or 0, top:get(i)) end
          local gathered = sample.tensor(6)
          world:run("all_gather", gathered, filled(2, function(i) return 10 * rank + i end))
          for r = 0, n - 1 do for i = 1, 2 do assert.equal(10 * r + i, gathered:get(2 * r + i)) end end
          local part = sample.tensor(2)
          world:run("reduce_scatter", part, filled(6, function(i) return i end))
          for i = 1, 2 do assert.equal(n * (2 * rank + i), part:get(i)) end
          local swapped = sample.tensor(6)
          world:run("all_to_all", swapped, filled(6, function(i) return 100 * rank + i end))
          for r = 0, n - 1 do for i = 1, 2 do assert.equal(100 * r + 2 * rank + i, swapped:get(2 * r + i)) end end
          local b = filled(4, function(i) return rank == 0 and i or -1 end)
          world:run("broadcast", b)
          assert.equal(4, b:get(4))
          local m = sample.tensor(3)
          if rank == 0 then world:send(filled(3, function(i) return i + 7 end), 2) end
          if rank == 2 then world:receive(m, 0) assert.equal(10, m:get(3)) end
          local pair = world:split(rank < 2 and 0 or -1, rank)
          assert.equal(rank < 2, pair:is_member())
          if pair:is_member() then assert.equal(2, pair:reduce(1, "sum")) end
        end)
        it("times are one number on every rank", function()
          for _, kind in ipairs { "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv",
            "broadcast" } do
            local r = assert(world:time { kind = kind, count = 300, budget_seconds = 0.01,
              max_repeats = kind ~= "broadcast" and 20 or nil })
            assert.is_true(r.seconds > 0)
            assert.equal(world:reduce(r.seconds, "max"), world:reduce(r.seconds, "min"))
          end
          local none, err = world:time { kind = "all_gather", count = 2, max_repeats = 1 }
          assert.is_nil(none)
          assert.matches("2 elements cannot be shared by 3 ranks", err.message)
          for _, kind in ipairs { "reduce_scatter", "all_to_all" } do -- not 3 elements under the name of 5
            none, err = world:time { kind = kind, count = 5, max_repeats = 1 }
            assert.is_nil(none)
            assert.matches("5 elements cannot be shared by 3 ranks; the next count that can is 6", err.message)
          end
        end)
      end)
    ]])
    local text, ok = run(3, "spec " .. spec)
    assert(ok, text)
    assert.equal(3, select(2, text:gsub("2 successes / 0 failures / 0 errors", "")), text)
  end)

  it("shares an operator campaign: every row once, then nothing left", function()
    local file = write("shared.lua", [[
      return { name = "shared", max_repeats = 1, min_repeats = 1, budget_seconds = 0.001,
        cold_bytes = 1 << 20, samples = { {
        operator = "gelu", shapes = { tokens = { start = 1, stop = 60 }, width = 8 } } } }
    ]])
    local text, ok = run(4, ("sample '%s' --out '%s/out' --quiet"):format(file, folder))
    assert(ok, text)
    assert.matches("60 measured, 0 failed", text)
    local path, seen, rows = text:match("(%S+%.csv): "), {}, 0
    for line in io.lines(path) do
      local key = line:match("^%d+,8,")
      if key then
        rows = rows + 1
        assert.is_nil(seen[key])
        seen[key] = true
      end
    end
    assert.equal(60, rows)
    assert.matches(" 0 measured, 0 failed", (run(2, ("sample '%s' --out '%s/out' --quiet"):format(file, folder))))
  end)

  describe("together", function()
    -- Sleeps for as long as its rank says, counts its calls, and fails on rank 1 at shapes 5 and 7.
    local function campaign(fields)
      require("lfs").mkdir(folder .. "/operators")
      write("operators/spec_rank.lua", [[
        local rank = math.tointeger(tonumber(os.getenv "OMPI_COMM_WORLD_RANK" or "0"))
        local op = { name = "spec_rank", summary = "sleeps by rank", passes = { "forward" },
          columns = { "number" }, schema = { number = "count" } }
        function op.shape() return { number = 1 } end
        function op.flops() return 0.0 end
        function op.bytes() return 0.0 end
        function op.cpu(s)
          if s.number == 5 and rank == 1 then error "not here" end
          if s.number == 7 and rank == 1 then require("ett.base.error").raise("memory", "no room\nhere") end
          local file = io.open(("%s/seen_%d_%d"):format(os.getenv "ETT_SPEC_FOLDER", rank, s.number), "a")
          file:write("x")
          file:close()
          return { { kind = "sleep", microseconds = 10000 + 110000 * rank } }
        end
        return op
      ]])
      return write("together.lua", ([[
        return { name = "together", max_repeats = 2, min_repeats = 2, budget_seconds = 0.001, cold_bytes = 1 << 20,
          %s samples = { {
          operator = "spec_rank", shapes = { number = { start = 1, stop = 7 } } } } }
      ]]):format(fields))
    end

    it("measures every shape on every rank; a row is the mean, and one rank's failure is the shape's", function()
      local file = campaign "together = true, visits = 2,"
      local text, ok = run(2, ("sample '%s' --out '%s/out' --quiet --no-check --raw"):format(file, folder),
        ("ETT_SPEC_FOLDER='%s' timeout 300 "):format(folder))
      assert(ok, text)
      assert.matches("5 measured, 2 failed", text)
      local rows, failures, repeats = {}, {}, {}
      for line in io.lines((text:match("(%S+%.csv): "))) do
        local of = line:match("^#~ repeats: (%d+): forward: ")
        if of then
          repeats[of] = repeats[of] or {}
          table.insert(repeats[of], require("ett.sample").stats(require("ett.samples.table").mark(line).seconds).low)
        end
        local number, microseconds = line:match("^(%d+),([%d.]+)$")
        if number then
          assert.is_nil(rows[number])
          rows[number] = tonumber(microseconds)
        end
        failures[#failures + 1] = line:match("^#! failed: .*")
      end
      for _, number in ipairs { "1", "2", "3", "4", "6" } do
        -- Sleeps of 10 and 120 ms, which last longer on a busy machine.
        assert.equal(2, #repeats[number]) -- a line for each rank
        assert.is_true(repeats[number][1] >= 0.01 and repeats[number][2] >= 0.12)
        assert.is_true(repeats[number][1] ~= repeats[number][2])
        assert.near(1, 0.5e6 * (repeats[number][1] + repeats[number][2]) / rows[number], 1e-3)
        for rank = 0, 1 do assert.is_truthy(io.open(("%s/seen_%d_%s"):format(folder, rank, number)), number) end
      end
      assert.equal(2, #failures)
      assert.matches("^#! failed: 5: internal: rank 1: %S*spec_rank%.lua:8: not here$", failures[1])
      assert.equal("#! failed: 7: memory: rank 1: no room here", failures[2])
      assert.matches(" 0 measured, 0 failed", (run(2, ("sample '%s' --out '%s/out' --quiet --no-check"):format(file,
        folder), ("ETT_SPEC_FOLDER='%s' timeout 300 "):format(folder))))
    end)

    it("takes turns between tables, on every rank alike", function()
      require("lfs").mkdir(folder .. "/operators")
      for _, name in ipairs { "spec_one", "spec_two" } do
        write(("operators/%s.lua"):format(name), ([[
          local rank = os.getenv "OMPI_COMM_WORLD_RANK"
          local op = { name = "%s", summary = "sleeps", passes = { "forward" }, columns = { "number" },
            schema = { number = "count" } }
          function op.shape() return { number = 1 } end
          function op.flops() return 0.0 end
          function op.bytes() return 0.0 end
          function op.cpu(s)
            local file = io.open(os.getenv "ETT_SPEC_FOLDER" .. "/order_" .. rank, "a")
            file:write(op.name:sub(6), s.number, " ")
            file:close()
            return { { kind = "sleep", microseconds = 100 } }
          end
          return op
        ]]):format(name))
      end
      local file = write("turns.lua", [[
        local function numbers(name) return { operator = name, shapes = { number = { start = 1, stop = 2 } } } end
        return { name = "turns", together = true, interleave = true, visits = 2, cold_bytes = 1 << 20,
          block = 8, max_repeats = 3,
          min_repeats = 3, target = 1e-9, budget_seconds = 10, samples = { numbers "spec_one", numbers "spec_two" } }
      ]])
      local text, ok = run(2, ("sample '%s' --out '%s/out' --quiet --no-check"):format(file, folder),
        ("ETT_SPEC_FOLDER='%s' timeout 300 "):format(folder))
      assert(ok, text)
      local _, measured = text:gsub("2 measured, 0 failed", "")
      assert.equal(2, measured)
      for rank = 0, 1 do
        local order = io.open(("%s/order_%d"):format(folder, rank)):read("a")
        assert.equal("one1 two1 one2 two2 one1 two1 one2 two2 ", order)
      end
      assert.matches("tables take turns", io.open((text:match("(%S+%.csv): "))):read("a"))
    end)

    it("is a matter of the campaign: without it a shape is one rank's", function()
      local text, ok = run(2, ("sample '%s' --out '%s/out' --quiet --no-check"):format(campaign "visits = 1,", folder),
        ("ETT_SPEC_FOLDER='%s' timeout 300 "):format(folder))
      assert(ok, text)
      for number = 1, 4 do
        local seen = 0
        for rank = 0, 1 do
          seen = seen + (require("lfs").attributes(("%s/seen_%d_%d"):format(folder, rank, number)) and 1 or 0)
        end
        assert.equal(1, seen)
      end
    end)

    it("is distinguished from a list", function()
      local text, ok = run(1, ("sample '%s' --out '%s/out'"):format(campaign "together = 2,", folder))
      assert.is_falsy(ok)
      assert.matches("together", text)
    end)
  end)

  it("counts the shapes of all ranks as it goes", function()
    local file = write("counted.lua", [[
      return { name = "counted", max_repeats = 1, min_repeats = 1, budget_seconds = 0.001,
        cold_bytes = 1 << 20, samples = { {
        operator = "gelu", shapes = { tokens = { start = 1, stop = 60 }, width = 8 } } } }
    ]])
    local text, ok = run(3, ("sample '%s' --out '%s/out'"):format(file, folder))
    assert(ok, text)
    assert.matches("\ngelu: 60/60 ", text)
  end)

  it("stops all ranks together when the seconds are over, whatever table each is in", function()
    local file = write("wires.lua", [[
      return { name = "wires", backend = "mpi", min_repeats = 20, max_repeats = 20, budget_seconds = 1, samples = {
        { collective = "all_reduce", shapes = { shape = { start = 1, stop = 100000 } } },
        { collective = "broadcast", shapes = { shape = { start = 1, stop = 100000 } } } } }
    ]])
    local text, ok = run(4, ("sample '%s' --out '%s/out' --quiet --seconds 2"):format(file, folder), "timeout 300 ")
    assert(ok, text)
    assert.matches("all_reduce_fp32_1_2.csv: %d+ measured, 0 failed", text) -- ranks 2 and 3 wait for the next topology
    assert.is_nil(text:find("all_reduce_fp32_1_4", 1, true), text)
  end)

  it("measures collectives into the reference's columns, one table a topology", function()
    local file = write("wires.lua", [[
      return { name = "wires", backend = "mpi", max_repeats = 10, min_repeats = 3, budget_seconds = 0.005, samples = {
        { collective = "all_reduce", in_place = true, shapes = { shape = { 64, 4096 } } },
        { collective = "send_recv", shapes = { shape = { 64, 4096 } } } } }
    ]])
    local text, ok = run(3, ("sample '%s' --out '%s/out' --quiet"):format(file, folder))
    assert(ok, text)
    for _, name in ipairs { "all_reduce_fp32_1_2", "all_reduce_fp32_1_3", "send_recv_fp32_1_2" } do
      local path = text:match("(%S+" .. name .. "%.csv): 2 measured")
      assert(path, text)
      local body = io.open(path):read("a"):gsub("#~ disturbed[^\n]*\n", "")
      assert.matches("\nshape,nodes,GPUsPerNode,dur%(us%)\n64,1,", body)
    end
  end)

  it("names a collective that the ranks of its sample cannot run", function()
    for _, case in ipairs { { "send_recv", 3, "send_recv needs 2 ranks" }, { "all_reduce", 1, "it needs 2 ranks" } } do
      local file = write("none.lua", ([[
        return { name = "none", backend = "mpi", samples = {
          { collective = "%s", nodes = 1, ranks = %d, shapes = { shape = 64 } } } }
      ]]):format(case[1], case[2]))
      local text, ok = run(3, ("sample '%s' --out '%s/none' --quiet"):format(file, folder))
      assert.is_falsy(ok)
      assert.matches(case[1] .. ": the ranks of this job cannot run it: " .. case[3], text)
    end
  end)

  it("measures one shape on all ranks with get_one, and keeps repeats with --raw", function()
    local file = write("one.lua", [[
      return { name = "one", backend = "mpi", max_repeats = 10, min_repeats = 3, budget_seconds = 0.005, samples = {
        { collective = "all_reduce", in_place = true, shapes = { shape = { 64, 4096 } } } } }
    ]])
    local median = write("median.lua", (io.open(file):read("a"):gsub("max_repeats", "statistic = 'median', %0")))
    local text, ok = run(3, ("sample '%s' --run get_one"):format(file))
    assert(ok, text)
    assert.matches("# all_reduce on %S+, fp32\nshape: shape=64 nodes=1 GPUsPerNode=3\ncollective +[%d.]+ us", text)
    assert.equal(1, select(2, text:gsub("collective +%d", "")), text) -- one rank prints
    text, ok = run(2, ("sample '%s' --run get_profiler"):format(file))
    assert(ok, text)
    assert.matches("# collective: every repeat %(us%)\n1,[%d.]+\n2,", text)
    local rows, mark = 0, nil
    for statistic, path in pairs { low_mean = file, median = median } do
      text, ok = run(2, ("sample '%s' --out '%s/%s' --quiet --raw"):format(path, folder, statistic))
      assert(ok, text)
      for line in io.lines(text:match("(%S+all_reduce_fp32_1_2%.csv): 2 measured")) do
        mark = line:match("^#~ repeats") and require("ett.samples.table").mark(line) or mark
        local shape, time = line:match("^(%d+),1,2,(.*)$")
        if shape then
          rows = rows + 1
          assert.equal(shape, mark.key)
          local expected = require("ett.sample").stats(mark.seconds)[statistic] * 1e6
          assert.near(tonumber(time), expected, 1e-4 * expected, statistic)
        end
      end
    end
    assert.equal(4, rows)
  end)

  it("times collectives between clocks that are a day apart", function()
    if not os.execute("unshare --time --monotonic 86400 true >/dev/null 2>&1") then
      pending "no time namespaces here: they need root and Linux 5.6"
      return
    end
    local file = write("far.lua", [[
      return { name = "far", backend = "mpi", max_repeats = 20, min_repeats = 5, budget_seconds = 0.01, samples = {
        { collective = "all_reduce", in_place = true, shapes = { shape = { 64, 4096 } } } } }
    ]])
    local ett = ("'%s/bin/ett' sample '%s' --out '%s/far' --quiet"):format(host.prefix, file, folder)
    for _, ahead in ipairs { "", "unshare --time --monotonic 86400 " } do -- rank 1's clock, then rank 0's
      local behind = ahead == "" and "unshare --time --monotonic 86400 " or ""
      local pipe = io.popen(("OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
        .. "OMPI_MCA_mpi_yield_when_idle=1 timeout 300 mpirun --oversubscribe --bind-to none "
        .. "-n 1 %s%s : -n 1 %s%s 2>&1"):format(ahead, ett, behind, ett))
      local text = pipe:read("a")
      assert(pipe:close(), text)
      local rows = 0
      -- The second run has nothing to do: rows record progress, independent of timestamps.
      local path, measured = text:match("(%S+all_reduce_fp32_1_2%.csv): (%d+) measured")
      assert.equal(ahead == "" and "2" or "0", measured, text)
      for line in io.lines(path) do
        local time = line:match("^%d+,1,2,(.*)$")
        if time then
          rows = rows + 1
          assert.is_true(tonumber(time) > 0 and tonumber(time) < 1e5, line)
        end
      end
      assert.equal(2, rows, text)
    end
  end)

  it("--raw of shared work keeps a row and its repeats together", function()
    local file = write("kept.lua", [[
      return { name = "kept", max_repeats = 2, min_repeats = 2, visits = 1, budget_seconds = 0.001,
        cold_bytes = 1 << 20, samples = { {
        operator = "gelu", shapes = { tokens = { start = 1, stop = 30 }, width = 8 } } } }
    ]])
    local text, ok = run(3, ("sample '%s' --out '%s/kept' --quiet --raw"):format(file, folder))
    assert(ok, text)
    local rows, marks = 0, {}
    for line in io.lines(text:match("(%S+%.csv): ")) do
      if line:match("^#~") then marks[#marks + 1] = line end
      local key = line:match("^(%d+,8),")
      if key then
        rows = rows + 1
        local repeats = 0
        for _, mark in ipairs(marks) do
          assert.equal(key, mark:match("^#~ %a+: ([^:]*):"))
          if mark:match("^#~ repeats") then repeats = repeats + 1 end
        end
        assert.equal(2, repeats)
        marks = {}
      end
    end
    assert.equal(30, rows)
  end)

  it("times the link that ett cluster init writes", function()
    local cluster_init = require "ett.sampling.cluster_init"
    local facts = cluster_init.look "cpu"
    facts.processors = math.max(facts.processors, 2)
    assert.is_nil(facts.no_wire)
    local text = cluster_init.text("mine", facts)
    assert.is_nil(text:find("is not measured", 1, true), text)
    assert.matches("two MPI ranks, 4 MiB", text, 1, true)
  end)
end)
