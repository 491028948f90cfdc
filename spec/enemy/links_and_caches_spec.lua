--- A folder holds links where a campaign puts its files; a cache holds files of other keys; names hold control
--- characters. No file of the user may change, no model of another key may be used, no control character is printed.
local command = require "command"
local ended = command.ended
local folders = require "ett.base.folder"
local lfs = require "lfs"

local folder = command.each_folder(_ENV)
local function ett(arguments, before) return command.ett(folder, arguments, before) end
local function write(name, text)
  folders.make((folder .. "/" .. name):match("^(.*)/"))
  folders.write(folder .. "/" .. name, text)
end

local function names(where, pattern) return folders.names(folder .. "/" .. where, pattern) end

it("a process that is killed as it writes a file leaves nothing of it", function()
  write("big.lua", 'require("ett.io").write("out", ("x"):rep(1 << 20))')
  ended(153, ett("run big.lua", "ulimit -f 8;")) -- SIGXFSZ
  assert.same({}, names("", "^out"))
  ended(0, ett "run big.lua")
  assert.same({ "out" }, names("", "^out"))
end)

describe("a campaign in a folder with links", function()
  if not require("needs").cpu("ett sample", _ENV) then return end
  before_each(function()
    write("c.lua", [[return { name = "c", backend = "cpu", precision = "fp32", seed = 1, budget_seconds = 0.002,
      cold_bytes = 1 << 20,
      visits = 1, samples = { { operator = "gelu", shapes = { tokens = 16, width = 16 } } } }]])
    write("victim", "precious\n")
  end)

  local function table_name()
    ended(0, ett "sample c.lua --out first --quiet --no-check")
    return names("first", "^[^.].*%.csv$")[1]
  end

  it("does not write through a link named as the lock, soft or hard", function()
    local lock = ("out/.%s.lock"):format(table_name())
    for _, soft in ipairs { true, false } do
      folders.make(folder .. "/out")
      assert(lfs.link(folder .. "/victim", folder .. "/" .. lock, soft))
      local output = ended(1, ett "sample c.lua --out out --quiet --no-check")
      assert.equal(("ett: cannot lock '%s': it is a link or not a regular file; remove it\n"):format(lock), output)
      assert.equal("precious\n", command.read(folder, "victim"))
      folders.remove(folder .. "/out")
    end
  end)

  it("does not write through a link named as the table, whose file is empty or lacks a newline", function()
    local name = "out/" .. table_name()
    for _, text in ipairs { "", "secret" } do
      write("victim", text)
      folders.make(folder .. "/out")
      assert(lfs.link(folder .. "/victim", folder .. "/" .. name, true))
      local output, status = ett "sample c.lua --out out --quiet --no-check"
      assert.same({ ("ett: cannot append to '%s': it is a link or not a regular file; replace it by a copy\n")
        :format(name), 1 },
        { output, status })
      assert.equal(text, command.read(folder, "victim"))
      folders.remove(folder .. "/out")
    end
  end)

  it("replaces a link named as its new file", function()
    local fresh = folder .. "/out/" .. table_name() .. ".new"
    folders.make(folder .. "/out")
    assert(lfs.link(folder .. "/victim", fresh, true))
    ended(0, ett "sample c.lua --out out --quiet --no-check")
    assert.equal("precious\n", command.read(folder, "victim"))
  end)
end)

describe("links in a folder that a command fills", function()
  before_each(function() write("victim", "precious\n") end)

  local plan = "predict --model llama hidden=256 layers=2 heads=4 vocab=1000 seq=128 micro_batches=1 "
  it("are replaced, whatever they lead to", function()
    for words, files in pairs {
      ["--chakra o"] = { "comm_groups.json", "step.0.et" },
      ["--chrome-trace o/"] = { "step.json", "workload_card.yaml" },
    } do
      folders.make(folder .. "/o")
      for _, name in ipairs(files) do assert(lfs.link("../victim", folder .. "/o/" .. name, true)) end
      ended(0, ett(plan .. words))
      assert.equal("precious\n", command.read(folder, "victim"))
      for _, name in ipairs(files) do
        assert.equal("file", lfs.symlinkattributes(folder .. "/o/" .. name, "mode"), name)
      end
      folders.remove(folder .. "/o")
    end
  end)

  it("are replaced by figures whose names only begin as the user said", function()
    for _, prefix in ipairs { "mine", "o/mine", "o/" } do
      folders.make(folder .. "/o")
      local name = prefix .. "-phases.svg"
      assert(lfs.link(folder .. "/victim", folder .. "/" .. name, true))
      assert.matches("wrote " .. name, ended(0, ett("optimize --devices 1024,2048 --svg " .. prefix)), 1, true)
      assert.equal("precious\n", command.read(folder, "victim"))
      assert.equal("file", lfs.symlinkattributes(folder .. "/" .. name, "mode"))
      assert.matches("<svg", command.read(folder, name), 1, true)
      folders.remove(folder .. "/o")
    end
  end)

  it("keep their targets where the user named the file", function()
    assert(lfs.link("victim", folder .. "/mine.json", true))
    ended(0, ett(plan .. "--chrome-trace mine.json"))
    assert.equal("link", lfs.symlinkattributes(folder .. "/mine.json", "mode"))
    assert.matches("traceEvents", command.read(folder, "victim"))
  end)

  it("are refused as the rows of a search's journal", function()
    local search = "search --model llama hidden=256 layers=2 heads=4 vocab=1000 --seq 128 --global-batch 8 --devices 8 "
      .. "--journal j"
    assert.equal(0, select(2, ett(search)))
    local rows = ("%s/j/%s/rows-0.jsonl"):format(folder, names("j", "^%x+$")[1])
    os.remove(rows)
    write("victim", "secret")
    assert(lfs.link(folder .. "/victim", rows, true))
    local output = ended(1, ett(search))
    assert.matches("^ett: cannot append to 'j/%x+/rows%-0%.jsonl': it is a link or not a regular file; "
      .. "replace it by a copy\n$", output)
    assert.equal("secret", command.read(folder, "victim"))
  end)
end)

describe("sample tables of a foreign trace", function()
  it("are in the folder that the user named, whatever its device is called", function()
    local document = require("trace_gpt").new({ hidden = 64, heads = 2, layers = 1, seq = 16, batch = 2, vocab = 256 })
      :recording({ rank = 0 }):document()
    document.deviceProperties = { { id = 0, name = "../../evil/\27[2J D" } }
    write("run\27[31m/rank0.json", require("ett.json").encode(document))
    local output = ended(0, ett "samples from-trace run* --output a/b")
    assert.matches("wrote a/b/evilu001b2JD_linear_up_", output)
    assert.equal(1, #names("a/b", "^evilu001b2JD_linear_up_%w+%.csv$"), output)
    output = ett "samples from-trace run*"
    assert.matches("# traces: run\\x1b[31m", output, 1, true)
    assert.is_nil(output:find "\27", output)
  end)

  it("are not named by a path in a configuration", function()
    write("c.yml", '{ "kernel_name": "../../evil", "columns_name": ["b", "dur(us)"], "targets": [["aten::linear"]] }')
    local output, status = ett "samples from-trace . c.yml --shape 4 --output a"
    assert.same({ "ett: c.yml: field 'kernel_name' must be a name of letters, digits and _-., got '../../evil'\n", 1 },
      { output, status })
  end)
end)

describe("the cache of fitted models", function()
  if not pcall(require, "ett.regress_fit") then return end
  -- Two operators, one twice as slow: 40 rows each.
  local function samples(name, factor)
    local lines = { "mp,b,l,dim,F_dur(us)" }
    for i = 1, 40 do
      local dim = 1024 * (1 + i % 4)
      lines[#lines + 1] = ("1,4,%d,%d,%.3f"):format(512 + 64 * i, dim, factor * (20 + i * dim / 512))
    end
    write(("s/A100_%s_fp16.csv"):format(name), table.concat(lines, "\n") .. "\n")
  end
  local function fit(before)
    local output = ended(0, ett("fit s --json", ("umask %s; XDG_CACHE_HOME='%s/cache' timeout 300"):format(
      before or "022", folder)))
    return (output:gsub('"fit_seconds": [^,]*', ""))
  end
  before_each(function()
    samples("gelu", 10)
    samples("residual_add", 20)
  end)

  it("can be read by its owner only, whatever the umask", function()
    for _, umask in ipairs { "000", "022", "077" } do
      fit(umask)
      for _, each in ipairs { "cache", "cache/ett", "cache/ett/models" } do
        assert.equal("rwx------", lfs.attributes(folder .. "/" .. each, "permissions"))
      end
      local files = names("cache/ett/models", "^[^.]")
      assert.equal(2, #files)
      for _, name in ipairs(files) do
        assert.equal("rw-------", lfs.attributes(("%s/cache/ett/models/%s"):format(folder, name), "permissions"))
      end
      folders.remove(folder .. "/cache")
    end
  end)

  it("states its key, and serves no file of another key", function()
    local first = fit()
    local models = folder .. "/cache/ett/models/"
    local files, texts = names("cache/ett/models", "^[^.]"), {}
    for i, name in ipairs(files) do
      texts[i] = command.read(folder, "cache/ett/models/" .. name)
      assert.is_truthy(texts[i]:find(name:match("^%x+"), 1, true), name)
    end
    assert(os.rename(models .. files[1], models .. "kept"))
    assert(os.rename(models .. files[2], models .. files[1]))
    assert(os.rename(models .. "kept", models .. files[2]))
    assert.equal(first, fit())
    for i, name in ipairs(files) do
      assert.equal(texts[i], command.read(folder, "cache/ett/models/" .. name), "not written again: " .. name)
    end
  end)

  it("does not write through a link", function()
    fit()
    local name = names("cache/ett/models", "^[^.]")[1]
    local path = folder .. "/cache/ett/models/" .. name
    write("victim", "precious\n")
    os.remove(path)
    assert(lfs.link(folder .. "/victim", path, true))
    fit()
    assert.equal("precious\n", command.read(folder, "victim"))
    assert.equal("file", lfs.symlinkattributes(path, "mode"))
  end)
end)

describe("the journal of a search", function()
  -- The file without its own value, and with another one.
  local edited = {
    ["p/operators/relu2.lua"] = { [[
local op = { name = "relu2", summary = "squared ReLU", schema = { tokens = "count", width = "count" } }
local bytes = require("lib.relu2_bytes")
function op.shape(c) return { tokens = c.micro_batch * c.seq // c.cp, width = c.ffn // c.tp } end
function op.flops(s) return 2.0 * s.tokens * s.width end
function op.bytes(s) return bytes * s.tokens * s.width end
return op
]] },
    ["p/lib/relu2_bytes.lua"] = { "return 4.0", "return 4000.0" },
    ["p/direct.lua"] = { [[
return { name = "direct", summary = "all at once", source = "a", kinds = { "all_reduce", "all_gather",
  "reduce_scatter" }, seconds = function(r) return 1e-6 + 1 * r.bytes / r.tiers[1].bandwidth end }
]], [[
return { name = "direct", summary = "all at once", source = "a", kinds = { "all_reduce", "all_gather",
  "reduce_scatter" }, seconds = function(r) return 1e-6 + 9 * r.bytes / r.tiers[1].bandwidth end }
]] },
    ["p/stacks/st.lua"] = { 'return { name = "st", summary = "s", source = "x", launch_seconds = 12e-6 }',
      'return { name = "st", summary = "s", source = "x", launch_seconds = 1200e-6 }' },
    ["p/lua/ett/import/own/init.lua"] = { "return {}" },
    ["p/lua/ett/import/own/dialect.lua"] = {},
    ["s/A100_gelu_fp16.csv"] = { "mp,b,l,dim,F_dur(us)\n", "mp,b,l,dim,F_dur(us)\n" },
  }
  for factor, text in ipairs(edited["s/A100_gelu_fp16.csv"]) do
    for i = 1, 40 do
      text = ("%s1,4,%d,%d,%.3f\n"):format(text, 512 + 64 * i, 1024 * (1 + i % 4), factor * (20 + i * 100))
    end
    edited["s/A100_gelu_fp16.csv"][factor] = text
  end

  for factor = 1, 2 do
    edited["p/lua/ett/import/own/dialect.lua"][factor] = ([[
return { name = "own", summary = "s", source = "x", stand_ins = { residual_add = { lacks = "x", operator = "gelu",
  shape = function(s) return { tokens = s.tokens, width = %d * s.hidden } end } } }
]]):format(factor)
  end

  it("is not continued after an edit of a file that its rows depend on, also of one that is only named", function()
    for name, texts in pairs(edited) do write(name, texts[1]) end
    write("config.lua", [[return { name = "config", summary = "a", source = "a", gpus_per_node = 8,
      device = "a100_sxm_40gb", collectives = "direct", profile = { folder = "s", accept_device = true },
      links = { intra = { bandwidth = 250e9, source = "a" } } }]])
    write("s.lua", [[
      local ett = require "ett"
      local model = ett.model.list({ "rms_norm", "linear_qkv", "rope", "flash_attention", "linear_proj",
        "residual_add", "rms_norm", "linear_up", "relu2", "gelu", "linear_down", "residual_add" },
        { layers = 4, hidden = 1024, heads = 8, ffn = 4096, vocab = 32000 })
      local s = ett.search { model = model, cluster = "config.lua", devices = 8, journal = ett.options {
        j = "string?" }.j, plan = { global_batch = 16, seq = 1024, cp = 1, tp = 2, pp = 1, stack = "st",
        schedule = "1f1b", recompute = "none", dtype = "fp16" } }
      return s.rows[1].step_seconds
    ]])
    local function step(words)
      local output = ended(0, ett("run s.lua --path p " .. words))
      return output:match "\n([%d.e+-]+)\n"
    end
    local first, count = step "j=j", 1
    assert.equal(first, step "j=j")
    assert.equal(count, #names("j", "^%x+$"))
    for name, texts in pairs(edited) do
      if texts[2] then
        write(name, texts[2])
        local fresh = step ""
        assert.not_equal(first, fresh, name)
        assert.equal(fresh, step "j=j", name)
        count = count + 1
        assert.equal(count, #names("j", "^%x+$"), name)
        write(name, texts[1])
      end
    end
  end)

  it("is refused with its file and line where it is damaged", function()
    local search = "search --model llama hidden=256 layers=2 heads=4 vocab=1000 --seq 128 --global-batch 8 --devices 8 "
      .. "--journal j --quiet"
    local best = ended(0, ett(search))
    local name = ("j/%s/rows-0.jsonl"):format(names("j", "^%x+$")[1])
    local good = command.read(folder, name)
    local number, row = 1, nil -- of the first line with a row
    for line in good:gmatch "[^\n]*\n" do
      if line:find('"rows":[{', 1, true) then
        row = line
        break
      end
      number = number + 1
    end
    for line, sentence in pairs {
      ['{"unit":1,"rows":[{"a":1}]}'] = "missing field 'plans' (an integer of at least 0)",
      ["[1]"] = "unknown field '1'", ["x"] = "character 1: expected value but found invalid token",
      ['{"unit":1,"rows":[{}],"plans":1,"rule":0,"where":0}'] = "row 1: missing field 'cluster' (a string)",
      ['{"unit":1,"rows":[1],"plans":1,"rule":0,"where":0}'] = "row 1: missing field 'cluster' (a string)",
      ['{"unit":1e9,"rows":[],"plans":1,"rule":0,"where":0}'] = "field 'unit' must be at most",
      [row:gsub('"values":%b[]', '"values":[]'):sub(1, -2)] =
        "row 1: field 'values' must be a list with a number for each objective (1)",
      [row:gsub('"setting":1', '"setting":2'):sub(1, -2)] = "row 1: field 'setting' must be at most 1, got 2",
      [row:gsub('"tp":%d+', '"tp":"x"'):sub(1, -2)] = "row 1: field 'tp' must be a positive integer, got 'x'",
    } do
      write(name, good:sub(1, good:find(row, 1, true) - 1) .. line .. "\n")
      local output
      output = ended(1, ett(search))
      assert.matches(("ett: search: journal '%s': line %d is damaged: %s"):format(name, number, sentence), output, 1,
        true)
      assert.matches("; remove the file\n$", output)
    end
    write(name, good .. '{"unit":')
    assert.equal(best, (ett(search))) -- a line that a kill cut off
  end)

  it("refuses a profile of the script, whose functions it cannot compare", function()
    write("s.lua", [[
      local ett = require "ett"
      local function time() return { seconds = 1e-3, provenance = "assumed" } end
      ett.search { model = ett.model.new("llama", { layers = 4, hidden = 1024, heads = 8, vocab = 32000 }),
        cluster = "dgx_h100", devices = 8, plan = { global_batch = 16, seq = 1024 }, journal = "j",
        profile = { operator = time, collective = time } }
    ]])
    assert.same({ "ett: s.lua:3: search: with a journal, 'profile' must be one of ett.profile, not a table of "
      .. "functions\n", 1 }, { ett "run s.lua --quiet" })
  end)
end)

describe("control characters", function()
  setup(function() folder = command.folder() end)
  teardown(function() command.remove(folder) end)

  local function harmless(output)
    assert.is_nil(output:find("[%z\1-\8\11-\31\127]"), ("%q"):format(output))
    assert.is_nil(output:find("\xC2[\x80-\x9F]"), ("%q"):format(output))
    assert.is_nil(output:find("\u{202e}", 1, true), ("%q"):format(output))
  end

  it("of a file's name are printed as \\xNN", function()
    write("a\27[31mb.lua", "return 1")
    assert.equal("# ett 0.1.0, a\\x1b[31mb.lua\n1\n", (ett "run a*b.lua"))
    write("a\nb.json", '{"model_type":"llama","hidden_size":256,"num_hidden_layers":2,"num_attention_heads":4,'
      .. '"intermediate_size":512,"vocab_size":1000}')
    assert.matches("^llama %(a\\x0ab.json%) ", (ett "predict --model a*b.json seq=128 micro_batches=1"))
  end)

  it("of a file's text or name do not reach the terminal in errors", function()
    write("c.yml", 'gpu_name: "a"\n"\\e]0;owned\\a\\x9b\u{202e}": 1\n')
    local output = ended(1, ett "predict --config c.yml")
    harmless(output)
    output = ended(1, ett "predict --config '\27[2Jno\x7f\xc2\x9b\u{202e}.yml'")
    harmless(output)
    write("s.lua", 'error({ kind = "model", message = "\\27[31mred\\r\\u{202e}" })')
    output = ended(1, ett "run s.lua --traceback")
    harmless(output)
  end)

  it("of a file that is written do not reach it", function()
    local output = ended(0, ett "optimize --devices 64 --svg '\27[31mred' 2>&1")
    assert.matches("wrote \\x1b[31mred-degrees.svg", output, 1, true)
    harmless(output)
    write("A\27[31m_gelu_fp16_2_1.csv", "tokens,width,F_dur(us)\n1,2,3\n")
    output = ended(0, ett "samples merge A*_2_1.csv --output merged 2>&1")
    assert.matches("^merged/A\\x1b%[31m_gelu_fp16.csv: 1 rows of 1 tables", output)
    harmless(output)
  end)

  -- A line with an escape sequence and a character that turns text around.
  local bad = "\27[31m\u{202e}BEL"
  local function escaped(output, status)
    assert.equal(0, status, output)
    harmless(output)
    assert.matches("\\x1b[31m\\u{202e}BEL", output, 1, true)
    return output
  end

  it("of a device of nccl-tests do not reach it", function()
    write("m.lua", [[return { name = "m", summary = "x", source = "x", gpus_per_node = 2, device = "a100_sxm_40gb",
  links = {
    intra = { bandwidth = 300e9, source = "x" } },
}
]])
    write("n.txt", ("#  Rank  0 Group  0 Pid  100 on  h1 device  0 [0x00] NVIDIA %s\n"
      .. "#  Rank  1 Group  0 Pid  100 on  h1 device  1 [0x01] NVIDIA %s\n"):format(bad, bad)
      .. "#  size  count  type  redop  root  time  algbw  busbw #wrong  time  algbw  busbw #wrong\n"
      .. "524288  131072  float  sum  -1  10.0  52.4  52.4  0  10.0  52.4  52.4  0\n"
      .. "1048576  262144  float  sum  -1  20.0  52.4  52.4  0  20.0  52.4  52.4  0\n")
    escaped(ett "cluster add-curve m.lua n.txt --kind all_reduce")
  end)

  it("of a folder of a trace do not reach it, and a newline does not end a warning", function()
    local text = '{"traceEvents":[{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":1,"dur":2,'
      .. '"args":{"stream":7,"device":0}}],"distributedInfo":{"rank":0,"world_size":2}}'
    write(bad .. "/a.json", text)
    escaped(ett("trace '" .. bad .. "' device_time"))
    escaped(ett(("trace --diff '%s' '%s'"):format(bad, bad)))
    write("n/a\nb.json", text)
    write("n/c.json", text)
    local output = ett "trace n device_time"
    assert.matches("\nett: trace: [^\n]*a\\x0ab.json", "\n" .. output)
  end)

  it("of a folder of samples do not reach it in the list of dropped rows", function()
    if not pcall(require, "ett.regress_fit") then return end
    local lines = { "mp,b,l,dim,F_dur(us)" }
    for i = 1, 40 do
      local dim = 1024 * (1 + i % 4)
      lines[#lines + 1] = ("1,4,%d,%d,%.3f"):format(512 + 64 * i, dim, i == 9 and 1e-3 or 10 * (20 + i * dim / 512))
    end
    write(bad .. "/A100_gelu_fp16.csv", table.concat(lines, "\n") .. "\n")
    local output = escaped(ett("fit '" .. bad .. "'", ("XDG_CACHE_HOME='%s/cache' timeout 300"):format(folder)))
    assert.matches("dropped by the outlier filter:", output)
  end)

  it("of the defaults of a script's options do not reach it", function()
    write("o.lua", ('require("ett").options { name = { "string", default = "%s" } }\nreturn 1\n'):format(bad))
    local output = ended(0, ett "run o.lua")
    harmless(output)
    assert.matches("\\u{202e}BEL", output, 1, true)
  end)

  it("of kernel names and models do not reach it in tables and JSON", function()
    write("t/trace.json", '{"traceEvents":[{"ph":"X","cat":"kernel","name":"gemm\\u001b[2J\\u009b1m\\u0007\\u202e",'
      .. '"pid":0,"tid":7,"ts":1,"dur":2,"args":{"stream":7,"device":0}}]}')
    for _, metric in ipairs { "kernel_breakdown", "device_time", "--all" } do
      harmless((ett("trace t " .. metric)))
      harmless((ett(("trace t %s --csv"):format(metric))))
    end
    write("s.lua", [[
local ett = require "ett"
local model = ett.model.new("llama", { hidden = 1024, layers = 4, heads = 8, vocab = 1000 })
model.name = "bad\27[2J\194\155name"
return ett.estimate { model = model, cluster = "dgx_h100", plan = { seq = 128, micro_batches = 4 } }
]])
    local output = ended(0, ett "run s.lua")
    assert.matches("bad\\x1b[2J\\x9bname", output, 1, true)
    harmless(output)
    harmless((ett "run s.lua --json"))
    write("m.lua", [[return { name = "x\n[injected]\r\27[2J\u{9b}", source = "x", architecture = "gpt",
      parameters = 1e9,
      hyper = { layers = 4, hidden = 1024, heads = 8, vocab = 1000 } }]])
    output = ended(0, ett "predict --model m.lua seq=128 micro_batches=4 stack=torchtitan --export torchtitan")
    assert.matches("# x [injected]\\x0d\\x1b[2J\\x9b: 4 layers", output, 1, true)
    harmless(output)
    write("a.lua", [[
local c = dofile(require("ett.host").root .. "/clusters/dgx_h100.lua")
c.name = "bad\27[2Jname"
return c]])
    output = ett "compare --cluster a.lua --model llama hidden=1024 layers=4 heads=8 vocab=1000 seq=128 micro_batches=4"
    assert.matches("cluster bad\\x1b[2Jname;", output, 1, true)
    harmless(output)
  end)
end)
