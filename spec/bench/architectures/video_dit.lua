--- Diffusion transformers of images and videos: DiT (Peebles & Xie 2023, arXiv 2212.09748), PixArt (2310.00426), Latte
--- (2401.03048) and Open-Sora's STDiT, with the frozen encoders that run in each step: the image encoder of Stable
--- Diffusion (2112.10752) on each frame, and T5-XXL on the text. `seq` counts the patches of all frames.
--- frozen_layers = 1 freezes the image encoder, and 25 both encoders.
local blocks = require "ett.model.blocks"

local architecture = { summary = "diffusion transformers of images and videos" }

architecture.schema = {
  vocab = { "count", default = 1 }, -- no vocabulary
  frames = { "count", default = 1, help = "patches of a video in time" },
  frames_per_patch = { "count", default = 1, help = "frames of a patch; the image encoder reads each of them" },
  temporal = { "string", default = "full", one_of = { "full", "alternate", "factored" },
    help = "attention over all patches, over space and time in alternate layers (Latte), or both in each (STDiT)" },
  text_tokens = { "natural", default = 0, help = "tokens of the text for cross-attention (PixArt); 0: none" },
  text_encoder = { "boolean", default = false, help = "T5-XXL encodes the text in each step" },
  image_side = { "natural", default = 0, help = "pixels of a side that the image encoder reads; 0: stored latents" },
  patch_values = { "count", default = 16, help = "numbers in a patch: 2 x 2 pixels, 4 channels" },
}

local function convolution(inputs, outputs, pixels, size, stride)
  return { op = "convolution", with = { conv_in = inputs, conv_out = outputs, conv_outputs = pixels, conv_size = size,
    conv_stride = stride } }
end

--- Group norm and SiLU of each value.
local function norm(channels, pixels)
  return blocks.with({ "layer_norm", { op = "gelu", with = { ffn = channels } } }, { hidden = channels, seq = pixels })
end

local function residual_block(inputs, outputs, pixels)
  return blocks.join(norm(inputs, pixels), convolution(inputs, outputs, pixels, 9), norm(outputs, pixels),
    convolution(outputs, outputs, pixels, 9), inputs ~= outputs and convolution(inputs, outputs, pixels) or nil,
    blocks.with({ "residual_add" }, { hidden = outputs, seq = pixels }))
end

--- The encoder's first half, at the image's resolution and half of it, and its second half.
local function image_encoder(h)
  local pixels = h.image_side * h.image_side
  local first = blocks.join(convolution(3, 128, pixels, 9), residual_block(128, 128, pixels),
    residual_block(128, 128, pixels), convolution(128, 128, pixels // 4, 9, 4),
    residual_block(128, 256, pixels // 4), residual_block(256, 256, pixels // 4))
  local quarter, eighth = pixels // 16, pixels // 64
  local function linear() return { op = "linear_side", with = { side_out = 512, side_bias = true } } end
  local attention = blocks.with(blocks.join("layer_norm", linear(), linear(), linear(), "flash_attention", linear(),
    "residual_add"), { hidden = 512, heads = 1, kv_heads = 1, head_dim = 512, seq = eighth, key_seq = eighth })
  local second = blocks.join(convolution(256, 256, quarter, 9, 4), residual_block(256, 512, quarter),
    residual_block(512, 512, quarter), convolution(512, 512, eighth, 9, 4), residual_block(512, 512, eighth),
    residual_block(512, 512, eighth), residual_block(512, 512, eighth), attention, residual_block(512, 512, eighth),
    norm(512, eighth), convolution(512, 8, eighth, 9), convolution(8, 8, eighth))
  local function of_frames(ops)
    return blocks.with(ops, function(c)
      return { micro_batch = c.micro_batch * h.frames * h.frames_per_patch, causal = false, gainless = false,
        sequence_parallel = false }
    end)
  end
  return { name = "images", place = "first", ops = of_frames(first) },
    { name = "latents", ops = of_frames(second) }
end

local function text_encoder(h)
  local own = { norm = "rms_norm", position = "none", gated_mlp = true }
  return { name = "text", count = 24, ops = blocks.with(blocks.layer(own, blocks.dense_feed(own)), { hidden = 4096,
    heads = 64, kv_heads = 64, head_dim = 64, ffn = 10240, seq = h.text_tokens, key_seq = h.text_tokens,
    causal = false, gated_mlp = true, bias = false, gainless = false }) }
end

local function block(h, of_image, linear, axes)
  local windows = { full = function(c) return c.seq end, space = function(c) return c.seq // h.frames end,
    time = h.frames }
  local ops = {}
  for i, axis in ipairs(axes) do
    local own = blocks.windows(blocks.join(blocks.enter, blocks.attention(h), blocks.leave), windows[axis])
    if i == 1 then blocks.append(ops, "layer_norm", "modulate", own, "gated_add")
    else blocks.append(ops, own, "residual_add") end
  end
  local text = h.text_tokens
  if text == 0 then return blocks.join(of_image(linear(h.hidden, 6 * h.hidden)), ops,
    "layer_norm", "modulate", blocks.dense_feed(h), "gated_add") end
  local cross = blocks.join(blocks.enter, "linear_cross_q", blocks.with({ "linear_cross_kv" }, { seq = text }),
    { op = "flash_attention", with = { key_seq = text } }, "linear_proj", blocks.leave, "residual_add")
  return blocks.join(ops, cross, "layer_norm", "modulate", blocks.dense_feed(h), "gated_add")
end

function architecture.build(h)
  h.norm, h.position, h.bias, h.gainless, h.causal, h.gated_mlp = "layer_norm", "none", true, true, false, false
  local width, layers = h.hidden, {}
  local function linear(inputs, outputs)
    return { op = "linear_side", with = { side_in = inputs, side_out = outputs, side_bias = true } }
  end
  local function of_image(...) -- one row for each sample
    return blocks.with(blocks.join(...), { seq = 1, cp = 1, sequence_parallel = false })
  end
  if h.image_side > 0 then
    layers[1], layers[2] = image_encoder(h)
    if h.text_encoder then layers[3] = text_encoder(h) end
  end
  local single = h.text_tokens > 0 -- one product for all layers (PixArt)
    and blocks.join(of_image(linear(width, 6 * width)), blocks.with({ linear(4096, width), linear(width, width) },
      { seq = h.text_tokens })) or nil
  layers[#layers + 1] = { name = "patches", place = #layers == 0 and "first" or nil, ops = blocks.join(
    linear(h.patch_values, width), of_image(linear(256, width), linear(width, width)), single) }
  if h.temporal == "alternate" then
    layers[#layers + 1] = { name = "space", count = (h.layers + 1) // 2,
      ops = block(h, of_image, linear, { "space" }) }
    if h.layers > 1 then
      layers[#layers + 1] = { name = "time", count = h.layers // 2, ops = block(h, of_image, linear, { "time" }) }
    end
  else
    local axes = h.temporal == "factored" and { "space", "time" } or { "full" }
    layers[#layers + 1] = { name = "block", count = h.layers, ops = block(h, of_image, linear, axes) }
  end
  layers[#layers + 1] = { name = "output", place = "last", ops = blocks.join(of_image(linear(width, 2 * width)),
    "layer_norm", "modulate", linear(width, 2 * h.patch_values)) }
  return { layers = layers }
end

return architecture
