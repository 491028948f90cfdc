--- Parts that architecture files put together: attention, MLPs, embedding and head.
--
-- Each returns a list of entries; blocks.join makes one list of several. What runs beside the
-- matrix products (dropout, biases, masks) follows the hyper-parameters.
local blocks = {}

--- One list of many; nil parts are skipped.
function blocks.join(...)
  local list = {}
  for i = 1, select("#", ...) do
    local part = select(i, ...)
    if type(part) == "string" or (type(part) == "table" and (part.op or part.collective)) then
      list[#list + 1] = part
    elseif part then
      for _, entry in ipairs(part) do list[#list + 1] = entry end
    end
  end
  return list
end

local enter, leave = { collective = "tensor_enter" }, { collective = "tensor_leave" }
blocks.enter, blocks.leave = enter, leave

--- The core of attention: what selective recomputation runs again.
function blocks.attention_core(h)
  local function core(name) return { op = name, selective = true } end
  local exchange = { collective = "context_exchange" }
  if (h.attention or "flash") == "flash" then return { exchange, core "flash_attention" } end
  local softmax = h.attention == "fused_softmax" and { core "masked_softmax" }
    or { core "fill_mask", core "softmax" }
  return blocks.join(exchange, core "bmm_qk", softmax, h.dropout and core "dropout" or nil, core "bmm_pv")
end

--- Projection to queries, keys and values, positions, core, output projection.
function blocks.attention(h)
  local norms = h.qk_norm and { { op = "rms_norm", with = { hidden = h.heads * h.head_dim } } } or nil
  return blocks.join("linear_qkv", norms, (h.position or "rope") == "rope" and "rope" or nil,
    blocks.attention_core(h), "linear_proj")
end

--- Dense MLP, gated or not.
function blocks.mlp(h)
  return { "linear_up", h.gated_mlp and "swiglu" or "gelu", "linear_down" }
end

--- What joins a block to the residual stream.
function blocks.residual(h) return h.dropout and "bias_dropout_add" or "residual_add" end

--- Pre-norm transformer layer. `feed` is the list of entries between the second norm and the
--- residual, its own collectives included.
function blocks.layer(h, feed)
  local norm = h.norm or "layer_norm"
  if h.parallel_block then
    -- GPT-J and GPT-NeoX: both branches read the stream, one sum leaves. Their inputs' gradients
    -- are summed one by one: two collectives backward, one forward.
    return blocks.join(norm, enter, blocks.attention(h), norm, enter, blocks.mlp(h), "residual_add", leave,
      blocks.residual(h))
  end
  return blocks.join(norm, enter, blocks.attention(h), leave, blocks.residual(h), norm, feed, blocks.residual(h))
end

--- Feed-forward half of a dense layer.
function blocks.dense_feed(h) return blocks.join(enter, blocks.mlp(h), leave) end

--- Feed-forward half of a mixture-of-experts layer: router, exchange, experts, exchange back, and
--- shared experts that every token runs through.
function blocks.moe_feed(h)
  local ffn = h.moe_ffn or h.ffn
  local exchange = { collective = "expert_exchange" }
  -- Activation between the products: top_k copies of each token, of the experts' width.
  local activation = { op = h.gated_mlp and "swiglu" or "gelu", times = 1,
    with = { ffn = ffn * h.top_k } }
  local shared
  if (h.shared_experts or 0) > 0 then
    local with = { ffn = ffn * h.shared_experts }
    shared = { { op = "linear_up", with = with }, { op = h.gated_mlp and "swiglu" or "gelu", with = with },
      { op = "linear_down", with = with }, "residual_add" }
  end
  if shared then shared = blocks.join(enter, shared, leave) end
  return blocks.join("moe_router", exchange, { collective = "expert_enter" }, "expert_linear1", activation,
    "expert_linear2", { collective = "expert_leave" }, exchange, shared)
end

--- Embedding layer: lookup, learned positions, sum over tensor ranks.
function blocks.embedding(h)
  local positions
  if h.position == "learned" then
    -- A second table, whole on every tensor rank; left out when its length is not known.
    local table_of = h.max_positions
      and { op = "embedding", with = { vocab = h.max_positions, vocab_multiple = 1, tp = 1 } } or nil
    positions = blocks.join(table_of, "residual_add")
  end
  return { name = "embedding", place = "first", ops = blocks.join("embedding", leave, positions) }
end

--- Final norm, head and loss.
function blocks.head(h)
  return { name = "head", place = "last", ops = blocks.join(h.norm or "layer_norm", enter, "lm_head",
    "cross_entropy", { collective = "vocabulary_reduce" }) }
end

--- embedding, `count` equal layers, head.
function blocks.decoder(h, ...)
  local layers = { blocks.embedding(h) }
  for _, layer in ipairs { ... } do layers[#layers + 1] = layer end
  layers[#layers + 1] = blocks.head(h)
  return { layers = layers }
end

return blocks
