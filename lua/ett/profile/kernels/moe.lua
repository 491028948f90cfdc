--- The fused layer of experts of one rank, forward: grouped products with gated or plain experts.
local moe = { name = "moe", summary = "fused layer of experts, forward", table = "moe_forward.csv",
  inputs = { "tokens", "hidden", "ffn", "top_k", "experts", "tp", "ep" }, texts = { "routing", "kernel" },
  frameworks = { "trtllm", "sglang", "vllm" },
  rounds = { default = 80 } }

local ceil, log, max, min = math.ceil, math.log, math.max, math.min
local element_bytes = { bf16 = 2, fp16 = 2, fp8 = 1, fp8_block = 1, nvfp4 = 0.5 + 1 / 16, mxfp4 = 0.5 + 1 / 32 }

-- Experts of two matrices, by (hidden, ffn): Nemotron's. The others are gated and have three.
local plain = { ["2688 1856"] = true, ["4096 2688"] = true, ["1024 2688"] = true, ["8192 5120"] = true,
  ["5120 5120"] = true }

--- The analytic seconds, and what the trees see.
---@param device ett.Device
---@param dtype string
---@param x table { tokens (of the whole group), hidden, ffn, top_k, experts, tp, ep, routing, kernel }
---@return number seconds, number[] features
function moe.analyse(device, dtype, x)
  local matrices = plain[("%d %d"):format(x.hidden, x.ffn)] and 2 or 3
  local experts, width = max(1, x.experts / x.ep), x.ffn / x.tp
  local copies = max(1, x.tokens * x.top_k / x.ep)
  local each = copies / experts
  local used = experts * (1 - (1 - 1 / experts) ^ copies)
  local size = element_bytes[dtype] or 2
  local padded = used * ceil(max(1, copies / used) / 64) * 64
  local arithmetic = 2.0 * padded * x.hidden * width * matrices / device:peak(dtype)
  local weights = used * matrices * x.hidden * width * size
  local rest = copies * (x.hidden * 6.0 + width * matrices * 2.0)
  local memory = (weights + rest) / device.memory_bandwidth
  local seconds = max(arithmetic / 0.6, memory / 0.6) + 0.3 * min(arithmetic, memory) + 12e-6
  return seconds, { log(x.tokens), log(x.hidden), log(width), log(x.top_k), log(experts), log(copies), log(each),
    log(arithmetic / memory), log(weights / device.l2_bytes), log(rest), x.routing == "balanced" and 0 or 1, log(x.ep),
    each % 128, matrices, log(seconds), log(x.tp) }
end

--- Rows of the same model are held out together.
function moe.group(x) return ("%d %d %d %d"):format(x.hidden, x.ffn, x.top_k, x.experts) end

return moe
