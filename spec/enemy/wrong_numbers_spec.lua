--- Values out of range, unknown names and contradictions: each is refused with the sentence given here.
local lfs = require "lfs"
local refusal = require "refusal"
local folders = require "ett.base.folder"
local refused, write = refusal.refused, refusal.write

local plan = " hidden=1024 layers=4 heads=8 vocab=1000 seq=128 micro_batches=4"
local llama = "predict --model llama" .. plan

teardown(refusal.clean)

describe("ranges of the ledger's commands", function()
  local run = "transformer --num_layers 2 --d_model 1024 --dataset_size "
  local simple = "simple-transformer --n_layers 2 --d_model 64 "
  for words, sentence in pairs {
    [run .. "-1"] = "transformer: option '--dataset_size' must be a number above 0, got '-1'",
    [run .. "10"] = "transformer: option '--dataset_size' must be at least one batch, batch_size * seq_len = 4194304 "
      .. "tokens, got 10",
    [run .. "1e9 --batch_size 4294967296 --seq_len 4294967296"] = "transformer: option '--dataset_size' must be at "
      .. "least one batch, batch_size * seq_len = 1.84467440737096e+19 tokens, got 1e+09",
    [run .. "1e9 --utilization 5"] = "transformer: option '--utilization' must be at most 1, got '5'",
    [run .. "1e9 --optimizer_bytes -100"] = "transformer: option '--optimizer_bytes' must be at least 0, got '-100'",
    [run .. "1e9 --overlap 9"] = "transformer: option '--overlap' must be at most 1, got '9'",
    [simple .. "--dataset_size -5"] = "simple-transformer: option '--dataset_size' must be a number above 0, got '-5'",
    [simple .. "--dataset_size 10"] = "simple-transformer: option '--dataset_size' must be at least one batch, "
      .. "batch_size * seq_len = 4194304 tokens, got 10",
    [simple .. "--base_utilization 50"] =
      "simple-transformer: option '--base_utilization' must be at most 1, got '50'",
    ["optimize --gap -1"] = "optimize: option '--gap' must be at least 0, got '-1'",
    ["optimize --real --gap 1e-300"] = "optimize: --gap must be at least 0.0001 with --real, got 1e-300",
    ["optimize --utilization 0.5 --max-days 1"] =
      { "optimize: no layout of at most 1024 pods of 32 H100 (32768 H100) meets the limits of model 'pods' and 1 days",
        1 },
    ["picture --dp 9223372036854775807"] =
      "picture: option '--dp' must be at most 4096, got '9223372036854775807'",
    ["trace . --threads 1e12"] = "trace: option '--threads' must be at most 1024, got '1e12'",
    ["trace . --tolerance-us 1e308"] = "trace: option '--tolerance-us' must be at most 1e+09, got '1e308'",
    ["trace . --top 1e18"] = "trace: option '--top' must be at most 100000, got '1e18'",
    ["compare --utilization 1e-320"] = "compare: option '--utilization' must be at least 1e-06, got '1e-320'",
    [run .. "1e9 --utilization 1e-320"] =
      "transformer: option '--utilization' must be at least 1e-06, got '1e-320'",
    ["optimize --model simple --devices 64 n_layers=0.5"] =
      { "optimize: n_layers must be a whole number from 1 to 1e15, got 0.5", 1 },
    ["optimize --model simple --devices 64 d_model=1e300"] =
      { "optimize: d_model * d_internal_ratio must be a whole number from 1 to 1e15, got 5e+300", 1 },
    ["optimize --model simple --devices 64 n_layers=1e15"] =
      { "optimize: no layout of at most 64 devices meets the limits of model 'simple'", 1 },
    ["optimize --model simple --devices 4097 --exact-devices"] =
      { "optimize: no layout of exactly 4097 devices meets the limits of model 'simple'", 1 },
    ["optimize --devices 16777217"] = "optimize: --devices must be at most 16777216, got '16777217'",
    ["optimize --devices 1:2:1e300"] = "optimize: --devices takes at most 1000 numbers per octave, got '1:2:1e300'",
    ["optimize --devices 64:1e300:9"] = "optimize: --devices must be at most 16777216, got '64:1e300:9'",
    ["optimize --devices ''"] = "optimize: --devices must be whole numbers separated by commas, got ''",
    ["optimize --utilization 50"] = "optimize: option '--utilization' must be at most 1, got '50'",
  } do
    local text, status = sentence, 2
    if type(sentence) == "table" then text, status = sentence[1], sentence[2] end
    it(words, function() refused(words, text, status) end)
  end
end)

describe("files with impossible names or values are refused:", function()
  local flags = "--num-layers 8 --hidden-size 512 --num-attention-heads 8 --seq-length 512 --vocab-size 1000 "
    .. "--micro-batch-size 1 --global-batch-size 32 "

  it("numbers of devices in launch flags", function()
    local function of(more, sentence)
      write("flags.sh", flags .. more .. "\n")
      refused("predict --megatron-args flags.sh", "flags.sh: " .. sentence)
    end
    of("--world-size 0.5", "tp * pp * cp = 1 must divide its 0.5 devices; give dp=N for another number")
    of("--world-size 8 --tensor-model-parallel-size 0",
      "tp * pp * cp = 0 must divide its 8 devices; give dp=N for another number")
    of("--world-size 8 --tensor-model-parallel-size 4611686018427387904 --pipeline-model-parallel-size 4",
      "tp * pp * cp = 1.844674407371e+19 must divide its 8 devices; give dp=N for another number")
  end)

  it("a faulty line of a configuration, named once and in part", function()
    write("x.toml", "[training]\n" .. ("x"):rep(100000) .. "\n")
    refused("predict --model llama3-8b --plan x.toml", "x.toml: line 2: expected [TABLE] or NAME = VALUE, got '"
      .. ("x"):rep(57) .. "...'")
  end)

  it("a cluster in PLAN.lua", function()
    write("run/trace.json", '{"traceEvents":[{"ph":"X","name":"k","cat":"kernel","pid":0,"tid":7,"ts":1,"dur":1}]}')
    write("PLAN.lua", "return { hyper = { heads = 4, hidden = 64, layers = 2, vocab = 512 }, "
      .. "plan = { micro_batches = 1, seq = 32 }, cluster = { nodes = 1 } }\n")
    refused("trace run --against PLAN.lua --quiet",
      "cluster: missing field 'name' (a string); missing field 'source' (a string); missing field 'summary' (a string)")
  end)
end)

describe("names and numbers of a model or plan", function()
  local function config(more)
    write("config.json", '{"model_type":"llama","hidden_size":1024,"num_hidden_layers":4,"num_attention_heads":8,'
      .. '"intermediate_size":4096,"vocab_size":1000,' .. more .. "}")
  end

  it("an activation that no model has", function()
    config '"hidden_act":"silo"'
    refused("predict --model config.json seq=128 micro_batches=4",
      "config.json: field 'hidden_act': unknown activation 'silo'; did you mean 'silu'?")
  end)

  it("a list of operators in a configuration is obeyed; an unknown operator of it is named", function()
    config '"encoder_function_list":["rms_norm","zzz"]'
    refused("predict --model config.json seq=128 micro_batches=4", "config.json: llama: encoder_function_list: "
      .. "entry 2: unknown operator 'zzz'; `ett list operators` names them all")
    refused(llama .. " encoder_function_list=zzz", "llama: encoder_function_list: entry 1: unknown operator 'zzz'; "
      .. "`ett list operators` names them all")
    config '"encoder_function_list":["rms_norm","linear_up","gelu","linear_down"]'
    local _, out = refusal.run "predict --model config.json seq=128 micro_batches=4 --json"
    local seen = {}
    for _, line in ipairs(require("ett.json").decode(out).operators) do seen[line.name] = true end
    assert.is_true(seen.gelu and seen.linear_up)
    assert.is_nil(seen.linear_qkv or seen.swiglu)
  end)

  it("swiglu in a list of operators implies the gate, or contradicts it", function()
    local model = require "ett.model"
    local parameters = require("ett.model.architecture").parameters
    local function count(gated, activation)
      return parameters(model.list({ "linear_qkv", "linear_proj", "linear_up", "swiglu", "linear_down" },
        { layers = 4, hidden = 1024, heads = 8, vocab = 1000, ffn = 4096, gated_mlp = gated, activation = activation }))
    end
    -- Vaswani's block with a gate: qkv 3 h^2, projection h^2, up 2 h f, down h f; embedding and head of 1024 rows.
    local h, f = 1024, 4096
    local weights = 4 * (4 * h * h + 3 * h * f)
    local found = count(nil)
    assert.is_true(found >= weights + 2 * 1000 * h and found < weights + 2 * 1024 * h + 64 * h, found)
    assert.equal(found, count(true))
    assert.equal(found, count(nil, "swiglu"))
    assert.has_error(function() count(false) end)
    assert.has_error(function() count(nil, "gelu") end)
  end)
end)

describe("words of trace, calibrate and sample", function()
  it("refuse an impossible card, trace or tolerance", function()
    write("tr/rank0.json", '{"traceEvents":[{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":1,"dur":2,'
      .. '"args":{"stream":7,"device":0}}]}')
    for name, text in pairs { ["bad.yaml"] = "a: [1\n b: }\n", ["words.yaml"] = "batch_size: many\n",
      ["other.yaml"] = "title: mine\n", ["list.yaml"] = "5\n" } do write(name, text) end
    for file, sentence in pairs {
      missing = "cannot read 'missing': no such file or directory", tr = "cannot read 'tr': is a directory",
      ["bad.yaml"] = "bad.yaml: line 2: column 3: did not find expected ',' or ']' while parsing a flow sequence that "
        .. "began on line 1",
      ["words.yaml"] = "words.yaml: line 1: field 'batch_size' must be a positive integer, got 'many'",
      ["list.yaml"] = "list.yaml: a workload card must be a table of fields",
      ["other.yaml"] = "other.yaml: has no field of a workload card, such as batch_size, seq_len or num_params",
      ["tr/rank0.json"] = "tr/rank0.json: has no field of a workload card, such as batch_size, seq_len or num_params",
      ["/dev/zero"] = "'/dev/zero' is larger than the limit of 16777216 bytes for its kind",
    } do
      refused("trace tr device_time --card " .. file, "trace: --card: " .. sentence)
      refused("trace tr --read-plan --card " .. file, "trace: --card: " .. sentence)
    end
    refused("trace --all tr missing", "trace: cannot read 'missing': no such file, folder or metric")
    refused("trace tr device_time --tolerance-us -1", "trace: option '--tolerance-us' must be at least 0, got '-1'", 2)
    folders.remove(refusal.folder .. "/tr")
  end)

  it("refuse words of picture, a wrong date and a wrong time", function()
    refused("picture x", "picture: takes no arguments, got 'x'", 2)
    refused("calibrate dgx_a100 . --source x --date foo", "calibrate: option '--date' must be YYYY-MM-DD, got 'foo'", 2)
    if not pcall(require, "ett.sample") then return end
    write("c.lua", 'return { name = "c", samples = { { operator = "gelu", shapes = { tokens = 1, width = 8 } } } }')
    local command = require "command"
    for _, text in ipairs { "abc", "-1", "0", "inf" } do
      local output, status = command.ett(refusal.folder, "sample c.lua", "ETT_KERNEL_SECONDS=" .. text)
      assert.equal(2, status)
      assert.equal(("ett: ETT_KERNEL_SECONDS must be a number of seconds above 0 and at most 86400, got '%s'\n"):format(
        text), output)
    end
  end)
end)

describe("a refused campaign", function()
  if not require("needs").cpu("ett sample", _ENV) then return end
  local function campaign(more, shape)
    write("c.lua", ('return { name = "c", visits = 1, cold_bytes = 1 << 20, '
      .. '%s samples = { { operator = "own", shapes = { n = %d } } } }')
      :format(more, shape))
  end
  local function operator(kernel)
    write("own.lua", 'return { name = "own", summary = "s", schema = { n = "count" }, '
      .. 'shape = function() return { n = 8 } end, flops = function() return 1.0 end, '
      .. 'bytes = function() return 8.0 end, ' .. kernel .. " }")
  end

  it("leaves no folder", function()
    operator ""
    campaign('precision = "fp16",', 16)
    refused("sample c.lua --backend cpu --out p", "the back end 'cpu' measures fp32, not 'fp16'", 2)
    assert.is_nil(lfs.attributes(refusal.folder .. "/p"))
  end)

  it("leaves no table that blocks the right one", function()
    operator ""
    campaign("", 16)
    assert.equal(1, (refusal.run "sample c.lua --backend cpu --out q --quiet"))
    operator('kernel = function(k, s) k.gemm { a = k.tensor { s.n, s.n }, b = k.tensor { s.n, s.n }, '
      .. 'c = k.tensor { s.n, s.n }, m = s.n, n = s.n, k = s.n } end')
    campaign("seed = 3,", 32)
    local status, out, err = refusal.run "sample c.lua --backend cpu --out q --quiet --no-check"
    assert.equal(0, status, err)
    assert.matches("1 measured, 0 failed", out)
    folders.remove(refusal.folder .. "/q")
  end)
end)

describe("the minimal operators of the pages", function()
  it("halve their tokens on two context ranks", function()
    local root = require("ett.host").root
    local count = 0
    for _, page in ipairs { "/operators/README.md" } do
      local text = assert(require("ett.io").read(root .. page))
      for body in text:gmatch("function op%.shape%(c%) return (%b{}) end") do
        local shape = assert(load("local c = ... return " .. body))
        local one = shape { micro_batch = 2, seq = 64, ffn = 32, hidden = 16, tp = 1, cp = 1 }
        local two = shape { micro_batch = 2, seq = 64, ffn = 32, hidden = 16, tp = 1, cp = 2 }
        assert.equal(one.tokens, 2 * two.tokens)
        count = count + 1
      end
    end
    assert.equal(2, count)
  end)
end)

describe("a cluster file", function()
  -- A cluster of two devices; the arguments replace its rates.
  local function cluster(name, given)
    write(name .. ".lua", ([[return { name = "%s", summary = "s", source = "x", gpus_per_node = 2, %s
      device = { name = "D1000", source = "x", peak_flops = { bf16 = %s, fp16 = 3e14, fp32 = 6e13 },
        memory_bandwidth = %s, memory_bytes = 8e10, multiprocessors = 108, %s },
      links = { intra = { bandwidth = %s, source = "x", %s } } }]]):format(name, given.profile or "",
      given.peak or "3e14", given.memory or "2e12", given.device or "", given.link or "3e11", given.intra or ""))
  end
  local run = (llama:gsub("predict", "predict --cluster a.lua"))

  for sentence, given in pairs {
    ["a.lua: device: peak_flops: field 'bf16' must be at least 1000000 FLOP/s, got 1e-300"] = { peak = "1e-300" },
    ["a.lua: device: peak_flops: field 'bf16' must be a positive number, got inf"] = { peak = "1/0" },
    ["a.lua: device: field 'memory_bandwidth' must be at most 1e+17 bytes/s, got 1e+300"] = { memory = "1e300" },
    ["a.lua: links: intra: field 'bandwidth' must be at least 1000000 bytes/s, got 1e-300"] = { link = "1e-300" },
    ["a.lua: device: measured_flops: 'bf16' must be at most the peak 3e+14, got 4e+14"] =
      { device = "measured_flops = { bf16 = 4e14 }" },
    ["a.lua: links: intra: curves[-4]: the key must be a number of ranks of at least 2, or a collective's name"] =
      { intra = "curves = { [-4] = { 1e3, 1e9 } }" },
    ["a.lua: links: intra: curves[2]: number 3 (bytes) must be between 1 and 1e17, got nil"] =
      { intra = "curves = { [2] = { 1e3, 1e9, nil, 1e9 } }" },
    ["a.lua: links: intra: curves[2]: number 2 (bytes/s) must be between 1000 and 1e17, got 1e-300"] =
      { intra = "curves = { [2] = { 1e3, 1e-300 } }" },
    ["a.lua: links: intra: curves[1000000000]: the key must be at most gpus_per_node = 2"] =
      { intra = "curves = { [1e9] = { 1e3, 1e9 } }" },
    ["a.lua: device: power: field 'idle_watts' must be at most 1000000 watts, got 1e+300"] =
      { device = "power = { idle_watts = 1e300, compute_watts = 1, memory_watts = 1, source = 'x' }" },
    ["a.lua: device: power: field 'compute_watts' must be at most 1000000 watts, got 1e+300"] =
      { device = "power = { idle_watts = 1, compute_watts = 1e300, memory_watts = 1, source = 'x' }" },
    ["a.lua: device: power: field 'idle_watts' must be at least 1 watts, got 0.2"] =
      { device = "power = { idle_watts = 0.2, compute_watts = 1, memory_watts = 1, source = 'x' }" },
    ["a.lua: device: power: 'compute_watts' must be 0 or at least 1 W, got 0.7"] =
      { device = "power = { idle_watts = 9, compute_watts = 0.7, memory_watts = 1, source = 'x' }" },
    ["a.lua: device: power: 'memory_watts' must be 0 or at least 1 W, got 0.3"] =
      { device = "power = { idle_watts = 9, compute_watts = 0, memory_watts = 0.3, source = 'x' }" },
    ["a.lua: device: power: 'idle_watts' must be at most the device's limit of 400 W, got 40000"] =
      { device = "power_watts = 400, power = { idle_watts = 40000, compute_watts = 1, memory_watts = 1, "
        .. "source = 'x' }" },
    ["a.lua: device: field 'power_watts' must be at least 5 watts, got 0.7"] =
      { device = "power_watts = 0.7" }, -- kilowatts
    ["a.lua: device: field 'l2_bytes' must be at least 100000 bytes, got 50"] =
      { device = "l2_bytes = 50" }, -- megabytes
    ["a.lua: device: field 'power_limit_watts' must be at most 1000000 watts, got 1e+300"] =
      { device = "power_limit_watts = 1e300" },
    ["a.lua: host: field 'memory_bytes' must be at least 1000000 bytes, got 250"] = -- gigabytes
      { profile = "host = { bandwidth = 5e10, memory_bytes = 250, source = 'x' }," },
    ["a.lua: field 'profile' must have 'folder', 'base' or 'borrow'"] = { profile = "profile = {}," },
    ["a.lua: profile: unknown field 'foldr'; did you mean 'folder'?"] = { profile = "profile = { foldr = 'x' }," },
    ["cluster a: profile: unknown cluster 'perlmuter'; did you mean 'perlmutter'?"] =
      { profile = "profile = { base = 'perlmuter' }," },
    ["cluster a: profile: './none' is not a folder"] = { profile = "profile = 'none'," },
  } do
    it(sentence, function()
      cluster("a", given)
      refused(run, sentence)
    end)
  end

  it("whose collectives take a time that no machine takes", function()
    cluster("a", { profile = "collectives = 'slow'," })
    for body, sentence in pairs {
      ["seconds = function() return 1e300 end"] = "seconds must return at most 1e+09, got 1e+300",
      ["timer = function() return function() return 1e300 end end"] =
        "seconds must return at most 1e+09, got 1e+300",
      ["timer = function() return { start = 1e300, { bandwidth = 1e9 } } end"] =
        "law: field 'start' must be at most 1000000000, got 1e+300",
      ["timer = function() return { { moved = 1e300, bandwidth = 1e9 } } end"] =
        "law: stream 1: field 'moved' must be at most 1000000000, got 1e+300",
      ["timer = function() return { { bandwidth = 1e-300 } } end"] =
        "law: stream 1: field 'bandwidth' must be at least 1e-06, got 1e-300",
      ["timer = function(r) return { { bandwidth = 1e-300, curve = { 1, 1e9, 2, 1e9 } } } end"] =
        "law: stream 1: field 'bandwidth' must be at least 1e-06, got 1e-300",
    } do
      write("collectives/slow.lua", "return { name = 'slow', summary = 's', source = 'x', kinds = { 'all_reduce' }, "
        .. body .. " }\n")
      refused(run .. " tp=2 --path .", "slow.lua:1: collective 'slow': " .. sentence)
    end
    folders.remove(refusal.folder .. "/collectives")
  end)

  it("whose node has less bandwidth than one of its devices: each command warns", function()
    local wires = "links = { intra = { bandwidth = 3e11, source = 'x' }, inter = { bandwidth_per_gpu = 3e9, "
      .. "bandwidth_per_node = 1e6, source = 'x' } } }"
    cluster("a", {})
    local text = assert(require("ett.io").read(refusal.folder .. "/a.lua"))
    write("a.lua", (text:gsub("links = .*", wires)))
    for _, words in ipairs { run .. " dp=4", (run:gsub("predict", "sweep")) .. " dp=4,8",
      "search --cluster a.lua --devices 4 --global-batch 4 --seq 128 --model llama hidden=1024 layers=4 heads=8 "
      .. "vocab=1000 cp=1" } do
      local status, out, err = refusal.run(words)
      assert.equal(0, status, err)
      assert.matches("cluster 'a': links.inter.bandwidth_per_node = 1e+06 is below bandwidth_per_gpu = 3e+09: one "
        .. "device has more than its node", out, 1, true)
    end
  end)

  it("is the one on the page of a search, also if a bundled cluster has its name", function()
    for _, name in ipairs { "a", "dgx_h100" } do
      cluster(name, {})
      local status, _, err = refusal.run(("search --cluster %s.lua --devices 2 --global-batch 4 --html s.html "
        .. "--quiet --seq 128 --model llama hidden=1024 layers=4 heads=8 vocab=1000"):format(name))
      assert.equal(0, status, err)
      local text = assert(require("ett.io").read(refusal.folder .. "/s.html"))
      assert.is_truthy(text:find("device D1000", 1, true))
    end
    os.remove(refusal.folder .. "/dgx_h100.lua")
  end)

  it("whose base leads back to it", function()
    cluster("a", { profile = "profile = { base = './b.lua' }," })
    cluster("b", { profile = "profile = { base = './b.lua' }," })
    refused(run, "cluster b: profile: base and borrow form a cycle: a.lua -> b.lua -> b.lua")
    lfs.mkdir(refusal.folder .. "/d") -- another path of the same file at each step
    finally(function() lfs.rmdir(refusal.folder .. "/d") end)
    cluster("a", { profile = "profile = { base = 'd/../a.lua' }," })
    refused(run, "cluster a: profile: base and borrow form a cycle: a.lua -> d/../a.lua")
  end)

  if not pcall(require, "ett.regress_fit") then return end

  -- Forty rows of residual_add, `factor` times what 2e12 bytes/s allow (three tensors of two bytes).
  local function samples(device, factor)
    local lines = { "mp,b,l,dim,F_dur(us),B_dur(us)" }
    for i = 1, 40 do
      local rows, dim = 512 + 64 * i, 1024 * (1 + i % 4)
      local us = factor * 4 * rows * dim * 6 / 2e12 * 1e6
      lines[#lines + 1] = ("1,4,%d,%d,%.9g,%.9g"):format(rows, dim, us, us)
    end
    write(("s/%s_residual_add_fp16.csv"):format(device), table.concat(lines, "\n") .. "\n")
    cluster("a", { profile = "profile = 's'," })
  end
  local fp16 = run .. " dtype=fp16"

  it("with the times of another: each says so, and how far it is outside the samples", function()
    cluster("a", { profile = "profile = { base = 'perlmutter' }," })
    local _, out = refusal.run(run)
    assert.matches("\n  linear_qkv +[%d.]+ +[%d.]+  calibrated %(scaled from perlmutter%)\n", out)
    _, out = refusal.run((llama:gsub(" seq=128", " seq=65536")) .. " --cluster perlmutter")
    assert.matches("\n  flash_attention +[%d.]+ +[%d.]+  extrapolated %([%d.]+ times outside%)\n", out)
  end)

  it("with samples of another device, unless --accept-device insists", function()
    samples("AMDEPYC", 1.5)
    refused(fp16, "./s: samples of 'AMDEPYC' are not of the device 'D1000' of cluster a; predict, sweep and "
      .. "calibrate use them with --accept-device")
    refused("calibrate perlmutter s --source x --into o", "s: samples of 'AMDEPYC' are not of the device "
      .. "'NVIDIAA100-SXM4-80GB' of cluster perlmutter; predict, sweep and calibrate use them with --accept-device")
    local status, out, err = refusal.run(fp16 .. " --accept-device")
    assert.equal(0, status, err)
    assert.matches("note: operator times are samples of 'AMDEPYC', accepted for the device 'D1000'", out, 1, true)
    folders.remove(refusal.folder .. "/s")
  end)

  it("with times in seconds where microseconds belong", function()
    samples("D1000", 1.5)
    local status, _, err = refusal.run(fp16)
    assert.equal(0, status, err)
    samples("D1000", 1.5e-6)
    refused(fp16, "^the samples of residual_add %(forward%) give %S+ s, but the device 'D1000' needs at least %S+ s; "
      .. "times in sample tables must be in microseconds$")
    folders.remove(refusal.folder .. "/s")
  end)
end)
