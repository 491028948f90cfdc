--- A plan from nanotron's YAML (config/config.py, config/parallelism_config.py). The file also describes the model,
--- which is not read.
local compare_sizes = require "ett.import.trainer.compare_sizes"
local error_module = require "ett.base.error"
local meaning = require "ett.import.trainer.meaning"
local plan_rules = require "ett.plan.rules"

local nanotron = {}

--- Whether a text holds nanotron's fields.
function nanotron.known(text)
  text = "\n" .. text
  return text:find "\nparallelism:" ~= nil and text:find "\ntokens:" ~= nil
    and text:find "\n%s+batch_accumulation_per_replica:" ~= nil
end

function nanotron.fields(text)
  local fields = error_module.must(require("ett.yaml").decode(text))
  for _, section in ipairs { "general", "checkpoints", "data_stages", "logging", "lighteval", "tokenizer", "profiler",
    "s3_upload", "metrics_logging", "slurm" } do
    fields[section] = nil
  end
  return fields
end

local types = { bfloat16 = "bf16", float16 = "fp16", float32 = "fp32" }
local engines = { ["1f1b"] = "1f1b", afab = "gpipe" }

--- Layers of the stages. A stage ends after the layer that exceeds its share of the products of layers and head
--- (models/base.py, build_model; models/llama.py, get_block_compute_costs).
---@param sizes table { heads, head_dim, ffn, vocab }
---@return integer[]? split nil if a size is missing, or if there are more stages than layers
function nanotron.split(sizes, layers, pp)
  local is_whole = sizes.heads and sizes.head_dim and sizes.ffn and sizes.vocab
  if not is_whole or math.type(pp) ~= "integer" or pp > layers then return nil end
  local layer, split, stage, sum = 4 * sizes.heads * sizes.head_dim + 3 * sizes.ffn, {}, 1, 0
  for i = 1, pp do split[i] = 0 end
  for _ = 1, layers do
    split[stage], sum = split[stage] + 1, sum + layer
    if sum > (layers * layer + sizes.vocab) * stage / pp then stage = math.min(stage + 1, pp) end
  end
  return split
end

local function split_of(model, pp)
  local h = model.hyper
  return nanotron.split({ heads = h.heads, head_dim = h.head_dim or h.heads and h.hidden // h.heads, ffn = h.ffn,
    vocab = h.vocab }, plan_rules.middle_layers(model), pp)
end

local function set_parallel(p, config, given, model, note)
  local function degree(name, field) return given[field] or config("parallelism", name, 1) end
  p.dp, p.tp, p.pp, p.cp = degree("dp", "dp"), degree("tp", "tp"), degree("pp", "pp"),
    degree("context_parallel_size", "cp")
  local ep = config("parallelism", "expert_parallel_size", 1)
  if model.hyper.experts then p.ep = given.ep or ep end
  if p.cp > 1 then p.cp_method = "ring" end
  local engine, mode = config("parallelism", "pp_engine", "afab"), config("parallelism", "tp_mode", "ALL_REDUCE")
  if p.pp > 1 then p.schedule = meaning("pp_engine", engines, engine) end
  p.sequence_parallel = meaning("tp_mode", { all_reduce = "no", reduce_scatter = "yes" }, mode) == "yes" and p.tp > 1
  local stated = config("parallelism", "pp_layer_partition", {})
  if p.pp > 1 and not given.split then p.split = next(stated) and stated or split_of(model, p.pp) end
  if config("parallelism", "tp_linear_async_communication", false) and p.tp > 1 then
    note "tp_linear_async_communication is not modelled: messages of tensor ranks are exposed"
  end
  config("parallelism", "tp_recompute_allgather", true)
  local whole = config("parallelism", "recompute_layer", false)
  if not given.recompute then p.recompute = whole and "full" or "none" end
end

function nanotron.plan(config, given, model, note)
  local p = { stack = "nanotron", seq = config("tokens", "sequence_length"),
    micro_batch = config("tokens", "micro_batch_size", 1),
    micro_batches = config("tokens", "batch_accumulation_per_replica", 1) }
  set_parallel(p, config, given, model, note)
  p.dtype = given.dtype or meaning("model.dtype", types, config("model", "dtype", "bfloat16"))
  p.zero = given.zero or config("optimizer", "zero_stage", 0)
  local in_fp32, clip = config("optimizer", "accumulate_grad_in_fp32", true), config("optimizer", "clip_grad", 0)
  p.gradient_dtype = (in_fp32 or p.dtype == "fp32") and "fp32" or p.dtype
  p.clip_gradients = clip > 0
  p.overlap_gradients = p.dp > 1
  p.bucket_bytes = config("model", "ddp_bucket_cap_mb", 25) * (1 << 20)
  local sizes = config("model", "model_config", {})
  compare_sizes({ num_hidden_layers = "layers", hidden_size = "hidden", num_attention_heads = "heads" },
    function(name) return sizes[name] end, model, note)
  return p
end

return nanotron
