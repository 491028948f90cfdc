--- Encoders: BERT and RoBERTa (Devlin et al. 2019), ViT (Dosovitskiy et al. 2021) with patch_size.
--
-- BERT: norms after each sum, a masked-language head on every token, a pooler. ViT: norms before each block. A sequence
-- is an image of (image width / patch_size)^2 patches and a class token; the head classifies only the class token, into
-- `vocab` classes.
local blocks = require "ett.model.blocks"

local architecture = { summary = "encoders: BERT, RoBERTa, ViT" }

architecture.schema = {
  token_types = { "natural", optional = true, most = 1 << 20, help = "rows of BERT's table of token types" },
  patch_size = { "count", optional = true, most = 1 << 12, help = "pixels of a patch's side; makes it a ViT" },
  image_channels = { "count", default = 3, most = 1 << 12, help = "colours of a pixel" },
  pooler = { "boolean", default = true, help = "linear of the first token (BERT)" },
}

-- The first token of each sequence, on every tensor rank.
local first_token = { seq = 1, cp = 1, sequence_parallel = false }

local function image(h)
  local embedding = { name = "embedding", place = "first", ops = { "patch_embedding",
    -- The learned positions, with one more row for the class token.
    { op = "embedding", with = { vocab = (h.max_positions or 0) + 1, vocab_multiple = 1, tp = 1 } }, "residual_add",
    blocks.embedding_dropout(h) } }
  local layers = blocks.dense_layers(h)
  local head = { name = "head", place = "last", ops = blocks.join(h.norm, blocks.with(blocks.join(blocks.enter,
    { op = "lm_head", with = { head_bias = true } }, "cross_entropy", { collective = "vocabulary_reduce" }),
    first_token)) }
  return { layers = blocks.join({ embedding }, layers, { head }) }
end

local function text(h)
  blocks.refuse_types(h)
  local embedding = blocks.embedding(h)
  if (h.token_types or 0) > 0 then
    local types = { op = "embedding", with = { vocab = h.token_types, vocab_multiple = 1, tp = 1 } }
    table.move({ types, "residual_add" }, 1, 2, #embedding.ops + 1, embedding.ops)
  end
  embedding.ops[#embedding.ops + 1] = h.norm
  local layer = { name = "encoder", count = h.layers, ops = blocks.join(blocks.attention_region(h), blocks.leave,
    blocks.residual(h), h.norm, blocks.dense_feed(h), blocks.residual(h), h.norm) }
  local pooler = h.pooler and blocks.with({ "linear_transform" }, first_token) or nil
  local head = { name = "head", place = "last", ops = blocks.join(pooler, "linear_transform",
    { op = "gelu", with = function(c) return { ffn = c.hidden, tp = 1 } end }, h.norm, blocks.enter, "lm_head",
    "cross_entropy", { collective = "vocabulary_reduce" }) }
  return { layers = { embedding, layer, head } }
end

function architecture.build(hyper)
  hyper.norm = hyper.norm or "layer_norm"
  hyper.position = hyper.position or "learned"
  hyper.causal = hyper.causal or false
  if hyper.bias == nil then hyper.bias = true end
  if hyper.gated_mlp == nil then hyper.gated_mlp = false end
  if hyper.patch_size then return image(hyper) end
  if hyper.tied_embeddings == nil then hyper.tied_embeddings = true end
  if hyper.head_bias == nil then hyper.head_bias = true end
  return text(hyper)
end

return architecture
