--- Kinds of descriptions.lua: what users bring along. Lua files of stacks, architectures, presets and metrics; launch
--- scripts, YAML, config.json, configurations of trainers, outputs of nccl-tests, traces, PLAN.lua; searches,
--- comparisons and exports.
local ett = require "ett"
local m = require "mutators"
local host = require "ett.host"
local trace_gpt = require "trace_gpt"
local random, pick = math.random, m.pick

local function lines_of(text)
  local list = {}
  for word in text:gmatch "%S+" do list[#list + 1] = word end
  return list
end

-- Field names that the Lua files of a folder read from a foreign table: "config.NAME", or all quoted names.
local function names_in(pattern, ...)
  local seen = {}
  for _, path in ipairs { ... } do
    for name in assert(ett.io.read(("%s/lua/ett/import/%s.lua"):format(host.root, path))):gmatch(pattern) do
      seen[name] = true
    end
  end
  return m.sorted(seen)
end

local configuration = { hidden_size = 256, num_hidden_layers = 4, num_attention_heads = 4, intermediate_size = 512,
  vocab_size = 1000, num_key_value_heads = 2 }
local layer_kinds = { "full_attention", "sliding_attention", "linear_attention", "mamba", "attention", "moe", "conv",
  "sparse", "dense" }
local script = [==[
#!/bin/bash
#SBATCH --nodes=2 --gpus-per-node=8
TP=2; PP=${PP:-2}
LAYERS=$((2 * 4))
ARGS=(
  --num-layers $LAYERS --hidden-size 512
  --num-attention-heads 8 \
  --seq-length 512 --vocab-size 1000 # a comment
)
if [ "$MOE" = "1" ] && [[ $TP -gt 1 ]]; then ARGS+=(--num-experts 8); else MORE="--swiglu"; fi
case $MODE in a|b) X="--bf16";; *) X="--fp16";; esac
torchrun --nproc-per-node 8 pretrain_gpt.py "${ARGS[@]}" $MORE $X --tensor-model-parallel-size $TP \
  --pipeline-model-parallel-size ${PP} --micro-batch-size 1 --global-batch-size 32
]==]
local yaml = [[
defaults:
  - _self_
trainer: { devices: 8, num_nodes: 2, precision: bf16 }
model:
  encoder_seq_length: 512
  num_layers: 4
  hidden_size: 256
  ffn_hidden_size: ${multiply:4, ${.hidden_size}}
  num_attention_heads: 4
  vocab_size: 1000
  micro_batch_size: 1
  global_batch_size: 32
  tensor_model_parallel_size: 2
  kv_channels: ${divide_floor:${.hidden_size}, 4}
]]
local nccl = [[
$ ./build/all_reduce_perf -b 64 -e 10G -f 2 -t 1 -g 2
# Using devices
#  Rank  0 Group  0 Pid    944 on host0 device  0 [0x0f] NVIDIA A100-SXM4-40GB
#  Rank  1 Group  0 Pid    944 on host0 device  1 [0x0f] NVIDIA A100-SXM4-40GB
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)
       32768          8192     float     sum      -1    32.02    1.02    1.02      0    32.20    1.02    1.02      0
     1048576        262144     float     sum      -1    76.71   13.67   13.67      0    77.73   13.49   13.49      0
  1073741824      268435456     float     sum      -1    7991.3  134.36  134.36    0    7988.9  134.40  134.40    0
# Out of bounds values : 0 OK
# Avg bus bandwidth    : 81.112
]]
local changes = { "attention*0.5", "link.intra*2", "host*0.5", "rank 0 not late", "dp=8->64", "linear_qkv*2",
  "all_reduce*0", "norm", "tp=2->1" }
local sides = { "dgx_h100", "dgx_b200", "perlmutter", "megatron", "plain", "tp=2 dp=4", "tp=4 pp=2", "x=1 y",
  "cluster=dgx_b200 zero=3" }

--- The kinds. t: folder, file, estimate, small, llama, plan, cluster, finite and answers of descriptions.lua.
return function(t)
  local kinds = {}

  local function write(name, text)
    local path = t.folder .. "/" .. name
    assert(ett.io.write(path, text))
    return path
  end

  -- A command line whose answer, if there is one, has no number that is none.
  local function finite_answer(words)
    local answered, text = t.answers(words)
    local bad = answered and text:lower():match "[%s:,=%[]%-?nan%f[%W]"
    if bad then error(("%s: prints %s"):format(table.concat(words, " "), bad), 0) end
    return answered
  end

  -- The fields of a schema with random values, over some that are good.
  local function some_fields(names, good)
    local fields = m.copy(good)
    for _ = 1, random(0, 4) do fields[pick(names)] = m.any(1) end
    return fields
  end

  function kinds.stack()
    local known = ett.find.load_file(("%s/lua/stacks/%s.lua"):format(host.root, pick { "megatron", "fsdp_eager",
      "maxtext" }))
    local given = m.mutated(known)
    if random(4) > 1 then given.name, given.summary, given.source = "FUZZED", "s", "s" end
    local p = m.copy(t.plan)
    p.stack = t.file("lua/stacks", "return " .. m.source(given))
    if random(4) == 1 then p.stack = ("%s:%s=%s"):format(p.stack, pick(m.sorted(known)), tostring(m.any(3))) end
    t.estimate { model = t.small(), cluster = pick { "dgx_h100", "dgx_b200" }, plan = p }
  end

  function kinds.architecture()
    local function op()
      local entry = { op = pick { "rms_norm", "linear_up", "gelu", "linear_down", "flash_attention", "linear_qkv",
        "moe_router", "nothing" }, times = pick { 1, 2 }, selective = random(2) == 1,
        collective = random(4) == 1 and pick { "tensor_enter", "expert_exchange", "all_reduce", "x" } or nil,
        group = random(4) == 1 and pick { "tp", "dp", "ep", "x" } or nil,
        elements = random(4) == 1 and "@function(c) return c.seq * c.hidden end" or nil,
        with = random(4) == 1 and { ffn = 128 } or nil, beside = random(8) == 1 and "dispatch" or nil,
        module = random(8) == 1 and "mlp" or nil, same_input = random(8) == 1 or nil }
      if random(2) == 1 then return entry.op end
      if entry.collective then entry.op = nil end
      return random(4) == 1 and m.mutated(entry) or entry
    end
    local ops = { "@blocks.enter", "linear_up", "gelu", "linear_down", "@blocks.leave", "residual_add" }
    for _ = 1, random(0, 3) do table.insert(ops, random(#ops + 1), op()) end
    local layer = { name = "block", count = "@hyper.layers", ops = ops }
    layer = random(2) == 1 and m.mutated(layer) or layer
    local built = random(3) == 1 and "{ layers = " .. m.source { layer, random(3) == 1 and m.any(0) or nil } .. " }"
      or "blocks.decoder(hyper, " .. m.source(layer) .. ")"
    local value = "function(hyper) return " .. built .. " end"
    if random(3) == 1 then
      value = m.source(m.mutated { schema = { wide_every = { "count", default = 6, help = "h" } },
        build = "@" .. value })
    end
    local name = t.file("lua/architectures", 'local blocks = require "ett.model.blocks"\nreturn ' .. value)
    t.estimate { model = ett.model.new(name, t.llama), cluster = "dgx_h100", plan = t.plan }
  end

  function kinds.preset()
    local preset = { source = "s", architecture = pick { "llama", "mixtral", "gpt", "hybrid" }, parameters = 1e9,
      hyper = { layers = 4, hidden = 512, heads = 8, vocab = 1000, experts = pick { 4, false } or nil,
        top_k = pick { 2, false } or nil } }
    local name = t.file("lua/models", "return " .. m.source(random(2) == 1 and m.mutated(preset) or preset))
    local model = ett.model.new(name, random(2) == 1 and some_fields(m.sorted(require("ett.model.hyper").fields),
      { layers = 4 }) or nil)
    t.estimate { model = model, cluster = "dgx_h100", plan = t.plan }
  end

  function kinds.search()
    local given = { devices = pick { 1, 2, 4, 8 }, plan = { seq = 512, global_batch = 8 }, keep = 3,
      objective = pick { "step_seconds", "memory_bytes", "dollars", "kwh" }, where = pick { "tp <= 2", "zero > tp" },
      vary = { tp = { 1, 2 }, schedule = { "1f1b", "gpipe" }, zero = { 0, 1 }, recompute = { "none" },
        overlap_parameters = { false }, overlap_gradients = { false }, overlap_sends = { false } } }
    if random(3) == 1 then given = m.mutated(given) end
    if type(given.vary) == "table" and random(2) == 1 then
      local list = {}
      for i = 1, random(3) do list[i] = m.any(2) end
      given.vary[pick(m.sorted(ett.plan.schema))] = list
    end
    given.model, given.cluster = t.small(), "dgx_h100"
    local found = ett.search(given)
    for _, row in ipairs(found.rows) do
      t.finite(row.step_seconds, "step_seconds")
      t.finite(row.memory_bytes, "memory_bytes")
    end
    assert(#tostring(found) > 20 and ett.json.encode(getmetatable(found).__json(found)))
  end

  local flags
  local function some_flags()
    if not flags then
      local known = require "ett.import.megatron.flags"
      flags = m.sorted(known.values)
      for _, name in ipairs(m.sorted(known.switches)) do flags[#flags + 1] = name end
    end
    local words = {}
    for _ = 1, random(0, 5) do
      words[#words + 1] = "--" .. pick(flags)
      if random(4) > 1 then words[#words + 1] = tostring(pick(random(2) == 1 and m.texts or m.numbers)) end
    end
    return words
  end

  function kinds.flags()
    local text = script .. "  " .. table.concat(some_flags(), " ") .. "\n"
    if random(2) == 1 then text = m.damaged(text, lines_of(script)) end
    text = text:gsub("nan", "x") -- notes repeat texts
    return finite_answer { "predict", "--megatron-args", write("flags.sh", text), "--json",
      random(4) == 1 and "vocab=1000" or nil }
  end

  function kinds.nemo()
    local text = yaml
    for _, word in ipairs(some_flags()) do
      local name = word:match "^%-%-(.*)"
      text = name and text .. ("  %s: "):format(name:gsub("%-", "_")) .. tostring(m.any(3)) .. "\n" or text
    end
    if random(2) == 1 then text = m.damaged(text, lines_of(yaml)) end
    text = text:gsub("nan", "x")
    return finite_answer { "predict", "--megatron-args", write("nemo.yaml", text), "--json" }
  end

  local types, keys
  function kinds.config()
    types = types or m.sorted(require("ett.import.huggingface_types").known)
    keys = keys or names_in("config%.([%a_]+)", "huggingface", "huggingface_types", "huggingface_layers",
      "huggingface_hybrids")
    local config = m.copy(configuration)
    config.model_type = pick(types)
    for _ = 1, random(0, 10) do
      local list = {}
      for i = 1, random(4) do list[i] = pick(random(2) == 1 and layer_kinds or { 0, 1, 2, 3, 4 }) end
      local key = random(3) == 1 and pick(m.sorted(configuration)) or pick(keys)
      config[key] = pick { 1, 2, 4, 16, 64, true, false, list, pick(layer_kinds), m.any(1) }
    end
    if random(8) == 1 then config = { model_type = config.model_type, text_config = config } end
    local ok, text = pcall(ett.json.encode, config)
    if not ok then return false end -- holds no JSON value
    if random(4) == 1 then text = m.damaged(text) end
    return finite_answer { "predict", "--model", write("config.json", text), "seq=512", "micro_batches=4", "--json" }
  end

  -- Flags that leave out nothing give the same step when they are read back; other formats can be parsed.
  function kinds.export()
    local p = some_fields(m.sorted(ett.plan.schema), t.plan)
    local model = t.small()
    local e = ett.estimate { model = model, cluster = "dgx_h100", plan = p }
    local text, left_out = ett.export.text("megatron", model, e.plan)
    local ok, again = pcall(ett.megatron.read, write("flags.txt", text), nil, nil)
    if not ok then error("flags are refused: " .. tostring(again) .. ": " .. table.concat(p), 0) end
    local read = ett.estimate { model = again.model, cluster = "dgx_h100", plan = again.plan }
    assert(#left_out > 0 or math.abs(read.step_seconds - e.step_seconds) <= 1e-9 * e.step_seconds,
      ("%.17g s, read back %.17g s"):format(e.step_seconds, read.step_seconds))
    assert(type(ett.json.decode((ett.export.text("deepspeed", model, e.plan)))) == "table")
    for line in ett.export.text("torchtitan", model, e.plan):gmatch "[^\n]+" do
      assert(line:find "^#" or line:find "^%[[%w_]+%]$" or line:find "^[%w_]+ = [^ ].*$", line)
    end
  end

  -- Configurations of trainers: exports of plans with other values, names and damage.
  function kinds.trainer()
    local format = pick { "deepspeed", "torchtitan" }
    local model = t.small()
    local pp = pick { 1, 1, 2 }
    local e = ett.estimate { model = model, cluster = "dgx_h100", plan = { seq = 128, tp = pick { 1, 2 }, pp = pp,
      dp = pick { 1, 4, 8 }, zero = pick(pp == 1 and { 0, 1, 2, 3 } or { 0, 1 }), micro_batch = pick { 1, 2 },
      micro_batches = 4, recompute = pick { "none", "selective", "full" } } }
    local text = ett.export.text(format, model, e.plan)
    local values = { "0", "-1", "1e999", "1e-300", "3.5", "true", "[]", "[1]", '"auto"', '"x"', "9223372036854775807" }
    for _ = 1, random(0, 4) do
      text = text:gsub(format == "torchtitan" and "(\n[%w_]+ = )([^\n]+)" or '("[%w_]+": )([^%s,{}]+)', function(name)
        return random(8) == 1 and name .. pick(values) or nil
      end)
    end
    if random(3) == 1 then text = m.damaged(text, lines_of(text)) end
    return finite_answer { "predict", "--model=llama", "hidden=512", "layers=4", "heads=8", "vocab=1000",
      "--plan=" .. write(format == "torchtitan" and "job.toml" or "ds.json", text), "seq=128",
      pick { "dp=8", "tp=2", "micro_batches=4" }, "--json" }
  end

  function kinds.nccl()
    local output = write("nccl.txt", m.damaged(nccl, lines_of "all_gather_perf sendrecv_perf Rank N/A 0.00 1e+06"))
    local name = pick { "dgx_a100", "superpod_dgxh100", false }
    local cluster = write("own.lua", name and assert(ett.io.read(("%s/clusters/%s.lua"):format(host.root, name)))
      or "return " .. m.source(t.cluster))
    local words = { "cluster", "add-curve", cluster, output }
    if random(3) == 1 then words[5], words[6] = "--tier", pick { "intra", "inter", "node", "x" } end
    if random(3) == 1 then words[#words + 1] = pick { "--replace", "--in-place", "--ranks=8", "--kind=all_gather" } end
    if not t.answers(words) then return false end
    t.estimate { model = t.small(), cluster = cluster, plan = t.plan }
  end

  local trace
  local function recorded()
    local function times(name, pass) return #name + (pass == "backward" and 100 or 0) end
    trace = trace or ett.json.encode(trace_gpt.new { hidden = 64, heads = 4, layers = 2, seq = 32,
      batch = 2, vocab = 512, tp = 2, times = times }:recording { rank = 0, world = 2 }:document())
    return trace
  end

  function kinds.metric()
    local metric = { name = "FUZZED", summary = "s", definition = "d", needs = "n", units = { busy_us = "us" },
      args = { "bytes" }, options = { "top" }, compute = "@function(view, options) " .. pick {
        "view:events_needed() return { busy_us = #view:lane_list() }", "return { busy_us = view:nothing() }",
        "return 0 / 0", "return { busy_us = 0 / 0 }", "error 'own'", "error {}", "return { [{}] = 1, 2 }",
        "return view", "view:missing 'needs %d'", "local t = {} t[1] = t return t", "return { busy_us = print }",
        "return { busy_us = view:s(view:lanes()[1]:span_ticks()) }" } .. " end" }
    local name = t.file("lua/ett/metrics", "return " .. m.source(random(2) == 1 and m.mutated(metric) or metric))
    return t.answers { "trace", write("trace.json", recorded()), name, random(2) == 1 and "--json" or "--csv" }
  end

  function kinds.trace()
    local text = m.damaged(recorded(), lines_of "X kernel cpu_op nccl ProfilerStep#1 world_size -1 [[2,3]] gpu_memcpy")
    return t.answers { "trace", write("trace.json", text), "--quiet", pick { "--all", "--read-plan", "--json",
      "--what-if=" .. pick(changes), "--against=auto" } }
  end

  function kinds.replay()
    local change = pick(changes)
    if random(3) > 1 then change = m.damaged(change, changes) end
    return finite_answer { "trace", write("trace.json", recorded()), "--what-if", (change:gsub("%z", "")), "--json" }
  end

  function kinds.against()
    local plan = m.mutated { model = "gpt", hyper = { layers = 2, hidden = 64, heads = 4, vocab = 512 },
      plan = { tp = 2, seq = 32, micro_batches = 1 }, cluster = pick { "dgx_h100", "perlmutter" } }
    return finite_answer { "trace", write("trace.json", recorded()), "--against", write("PLAN.lua", "return "
      .. m.source(plan)), "--json" }
  end

  function kinds.compare()
    local words = { "compare", "--model=llama", "hidden=512", "layers=4", "heads=8", "vocab=1000", "seq=512",
      "micro_batches=4" }
    for _ = 1, pick { 0, 2, 2, 2, 1 } do words[#words + 1] = pick(sides) end
    for _ = 1, random(0, 3) do
      words[#words + 1] = ("%s=%s"):format(pick(m.sorted(ett.plan.schema)), tostring(pick(random(2) == 1
        and m.numbers or m.texts)))
    end
    if random(3) == 1 then words[#words + 1] = "--utilization=" .. tostring(pick(m.numbers)) end
    words[#words + 1] = pick { "--json", "--csv", "--quiet" }
    return finite_answer(words)
  end

  return kinds
end
