--- Encoder-decoders: T5 (Raffel et al. 2020). `layers` and the plan's seq belong to the decoder; the encoder has
--- encoder_layers and reads encoder_seq tokens. The encoder's layers come first in the pipeline. Its stages send the
--- encoder's tokens. From the first decoder layer on, stages send the encoder's output with the decoder's tokens, and
--- the gradients of both (Megatron-LM, encoder-and-decoder pipelines).
--
-- ett looks up the decoder's tokens on the first stage, Megatron-LM on the first stage with decoder layers.
local blocks = require "ett.model.blocks"

local architecture = { summary = "encoder-decoders: T5" }

architecture.schema = {
  encoder_layers = { "count", optional = true, most = 1 << 16, help = "layers of the encoder (default layers)" },
  encoder_seq = { "count", optional = true, most = 1 << 24, help = "tokens of the encoder's input (default seq)" },
  relative_buckets = { "count", default = 32, most = 1 << 16, help = "distances of T5's position bias" },
}

local function encoder_fields(h)
  return function(c) return { seq = h.encoder_seq or c.seq, causal = false } end
end

--- Self-attention and MLP of the encoder; the first layer has the stack's position bias.
local function encoder_layer(h, first)
  return blocks.with(blocks.join(first and "relative_position_bias" or nil, blocks.layer(h, blocks.dense_feed(h))),
    encoder_fields(h))
end

--- Queries of the decoder, keys and values of the encoder's output. Both projections open the tensor-parallel region,
--- so backward also sums the gradient of the encoder's output (Megatron-LM, t5_spec.py: linear_kv is column-parallel).
local function cross_attention(h)
  local of_encoder = encoder_fields(h)
  local function with(c) return { key_seq = h.encoder_seq or c.seq, causal = false } end
  return blocks.join(h.norm, blocks.enter, "linear_cross_q",
    blocks.with({ blocks.enter, "linear_cross_kv" }, of_encoder),
    { collective = "context_exchange", with = with }, { op = "flash_attention", with = with },
    "linear_proj", blocks.leave, blocks.residual(h))
end

local function decoder_layer(h, first)
  local own = blocks.join(h.norm, blocks.attention_region(h), blocks.leave, blocks.residual(h))
  return blocks.join(first and "relative_position_bias" or nil, own, cross_attention(h), h.norm, blocks.dense_feed(h),
    blocks.residual(h))
end

--- reads: tokens that a layer after the first reads; `before` reads them, too. shares: tokens that a stage holds once.
local function stack(layers, name, count, ops_of, sends, reads, before, shares)
  layers[#layers + 1] = { name = "first " .. name, ops = blocks.join(before, ops_of(true)), sends = sends,
    reads = before and sends or reads, shares = shares }
  if count > 1 then
    layers[#layers + 1] = { name = name, count = count - 1, ops = ops_of(false), sends = sends, reads = reads,
      shares = shares }
  end
end

function architecture.build(hyper)
  blocks.refuse_types(hyper)
  hyper.norm = hyper.norm or "rms_norm"
  hyper.position = hyper.position or "none"
  if hyper.tied_embeddings == nil then hyper.tied_embeddings = true end
  if hyper.gated_mlp == nil then hyper.gated_mlp = false end
  local embedding = blocks.embedding(hyper)
  -- The encoder's tokens are looked up in the same table.
  blocks.append(embedding.ops, blocks.with(blocks.join("shared_embedding", blocks.leave,
    blocks.embedding_dropout(hyper)), encoder_fields(hyper)))
  local function encoder_tokens(c) return hyper.encoder_seq or c.seq end
  local function both(c) return encoder_tokens(c) + c.seq end
  embedding.sends = encoder_tokens
  local layers = { embedding }
  stack(layers, "encoder", hyper.encoder_layers or hyper.layers, function(first) return encoder_layer(hyper, first) end,
    encoder_tokens, encoder_tokens)
  -- All decoder layers of a stage share the encoder's output, so none holds it as its input.
  stack(layers, "decoder", hyper.layers, function(first) return decoder_layer(hyper, first) end, both,
    function(c) return c.seq end, blocks.with({ hyper.norm }, encoder_fields(hyper)), -- the encoder's last norm
    encoder_tokens)
  layers[#layers + 1] = blocks.head(hyper)
  return { layers = layers }
end

return architecture
