--- Outputs of nccl-tests: reading, refusals, and the curve in the cluster file.
local cluster_curves = require "ett.import.cluster_curves"
local cluster_module = require "ett.profile.cluster"
local comm = require "ett.comm"
local command = require "command"
local nccl_tests = require "ett.import.nccl_tests"
local raised = require "raised"

local folder
setup(function() folder = command.folder() end)
teardown(function() command.remove(folder) end)

local function devices(count)
  local lines = {}
  for rank = 0, count - 1 do
    lines[#lines + 1] = ("#  Rank %2d Group  0 Pid    944 on host0 device %2d [0x0f] NVIDIA A100-SXM4-40GB"):format(
      rank, rank)
  end
  return table.concat(lines, "\n")
end

local heading = [[
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
]]

-- Eight A100 of BM.GPU4.8: a published run (oracle-japan.github.io/ocitutorials, cluster with GPUs).
local rows = [[
          64            16     float     sum      -1    32.01    0.00    0.00      0    31.82    0.00    0.00      0
host0:101855:101890 [0] NCCL INFO Channel 00/1 : 1[81000] -> 0[81000] [receive] via NET/IB/1/GDRDMA/Shared
       32768          8192     float     sum      -1    32.02    1.02    1.79      0    32.20    1.02    1.78      0
     1048576        262144     float     sum      -1    76.71   13.67   23.92      0    77.73   13.49   23.61      0
  8589934592    2147483648     float     sum      -1    63929  134.37  235.14      0    63911  134.40  235.21      0
]]
local ending = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 81.112 \n#\n"
local all_reduce = "$ ./build/all_reduce_perf -b 64 -e 10G -f 2 -t 1 -g 8\n# Using devices\n" .. devices(8) .. "\n"
  .. heading .. rows .. ending

local function read(text, given)
  command.write(folder, "run.txt", text)
  return nccl_tests.read(folder .. "/run.txt", given)
end

local function message(fn, ...)
  return (raised(fn, ...):gsub(folder .. "/", ""))
end

describe("an output of nccl-tests", function()
  it("is a curve of bus bandwidth with the digits of the times", function()
    local run = read(all_reduce)
    assert.same({ "all_reduce", 8, 1, "NVIDIA A100-SXM4-40GB", 4 },
      { run.kind, run.ranks, run.hosts, run.device, run.rows })
    assert.same({ 64, 32768, 1048576, 8589934592 }, { run.curve[1], run.curve[3], run.curve[5], run.curve[7] })
    assert.near(64 * 1.75 / 32.01e-6, run.curve[2], 1) -- busbw says 0.00
    assert.near(235.14e9, run.curve[8], 0.01e9)
    assert.near(235.21e9, read(all_reduce, { in_place = true }).curve[8], 0.01e9)
  end)

  it("may carry the rank of srun, name its test in a comment, and be of versions without a column of wrong elements",
    function()
      local labelled = ("# Collective test starting: all_gather_perf\n" .. devices(4) .. "\n" .. heading ..
        "    67108864       4194304     float    none      -1    667.7  100.50   75.38    N/A    670.0  100.16   75.12"
        .. "    N/A\n"):gsub("[^\n]+", " 0: %0")
      local run = read(labelled)
      assert.same({ "all_gather", 4 }, { run.kind, run.ranks })
      assert.same(run.curve, read((labelled:gsub(" 0: ", "[1,0]<stdout>:"))).curve) -- mpirun --tag-output
      assert.near(75.38e9, run.curve[2], 0.01e9)
      -- Tesla K80, version 2.0: no root, `error` in place of `#wrong`, one host a rank.
      local old = "all_reduce_perf\n#   Rank  0 Pid    195 on a device  0 [0x00] Tesla K80\n"
        .. "#   Rank  1 Pid    196 on b device  0 [0x00] Tesla K80\n"
        .. "#       size         count      type   redop     time   algbw   busbw  error     time   algbw   busbw"
        .. "  error\n    33554432       8388608     float     sum    19902    1.69    1.69  2e-07    19898    1.69"
        .. "    1.69  2e-07\n"
      run = read(old)
      assert.same({ "all_reduce", 2, 2, "Tesla K80" }, { run.kind, run.ranks, run.hosts, run.device })
    end)

  it("is refused with the line if it is no such output or no measurement", function()
    local cases = {
      ["'run.txt': not an output of nccl-tests: it has no line 'size count type … time algbw busbw'"] =
        "hello\n\0\255\n",
      ["'run.txt': the table of nccl-tests has no row"] = all_reduce:gsub("\n +%d[^\n]*", ""),
      ["'run.txt': no line names the test (all_reduce_perf, …); give --kind"] = all_reduce:gsub("all_reduce_perf", "x"),
      ["'run.txt': hypercube_perf measures no collective known to ett"] = all_reduce:gsub("all_reduce", "hypercube"),
      ["'run.txt': no line 'Rank 0 … on HOST device 0' gives the number of ranks; give --ranks"] =
        all_reduce:gsub("#  Rank[^\n]*\n", ""),
      ["run.txt:4: rank 0 appears twice: each process measured alone; build nccl-tests with MPI=1"] =
        all_reduce:gsub("Rank  1", "Rank  0"),
      ["run.txt:15: 12 elements are wrong; repeat the test: its times are not valid"] =
        all_reduce:gsub("0.00      0    31.82", "0.00     12    31.82"),
      ["run.txt:20: 3 values were out of bounds"] = all_reduce:gsub(": 0 OK", ": 3 FAILED"),
      ["run.txt:17: a time in microseconds and a busbw in GB/s expected, found 'x' and '1.79'"] =
        all_reduce:gsub("32.02    1.02", "x    1.02"),
      ["run.txt:25: a second table begins here; give one file for each test"] = all_reduce .. heading,
    }
    for wanted, text in pairs(cases) do assert.matches(wanted, message(read, text), 1, true) end
    local alone = "all_reduce_perf\n" .. devices(1) .. "\n" .. heading .. rows
    assert.matches("'run.txt': one rank moves no data", message(read, alone), 1, true)
  end)

  it("is refused where times, ranks and busbw contradict each other", function()
    assert.matches("run.txt:17: 32768 bytes in 32.02 us are 1.54 GB/s of all_reduce over 4 ranks, but busbw says 1.79",
      message(read, all_reduce, { ranks = 4 }), 1, true)
    assert.matches("of all_gather over 8 ranks, but busbw says 1.79", message(read, all_reduce, { kind = "allgather" }),
      1, true)
  end)
end)

local head = "-- links = { intra = {\nlocal source = \"a } [[ \\\" {\"\nreturn {\n  name = \"mine\", "
  .. "summary = \"s\", source = source, device = \"a100_sxm\", gpus_per_node = 8,\n"
local mine = head .. "  links = { intra = { bandwidth = 230e9, source = '{ x' }, --[[ curves = { ]]\n"
  .. "    inter = { bandwidth_per_gpu = 3e9, bandwidth_per_node = 12e9, source = \"y\" } },\n}\n"

local function add(text, run, given)
  command.write(folder, "mine.lua", text)
  local path, where = cluster_curves.add(folder .. "/mine.lua", run, given)
  return cluster_module.get(path), where, command.read(folder, "mine.lua")
end

describe("a curve of nccl-tests in a cluster file", function()
  it("serves the measured collective, and no other", function()
    local function seconds(cluster, kind)
      local profile = require("ett.profile.of_cluster").open(cluster)
      return profile:collective(kind, 1048576, { nodes = 1, gpus_per_node = 8 }, "bf16").seconds
    end
    command.write(folder, "mine.lua", mine)
    local before = cluster_module.get(folder .. "/mine.lua")
    local gather = seconds(before, "all_gather")
    for _, kind in ipairs { "all_reduce", "all_to_all", "send_recv", "broadcast" } do
      -- The same times as another test of the same ranks would have printed them.
      local run = read(all_reduce)
      for i = 2, #run.curve, 2 do run.curve[i] = run.curve[i] / comm.factor("all_reduce", 8) * comm.factor(kind, 8) end
      run.kind = kind
      local cluster, where = add(mine, run)
      assert.equal("links.intra", where)
      assert.near(76.71e-6, seconds(cluster, kind), 0.01e-6)
      assert.equal(gather, seconds(cluster, "all_gather"))
    end
  end)

  it("is added to other curves, and replaced only with --replace", function()
    local _, _, once = add(mine, read(all_reduce))
    assert.matches("already; %-%-replace replaces it", message(add, once, read(all_reduce)))
    local _, _, twice = add(once, read(all_reduce), { replace = true })
    local four = read((all_reduce:gsub("#  Rank  [4-7][^\n]*\n", ""):gsub("\n +%d[^\n]*", "")
      :gsub("# Out", "  1048576  262144  float sum -1 76.71 13.67 20.50 0 77.73 13.49 20.24 0\n%0")))
    local cluster, _, thrice = add(twice, four)
    assert.equal(8, #cluster.links.intra.curves.all_reduce[8])
    assert.near(20.5e9, cluster.links.intra.curves.all_reduce[4][2], 0.01e9)
    local _, notes = thrice:gsub("of nccl%-tests", "")
    assert.equal(2, notes)
    assert.equal(mine:sub(1, 100), thrice:sub(1, 100))
  end)

  it("is written to the tier that joins the ranks", function()
    local tiers = head .. "  tiers = { { name = \"node\", size = 8, bandwidth = 300e9, source = \"x\" },\n"
      .. "    { name = \"leaf\", size = 16, bandwidth = 25e9, source = \"{\" },\n"
      .. "    { name = \"spine\", bandwidth = 25e9, source = \"z\" } },\n}\n"
    local two_hosts = (all_reduce:gsub("on host0 device  ([4-7])", "on host1 device  %1"))
    local cluster, where = add(tiers, read(two_hosts))
    assert.equal("tier leaf", where)
    assert.equal(8, #cluster.tiers[2].curves.all_reduce[8])
    assert.equal("tier node", select(2, add(tiers, read(all_reduce))))
    assert.equal("tier spine", select(2, add(tiers, read(all_reduce), { tier = "spine" })))
    assert.matches("mine.lua has no tier 'rack'", message(add, tiers, read(all_reduce), { tier = "rack" }), 1, true)
    assert.matches("8 ranks on 2 hosts measure the network, whose curves need 'tiers'",
      message(add, mine, read(two_hosts)), 1, true)
  end)

  it("is printed if the file is not plain tables; the file is unchanged", function()
    local computed = mine:gsub("links = {", "links = (function(t) return t end) {")
    assert.matches("is not written as plain tables; add this to its 'curves = { all_reduce = { … } }'",
      message(add, computed, read(all_reduce)), 1, true)
    assert.equal(computed, command.read(folder, "mine.lua"))
    assert.matches("is part of ett; copy it", message(cluster_curves.add, "dgx_h100", read(all_reduce)), 1, true)
    assert.matches("the key must be at most gpus_per_node = 4",
      message(add, mine:gsub("gpus_per_node = 8", "gpus_per_node = 4"), read(all_reduce)), 1, true)
    local unlike = 'return { name = "a", summary = "s", source = "s", links = { inter = { bandwidth_per_gpu = 1e10, '
      .. 'bandwidth_per_node = 8e10, source = "s" } }, parts = { { cluster = "dgx_h100", nodes = 1 }, '
      .. '{ cluster = "dgx_a100", nodes = 1 } } }'
    assert.matches("add-curve needs a cluster of one kind of nodes", message(add, unlike, read(all_reduce)), 1, true)
  end)
end)
