--- Identifies the operation of a host operator from its name and the shapes of its inputs.
--
--   kinds.of("aten::mm", "[[8192,4096],[4096,1536]]") --> { family = "gemm", m = 8192, n = 1536, k = 4096, … }
--
-- Families and dimensions are those of kernel_shape (operators/README.md). Products: batch, m, n, k. Attention: batch,
-- heads, kv_heads, seq_q, seq_k, head_dim, causal (nil: unknown). Others: rows, cols. `what` distinguishes operators of
-- one family.
local comm = require "ett.trace.comm"

local kinds = {}

--- Shapes of the inputs in an "Input Dims" text: a list of lists of integers; a scalar is an empty list. For a list of
--- tensors, that of the first tensor. Nil if the text is invalid.
function kinds.dims(text)
  if type(text) ~= "string" then return nil end
  local position, list = (text:find("[", 1, true) or #text) + 1, {}
  while position <= #text do
    local lists, inner, last = text:match("^[%s,]*(%[+)([%d%s,]*)()", position)
    if not lists then break end
    local shape = {}
    for number in inner:gmatch("%d+") do shape[#shape + 1] = math.tointeger(tonumber(number)) end
    for i = 1, #shape do if not shape[i] or shape[i] < 1 then return nil end end
    list[#list + 1] = shape
    local depth = #lists -- skip to the end of this input
    position = last
    while depth > 0 and position <= #text do
      local byte = text:sub(position, position)
      if byte == "[" then depth = depth + 1 elseif byte == "]" then depth = depth - 1 end
      position = position + 1
    end
  end
  return list
end

--- The product of the first `count` dimensions.
local function product(shape, count)
  local n = 1
  for i = 1, count do n = n * shape[i] end
  return n
end

--- Rows and columns of a tensor whose last dimension is the columns.
local function matrix(shape)
  if not shape or #shape < 1 then return nil end
  return product(shape, #shape - 1), shape[#shape]
end

--- x[…, k] times w[n, k] transposed.
local function linear(dims)
  local x, w = dims[1], dims[2]
  if not (x and w and #w == 2 and #x >= 1 and x[#x] == w[2]) then return nil end
  return { family = "gemm", batch = 1, m = product(x, #x - 1), n = w[1], k = w[2] }
end

--- Number of matrices in a batched product; one operand may be broadcast. nil if the dimensions differ.
local function batch_of(a, b)
  local n = 1
  for away = 2, math.max(#a, #b) - 1 do
    local x, y = a[#a - away] or 1, b[#b - away] or 1
    if x ~= y and x ~= 1 and y ~= 1 then return nil end
    n = n * math.max(x, y)
  end
  return n
end

--- a[m, k] times b[k, n], or batches of them; `first`: the index of a.
local function multiply(first)
  return function(dims)
    local a, b = dims[first], dims[first + 1]
    if not (a and b) or #a < 2 or #b < 2 or a[#a] ~= b[#b - 1] then return nil end
    if #b == 2 then return { family = "gemm", batch = 1, m = product(a, #a - 1), n = b[2], k = b[1] } end
    local batch = batch_of(a, b)
    return batch and { family = "bmm", batch = batch, m = a[#a - 1], n = b[#b], k = a[#a] } or nil
  end
end

--- Queries, keys and values as [batch, heads, seq, dim] or, with `by_token`, [batch, seq, heads, dim].
local function attention(by_token)
  return function(dims)
    local q, k = dims[1], dims[2]
    if not (q and k and #q == 4 and #k == 4 and q[4] == k[4]) then return nil end
    local heads, seq = by_token and 3 or 2, by_token and 2 or 3
    return { family = "attention", batch = q[1], heads = q[heads], kv_heads = k[heads], seq_q = q[seq], seq_k = k[seq],
      head_dim = q[4] }
  end
end

local function rowwise(family, what)
  return function(dims)
    local rows, cols = matrix(dims[1])
    return rows and { family = family, what = what, rows = rows, cols = cols } or nil
  end
end

--- A gated activation, whose input is the gate beside the other half: rows and columns of the output.
local function gated(input)
  return function(dims)
    local rows, cols = matrix(dims[input])
    return rows and cols % 2 == 0 and { family = "elementwise", what = "swiglu", rows = rows, cols = cols // 2 } or nil
  end
end

--- The rows are the dimensions that are not normalised; the gain's shape identifies the normalised ones.
local function norm(what)
  return function(dims)
    local rows, cols = matrix(dims[1])
    local named = dims[1]
    for i = 2, #dims do
      local gain = dims[i]
      if #gain == 1 and gain[1] == named[#named] then
        return { family = "norm", what = what, rows = rows, cols = cols }
      end
    end
    return rows and { family = "norm", what = what, rows = rows, cols = cols } or nil
  end
end

local function embedding(dims)
  local weight, ids = dims[1], dims[2]
  if not (weight and ids and #weight == 2) then return nil end
  return { family = "embedding", rows = product(ids, #ids), cols = weight[2], vocab = weight[1] }
end

--- A sum of two tensors with equal shapes: a residual connection, unless one of them is small.
local function addition(dims)
  local a, b = dims[1], dims[2]
  if not (a and b) or #a < 2 or #a ~= #b then return nil end
  for i = 1, #a do if a[i] ~= b[i] then return nil end end
  local rows, cols = matrix(a)
  return { family = "elementwise", what = "add", rows = rows, cols = cols }
end

local exact = {
  ["aten::linear"] = linear, ["aten::mm"] = multiply(1), ["aten::matmul"] = multiply(1), ["aten::bmm"] = multiply(1),
  ["aten::addmm"] = multiply(2), ["aten::baddbmm"] = multiply(2), ["aten::_scaled_mm"] = multiply(1),
  ["aten::scaled_dot_product_attention"] = attention(), ["aten::_scaled_dot_product_flash_attention"] = attention(),
  ["aten::_scaled_dot_product_efficient_attention"] = attention(),
  ["aten::_scaled_dot_product_cudnn_attention"] = attention(), ["aten::_flash_attention_forward"] = attention(true),
  ["flash_attn::_flash_attn_forward"] = attention(true), ["FlashAttnFunc"] = attention(true),
  ["aten::layer_norm"] = norm "layer_norm", ["aten::native_layer_norm"] = norm "layer_norm",
  ["FusedLayerNormAffineFunction"] = norm "layer_norm", ["FastLayerNormFN"] = norm "layer_norm",
  ["aten::rms_norm"] = norm "rms_norm", ["_C::rms_norm"] = norm "rms_norm",
  ["_C::fused_add_rms_norm"] = norm "add_rms_norm", -- vLLM: a residual addition and a norm
  ["FusedRMSNormAffineFunction"] = norm "rms_norm", ["aten::_fused_rms_norm"] = norm "rms_norm",
  ["aten::softmax"] = rowwise("softmax", "softmax"), ["aten::_softmax"] = rowwise("softmax", "softmax"),
  ["ScaledUpperTriangMaskedSoftmax"] = rowwise("softmax", "masked_softmax"),
  ["ScaledMaskedSoftmax"] = rowwise("softmax", "masked_softmax"),
  ["aten::gelu"] = rowwise("elementwise", "gelu"), ["GeLUFunction"] = rowwise("elementwise", "gelu"),
  ["aten::silu"] = rowwise("elementwise", "silu"), ["SwiGLUFunction"] = gated(1), -- Megatron
  ["_C::silu_and_mul"] = gated(2), -- vLLM: the output is the first argument
  ["aten::dropout"] = rowwise("elementwise", "dropout"), ["aten::native_dropout"] = rowwise("elementwise", "dropout"),
  ["aten::embedding"] = embedding, ["aten::add"] = addition, ["aten::add_"] = addition,
  ["aten::cross_entropy_loss"] = rowwise("cross_entropy"), ["_VocabParallelCrossEntropy"] = rowwise("cross_entropy"),
  ["aten::masked_fill"] = rowwise("elementwise", "fill_mask"),
  ["aten::masked_fill_"] = rowwise("elementwise", "fill_mask"),
}

-- Transformer Engine (permutation.py) and grouped_gemm (ops.py).
for _, name in ipairs { "_moe_permute_mask_map", "_moe_permute_index_map", "PermuteMoE_topK" } do
  exact[name] = rowwise("router", "moe_permute")
end
for _, name in ipairs { "_moe_unpermute_mask_map", "_moe_unpermute_index_map", "UnpermuteMoE_topK" } do
  exact[name] = rowwise("router", "moe_unpermute")
end

-- Attention: the number of the argument is_causal.
local causal_argument = { ["aten::scaled_dot_product_attention"] = 6, ["aten::_scaled_dot_product_flash_attention"] = 5,
  ["aten::_scaled_dot_product_efficient_attention"] = 7, ["aten::_scaled_dot_product_cudnn_attention"] = 7,
  ["aten::_flash_attention_forward"] = 9, ["flash_attn::_flash_attn_forward"] = 6 }

--- Whether the values of an operator's arguments matter, not only their shapes.
function kinds.reads_values(name) return causal_argument[name] ~= nil end

--- is_causal in a "Concrete Inputs" text such as '["","","","0.","True"]'; nil if unknown.
local function causal_of(name, values_text)
  local number, at = causal_argument[name], 0
  if not number or type(values_text) ~= "string" then return nil end
  for value in values_text:gmatch '"([^"]*)"' do
    at = at + 1
    if at == number then return value == "True" or (value ~= "False" and nil) end
  end
end

--- A linear layer by the name of its function: Megatron's LinearWithGradAccumulationAndAsyncCommunication, _Linear.
local function named(name)
  if name:find("^_?Linear%u?%l*") and not name:find("Backward") then return linear end
end

--- The precision of an operation from its "Input type" text.
local precisions = { ["c10::half"] = "fp16", half = "fp16", ["c10::bfloat16"] = "bf16", float = "fp32",
  double = "fp64" }

function kinds.dtype(text)
  if type(text) ~= "string" then return nil end
  local widest
  for word in text:gmatch('"([^"]*)"') do
    local found = precisions[word:lower()] or (word:lower():find("float8", 1, true) and "fp8")
    if found == "fp8" then return "fp8" end
    if not widest and found and comm.dtype_bytes(word) then widest = found end
  end
  return widest
end

local order = { gemm = { "batch", "m", "n", "k" }, bmm = { "batch", "m", "n", "k" },
  attention = { "batch", "heads", "kv_heads", "seq_q", "seq_k", "head_dim" }, embedding = { "rows", "cols", "vocab" },
  other = { "rows", "cols" } }

--- An operation's family and dimensions as text; equal work gives equal texts.
function kinds.key(o)
  local words = { o.family, o.what }
  for _, name in ipairs(order[o.family] or order.other) do words[#words + 1] = tostring(o[name]) end
  if o.causal ~= nil then words[#words + 1] = o.causal and "causal" or "full" end
  return table.concat(words, " ")
end

--- An operation's dimensions for people: "8192x1536x4096".
function kinds.text(o)
  local words = {}
  for _, name in ipairs(order[o.family] or order.other) do
    if not (name == "batch" and o.family == "gemm") and o[name] then words[#words + 1] = ("%d"):format(o[name]) end
  end
  return table.concat(words, "x")
end

--- The operation of a host operator; nil if ett has no shape for it.
---@param dims_text string? "Input Dims"
---@param types_text string? "Input type"
---@param values_text string? "Concrete Inputs"
function kinds.of(name, dims_text, types_text, values_text)
  local rule = exact[name] or named(name)
  local dims = rule and kinds.dims(dims_text)
  local found = dims and rule(dims)
  if not found then return nil end
  found.dtype, found.causal = kinds.dtype(types_text), causal_of(name, values_text)
  found.key = kinds.key(found)
  found.dims = dims
  return found
end

return kinds
