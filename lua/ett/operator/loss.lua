--- Losses that compute the head and the cross entropy together and never hold all logits (`cross_entropy` of a stack).
--
--   linear       Liger's fused_linear_cross_entropy: chunks of tokens, each with its logits, its loss and its gradients
--                of input and weight (liger_kernel/ops/fused_linear_cross_entropy.py)
--   recomputed   Apple's Cut Cross-Entropy (arXiv 2411.09009), Megatron-Core's `--cross-entropy-fusion-impl linear`:
--                one kernel keeps logits in registers, and the backward pass computes them again
local memory = require "ett.operator.memory"

local loss = {}

loss.kernels = { linear = true, recomputed = true }

--- Bytes that each chunk moves for each weight of the head, beside its products: the product of the weight gradient is
--- cast to fp32 (6) and added to the 16-bit gradient (8), as in Liger 0.7 and 0.8: grad_weight += mm(…).float().
--- Liger of 2024, and again since linkedin/Liger-Kernel#1454 (September 2026), adds inside the product (torch.addmm).
loss.accumulated_bytes = 14

--- The chunks of a head's product: the shape of one chunk, and their number; nil if the stack computes no chunks. The
--- logits of a chunk have about as many elements as the input. Liger rounds the tokens of a chunk up to a power of 2.
---@param s table shape of a head
function loss.chunk(s, stack)
  if stack.cross_entropy ~= "linear" then return nil end
  local parts = (s.out_features + s.in_features - 1) // s.in_features
  local tokens, least = 1, (s.tokens + parts - 1) // parts
  while tokens < least do tokens = 2 * tokens end
  tokens = math.min(tokens, s.tokens)
  local shape = { stored_tokens = s.stored_tokens and math.min(s.stored_tokens, tokens) }
  for name, value in pairs(s) do shape[name] = shape[name] or value end
  shape.tokens = tokens
  return shape, (s.tokens + tokens - 1) // tokens
end

--- Bytes at work beside the gradients of input and weight: the logits of a chunk, which their gradient replaces, and
--- the product of the weight gradient before it is added, in 16 bits and in fp32.
---@param part table of loss.chunk
---@param width number bytes of an element
function loss.working_bytes(part, width, is_frozen)
  local weights = is_frozen and 0 or part.in_features * part.out_features
  return width * (part.tokens + 0.0) * part.out_features + (width + 4.0) * weights
end

--- Bytes at work in a head, with every loss: the gradient of the input, and the gathered input. The gradient of the
--- logits reuses the memory that the loss stored.
function loss.head_bytes(s, dtype)
  local shards = s.stored_tokens and s.stored_tokens < s.tokens and 2 or 1
  return memory.width(dtype) * (s.tokens + 0.0) * s.in_features * shards
end

--- Whether the backward pass of a head runs its forward product again.
function loss.repeats(_, stack) return stack ~= nil and stack.cross_entropy == "recomputed" end

return loss
