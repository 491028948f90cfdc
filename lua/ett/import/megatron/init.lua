--- Reads launch flags of Megatron-LM, or a YAML file that states them (see nemo.lua), as a model and a plan.
--
--   local run = require("ett.import.megatron").read("train.sh", { dp = 16 })
--   ett.estimate { model = run.model, plan = run.plan, cluster = "dgx_h100" }
--
-- Defaults are those of Megatron-LM (megatron/training/arguments.py). run.model.notes lists unknown flags and flags
-- with effects that are not modelled; it gives the number of flags without effect on the step.
local error_module = require "ett.base.error"
local expert_layers = require "ett.import.expert_layers"
local flags = require "ett.import.megatron.flags"
local hybrid_allocation = require "ett.import.megatron.hybrid_allocation"
local max_layers = require("ett.model.hyper").fields.layers.most
local merged = require "ett.base.merged"
local model_module = require "ett.model"
local nemo = require "ett.import.megatron.nemo"
local plan_fields = require "ett.plan.fields"
local plan_of = require "ett.import.megatron.plan_of"
local schema = require "ett.base.schema"
local script = require "ett.import.megatron.script"

local megatron = {}

--- Accessors of the flags: text, number or integer of a flag; errors name flag and text.
local Arguments = {}
Arguments.__index = Arguments

function Arguments:has(name) return self.given[name] ~= nil end

-- ett fields that replace a flag: if the field is given, the flag's value is not needed.
local words = { tp = "tensor-model-parallel-size", pp = "pipeline-model-parallel-size",
  vp = "num-virtual-stages-per-pipeline-rank", cp = "context-parallel-size",
  ep = "expert-model-parallel-size", etp = "expert-tensor-parallel-size", seq = "seq-length",
  micro_batch = "micro-batch-size", global_batch = "global-batch-size", layers = "num-layers", hidden = "hidden-size",
  heads = "num-attention-heads", ffn = "ffn-hidden-size", vocab = "vocab-size", experts = "num-experts",
  top_k = "moe-router-topk", moe_ffn = "moe-ffn-hidden-size" }
local word_of = {}
for word, flag in pairs(words) do word_of[flag] = word end
word_of["moe-layer-freq"], word_of["num-layers-per-virtual-pipeline-stage"] = "first_dense_layers", "vp"
for _, flag in ipairs { "nproc-per-node", "nnodes", "num-gpus", "num-nodes", "world-size" } do word_of[flag] = "dp" end

function Arguments:text(name, default)
  local values = self.given[name]
  if not values then return default end
  local value = values[1]
  if value == nil then error_module.raise("format", "--%s: needs a value", name) end
  if value:find("$", 1, true) then
    error_module.raise("format", "--%s: the file does not define '%s'; define it there%s", name, value,
      word_of[name] and (", or give %s=N"):format(word_of[name]) or "")
  end
  return value
end

function Arguments:number(name, default)
  local text = self:text(name)
  if text == nil then return default end
  local value = tonumber((text:gsub("_", "")))
  if not value then error_module.raise("format", "--%s: must be a number, got '%s'", name, text) end
  return math.tointeger(value) or value
end

--- The text of a flag, which must be one of the known ones.
function Arguments:choice(name, default, known)
  local text = self:text(name, default)
  if text ~= nil and known[text] == nil then
    error_module.raise("format", "--%s: %s", name, error_module.unknown("value", text, schema.keys(known)))
  end
  return known[text]
end

function Arguments:note(...) self.notes[#self.notes + 1] = (...):format(select(2, ...)) end

--- Splits the flags: those that are read, by name, and notes about the others. own: no flag of Megatron-LM.
local function arguments_of(list)
  local args = setmetatable({ given = {}, notes = {} }, Arguments)
  local unknown, unmodelled, without, seen = {}, {}, 0, {}
  for _, flag in ipairs(list) do
    local kind = flags.kind(flag.name)
    if kind == "switch" and flag.values[1] == "false" then
      args.given[flag.name] = nil -- --sequence-parallel false
    elseif flag.own or kind == "value" or kind == "switch" then
      args.given[flag.name] = flag.values
    elseif kind == "without effect" or kind == "unmodelled" and flags.neutral(flag.name, flag.values[1]) then
      without = without + 1
    elseif not seen[flag.name] then
      table.insert(kind and unmodelled or unknown, "--" .. flag.name)
      seen[flag.name] = true
    end
  end
  if #unknown > 0 then
    args:note("unknown flags, ignored: %s", error_module.ignored(unknown, flags.names(args.given)))
  end
  if #unmodelled > 0 then
    args:note("flags that change the step and are not modelled: %s", table.concat(unmodelled, ", "))
  end
  if without > 0 then args:note("%d %s no effect on the step", without, without == 1 and "flag has" or "flags have") end
  return args
end

local tokenizer_vocab = { GPT2BPETokenizer = 50257, Llama2Tokenizer = 32000, BertWordPieceLowerCase = 30522 }

--- Appends whether each digit of a list such as [0]*3+[1]*58 is not 0; stops above `most` entries.
local function append_digits(list, text, most)
  for digits, times in text:gmatch "%[([%d,%s]*)%]%s*%*?%s*(%d*)" do
    for _ = 1, math.min(tonumber(times) or 1, max_layers) do
      if #list > most then return end
      for digit in digits:gmatch "%d+" do list[#list + 1] = digit ~= "0" end
    end
  end
end

--- Whether each layer is meant by a flag: N (each N-th layer, by `meant`), or a list such as ([0]*3+[1]*58), also
--- repeated as a whole: ([1]*3+[0])*12.
local function layers_of(args, name, layers, meant)
  local text = args:text(name)
  if not text or layers > max_layers then return nil end -- the model refuses this number of layers
  local every, list = math.tointeger(tonumber(text)), {}
  if every and every < 1 then error_module.raise("format", "--%s: must be at least 1, got %s", name, every) end
  for i = 0, every and layers - 1 or -1 do list[i + 1] = meant(i, every) end
  if every then return list end
  local inner, all = text:match "^%s*%((.*)%)%s*%*%s*(%d+)%s*$"
  for _ = 1, math.min(tonumber(all) or 1, max_layers) do
    if #list > layers then break end
    append_digits(list, inner or text, layers)
  end
  if #list ~= layers then
    error_module.raise("format", "--%s: must give 0 or 1 for each of %s layers, got '%s'", name, layers, text)
  end
  return list
end

--- --moe-layer-freq sets first_dense_layers and moe_every, or dense_layers.
local function set_expert_layers(hyper, args)
  local list = layers_of(args, "moe-layer-freq", hyper.layers, function(i, every) return i % every == 0 end)
  if not list then return end
  hyper.first_dense_layers, hyper.moe_every, hyper.dense_layers = expert_layers(list)
end

local function set_experts(hyper, args)
  hyper.experts = args:number "num-experts"
  if not hyper.experts then return end
  local deepspeed = args:has "deepspeed" -- Megatron-DeepSpeed has its own flags and defaults
  if hyper.experts == 0 or deepspeed and hyper.experts == 1 then -- a dense model
    hyper.experts = nil
    return
  end
  hyper.top_k = deepspeed and args:number("topk", 1) or args:number("moe-router-topk", 2)
  hyper.moe_ffn = args:number("moe-ffn-hidden-size", hyper.ffn)
  hyper.shared_ffn = args:number "moe-shared-expert-intermediate-size"
  hyper.shared_gate = args:has "moe-shared-expert-gate" or nil
  hyper.moe_latent = args:number "moe-latent-size"
  hyper.expert_groups, hyper.top_groups = args:number "moe-router-num-groups", args:number "moe-router-group-topk"
  if deepspeed then hyper.moe_every = args:number("expert-interval", 2) else set_expert_layers(hyper, args) end
end

local letters = { M = "mamba2", ["-"] = "mlp", ["*"] = "full_attention", E = "moe", G = "linear_attention" }

--- Letters of the layers in a hybrid model, or nil for other models.
local function hybrid_pattern(args)
  local name = args:has "hybrid-layer-pattern" and "hybrid-layer-pattern" or "hybrid-override-pattern"
  local text = args:text(name)
  local attention, mlp = args:number "hybrid-attention-ratio", args:number "hybrid-mlp-ratio"
  if text then
    local main, extra = text:match "^([^/]*)(.*)$" -- the patterns of multi-token prediction follow
    local count = select(2, extra:gsub("/", ""))
    if count > 0 then args:note("multi-token prediction is left out; mtp_layers=%d adds it", count) end
    return (main:gsub("|", "")), name
  elseif attention or mlp or args.mamba then
    local layers = args:number("num-layers", 0)
    if math.type(layers) ~= "integer" or layers > max_layers then
      error_module.raise("format", "--num-layers: must be an integer of at most %d, got %s", max_layers, layers)
    end
    return hybrid_allocation(layers, attention or 0, mlp or 0), "hybrid-attention-ratio"
  elseif args:has "is-hybrid-model" then
    error_module.raise("format", "--is-hybrid-model: needs --hybrid-override-pattern, which names each layer's kind")
  end
end

local function set_hybrid(hyper, args, pattern, flag)
  hyper.layer_types = {}
  for letter in pattern:gmatch "." do
    local kind = letters[letter]
    if not kind then
      error_module.raise("format", "--%s: unknown letter '%s'; known are *, -, E, G, M", flag, letter)
    end
    table.insert(hyper.layer_types, kind)
  end
  if #hyper.layer_types ~= hyper.layers then
    error_module.raise("format", "--%s: names %d layers, but --num-layers is %s", flag, #hyper.layer_types,
      hyper.layers)
  end
  hyper.ssm_state, hyper.ssm_head_dim = args:number("mamba-state-dim", 128), args:number("mamba-head-dim", 64)
  hyper.ssm_groups = args:number("mamba-num-groups", 8)
  hyper.ssm_heads = args:number("mamba-num-heads", 2 * hyper.hidden // hyper.ssm_head_dim)
  hyper.ssm_inner = hyper.ssm_heads * hyper.ssm_head_dim
  hyper.scan_chunk = 128 -- megatron/core/ssm/mamba_mixer.py
end

--- Gated delta nets: attention stays in each N-th layer of --linear-attention-freq N. Specs of slime leave the sizes to
--- the checkpoint.
local function set_linear_attention(hyper, args)
  local spec = table.concat(args.given.spec or {}, " ")
  local named = spec:match "qwen3_next" or spec:match "qwen3_5"
  if args:has "spec" and not named and not spec:match "_stack_spec" then
    args:note("flags that change the step and are not modelled: --spec %s", spec)
  end
  local variant = args:choice("experimental-attention-variant", nil, { gated_delta_net = "gated_delta", dsa = "dsa" })
  if variant == "dsa" then
    hyper.index_heads, hyper.index_head_dim = args:number "dsa-indexer-n-heads", args:number "dsa-indexer-head-dim"
    hyper.index_top_k = args:number "dsa-indexer-topk"
  end
  local given = args:has "linear-attention-freq"
  if named and not given then args.given["linear-attention-freq"] = { "4" } end
  local list = layers_of(args, "linear-attention-freq", hyper.layers,
    function(i, every) return (i + 1) % every ~= 0 end)
  if not (list or hyper.layer_types) then return end
  if named and not args:has "linear-num-value-heads" then
    args:note("--spec %s: the file has no sizes of its linear attention; those of Qwen3-Next are used", named)
  end
  for i, linear in ipairs(list or {}) do list[i] = linear and "linear_attention" or "full_attention" end
  hyper.layer_types = hyper.layer_types or list
  hyper.linear_key_heads = args:number("linear-num-key-heads", 16)
  hyper.linear_value_heads = args:number("linear-num-value-heads", 32)
  hyper.linear_key_dim = args:number("linear-key-head-dim", 128)
  hyper.linear_value_dim = args:number("linear-value-head-dim", 128)
  hyper.conv_kernel = args:number "linear-conv-kernel-dim"
end

local function set_attention(hyper, args)
  if args:has "group-query-attention" then hyper.kv_heads = args:number("num-query-groups", 1) end
  hyper.kv_heads = args:number("num-key-value-heads", hyper.kv_heads) -- Megatron-DeepSpeed
  hyper.head_dim = args:number "kv-channels"
  hyper.qkv_bias = args:has "add-qkv-bias" or nil
  hyper.qk_norm, hyper.qk_l2_norm = args:has "qk-layernorm" or nil, args:has "qk-l2-norm" or nil
  hyper.attention_gate = args:has "attention-output-gate" or args:has "use-gated-attention" or nil
  -- Megatron-LM's own layers (--transformer-impl local) fuse attention with --use-flash-attn only.
  local own = args:choice("transformer-impl", "transformer_engine", { ["local"] = true, transformer_engine = false,
    inference_optimized = false }) and not args:has "use-flash-attn"
  hyper.attention = args:choice("attention-backend", own and "local" or "auto",
    { auto = "flash", flash = "flash", fused = "flash", unfused = "fused_softmax", ["local"] = "fused_softmax" })
  if args:has "multi-latent-attention" then
    hyper.q_lora_rank, hyper.kv_lora_rank = args:number "q-lora-rank", args:number("kv-lora-rank", 32)
    hyper.qk_nope_head_dim = args:number("qk-head-dim", args:number("qk-nope-head-dim", 128))
    hyper.qk_rope_head_dim = args:number("qk-pos-emb-head-dim", args:number("qk-rope-head-dim", 64))
    hyper.v_head_dim = args:number("v-head-dim", 128)
    hyper.qk_norm, hyper.qk_l2_norm = nil, nil -- norms of compressed vectors
    hyper.head_dim, hyper.kv_heads = nil, nil
  end
end

--- Layers with a window (megatron/core/transformer/utils.py: is_layer_window_attention): all, those between each N-th
--- layer, or those of a list. In hybrids and with linear attention only layers of attention have it.
local function set_window(hyper, args)
  local window = args:text "window-size"
  if not window then return end
  local left = table.concat(args.given["window-size"], " "):match "%-?%d+"
  if not left then error_module.raise("format", "--window-size: must be two integers, got '%s'", window) end
  if tonumber(left) < 0 then return end -- no window
  hyper.window = tonumber(left) + 1 -- get_sliding_window_causal_mask: as many tokens before the query as stated
  local list = layers_of(args, "window-attn-skip-freq", hyper.layers,
    function(i, every) return (i + 1) % every ~= 0 end)
  if hyper.layer_types then
    for i, kind in ipairs(hyper.layer_types) do
      if kind == "full_attention" and not (list and not list[i]) then hyper.layer_types[i] = "sliding_attention" end
    end
  elseif tonumber(args:text "window-attn-skip-freq") then
    hyper.window_every = args:number "window-attn-skip-freq"
  elseif list then
    for i, windowed in ipairs(list) do list[i] = windowed and "sliding_attention" or "full_attention" end
    hyper.layer_types = list
  end
end

-- ett has one dropout rate: for residuals, and for scores if attention is not fused.
local function set_dropout(hyper, args)
  local hidden, scores = args:number("hidden-dropout", 0.1), args:number("attention-dropout", 0.1)
  hyper.dropout = hidden > 0 or nil
  if (hidden > 0) ~= (scores > 0) then
    args:note("--attention-dropout %g is modelled as %g, the value of --hidden-dropout", scores, hidden)
  end
end

--- The hyper-parameters of the flags, and their architecture.
local function hyper_of(args)
  local missing, pattern, flag = {}, hybrid_pattern(args)
  for _, name in ipairs { "num-layers", "hidden-size", "num-attention-heads" } do
    if not args:has(name) and not (name == "num-layers" and pattern) then missing[#missing + 1] = "--" .. name end
  end
  if #missing > 0 then
    error_module.raise("format", "missing %s%s", table.concat(missing, ", "), args.recipe
      and "; a recipe holds them: give its model, --model NAME" or args.apart
      and "; another file holds them: give --model NAME" or "")
  end
  local hyper = { hidden = args:number "hidden-size", heads = args:number "num-attention-heads" }
  hyper.layers = args:number("num-layers", pattern and #pattern)
  hyper.gated_mlp = args:has "swiglu" or args:has "quick-geglu"
  if args:has "squared-relu" then args:note "--squared-relu is modelled as gelu, which moves the same bytes" end
  -- Only Megatron-LM's command line narrows a gated MLP; NeMo's configurations do not.
  local usual = args:has "swiglu" and not args.nemo and 4 * hyper.hidden * 2 // 3 // 64 * 64 or 4 * hyper.hidden
  hyper.ffn = args:number("ffn-hidden-size", usual)
  hyper.norm = args:has "deepspeed"
    and args:choice("normalization", "layernorm", { layernorm = "layer_norm", rmsnorm = "rms_norm" })
    or args:choice("normalization", "LayerNorm", { LayerNorm = "layer_norm", RMSNorm = "rms_norm" })
  hyper.bias = not args:has "disable-bias-linear"
  hyper.tied_embeddings = not args:has "untie-embeddings-and-output-weights"
  local usual_position = args:has "use-rotary-position-embeddings" and "rope" or "learned_absolute"
  hyper.position = args:choice("position-embedding-type", usual_position, { learned_absolute = "learned", rope = "rope",
    mrope = "rope", yarn = "rope", relative = "none", none = "none", alibi = "alibi", ALiBi = "alibi" })
  local latent = args:has "multi-latent-attention" -- YaRN with latent attention: its two scale factors cancel
  hyper.parallel_block = args:has "parallel-attention" or nil -- NeMo's Falcon
  hyper.shared_norm = hyper.parallel_block and not args:has "new-decoder-architecture" or nil
  hyper.embedding_norm = args:has "embed-layernorm" or nil -- Megatron-DeepSpeed of BigScience
  hyper.scaled_rope = args:text "position-embedding-type" == "yarn" and not latent or nil
  hyper.clamped_mlp = args:text "activation-func-clamp-value" ~= nil or nil
  local sinks = args:text "softmax-type"
  hyper.attention_sinks = sinks == "learnable" or nil
  if sinks == "off-by-one" then args:note "--softmax-type off-by-one is modelled as vanilla: it learns no score" end
  hyper.max_positions = hyper.position == "learned" and args:number "max-position-embeddings" or nil
  local turned = args:number "rotary-percent"
  hyper.rotary_fraction = turned and turned < 1 and turned or nil
  hyper.vocab = args:number "padded-vocab-size" or args:number "vocab-size"
    or tokenizer_vocab[args:text "tokenizer-type"]
  hyper.vocab_multiple = args:has "padded-vocab-size" and 1 or args:number "make-vocab-size-divisible-by"
  set_dropout(hyper, args)
  hyper.mtp_layers = args:number "mtp-num-layers"
    or args:has "use-multi-token-prediction" and args:number("num-mtp-predictor", 1) or nil -- Pai-Megatron-Patch
  set_attention(hyper, args)
  set_experts(hyper, args)
  if pattern then set_hybrid(hyper, args, pattern, flag) end
  set_linear_attention(hyper, args)
  set_window(hyper, args)
  return hyper, pattern and "hybrid" or hyper.experts and "mixtral" or "gpt"
end

--- Nodes of a Slurm script's #SBATCH lines, devices and tasks of each; texts or nil. The last line of an option counts.
---@return { nodes: string?, each: string?, tasks: string? }
local function job_of(text)
  local job = {}
  for line in ("\n" .. text):gmatch "\n#SBATCH[ \t]+([^\n]*)" do
    line = " " .. line:gsub("\r", "") .. " "
    job.nodes = line:match " %-%-nodes[= ](%d+) " or line:match " %-N ?(%d+) " or job.nodes
    job.gpus = line:match " %-%-gpus%-per%-node[= ](%d+) " or line:match " %-%-gpus%-per%-node[= ][%w_%-]+:(%d+) "
      or line:match " %-%-gres[= ]gpu:(%d+) " or line:match " %-%-gres[= ]gpu:[%w_%-]+:(%d+) " or job.gpus
    job.tasks = line:match " %-%-ntasks%-per%-node[= ](%d+) " or job.tasks
  end
  return { nodes = job.nodes, tasks = job.tasks, each = job.gpus or job.tasks }
end

--- Variables that Slurm sets in the job.
local function variables_of(job)
  local tasks = tonumber(job.nodes) and tonumber(job.tasks)
  local all = tasks and ("%.0f"):format(1.0 * job.nodes * tasks)
  return { SLURM_NNODES = job.nodes, SLURM_JOB_NUM_NODES = job.nodes, SLURM_NTASKS = all, SLURM_NPROCS = all,
    SLURM_NTASKS_PER_NODE = job.tasks, SLURM_GPUS_ON_NODE = job.each, SLURM_GPUS_PER_NODE = job.each }
end

--- Adds the devices of a Slurm job, in front, so that the flags of torchrun replace them.
local function add_devices_of_job(list, job)
  if job.nodes and job.each then
    table.insert(list, 1, { name = "nnodes", values = { job.nodes } })
    table.insert(list, 1, { name = "nproc-per-node", values = { job.each } })
  end
end

--- Adds the devices of the last line of ett's own export, in front, so that all other flags replace them. Returns the
--- line's stack: a name, false for none, nil without such a line.
local function add_export(list, text)
  local devices, stack = ("\n" .. text):match "\n# ett: (%d+) devices, ([%w_ :=.%-]+)"
  if not devices then return nil end
  table.insert(list, 1, { name = "nnodes", values = { "1" } })
  table.insert(list, 1, { name = "nproc-per-node", values = { devices } })
  return stack:match "^stack (.*)" or false
end

-- Models of Megatron-LM's programs (pretrain_NAME.py) and NeMo's files (name: megatron_NAME) other than GPT and Mamba.
local other_models = {}
for name in ([[bart bert clip griffin hyena ict jamba mt5 nmt retro t0 t5 vision_classify vision_dino vision_inpaint]])
  :gmatch "%S+" do other_models[name] = true end

--- Raises for such a model; returns whether it is Mamba.
local function is_mamba(name, where)
  if other_models[name] then
    error_module.raise("format", "%s: ett reads the flags of GPT and Mamba models only", where)
  end
  return name == "mamba"
end

--- The training program that a script starts, such as pretrain_gpt.py, and the name in it.
local function program_of(text)
  for line in text:gmatch "[^\n]+" do
    local program, name = line:match "(pretrain_([%w_]+)%.py)"
    if program and not line:match "^%s*#" then return program, name end
  end
end

--- Splits "FILE WORD …", as behind `sh`: the path, and the words; nil for a path alone.
local function with_words(given)
  local path, rest = given:match "^%s*(%S+)%s+(.*)$"
  local mode = require("lfs").attributes
  if not path or mode(given, "mode") or not mode(path, "mode") then return given, nil end
  local list = {}
  for word in rest:gmatch "%S+" do list[#list + 1] = word end
  return path, list
end

--- The flags of a file, and { mamba =, nemo =, unknown =, note = of ett's reader of scripts, stack = of ett's own
--- export, … }. unknown: conditions that count as true. recipe: whether fields of one follow it. without_graphs:
--- whether a script has no CUDA graphs for certain. precise: whether the flags state the precision. apart: whether
--- another file has the model.
---@param values string[]? the words of a script
local function read_flags(path, values)
  local text = error_module.must(require("ett.io").read(path, 16 << 20))
  require("ett.import.formats").check(path, text, "--megatron-args")
  if path:match "%.ya?ml$" then
    local list, name, whole, apart, precise = nemo.flags(path)
    return list, { mamba = is_mamba(name, ("name: megatron_%s"):format(name)), nemo = not whole, unknown = {},
      apart = apart, precise = precise }
  end
  local job = job_of(text)
  local list, unknown, note, overrides, complete = script.flags(text, variables_of(job), values)
  local recipe = #overrides > 0
  local of_recipe, precise = {}, false
  if recipe then of_recipe, precise = nemo.overridden(overrides) end
  table.move(of_recipe, 1, #of_recipe, #list + 1, list)
  if #list == 0 then error_module.raise("format", "contains no flag that begins with --") end
  add_devices_of_job(list, job)
  local program, name = program_of(text)
  local stack = add_export(list, text)
  return list, { mamba = is_mamba(name, program), unknown = unknown, note = note, nemo = recipe, recipe = recipe,
    precise = precise or stack ~= nil, stack = stack,
    without_graphs = complete and not recipe and not text:find "cuda[-_]graph" } -- a skipped branch may name graphs
end

--- Notes the conditions of a script that depend on values outside it.
local function note_conditions(args, unknown)
  local seen, list = {}, {}
  for _, condition in ipairs(unknown) do
    if not seen[condition] then list[#list + 1] = condition end
    seen[condition] = true
  end
  if #list == 0 then return end
  local text = table.concat(list, "; ")
  args:note("conditions on values outside the file, taken as true: %s%s", text, text:find "%${?%d"
    and ". Words behind the file set $1, $2, ...: \"FILE WORD WORD ...\"" or "")
end

--- Notes that a command line states a recipe only in part. Such recipes train in bf16, unless a field says otherwise.
local function complete_recipe(args, precise)
  local assumed = not (precise or args:has "bf16" or args:has "fp16")
  if assumed then args.given.bf16 = {} end
  args:note("the file does not hold the recipe's own settings: %sMegatron-LM's defaults stand for those that it does "
    .. "not state", assumed and "bf16 and " or "")
end

--- Models Primus' forced balance: a token chooses one group of top_k experts.
local function route_evenly(model, notes)
  local h = model.hyper
  if not h.experts or h.experts % h.top_k ~= 0 then return end
  model.hyper = merged(h, { expert_groups = h.experts // h.top_k, top_groups = 1 })
  notes[#notes + 1] = ("moe_router_force_load_balancing: a token's %d experts are next to each other, so fewer ranks "
    .. "receive the token than of a trained router"):format(h.top_k)
end

--- Replaces the flags of the precision by that of the words, so that the types of gradients and states follow. 8-bit
--- types leave that of the weights.
local function set_precision(args, dtype)
  if dtype == "bf16" or dtype == "fp16" or dtype == "fp32" then
    for _, name in ipairs { "bf16", "fp16", "fp8-format", "fp4-format" } do args.given[name] = nil end
    if dtype ~= "fp32" then args.given[dtype] = {} end
  elseif not (args:has "bf16" or args:has "fp16") then
    args.given.bf16 = {}
  end
  args.precise = true
end

-- The plan fields that the flags state and `plan` does not replace, with the names of the flags.
local function stated_in(args, plan)
  local stated = {}
  for field, flag in pairs(words) do
    if plan_fields.schema[field] and plan[field] == nil and args:has(flag) then stated[field] = "--" .. flag end
  end
  return stated
end

local function read(path, values, plan, hyper, model)
  local list, file = read_flags(path, values)
  local args = arguments_of(list)
  args.mamba, args.nemo, args.recipe, args.apart = file.mamba, file.nemo, file.recipe, file.apart
  args.precise, args.without_graphs = file.precise, file.without_graphs
  note_conditions(args, file.unknown)
  if file.note then args:note("%s", file.note) end
  if file.recipe then complete_recipe(args, file.precise) end
  if plan and plan.dtype then set_precision(args, plan.dtype) end
  local has_model, stated = args:has "num-layers", stated_in(args, plan or {})
  for word, value in pairs(merged(plan, hyper)) do
    if words[word] then args.given[words[word]] = { tostring(value) } end
  end
  if hyper and (hyper.first_dense_layers or hyper.moe_every or hyper.dense_layers) then
    args.given["moe-layer-freq"] = nil
  end
  if plan and plan.vp then args.given["num-layers-per-virtual-pipeline-stage"] = nil end
  if hyper and hyper.window_every then args.given["window-attn-skip-freq"] = nil end
  if model then
    if has_model then args:note "the model of the file is not used" end
    model.notes = table.move(args.notes, 1, #args.notes, #(model.notes or {}) + 1, model.notes or {})
    args.notes = model.notes
    if args:has "primus-even-routing" then route_evenly(model, args.notes) end
    return { model = model, architecture = model.architecture,
      plan = plan_of(args, model.hyper, plan or {}, file.stack), stated = stated }
  end
  local own, architecture = hyper_of(args)
  own = merged(own, hyper)
  if own.vocab == nil then
    error_module.raise("format", "has no --vocab-size (the tokenizer defines it); give vocab=N")
  end
  local built = model_module.new(architecture, own)
  built.name = path:match "([^/]+)$"
  local notes = args.notes
  built.notes = table.move(built.notes, 1, #built.notes, #notes + 1, notes)
  return { model = built, architecture = architecture, plan = plan_of(args, own, plan or {}, file.stack),
    stated = stated }
end

--- The model and the plan of a launch script, a file of flags, or a YAML file of NeMo, Megatron-Bridge, Primus or
--- Megatron-LM's moe_recipes.
---@param path string a file; behind a script also its words: "run.sh dsw 7B 1"
---@param plan table? plan fields that override the file
---@param hyper table? hyper-parameters that override the file
---@param model table? in place of the file's; gets the notes
---@return table { model =, architecture = name, plan =, stated = plan fields that the file states, with its flags }
function megatron.read(path, plan, hyper, model)
  schema.argument(path, "string", "ett.megatron.read", "path")
  plan_fields.check_some(plan or {})
  local file, values = with_words(path)
  return error_module.wrap(file, read, file, values, plan, hyper, model)
end

return megatron
