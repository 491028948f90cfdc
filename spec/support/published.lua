--- Rows of published measured steps as estimates: which model, plan and cluster each row means.
--
-- What a row does not state is taken from what its framework does (Megatron-LM keeps fp16
-- gradients in fp16 and bf16 ones in fp32, DeepSpeed's pipeline engine reduces after the last
-- backward, …). Nothing here was fitted on the rows.
local cluster_module = require "ett.profile.cluster"

local published = {}

--- Path of a file of the reference data, or nil and a sentence.
function published.path(name)
  local root = os.getenv "ETT_REFERENCE" or require("ett.host").root .. "/../shared/reference"
  local path = root .. "/" .. name
  local file = io.open(path, "r")
  if not file then return nil, ("no reference data at %s; set ETT_REFERENCE"):format(path) end
  file:close()
  return path
end

--- Every row, or nil and a sentence.
function published.rows()
  local path, why = published.path "published/steps.json"
  if not path then return nil, why end
  return assert(require("ett.json").read(path)).rows
end

local function text(value) return type(value) == "string" and value:lower() or "" end
local function has(value, ...)
  for _, word in ipairs { ... } do
    if text(value):find(word, 1, true) then return true end
  end
  return false
end
local function number(value, fallback)
  if type(value) ~= "number" then return fallback end
  return math.tointeger(value) or value
end

local function copy(t)
  local made = {}
  for key, value in pairs(t) do made[key] = type(value) == "table" and copy(value) or value end
  return setmetatable(made, getmetatable(t))
end

-- Line rate of a node, bytes/s, from the words of a row: "4x HDR InfiniBand 200Gb/s", "400 Gb/s per node".
local function line_rate(words)
  local many, bytes = tostring(words or ""):match("(%d+)x (%d+) GB/s") -- bytes, not bits
  if many then return tonumber(many) * tonumber(bytes) * 1e9 end
  local w = text(words)
  local count, giga = w:match("(%d+)x [%a%-/ ]-(%d+) ?gb/s")
  if not count then count, giga = w:match("(%d+)x (%d+) ?gb/s") end
  if not count then count, giga = w:match("(%d+)x[%a%-%d ]- ndr (%d+)gb/s") end
  if count then return tonumber(count) * tonumber(giga) * 1e9 / 8 end
  giga = w:match("(%d+) ?gb/s per node")
  if giga then return tonumber(giga) * 1e9 / 8 end
  return nil
end

-- Share of the line rate that collectives reach: 0.85 on HDR and older (nccl-tests issue 119:
-- 84.8 GB/s mean over 4x HDR200), 0.96 on NDR (vista's samples).
local function efficiency(words) return has(words, "ndr", "cx-7", "connectx-7") and 0.96 or 0.85 end

local gpus = {
  { "A100-SXM4-80GB", "dgx_a100" }, { "A100-SXM4-40GB", "dgx_a100" }, { "H100-SXM-80GB", "dgx_h100" },
  { "H200-SXM-141GB", "dgx_h200" }, { "B200-SXM-180GB", "dgx_b200" },
}

--- The cluster of a row, or nil when no bundled one has its GPU.
function published.cluster(row)
  if row.id:match("^neox_A100") then return cluster_module.get "perlmutter" end
  if row.id:match("^neox_GH200") then return cluster_module.get "vista" end
  for _, entry in ipairs(gpus) do
    if text(row.gpu):find(entry[1]:lower(), 1, true) == 1 then
      local cluster = copy(cluster_module.get(entry[2]))
      if entry[1] == "A100-SXM4-40GB" then -- NVIDIA A100 datasheet
        cluster.device.memory_bytes, cluster.device.memory_bandwidth = 40e9, 1.555e12
        cluster.device.name = entry[1]
      end
      local rate = line_rate(row.inter_node)
      if rate then
        local reached = rate * efficiency(row.inter_node)
        cluster.links.inter.bandwidth_per_node = reached
        cluster.links.inter.bandwidth_per_gpu = math.min(reached, cluster.links.inter.bandwidth_per_gpu)
      end
      cluster.gpus_per_node = number(row.gpus_per_node, 8)
      return cluster
    end
  end
  return nil
end

--- Precision of a row as a dtype, or nil (nvfp4).
function published.dtype(row)
  local p = text(row.precision)
  if p:find "fp4" then return nil end
  if p:find "fp8" or p:find "float8" or p:find "mxfp8" then return "fp8" end
  if p:find "^fp16" then return "fp16" end
  return "bf16"
end

local function megatron_2021(row)
  return has(row.framework, "megatron-lm (sc21)", "megatron-lm (2022)", "megatron-deepspeed") and row.arch == "dense"
end

--- Architecture and hyper-parameters of a row.
function published.model(row)
  local neox = has(row.framework, "neox")
  local hyper = {
    layers = number(row.layers), hidden = number(row.hidden), heads = number(row.heads),
    kv_heads = number(row.kv_heads), head_dim = number(row.head_dim), ffn = number(row.ffn),
    vocab = number(row.vocab), gated_mlp = row.gated_mlp == true,
    attention = has(row.attention_impl, "unfused", "non-flash") and "fused_softmax" or "flash",
    dropout = megatron_2021(row) or nil,
  }
  local name = hyper.gated_mlp and "llama" or "gpt"
  if name == "gpt" and not megatron_2021(row) and not neox then hyper.bias = false end
  if neox then
    hyper.parallel_block = has(row.attention_impl, "parallel attn+mlp") or nil
    hyper.norm = has(row.attention_impl, "rmsnorm") and "rms_norm" or "layer_norm"
    hyper.position = "rope"
    hyper.rotary_fraction = has(row.attention_impl, "rotary 0.25") and 0.25 or nil
    hyper.tied_embeddings = false
  end
  if row.arch == "moe" then
    name = "mixtral"
    hyper.experts, hyper.top_k = number(row.experts), number(row.topk)
    hyper.moe_ffn = number(row.moe_ffn)
    hyper.shared_experts = number(row.shared_experts)
    hyper.first_dense_layers = number(row.first_dense_layers)
    hyper.ffn = hyper.ffn or hyper.moe_ffn
  end
  return name, hyper
end

local function zero_of(row)
  local z = row.fsdp_zero
  if has(z, "zero-1", "distributed optimizer", "distributed_fused_adam") and not has(z, "none") then return 1 end
  if has(z, "zero-2") then return 2 end
  if has(z, "fsdp", "zero-3") then return 3 end
  return 0
end

local function recompute_of(row)
  if has(row.recompute, "full") then return "full" end
  if has(row.recompute, "selective (attention core)", "selective layer") then return "selective" end
  return "none"
end

--- Plan of a row.
function published.plan(row, dtype)
  local tp, pp, cp = number(row.tp, 1), number(row.pp, 1), number(row.cp, 1)
  local dp = number(row.dp) or math.max(1, number(row.n_gpus) // (tp * pp * cp))
  if tp * pp * cp * dp ~= row.n_gpus then dp = math.max(1, row.n_gpus // (tp * pp * cp)) end
  local micro_batch = number(row.mbs, 1)
  local zero, neox = zero_of(row), has(row.framework, "neox")
  local vp = number(row.vp, 1)
  local modern = not (megatron_2021(row) or neox)
  local micro_batches = math.max(1, number(row.gbs) // (dp * micro_batch))
  local interleaved = vp > 1 and pp > 1 and micro_batches % pp == 0
  local sums = dtype == "fp16" and "fp16" or zero == 3 and "bf16" or "fp32"
  return {
    tp = tp, pp = pp, cp = cp, dp = dp, ep = number(row.ep, 1), etp = number(row.etp),
    vp = interleaved and vp or 1, schedule = interleaved and "interleaved" or "1f1b",
    micro_batch = micro_batch, micro_batches = micro_batches, seq = number(row.seq_len),
    recompute = recompute_of(row), zero = zero, dtype = dtype, gradient_dtype = sums,
    sequence_parallel = row.sp == true and tp > 1,
    -- DeepSpeed's pipeline engine all-reduces whole gradients also under ZeRO-1, after the last
    -- backward, in buckets of 1.26e9 fp16 elements.
    serial_sends = neox, gradient_all_reduce = neox, bucket_bytes = neox and 2.52e9 or nil,
    overlap_gradients = modern and zero > 0, overlap_parameters = modern and zero > 0,
    overlap_all_to_all = has(row.notes, "1f1b a2a overlap") and "batch" or nil,
    deduplicate_tokens = has(row.notes, "deepep") or nil,
    scatter_sends = tp > 1 and row.sp ~= true, -- both Megatron and DeepSpeed send 1 / tp from each rank
    split = neox and published.neox_split(row, pp) or nil,
  }
end

--- Layers of each stage, from the row's note "[5,6,3]": first, middle, last.
function published.neox_split(row, pp)
  local first, middle, last = text(row.notes):match("%[(%d+),(%d+),(%d+)%]")
  if not first then return nil end
  local split = { tonumber(first) }
  for i = 2, pp - 1 do split[i] = tonumber(middle) end
  split[pp] = tonumber(last)
  return split
end

--- Hardware of a row as groups name it.
function published.hardware(row)
  return (text(row.gpu):match("^[%w%-]+") or "?"):upper()
end

--- First words of a row's source.
function published.source(row)
  return (row.source:match("^[^%(,;]+") or row.source):gsub("%s+$", ""):sub(1, 44)
end

return published
