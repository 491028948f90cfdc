--- Gemma 3n and Gemma 4 (Google 2025, 2026): an embedding for each layer, parallel residual streams, low-rank
--- residuals, keys and values of earlier layers (layer_fields), an MLP beside the experts. Each part is optional.
--
-- A pipeline stage sends all streams and the per-layer inputs of later layers. Keys and values that layers of a later
-- stage share are not sent.
local blocks = require "ett.model.blocks"
local merged = require "ett.base.merged"

local architecture = { summary = "Gemma 3n and 4: per-layer embeddings, shared keys and values" }

architecture.schema = {
  per_layer_width = { "natural", default = 0, most = 1 << 16, help = "width of each layer's own embedding; 0: none" },
  per_layer_vocab = { "count", optional = true, most = 1 << 26, help = "rows of those embeddings (default vocab)" },
  altup_streams = { "count", default = 1, most = 1 << 6, help = "parallel residual streams (AltUp)" },
  laurel_rank = { "natural", default = 0, most = 1 << 16, help = "rank of the residual beside attention; 0: none" },
}

local function side(from, to, more)
  return merged({ op = "linear_side", with = { side_in = from, side_out = to } }, more)
end

--- Coefficients of the streams, from the normed active stream. A layer's second router has the weights of its first.
local function coefficients(h, outputs, again)
  local router = side(h.hidden, h.altup_streams)
  router.with.side_tied = again
  return { { op = h.norm, with = { gainless = again } }, router, side(h.altup_streams, outputs) }
end

--- Experts beside the MLP, each with norms before and behind (Gemma 4 26B-A4B).
local function feed(h)
  if not h.experts then return blocks.dense_feed(h) end
  return blocks.join(blocks.dense_feed(h), h.norm, h.norm, h.norm, blocks.moe_feed(h), h.norm, blocks.residual(h))
end

local function layer(h)
  local n, width, rank = h.altup_streams, h.per_layer_width, h.laurel_rank
  local laurel = rank > 0 and { side(h.hidden, rank), side(rank, h.hidden), h.norm, blocks.residual(h) } or nil
  local own = width > 0 and { side(h.hidden, width), { op = "swiglu", with = { ffn = width, tp = 1 } },
    side(width, h.hidden), h.norm, { op = "residual_add", times = math.max(1, n - 1) } } or nil
  local predict = n > 1 and coefficients(h, n * n) or nil
  local correct = n > 1 and blocks.join(coefficients(h, n, true), { op = "altup", with = { altup_streams = n } }) or nil
  return blocks.join(predict, h.norm, blocks.attention_region(h), blocks.leave, h.norm, blocks.residual(h), laurel,
    h.norm, feed(h), h.norm, blocks.residual(h), correct, own)
end

local function embedding(h)
  local first, all = blocks.embedding(h), h.layers * h.per_layer_width
  if all > 0 then
    blocks.append(first.ops, blocks.with({ "embedding", blocks.leave }, { vocab = h.per_layer_vocab or h.vocab,
      hidden = all }), side(h.hidden, all), { op = h.norm, with = function(c)
      return { hidden = h.per_layer_width, micro_batch = c.micro_batch * h.layers }
    end }, { op = "residual_add", with = { hidden = all } })
  end
  local more = h.altup_streams - 1
  if more > 0 then
    blocks.append(first.ops, side(h.hidden, h.hidden, { times = more }),
      { op = h.norm, times = more, with = { gainless = true } })
  end
  return first
end

local function head(h)
  local last, more = blocks.head(h), h.altup_streams - 1
  if more > 0 then
    last.ops = blocks.join(side(h.hidden, h.hidden, { times = more }),
      { op = h.norm, times = more, with = { gainless = true } }, { op = "residual_add", times = more }, last.ops)
  end
  return last
end

function architecture.build(h)
  h.norm, h.position = h.norm or "rms_norm", h.position or "rope"
  if h.gated_mlp == nil then h.gated_mlp = true end
  if h.tied_embeddings == nil then h.tied_embeddings = true end
  h.per_layer_vocab = h.per_layer_vocab or h.vocab
  local middle = blocks.runs(h, function() return "decoder" end, function(_, seen) return layer(seen) end)
  local left = h.layers
  for _, run in ipairs(middle) do
    left = left - run.count
    local streams, width = h.altup_streams * h.hidden, h.per_layer_width
    local sent = streams + left * width
    run.sends = function(c) return math.ceil(c.seq * sent / h.hidden) end
    run.reads = function(c) return math.ceil(c.seq * (streams + width) / h.hidden) end
  end
  local layers = { embedding(h) }
  table.move(middle, 1, #middle, 2, layers)
  layers[#layers + 1] = head(h)
  return { layers = layers }
end

return architecture
