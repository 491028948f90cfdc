-- The page of a trace in a real browser: it renders, and its console stays empty.
local maker = require "trace_maker"
local reference = require "reference_traces"
local trace_view = require "ett.trace.view"
local metrics = require "ett.trace.metrics"

local function have(command)
  local ok = os.execute(("command -v %s > /dev/null 2>&1"):format(command))
  return ok == true
end

local function run(command)
  local pipe = io.popen(command .. " 2>&1")
  local text = pipe:read("a")
  pipe:close()
  return text
end

local function page(path, target)
  local view <close> = assert(trace_view.open(path, { args = metrics.args(metrics.load_all(metrics.names())) }))
  assert(require("ett.trace.html").write(view, target))
end

local function size(path)
  local file = assert(io.open(path, "rb"))
  local bytes = file:seek("end")
  file:close()
  return bytes
end

describe("the HTML page", function()
  if not have("chromium") then
    pending("chromium is not installed")
    return
  end
  local folder = maker.folder()
  teardown(function() os.execute("rm -rf " .. folder) end)

  local function browse(file, more)
    return run(("timeout 60 chromium --headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
      .. "--disable-background-networking --disable-component-update --disable-sync --user-data-dir=%s/profile "
      .. "--window-size=1280,1400 --virtual-time-budget=3000 --enable-logging=stderr %s file://%s")
      :format(folder, more, file))
  end

  local function check(name, path, wanted)
    local file = ("%s/%s.html"):format(folder, name)
    page(path, file)
    local dom = browse(file, "--dump-dom")
    assert.is_nil(dom:match("CONSOLE[^\n]*"), "the console is empty")
    for _, text in ipairs(wanted) do assert.is_truthy(dom:find(text, 1, true), name .. " shows " .. text) end
    browse(file, ("--screenshot=%s/%s.png"):format(folder, name))
    assert.is_true(size(("%s/%s.png"):format(folder, name)) > 5000)
    return file
  end

  it("shows a hand-made trace, with names that would end a script", function()
    local r = maker.new{ rank = 0, world = 1 }
    r:step(1, 0, 1000)
    r:kernel("</script><script>throw 1</script>", 100, 500)
    r:kernel("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*)", 300, 500, { stream = 20 })
    maker.with({ r }, function(traces)
      local file = check("hand", traces, { "Where the time went", "Collectives", "all_reduce", "throw 1" })
      local text = assert(io.open(file)):read("a")
      assert.is_nil(text:find("https?://"), "loads nothing")
    end)
  end)

  it("shows real traces", function()
    local real = reference.folder()
    if not real then
      pending("the reference traces are not at hand (set ETT_REFERENCE)")
      return
    end
    check("megatron", real .. "/megatron_tp8_a100", { "Timeline", "rank 7", "Stragglers", "mean lag" })
    check("tpu", real .. "/tpu_inference_jax/2026_01_11_21_26_41", { "/device:TPU:1", "all-reduce" })
    check("pipeline", real .. "/primus_pp/pp8", { "Pipeline stages", "pipeline bubble" })
    check("cpu_only", real .. "/hta_cpu_only", { "Not in this trace" })
  end)
end)
