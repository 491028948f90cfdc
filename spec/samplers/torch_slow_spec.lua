--- The PyTorch back end with real PyTorch on the host, its reading of a trace of known times, and its
--- message without PyTorch.
local command = require "command"
local ended = command.ended
local find = require "ett.base.find"
local host = require "ett.host"
local json = require "ett.json"
local operator = require "ett.operator"
local quote = require("ett.base.shell").quote

local backend = find.load("samplers", "torch")
local python, reason = backend.interpreter()

--- Seconds of a pass of real layers, timed by a loop that shares no code with ett.
local function plain_loop(tokens, width)
  local script = quote(host.root .. "/spec/support/torch_loop.py")
  local pipe = assert(io.popen(("%s -B %s %d %d"):format(quote(python), script, tokens, width)))
  local text = pipe:read("a")
  pipe:close()
  return assert(json.decode(text))
end

describe("samplers/torch on the host", function()
  local function with_torch(what, run)
    it(what, function()
      if not python then pending(reason) return end
      run()
    end)
  end

  local session, loop -- one of each: importing PyTorch takes seconds
  setup(function()
    if not python then return end
    session = assert(backend.open { device = "cpu", precision = "fp32",
      schedule = { wait = 1, warmup = 5, active = 12 } })
    loop = plain_loop(256, 512)
  end)
  teardown(function() if session then session.close() end end)

  with_torch("measures as many iterations as a schedule says, as a plain loop of PyTorch does", function()
    local op_shapes = { gelu = { tokens = 256, width = 512 }, layer_norm = { tokens = 256, hidden = 512 },
      linear_qkv = { tokens = 256, in_features = 512, out_features = 512 } }
    local own, plain, worst = {}, {}, nil -- the least of all rounds: a loaded machine slows one for a while
    for round = 1, 6 do
      if round > 1 then loop = plain_loop(256, 512) end
      worst = 1
      for name, s in pairs(op_shapes) do
        local results = assert(session.measure(operator.get(name), s))
        for pass, seconds in pairs(loop[name]) do
          local key = name .. pass
          assert.equal(12, results[pass].repeats)
          assert.equal(results[pass].half_width_seconds / results[pass].seconds, results[pass].known_to)
          own[key] = math.min(own[key] or math.huge, results[pass].min_seconds)
          plain[key] = math.min(plain[key] or math.huge, seconds)
          worst = math.max(worst, own[key] / plain[key], plain[key] / own[key])
        end
      end
      if worst < 3 then break end
    end
    assert.is_true(worst < 3, ("%.2f times apart"):format(worst))
  end)

  with_torch("continues a table with another number of threads only if allowed", function()
    local folder = command.folder()
    finally(function() command.remove(folder) end)
    command.write(folder, "c.lua", [[return { name = "c", backend = "torch", precision = "fp32", samples = {
      { operator = "gelu", shapes = { tokens = { 16, 32 }, width = 64 } } } }]])
    ended(0, command.ett(folder, "sample c.lua --out out --quiet --threads 1 --limit 1"))
    local text = ended(1, command.ett(folder, "sample c.lua --out out --quiet --threads 2"))
    assert.matches("was started with time: clock of the host around each pass, 1 thread, now clock", text, 1, true)
    ended(0, command.ett(folder, "sample c.lua --out out --quiet --threads 1"))
  end)

  with_torch("measures every kind of shape of the bundled campaign into tables that say how", function()
    local folder = command.folder()
    finally(function() command.remove(folder) end)
    local text = ended(0, command.ett(folder,
      "sample cpu_30s --backend torch --limit 1 --raw --out out --json --quiet"))
    local reports = assert(json.decode(text:match("%[.*%]")))
    assert.equal(11, #reports)
    for _, report in ipairs(reports) do
      assert.equal(1, report.measured, report.name)
      assert.equal(0, report.failed, report.name)
    end
    local device = require("ett.sampling.machine").processor().device -- as the back end cpu names it
    local attention = command.read(folder, ("out/%s_flash_attention_fp32.csv"):format(device))
    local gelu = command.read(folder, ("out/%s_gelu_fp32.csv"):format(device))
    assert.matches("\n# libraries: PyTorch %d", gelu)
    assert.matches("\n# time: clock of the host around each pass, %d+ thread", gelu)
    assert.matches("\n#~ repeats: %d+,%d+: forward: [%d.]+ [%d.]+ [%d. ]+\n", gelu)
    assert.is_nil(gelu:match("\n# attention"))
    assert.equal(loop.fused_attention and 0 or 1,
      select(2, attention:gsub("\n# attention: written out with matmul and softmax: ", "")))
  end)

  with_torch("follows the campaign's number of threads and its statistic", function()
    local folder = command.folder()
    finally(function() command.remove(folder) end)
    command.write(folder, "c.lua", [[return { name = "c", backend = "torch", threads = 2, statistic = "median",
      samples = { { operator = "gelu", shapes = { tokens = 256, width = 256 } } } }]])
    local text = ended(0, command.ett(folder, "sample c.lua --raw --out out --quiet"))
    text = command.read(folder, text:match("(out/%S+%.csv)"))
    assert.matches("\n# time: clock of the host around each pass, 2 threads\n", text)
    local times = require("ett.samples.table").mark(text:match("#~ repeats: [^\n]+")).seconds
    local median = require("ett.sample").stats(times).median * 1e6
    assert.near(median, tonumber(text:match("\n256,256,([%d.]+),")), 1e-4 * median)
  end)

  with_torch("says what is wrong with an operator's code, at its own line, and goes on", function()
    local function message(text)
      local results, err = session.measure({ name = "broken", torch = text, passes = { "forward" } }, { n = 4 })
      assert.is_nil(results)
      return err.message, err.kind
    end
    assert.matches("broken: broken %(torch%):2: name 'undefined_name' is not defined",
      (message "x = tensor(s.n)\nreturn lambda: undefined_name"))
    assert.matches("broken: broken %(torch%):[23]: ", (message "x = tensor(s.n)\ny = (1 +\nreturn lambda: x"))
    local text, kind = message "x = tensor(1 << 50)\nreturn lambda: x"
    assert.equal("memory", kind, text)
    local results, err = session.measure({ name = "own", passes = { "forward" } }, {})
    assert.is_nil(results)
    assert.matches("'own' cannot run under PyTorch: it has no field 'torch'", err.message)
    assert.is_table((session.measure(operator.get "gelu", { tokens = 4, width = 8 })))
  end)

  with_torch("measures the scan that its page prints", function()
    local page = require("tree").read "samplers/torch/README.md"
    local op = operator.check(assert(load(page:match "```lua\n(.-)\n```"))(), "wkv7.lua")
    local c = { micro_batch = 1, seq = 8, tp = 2, cp = 1, heads = 4, hidden = 32 }
    local results = assert(session.measure(op, op.shape(c)))
    assert.is_true(results.forward.seconds > 0 and results.backward.seconds > 0)
    assert.equal(8.0 * 8 * 2 * 8 ^ 2, op.flops(op.shape(c), "forward"))
    assert.is_nil(op.refuse(c))
    c.cp = 2
    assert.matches("cp must be 1", op.refuse(c))
  end)

  with_torch("ends a session whose process died with that process's last message", function()
    local text = "import os, sys\nprint('killed by the driver', file=sys.stderr, flush=True)\nos._exit(3)"
    local results, err = session.measure({ name = "deadly", torch = text, passes = { "forward" } }, { n = 4 })
    assert.is_nil(results)
    assert.equal("lost", err.kind)
    assert.matches("the Python process ended: killed by the driver", err.message)
  end)
end)

describe("samplers/torch without PyTorch", function()
  local folder = command.each_folder(_ENV)
  local function refused(interpreter)
    local text = ended(1, command.ett(folder, "sample cpu_30s --backend torch", "ETT_PYTHON=" .. interpreter))
    return text
  end

  it("names a missing interpreter", function()
    assert.matches("no Python interpreter 'no%-such%-python'; install Python 3 or name one in ETT_PYTHON",
      refused "no-such-python")
  end)

  it("names an interpreter without torch", function()
    command.write(folder, "python", "#!/bin/sh\ncase \"$2\" in *torch*) exit 1 ;; esac\n")
    os.execute("chmod +x " .. quote(folder .. "/python"))
    assert.matches("'%./python' has no PyTorch; install it there or name another interpreter in ETT_PYTHON",
      refused "./python")
  end)
end)

--- A trace of a GPU: each range launches one kernel, by a thread of its own for the backward pass.
local function trace_of(path, iterations)
  local events, at, correlation = {}, 1000, 0
  local function add(event)
    event.ph, event.pid, event.tid = "X", event.pid or 1, event.tid or 1
    events[#events + 1] = event
  end
  for _ = 1, iterations do
    for _, range in ipairs { { "ett forward", 100, 40, 1 }, { "ett backward", 200, 90, 2 } } do
      correlation = correlation + 1
      add { cat = "user_annotation", name = range[1], ts = at, dur = range[2] }
      add { cat = "cuda_runtime", name = "cudaLaunchKernel", ts = at + 5, dur = 3, tid = range[4],
        args = { correlation = correlation } }
      add { cat = "kernel", name = "k", pid = 0, tid = 7, ts = at + 20, dur = range[3],
        args = { correlation = correlation, stream = 7, device = 0 } }
      at = at + 1000
    end
  end
  require("ett.base.folder").write(path, json.encode { schemaVersion = 1, traceEvents = json.array(events) })
end

describe("samplers/torch on a GPU", function()
  local path
  before_each(function()
    path = os.tmpname()
    trace_of(path, 3)
  end)
  after_each(function() os.remove(path) end)
  local op = { name = "gelu", passes = { "forward", "backward" } }

  it("takes the device rows launched inside each range", function()
    local results = assert(backend.traced(path, op, {}, 3, { keep_raw = true }))
    assert.near(40e-6, results.forward.seconds, 1e-9)
    assert.near(90e-6, results.backward.seconds, 1e-9)
    assert.equal(3, results.forward.repeats)
    assert.equal(3, #results.backward.raw_seconds)
    assert.is_nil(results.note)
  end)

  it("reports a campaign's targets that the trace lacks, and uses the range of the pass", function()
    local targets = { { "ett forward" }, { "autograd::engine::evaluate_function: GeluBackward0" } }
    local results = assert(backend.traced(path, op, targets, 3))
    assert.near(40e-6, results.forward.seconds, 1e-9)
    assert.near(90e-6, results.backward.seconds, 1e-9)
    assert.equal("backward timed by its range: the trace has 0 events of the target 'autograd::engine::"
      .. "evaluate_function: GeluBackward0' in 3 iterations", results.note)
  end)

  it("says that a pass has no time in the trace", function()
    local results, err = backend.traced(path, { name = "adam", passes = { "update" } }, {}, 3)
    assert.is_nil(results)
    assert.matches("adam: the trace has no rows of its update pass", err.message)
  end)
end)
