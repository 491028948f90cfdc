--- A convolution of images or videos, as one product: each output reads a patch of conv_size values of each input
--- channel. The layer's entry states conv_in and conv_out (channels), conv_outputs (pixels of a sample's output),
--- conv_size (values of a filter in one channel: 9 for 3 x 3; default 1) and conv_stride (pixels of the input for one
--- of the output: 4 for a stride of 2 x 2; default 1). Every tensor rank computes all of it.
--
-- The product is implicit (cuDNN): the kernel gathers the patches itself and reads each input once. It runs in 16 bits
-- under fp8 and fp4: Transformer Engine has no convolution.
--
-- Check: Stable Diffusion's encoder, one image in fp16 (huggingface/diffusers, docs, hybrid_inference/vae_encode.md).
-- Sides of 256, 512, 1024 and 2048 pixels took 4, 15, 78 and 402 ms on RTX 4090 and 10, 32, 136 and 742 ms on RTX 3090.
-- With spec/bench/architectures/video_dit.lua ett estimates 3.8, 16, 69 and 338 ms, and 8.4, 31, 126 and 611 ms.
local gemm = require "ett.operator.gemm"
local merged = require "ett.base.merged"
local shapes = require "ett.operator.shapes"
local wide_bytes = require("ett.base.schema").wide_bytes

local op = { name = "convolution", summary = "convolution of images or videos", unquantised = true }

op.schema = merged(gemm.schema, { channels = "count", read = "count" })

--- channels, read: channels and values of the input.
function op.shape(c)
  shapes.need(c, "convolution", "conv_in", "conv_out", "conv_outputs")
  local pixels = c.micro_batch * c.conv_outputs
  return { tokens = pixels, in_features = c.conv_in * (c.conv_size or 1), out_features = c.conv_out, bias = 1,
    channels = c.conv_in, read = pixels * (c.conv_stride or 1) * c.conv_in }
end

function op.refuse(c)
  return (c.cp or 1) > 1 and "a convolution needs pixels of other context ranks: cp must be 1, or 1 in its `with`"
    or nil
end

--- Forward reads input and filters and writes the output; backward does so for each of two products.
function op.bytes(s, dtype, pass)
  local outputs = (s.tokens + 0.0) * s.out_features
  local one = s.read + outputs + (s.in_features + 0.0) * s.out_features
  return wide_bytes(dtype) * (pass == "backward" and 2 * one or one)
end

function op.activation_bytes(s, dtype) return wide_bytes(dtype) * (s.read + 0.0) end

function op.working_bytes(s, dtype) return wide_bytes(dtype) * (s.read + (s.tokens + 0.0) * s.out_features) end

op.model_flops = gemm.replicated_flops

return gemm.define(op)
