--- Reads launch flags of Megatron-LM, or a YAML file of NeMo, as a model and a plan.
--
--   local run = require("ett.import.megatron").read("train.sh", { dp = 16 })
--   ett.estimate { model = run.model, plan = run.plan, cluster = "dgx_h100" }
--
-- Defaults are those of Megatron-LM (megatron/training/arguments.py). run.model.notes lists unknown flags and flags
-- with effects that are not modelled; it gives the number of flags without effect on the step.
local error_module = require "ett.base.error"
local expert_layers = require "ett.import.expert_layers"
local flags = require "ett.import.megatron.flags"
local max_layers = require("ett.model.hyper").fields.layers.most
local model_module = require "ett.model"
local nemo = require "ett.import.megatron.nemo"
local plan_of = require "ett.import.megatron.plan_of"
local schema = require "ett.base.schema"
local script = require "ett.import.megatron.script"

local megatron = {}

--- Accessors of the flags: text, number or integer of a flag; errors name flag and text.
local Arguments = {}
Arguments.__index = Arguments

function Arguments:has(name) return self.given[name] ~= nil end

-- ett fields that replace a flag: if the field is given, the flag's value is not needed.
local words = { tp = "tensor-model-parallel-size", pp = "pipeline-model-parallel-size", cp = "context-parallel-size",
  ep = "expert-model-parallel-size", etp = "expert-tensor-parallel-size", seq = "seq-length",
  micro_batch = "micro-batch-size", global_batch = "global-batch-size", layers = "num-layers", hidden = "hidden-size",
  heads = "num-attention-heads", ffn = "ffn-hidden-size", vocab = "vocab-size", experts = "num-experts",
  top_k = "moe-router-topk", moe_ffn = "moe-ffn-hidden-size" }
local word_of = {}
for word, flag in pairs(words) do word_of[flag] = word end
for _, flag in ipairs { "nproc-per-node", "nnodes", "num-gpus", "num-nodes", "world-size" } do word_of[flag] = "dp" end

function Arguments:text(name, default)
  local values = self.given[name]
  if not values then return default end
  local value = values[1]
  if value == nil then error_module.raise("format", "--%s: needs a value", name) end
  if value:find("$", 1, true) then
    error_module.raise("format", "--%s: the value '%s' is not set in the file; write it there%s", name, value,
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
    error_module.raise("format", "--%s: unknown value '%s'%s; known are %s", name, text,
      error_module.suggestion(text, schema.keys(known)), table.concat(schema.keys(known), ", "))
  end
  return known[text]
end

function Arguments:note(...) self.notes[#self.notes + 1] = (...):format(select(2, ...)) end

--- Splits the flags: those that are read, by name, and notes about the others.
local function arguments_of(list)
  local args = setmetatable({ given = {}, notes = {} }, Arguments)
  local unknown, unmodelled, without, seen = {}, {}, 0, {}
  for _, flag in ipairs(list) do
    local kind = flags.kind(flag.name)
    if kind == "switch" and flag.values[1] == "false" then
      args.given[flag.name] = nil -- --sequence-parallel false
    elseif kind == "value" or kind == "switch" then
      args.given[flag.name] = flag.values
    elseif kind == "without effect" then
      without = without + 1
    elseif not seen[flag.name] then
      table.insert(kind and unmodelled or unknown, "--" .. flag.name)
      seen[flag.name] = true
    end
  end
  if #unknown > 0 then args:note("unknown flags, ignored: %s", table.concat(unknown, ", ")) end
  if #unmodelled > 0 then
    args:note("flags that change the step and are not modelled: %s", table.concat(unmodelled, ", "))
  end
  if without > 0 then args:note("%d %s no effect on the step", without, without == 1 and "flag has" or "flags have") end
  return args
end

local tokenizer_vocab = { GPT2BPETokenizer = 50257, Llama2Tokenizer = 32000, BertWordPieceLowerCase = 30522 }

--- --moe-layer-freq: N, or a list such as ([0]*3+[1]*58). Sets first_dense_layers and moe_every.
local function set_expert_layers(hyper, args)
  local text = args:text "moe-layer-freq"
  if not text then return end
  local every = math.tointeger(tonumber(text))
  local list = {}
  if hyper.layers > max_layers then return end -- the model refuses it
  if every then
    for i = 0, hyper.layers - 1 do list[i + 1] = i % every == 0 end
  else
    for digits, times in text:gmatch "%[([%d,%s]*)%]%s*%*?%s*(%d*)" do
      for _ = 1, math.min(tonumber(times) or 1, max_layers) do
        for digit in digits:gmatch "%d+" do list[#list + 1] = digit ~= "0" end
      end
    end
    if #list ~= hyper.layers then
      error_module.raise("format", "--moe-layer-freq: must say 0 or 1 for each of %d layers, got '%s'", hyper.layers,
        text)
    end
  end
  local exact
  hyper.first_dense_layers, hyper.moe_every, exact = expert_layers(list)
  if not exact then
    args:note("--moe-layer-freq: experts are taken in the last layer of each group of %d", hyper.moe_every)
  end
end

local function set_experts(hyper, args)
  hyper.experts = args:number "num-experts"
  if not hyper.experts then return end
  local deepspeed = args:has "deepspeed" -- Megatron-DeepSpeed has flags and defaults of its own
  if deepspeed and hyper.experts == 1 then -- a dense model
    hyper.experts = nil
    return
  end
  hyper.top_k = deepspeed and args:number("topk", 1) or args:number("moe-router-topk", 2)
  hyper.moe_ffn = args:number("moe-ffn-hidden-size", hyper.ffn)
  hyper.shared_ffn = args:number "moe-shared-expert-intermediate-size"
  hyper.expert_groups, hyper.top_groups = args:number "moe-router-num-groups", args:number "moe-router-group-topk"
  if deepspeed then hyper.moe_every = args:number("expert-interval", 2) else set_expert_layers(hyper, args) end
end

local letters = { M = "mamba2", ["-"] = "mlp", ["*"] = "full_attention", E = "moe" }

local function set_hybrid(hyper, args)
  local pattern = args:text "hybrid-override-pattern"
  if not pattern then
    if args:has "is-hybrid-model" then
      error_module.raise("format", "--is-hybrid-model: needs --hybrid-override-pattern, which names each layer's kind")
    end
    return false
  end
  hyper.layer_types = {}
  for letter in pattern:gmatch "[^|]" do
    local kind = letters[letter]
    if not kind then
      error_module.raise("format", "--hybrid-override-pattern: unknown letter '%s'; known are *, -, E, M", letter)
    end
    table.insert(hyper.layer_types, kind)
  end
  hyper.ssm_state, hyper.ssm_head_dim = args:number("mamba-state-dim", 128), args:number("mamba-head-dim", 64)
  hyper.ssm_groups = args:number("mamba-num-groups", 8)
  hyper.ssm_heads = args:number("mamba-num-heads", 2 * hyper.hidden // hyper.ssm_head_dim)
  hyper.ssm_inner = hyper.ssm_heads * hyper.ssm_head_dim
  hyper.scan_chunk = 128 -- megatron/core/ssm/mamba_mixer.py
  return true
end

local function set_attention(hyper, args)
  if args:has "group-query-attention" then hyper.kv_heads = args:number("num-query-groups", 1) end
  hyper.head_dim = args:number "kv-channels"
  hyper.qkv_bias = args:has "add-qkv-bias" or nil
  hyper.qk_norm = args:has "qk-layernorm" or nil
  hyper.attention_gate = args:has "attention-output-gate" or nil
  hyper.attention = args:choice("attention-backend", "auto", { auto = "flash", flash = "flash", fused = "flash",
    unfused = "fused_softmax", ["local"] = "fused_softmax" })
  if args:has "multi-latent-attention" then
    hyper.q_lora_rank, hyper.kv_lora_rank = args:number "q-lora-rank", args:number("kv-lora-rank", 32)
    hyper.qk_nope_head_dim = args:number("qk-head-dim", 128)
    hyper.qk_rope_head_dim = args:number("qk-pos-emb-head-dim", 64)
    hyper.v_head_dim = args:number("v-head-dim", 128)
    hyper.qk_norm, hyper.head_dim, hyper.kv_heads = nil, nil, nil -- its norms are those of the compressed vectors
  end
  local window = args:text "window-size"
  if window then
    hyper.window = tonumber(table.concat(args.given["window-size"], " "):match "%d+")
    hyper.window_every = args:number "window-attn-skip-freq"
  end
end

-- ett has one dropout rate: for residuals, and for scores if attention is not fused.
local function set_dropout(hyper, args)
  local hidden, scores = args:number("hidden-dropout", 0.1), args:number("attention-dropout", 0.1)
  hyper.dropout = hidden > 0 or nil
  if (hidden > 0) ~= (scores > 0) then
    args:note("--attention-dropout %g is taken as %g, the value of --hidden-dropout", scores, hidden)
  end
end

--- The hyper-parameters of the flags, and their architecture.
local function hyper_of(args)
  local missing = {}
  for _, name in ipairs { "num-layers", "hidden-size", "num-attention-heads" } do
    if not args:has(name) and not (name == "num-layers" and args:has "hybrid-override-pattern") then
      missing[#missing + 1] = "--" .. name
    end
  end
  if #missing > 0 then error_module.raise("format", "missing %s", table.concat(missing, ", ")) end
  local hyper = { hidden = args:number "hidden-size", heads = args:number "num-attention-heads" }
  hyper.layers = args:number("num-layers", #(args:text("hybrid-override-pattern", "")))
  hyper.gated_mlp = args:has "swiglu" or args:has "quick-geglu"
  if args:has "squared-relu" then args:note "--squared-relu is taken as gelu, which moves the same bytes" end
  local usual = args:has "swiglu" and 4 * hyper.hidden * 2 // 3 // 64 * 64 or 4 * hyper.hidden
  hyper.ffn = args:number("ffn-hidden-size", usual)
  hyper.norm = args:choice("normalization", "LayerNorm", { LayerNorm = "layer_norm", RMSNorm = "rms_norm" })
  hyper.bias = not args:has "disable-bias-linear"
  hyper.tied_embeddings = not args:has "untie-embeddings-and-output-weights"
  local usual_position = args:has "use-rotary-position-embeddings" and "rope" or "learned_absolute"
  hyper.position = args:choice("position-embedding-type", usual_position, { learned_absolute = "learned", rope = "rope",
    mrope = "rope", yarn = "rope", relative = "none", none = "none", alibi = "alibi", ALiBi = "alibi" })
  local latent = args:has "multi-latent-attention" -- the two YaRN factors of latent attention cancel
  hyper.parallel_block = args:has "parallel-attention" or nil -- NeMo's Falcon
  hyper.shared_norm = hyper.parallel_block and not args:has "new-decoder-architecture" or nil
  hyper.scaled_rope = args:text "position-embedding-type" == "yarn" and not latent or nil
  hyper.clamped_mlp = args:text "activation-func-clamp-value" ~= nil or nil
  hyper.max_positions = hyper.position == "learned" and args:number "max-position-embeddings" or nil
  local turned = args:number "rotary-percent"
  hyper.rotary_fraction = turned and turned < 1 and turned or nil
  hyper.vocab = args:number "padded-vocab-size" or args:number "vocab-size"
    or tokenizer_vocab[args:text "tokenizer-type"]
  hyper.vocab_multiple = args:number "make-vocab-size-divisible-by"
  set_dropout(hyper, args)
  hyper.mtp_layers = args:number "mtp-num-layers"
  set_attention(hyper, args)
  set_experts(hyper, args)
  return hyper, set_hybrid(hyper, args) and "hybrid" or hyper.experts and "mixtral" or "gpt"
end

--- Adds the devices of a Slurm script's #SBATCH lines, in front, so that the flags of torchrun replace them.
local function add_devices_of_job(list, text)
  local lines = {}
  for line in text:gmatch "#SBATCH%s+([^\n]*)" do lines[#lines + 1] = " " .. line .. " " end
  local job = table.concat(lines)
  local nodes = job:match " %-%-nodes[= ](%d+) " or job:match " %-N ?(%d+) "
  local each = job:match " %-%-gpus%-per%-node[= ](%d+) " or job:match " %-%-gpus%-per%-node[= ]%w+:(%d+) "
    or job:match " %-%-gres[= ]gpu:(%d+) " or job:match " %-%-gres[= ]gpu:[%w_%-]+:(%d+) "
    or job:match " %-%-ntasks%-per%-node[= ](%d+) "
  if nodes and each then
    table.insert(list, 1, { name = "nnodes", values = { nodes } })
    table.insert(list, 1, { name = "nproc-per-node", values = { each } })
  end
end

--- Adds the devices of the last line of ett's own export, in front, so that all other flags replace them. Returns the
--- line's stack: a name, false for none, nil without such a line.
local function add_export(list, text)
  local devices, stack = ("\n" .. text):match "\n# ett: (%d+) devices, ([%w_ ]+)"
  if not devices then return nil end
  table.insert(list, 1, { name = "nnodes", values = { "1" } })
  table.insert(list, 1, { name = "nproc-per-node", values = { devices } })
  return stack:match "^stack (.*)" or false
end

--- The flags of a file, and the stack that it states.
local function read_flags(path)
  local text, err = require("ett.io").read(path, 16 << 20)
  if not text then error(error_module.from(err), 0) end
  if path:match "%.ya?ml$" then return nemo.flags(path) end
  local list = script.flags(text)
  if #list == 0 then error_module.raise("format", "holds no flag that begins with --") end
  add_devices_of_job(list, text)
  return list, add_export(list, text)
end

local function overlaid(own, given)
  local all = {}
  for _, source in ipairs { own, given or {} } do
    for name, value in pairs(source) do all[name] = value end
  end
  return all
end

local function read(path, plan, hyper)
  local list, stack = read_flags(path)
  local args = arguments_of(list)
  for word, value in pairs(overlaid(plan or {}, hyper)) do
    if words[word] then args.given[words[word]] = { tostring(value) } end
  end
  local own, architecture = hyper_of(args)
  own = overlaid(own, hyper)
  if own.vocab == nil then
    error_module.raise("format", "states no --vocab-size (the tokenizer defines it); give vocab=N")
  end
  local built = model_module.new(architecture, own)
  built.name = path:match "([^/]+)$"
  local notes = args.notes
  built.notes = table.move(built.notes, 1, #built.notes, #notes + 1, notes)
  return { model = built, architecture = architecture, plan = plan_of(args, own, plan or {}, stack) }
end

--- The model and the plan of a launch script, a file of flags, or a YAML file of NeMo.
---@param path string
---@param plan table? plan fields that override the file
---@param hyper table? hyper-parameters that override the file
---@return table { model =, architecture = name, plan = }
function megatron.read(path, plan, hyper)
  schema.argument(path, "string", "ett.megatron.read", "path")
  return error_module.wrap(path, read, path, plan, hyper)
end

return megatron
