--- Campaigns of collectives over NCCL: two ranks under mpirun, on the stand-in GPU and the stand-in NCCL.
local ended = require("command").ended
local host = require "ett.host"
local lfs = require "lfs"
local merged = require "ett.base.merged"
local stand_in = require "stand_in"

local reason = stand_in.missing()
  or not lfs.attributes(host.prefix .. "/stand-in/libnccl.so.2") and "the stand-in NCCL is not built: no NCCL headers"
  or not os.execute("mpirun --version >/dev/null 2>&1") and "no mpirun on this machine"
  or not pcall(require, "ett.dist") and "the MPI back end is not built here" or nil
if not require("needs").gpu(reason, "ett sample --backend nccl", _ENV) then return end
local folder = stand_in.each_folder(_ENV)

--- Runs `ett ARGUMENTS` as two ranks of one machine with two devices.
local function ranks(arguments, settings)
  local all = merged({ ETT_GPU_DEVICES = 2 }, settings)
  local command = stand_in.command(folder, arguments, all)
  local before, after = command:match("^(.- env .-)(%S*/bin/ett'? .*)$")
  local pipe = io.popen(("{ OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_mpi_yield_when_idle=1 "
    .. "timeout 120 sh -c \"%s mpirun -q --oversubscribe --bind-to none -n 2 %s\"; } 2>&1; echo \"status $?\""):format(
    before, after))
  local text = pipe:read("a")
  pipe:close()
  local output, status = text:match("^(.*)status (%d+)\n$")
  return output, math.tointeger(tonumber(status))
end

local function campaign(kinds, fields, most_repeats)
  local samples = {}
  for _, kind in ipairs(kinds) do
    samples[#samples + 1] = ("{ collective = '%s', ranks = 2, nodes = 1, %s }"):format(kind, fields)
  end
  stand_in.write(folder, "c.lua", ("return { name = 'c', backend = 'nccl', precision = 'bf16', seed = 1, "
    .. "min_repeats = 3, max_repeats = %d, samples = { %s } }\n"):format(most_repeats or 8,
    table.concat(samples, ", ")))
end

local function tables()
  local text, names = {}, require("ett.base.folder").names(folder .. "/s", "%.csv$")
  for i, name in ipairs(names) do text[i] = stand_in.read(folder, "s/" .. name) end
  return table.concat(text), names
end

describe("ett sample --backend nccl", function()
  it("keeps every repeat with --raw, and measures one shape with get_one", function()
    campaign({ "all_reduce" }, "shapes = { shape = { 1024 } }")
    ended(0, ranks "sample c.lua --out s --quiet --raw")
    local times = tables():match("\n#~ repeats: 1024: collective: ([%d. ]+)\n1024,1,2,")
    assert(times, (tables()))
    assert.is_true(select(2, times:gsub("%S+", "")) >= 3, times)
    local out = ended(0, ranks "sample c.lua --run get_one")
    assert.matches("shape: shape=1024 nodes=1 GPUsPerNode=2\ncollective +[%d.]+ us", out)
    assert.matches("\nalgbw [%d.]+ GB/s, busbw", out)
  end)

  it("makes no more repeats than the campaign allows", function()
    for _, most in ipairs { 3, 5 } do
      campaign({ "all_reduce" }, "shapes = { shape = { 1024 } }", most)
      ended(0, ranks(("sample c.lua --out s%d --quiet --raw"):format(most)))
      local text = stand_in.read(folder, ("s%d/Stand-In90_all_reduce_bf16_1_2.csv"):format(most))
      local times = text:match("\n#~ repeats: 1024: collective: ([%d. ]+)\n1024,1,2,")
      assert(times, text)
      assert.is_true(select(2, times:gsub("%S+", "")) <= most, times)
    end
  end)

  it("measures every collective, with bandwidths as nccl-tests defines them and NCCL's own choice", function()
    campaign({ "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "send_recv", "broadcast" },
      "shapes = { shape = { 1024, 1048576 } }")
    local out = ended(0, ranks "sample c.lua --out s")
    local text, names = tables()
    assert.equal(6, #names, out)
    assert.matches("# algorithm: NCCL's choice, protocol NCCL's choice, noted above each row\n", text)
    -- 2 MiB over two ranks: the bus carries as much as the algorithm moves for a sum, half of it for a gather.
    for collective, factor in pairs { all_reduce = 1, send_recv = 1, broadcast = 1 } do
      local table_text
      for _, name in ipairs(names) do
        if name:find(collective, 1, true) then table_text = stand_in.read(folder, "s/" .. name) end
      end
      local algorithm, bus, choice = table_text:match(
        "#~ note: 1048576: algbw ([%d.]+) GB/s, busbw ([%d.]+) GB/s, ([^\n]+)")
      assert.near(factor * tonumber(algorithm), tonumber(bus), 0.02, collective)
      assert.equal(collective == "send_recv" and "point to point" or "ring, simple", choice)
      local microseconds = tonumber(table_text:match("\n1048576,1,2,([%d.]+)\n"))
      assert.near(2 * 1048576 / (microseconds * 1e3), tonumber(algorithm), 0.02)
    end
    assert.matches("all_gather", out)
    assert.matches("  1024: algbw [%d.]+ GB/s, busbw [%d.]+ GB/s, tree, ll\n", out)
  end)

  it("measures in place, and refuses impossible shapes", function()
    campaign({ "all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all" },
      "in_place = true, shapes = { shape = { 2048 } }")
    ended(0, ranks "sample c.lua --out s")
    local text = tables()
    assert.equal(4, select(2, text:gsub("\n#~ note", "")))
    assert.matches("#! failed: 2048: argument: an all_to_all in place would overwrite data before it is sent", text)
  end)

  it("marks a message that is too large for a device, and continues", function()
    campaign({ "all_reduce" }, "shapes = { shape = { 1024, 268435456, 2048 } }")
    ended(0, ranks("sample c.lua --out s", { ETT_GPU_MEMORY = 400000000 }))
    local text = tables()
    assert.matches("#! failed: 268435456: memory: out of memory on device 0 %(Stand%-In 90%): a message needs "
      .. "536870912", text)
    assert.equal(2, select(2, text:gsub("\n#~ note", "")))
  end)

  it("ends when a rank dies, with a rank named and the rows safe", function()
    campaign({ "all_reduce" }, "shapes = { shape = { 1024, 2048, 4096 } }")
    local out, status = ranks("sample c.lua --out s", { ETT_GPU_RANK_DIES = "1:30" })
    assert.is_true(status ~= 0, out)
    assert.matches("rank 1, device 1 %(Stand%-In 90%): NCCL: a rank failed: remote process exited", out)
    local text = tables()
    assert.is_nil(text:find("#! failed", 1, true))
  end)

  it("says how many devices a node lacks", function()
    campaign({ "all_reduce" }, "shapes = { shape = { 1024 } }")
    local out, status = ranks("sample c.lua --out s", { ETT_GPU_DEVICES = 1 })
    assert.is_true(status ~= 0)
    assert.matches("rank 1 is number 2 on its node, which has 1 CUDA device; start one rank a GPU", out)
  end)
end)
