-- Perfetto traces: slices, tracks, args, interned names, damage; and files that ett does not read, with advice.
local command = require "command"
local maker = require "perfetto_maker"
local trace = require "ett.trace"

describe("a Perfetto trace", function()
  local folder
  before_each(function() folder = command.folder() end)
  after_each(function() command.remove(folder) end)

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

  it("is known by its content, and metrics read it", function()
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

describe("a file that is not a trace", function()
  it("is refused with what to do", function()
    local folder = command.folder()
    for name, words in pairs { ["a.nsys-rep"] = "nsys export %-%-type sqlite", ["b.zip"] = "unpack it" } do
      command.write(folder, name, name == "b.zip" and "PK\3\4xxxx" or "\1\2\3\4")
      local opened, why = trace.open(folder .. "/" .. name, {})
      assert.is_nil(opened)
      assert.matches(words, tostring(why))
    end
    command.remove(folder)
  end)
end)
