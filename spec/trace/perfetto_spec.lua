-- Perfetto traces: slices, tracks, args, interned names, damage; and files that ett does not read, with advice.
local command = require "command"
local maker = require "perfetto_maker"
local trace = require "ett.trace"

describe("a Perfetto trace", function()
  local folder = command.each_folder(_ENV)

  local function example(interned)
    local p = maker.new(interned)
    p:process(1, 100, "python")
    p:thread(2, 100, 7, "main", 1)
    p:track(3, "COMPUTE AGENT [4] QUEUE [2] (GPU)", 1)
    for i = 0, 9 do
      local at = 1000000000000 + 10000 * i
      p:slice(2, at, 2000, "hipLaunchKernel", "hip_runtime_api", { corr_id = 50 + i })
      p:slice(3, at + 3000, 4000, "gemm", "kernel_dispatch", { corr_id = 50 + i, workgroup = "[256]", share = 0.5 })
    end
    return p
  end

  for _, interned in ipairs { false, true } do
    it("has its slices, launches and args" .. (interned and ", names by number" or ""), function()
      local t <close> = assert(trace.open(example(interned):write(folder .. "/a.pftrace"), { args = { "workgroup",
        "share" } }))
      assert.equal("perfetto", t.files[1].kind)
      local kernels, calls = t:events { class = "kernel" }, t:events { class = "runtime" }
      assert.equal(10, #kernels)
      assert.equal(10, #calls)
      assert.equal(40000, kernels:total())
      assert.equal("gemm", kernels:get(1, "name"))
      assert.equal(4, kernels:get(1, "device"))
      assert.equal(2, kernels:get(1, "stream"))
      assert.equal("python", kernels:get(1, "process"))
      assert.same({ "main", "python" }, { calls:get(1, "thread"), calls:get(1, "process") })
      assert.equal("[256]", kernels:get(3, "workgroup"))
      assert.equal(0.5, kernels:get(3, "share"))
      local launch = kernels:match(calls, "correlation")
      for i = 1, 10 do assert.equal(calls:get(i, "ts"), launch:get(i, "ts")) end
      assert.equal(1000000000000, t.origin_ns + t.start)
    end)
  end

  it("has no arg where the value's field has another wire type", function()
    for _, field in ipairs { maker.bytes(4, "7"), maker.number(5, 7), maker.number(6, 7), maker.double(6, 7) } do
      local p = maker.new()
      p:process(1, 100, "python")
      p:track(3, "COMPUTE AGENT [4] QUEUE [2] (GPU)", 1)
      p:slice(3, 1000, 4000, "gemm", "kernel_dispatch", { share = { field = field }, size = 9 })
      local t <close> = assert(trace.open(p:write(folder .. "/a.pftrace"), { args = { "share", "size" } }))
      local kernels = t:events { class = "kernel" }
      assert.is_nil(kernels:get(1, "share"))
      assert.equal(9, kernels:get(1, "size"))
    end
  end)

  it("keeps tracks of neighbouring uuids and of threads apart", function()
    local p, number, bytes = maker.new(), maker.number, maker.bytes
    p:process(1, 100, "python")
    p:thread(9, 100, 3, "main", 1)
    for uuid = 2, 3 do p:track(uuid, "track" .. uuid, 1) end
    local function mark(uuid, ts, begins)
      p:packet(number(8, ts), bytes(11, number(9, begins and 1 or 2) .. number(11, uuid)
        .. (begins and bytes(23, "s" .. uuid) or "")))
    end
    for place, uuid in ipairs { 9, 2, 3 } do mark(uuid, 1000 + place, true) end
    for place, uuid in ipairs { 9, 2, 3 } do mark(uuid, 1500 + place * place) end
    local t <close> = assert(trace.open(p:write(folder .. "/a.pftrace")))
    local found = {}
    for _, e in t:events():iter() do found[#found + 1] = { e.name, e.thread, e.dur } end
    assert.same({ { "s9", "main", 500 }, { "s2", "track2", 502 }, { "s3", "track3", 506 } }, found)
  end)

  it("counts times in the clock of the sequence, and excludes events without a time", function()
    local p, number, bytes = maker.new(), maker.number, maker.bytes
    p:process(1, 100, "python")
    p:track(2, "steps", 1)
    -- As the SDK writes them: 64 counts on from the last time, in units of 1000 ns; 65 does not.
    local function clock(id, at, more) return bytes(1, number(1, id) .. number(2, at) .. (more or "")) end
    p:packet(bytes(59, number(58, 64) .. bytes(11, number(11, 2))), bytes(6, clock(6, 5000000)
      .. clock(64, 5000, number(3, 1) .. number(4, 1000)) .. clock(65, 5000, number(4, 1000))))
    local function begin(name) return bytes(11, number(9, 1) .. bytes(23, name)) end
    local stop = bytes(11, number(9, 2))
    p:packet(begin "never")
    p:packet(number(8, 10), begin "a")
    p:packet(number(8, 3)) -- another packet of the sequence
    p:packet(number(8, 20), stop)
    p:packet(number(8, 6000), number(58, 65), begin "b")
    p:packet(number(8, 6050000), number(58, 6), stop)
    p:packet(number(8, 5), begin "c")
    p:packet(number(8, 1), stop)
    local t <close> = assert(trace.open(p:write(folder .. "/a.pftrace")))
    local found = {}
    for _, e in t:events():iter() do found[#found + 1] = { e.name, t.origin_ns + e.ts, e.dur } end
    assert.same({ { "a", 5010000, 23000 }, { "b", 6000000, 50000 }, { "c", 5038000, 1000 } }, found)
    local codes = {}
    for _, w in ipairs(t.warnings) do codes[w.code] = w.count end
    assert.equal(1, codes.no_ts)
  end)

  it("is recognised by its content, and metrics read it", function()
    example(true):write(folder .. "/trace.pb")
    local text, status = command.ett(folder, "trace . device_time --json --quiet")
    assert.equal(0, status, text)
    local ranks = require("ett.json").decode(text).ranks
    local _, lane = next(ranks)
    assert.equal(40, lane.busy_us)
  end)

  it("gives the part before a cut at any byte, and never a wrong sum", function()
    local whole = example(true):text()
    for cut = 1, #whole - 1, 37 do
      local path = folder .. "/cut.pftrace"
      command.write(folder, "cut.pftrace", whole:sub(1, cut))
      local t = trace.open(path, {})
      if t then
        assert.is_true(t:events({ class = "kernel" }):total() <= 40000)
        t:close()
      end
    end
  end)
end)

it("a file that is not a trace is refused with advice", function()
  local folder = command.folder()
  for name, words in pairs { ["a.nsys-rep"] = "nsys export %-%-type sqlite", ["b.zip"] = "unpack it",
    ["c.tar.gz"] = "a tar archive: unpack it" } do
    command.write(folder, name, name == "b.zip" and "PK\3\4xxxx" or "\1\2\3\4")
    if name == "c.tar.gz" then command.shell(("cd %q && echo {} > d && tar czf c.tar.gz d"):format(folder)) end
    local opened, why = trace.open(folder .. "/" .. name, {})
    assert.is_nil(opened)
    assert.matches(words, tostring(why))
  end
  command.remove(folder)
end)
