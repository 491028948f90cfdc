--- Traces of PyTorch on the host: the bare list that its profiler writes without Kineto, and real recordings of a GPT
--- that ett did not write (spec/support/torch_gpt.py), by one process and by two with DistributedDataParallel.
local command = require "command"
local find = require "ett.base.find"
local host = require "ett.host"
local json = require "ett.json"
local quote = require("ett.base.shell").quote
local samples = require "ett.trace.samples"
local trace = require "ett.trace"

local python, reason = find.load("samplers", "torch").interpreter()
local folder = command.each_folder(_ENV)

--- Trains the GPT in one process and in two; seconds of each recorded step by the clock of rank 0, by processes.
local function train()
  local text, status = command.shell(("cd %s && GLOO_SOCKET_IFNAME=lo timeout 100 %s -B %s . 1 2"):format(quote(folder),
    quote(python), quote(host.root .. "/spec/support/torch_gpt.py")))
  assert.equal(0, status, text)
  local seconds = { {}, {} }
  for world, word in text:gmatch("([12]) ([%d.]+)\n") do table.insert(seconds[tonumber(world)], tonumber(word)) end
  assert.equal(3, #seconds[1], text)
  assert.equal(3, #seconds[2], text)
  return seconds
end

--- Milliseconds of each step of a trace, from `ett trace`.
local function steps(place, name)
  local text, status = command.ett(place, ("trace %s iter_time --json --quiet"):format(name))
  assert.equal(0, status, text)
  return assert(json.decode(text)).iter_times_ms, text
end

describe("a trace of PyTorch on the host", function()
  it("is read from a bare list of rows without category", function()
    local rows = {}
    for i = 0, 4 do
      rows[#rows + 1] = { name = "aten::linear", ph = "X", ts = 100 * i, dur = 20 + i, tid = 1, pid = "CPU functions" }
      rows[#rows + 1] = { name = "aten::addmm", ph = "X", ts = 100 * i + 2, dur = 10, tid = 1, pid = "CPU functions" }
      rows[#rows + 1] = { name = "AddmmBackward0", ph = "X", ts = 100 * i + 50, dur = 30, tid = 2,
        pid = "CPU functions" }
    end
    command.write(folder, "rank0.json", json.encode(json.array(rows)))
    local t <close> = assert(trace.open(folder, {}))
    assert.equal(15, #t:events { class = "cpu_op" })
    local list = samples.durations(t, { "aten::linear" })
    assert.same({ 20, 21, 22, 23, 24 }, list)
    assert.same({ 10, 10, 10, 10, 10 }, (samples.durations(t, { "aten::linear", "aten::addmm" })))
    local _, absent = samples.durations(t, { "aten::conv" })
    assert.equal("aten::conv", absent)
    assert.equal("cpu", samples.device_name(t))
    -- A machine with a GPU whose kernels were not recorded: the host's times are not the operators'.
    command.write(folder, "rank0.json", json.encode { deviceProperties = json.array { { id = 0, name = "H100" } },
      traceEvents = json.array(rows) })
    local other <close> = assert(trace.open(folder, {}))
    assert.same({}, (samples.durations(other, { "aten::linear" })))
    assert.equal("H100", samples.device_name(other))
  end)

  it("has the steps that the clock of the program has, of one process and of two", function()
    if not python then pending(reason) return end
    for world, seconds in ipairs(train()) do
      local place = ("%s/%d"):format(folder, world)
      local list, text = steps(place, "rank0.json")
      assert.is_table(list, text)
      local all, other = steps(place, "."), world == 2 and steps(place, "rank1.json") or list
      for i, own in ipairs(seconds) do
        -- The range begins after the clock and ends before it.
        assert.is_true(list[i] <= 1e3 * own + 0.002, text)
        assert.is_true(list[i] >= 0.9 * 1e3 * own - 1, text)
        assert.equal(math.max(list[i], other[i]), all[i]) -- the slowest rank ends a step
      end
      local t <close> = assert(trace.open(place, {}))
      local forward, backward = samples.durations(t, { "aten::layer_norm" }),
        samples.durations(t, { "autograd::engine::evaluate_function: NativeLayerNormBackward0" })
      assert.equal(world * 3 * 5, #forward) -- two norms a layer and the last one
      assert.equal(world * 3 * 5, #backward)
    end
  end)
end)
