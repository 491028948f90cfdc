--- Router of a mixture of experts: fp32 scores and top-k selection. moe_permute moves the tokens to their experts,
--- moe_unpermute back; an architecture that lists neither gets both (lua/ett/model/architecture.lua).
local launch = require "ett.operator.launch"
local shapes = require "ett.operator.shapes"
local width = require("ett.operator.memory").width

local function doubles() return require "ett.operator.doubles" end -- for tests of kernels alone

local op = { name = "moe_router", aliases = { "router" }, family = "router",
  summary = "expert scores and top-k selection", moves = { "moe_permute", "moe_unpermute" } }

op.schema = { tokens = "count", hidden = "count", experts = "count", top_k = "count", bias = "natural?" }

op.constraints = { { "top_k must be at most experts", function(s) return s.top_k <= s.experts end } }

function op.shape(c)
  local tokens = c.whole_tokens and shapes.tokens or shapes.norm_tokens
  return { tokens = tokens(c), hidden = c.hidden, experts = c.experts, top_k = c.top_k,
    bias = shapes.bias(c) }
end

function op.flops(s, pass)
  local scores = 2.0 * s.tokens * s.hidden * s.experts
  return (pass == "backward" and 2.0 or 1.0) * (scores + 8.0 * s.tokens * s.experts)
end

--- Forward reads the tokens. Backward reads them for the gate's gradient and writes their gradient; half a row stands
--- for adding it to the gradient of the copies. Scores and probabilities in fp32: four times, half more backward.
function op.bytes(s, dtype, pass)
  local rows = (s.tokens + 0.0) * s.hidden * width(dtype) * (pass == "backward" and 2.5 or 1.0)
  return rows + (pass == "backward" and 1.5 or 1.0) * (4.0 * 4 * s.tokens * s.experts)
end

function op.parameters(s) return (s.hidden + (s.bias or 0)) * s.experts end

--- Stores the input and the fp32 probabilities.
function op.activation_bytes(s, dtype)
  return (s.tokens + 0.0) * s.hidden * width(dtype) + 4.0 * s.tokens * s.experts
end

--- A recomputed router stores its input.
function op.recomputed_bytes(s, dtype) return (s.tokens + 0.0) * s.hidden * width(dtype) end

--- The gradient of the input.
function op.working_bytes(s, dtype) return (s.tokens + 0.0) * s.hidden * width(dtype) end

function op.kernel_shape(s)
  return { rows = s.tokens, cols = s.hidden, experts = s.experts, top_k = s.top_k }
end

op.cuda = [==[
// One thread a token: softmax of its scores, then the top_k largest.
extern "C" __global__ void router_top_k(const T *scores, float *probability, float *weight, long long *chosen,
                                        long long experts, long long top_k, long long n) {
  each_element(i, n) {
    float most = -3.4e38f, sum = 0.0f;
    for (long long e = 0; e < experts; e++) most = fmaxf(most, load(scores, i * experts + e));
    for (long long e = 0; e < experts; e++) sum += expf(load(scores, i * experts + e) - most);
    for (long long e = 0; e < experts; e++)
      probability[i * experts + e] = expf(load(scores, i * experts + e) - most) / sum;
    for (long long k = 0; k < top_k; k++) {
      long long best = -1;
      for (long long e = 0; e < experts; e++) {
        bool taken = false;
        for (long long t = 0; t < k; t++) taken |= chosen[i * top_k + t] == e;
        if (!taken && (best < 0 || probability[i * experts + e] > probability[i * experts + best])) best = e;
      }
      chosen[i * top_k + k] = best;
      weight[i * top_k + k] = probability[i * experts + best];
    }
  }
}

// Gradient of the scores through the softmax, from the gradient of the chosen weights.
extern "C" __global__ void router_scores_backward(const float *probability, const float *dweight,
                                                  const long long *chosen, T *dscores, long long experts,
                                                  long long top_k, long long n) {
  each_element(i, n) {
    float dot = 0.0f;
    for (long long k = 0; k < top_k; k++)
      dot += dweight[i * top_k + k] * probability[i * experts + chosen[i * top_k + k]];
    for (long long e = 0; e < experts; e++) {
      float g = -dot;
      for (long long k = 0; k < top_k; k++)
        if (chosen[i * top_k + k] == e) g += dweight[i * top_k + k];
      store(dscores, i * experts + e, probability[i * experts + e] * g);
    }
  }
}
]==]

op.doubles = {
  router_top_k = function(scores, probability, weight, chosen, experts, top_k)
    for i, v in ipairs(doubles().softmax(scores, experts)) do probability[i] = v end
    for row = 0, #scores // experts - 1 do
      local order = {}
      for e = 1, experts do order[e] = e - 1 end
      table.sort(order, function(a, b)
        local x, y = scores[row * experts + a + 1], scores[row * experts + b + 1]
        if x == y then return a < b end
        return x > y
      end)
      for k = 1, top_k do
        chosen[row * top_k + k], weight[row * top_k + k] = order[k], probability[row * experts + order[k] + 1]
      end
    end
  end,
  router_scores_backward = function(probability, dweight, chosen, dscores, experts, top_k)
    local dprobability = {}
    for i = 1, #probability do dprobability[i] = 0.0 end
    for k, e in ipairs(chosen) do
      local at = (k - 1) // top_k * experts + e + 1
      dprobability[at] = dprobability[at] + dweight[k]
    end
    for i, v in ipairs(doubles().softmax_backward(probability, dprobability, experts)) do dscores[i] = v end
  end,
}

function op.kernel(k, s, pass)
  local copies = s.tokens * s.top_k
  local x, y = k.tensor { s.tokens, s.hidden }, k.tensor { s.tokens, s.hidden }
  local gate, scores = k.tensor { s.experts, s.hidden }, k.tensor { s.tokens, s.experts }
  local probability = k.tensor { s.tokens, s.experts, dtype = "fp32", fill = "uniform" }
  local weight = k.tensor { copies, dtype = "fp32", fill = "uniform" }
  local chosen = k.tensor { copies, fill = "index", high = s.experts }
  if pass == "forward" then
    k.gemm { a = x, b = gate, c = scores, m = s.tokens, n = s.experts, k = s.hidden, trans_b = true, wide = true }
    launch.elements(k, "router_top_k", op.cuda, s.tokens, { scores, probability, weight, chosen, s.experts, s.top_k })
  else
    launch.elements(k, "router_scores_backward", op.cuda, s.tokens,
      { probability, weight, chosen, scores, s.experts, s.top_k })
    k.gemm { a = scores, b = gate, c = y, m = s.tokens, n = s.hidden, k = s.experts, wide = true }
    k.gemm { a = scores, b = x, c = gate, m = s.experts, n = s.hidden, k = s.tokens, trans_a = true, wide = true }
  end
end

op.torch = [[
x, gate = tensor(s.tokens, s.hidden), tensor(s.experts, s.hidden)
return lambda: F.softmax(F.linear(x, gate).float(), -1).topk(s.top_k, -1)[0]
]]

return op
