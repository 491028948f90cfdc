--- Router of a mixture of experts: fp32 scores, top-k selection, and the permutation of tokens.
local doubles = require "ett.operator.doubles"
local launch = require "ett.operator.launch"
local shapes = require "ett.operator.shapes"
local width = require("ett.operator.memory").width

local op = { name = "moe_router", aliases = { "router" }, family = "router",
  summary = "expert scores, top-k and token permutation" }

op.schema = { tokens = "count", hidden = "count", experts = "count", top_k = "count" }

op.constraints = { { "top_k must be at most experts", function(s) return s.top_k <= s.experts end } }

function op.shape(c)
  return { tokens = shapes.norm_tokens(c), hidden = c.hidden, experts = c.experts, top_k = c.top_k }
end

function op.flops(s, pass)
  local scores = 2.0 * s.tokens * s.hidden * s.experts
  return (pass == "backward" and 2.0 or 1.0) * (scores + 8.0 * s.tokens * s.experts)
end

--- Tokens are read for the scores, then gathered in expert order (one read, top_k writes per token). After the experts
--- they are scattered back (top_k reads, one write).
function op.bytes(s, dtype, pass)
  local row = (s.tokens + 0.0) * s.hidden * width(dtype)
  local moves = row * (1 + 2 * (1 + s.top_k))
  return (pass == "backward" and 1.5 or 1.0) * (moves + 4.0 * 4 * s.tokens * s.experts)
end

function op.parameters(s) return s.hidden * s.experts end

--- Stores the input, the fp32 probabilities, and top_k copies of each token in expert order.
function op.activation_bytes(s, dtype)
  return (s.tokens + 0.0) * s.hidden * width(dtype) * (1 + s.top_k) + 4.0 * s.tokens * s.experts
end

--- The gradients of the token copies and of the input.
function op.working_bytes(s, dtype) return (s.tokens + 0.0) * s.hidden * width(dtype) * (1 + s.top_k) end

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

// One block a copy: row `order` of the tokens goes to the copy's place.
extern "C" __global__ void router_gather(const T *x, const long long *order, T *copies, long long cols) {
  const long long from = order[blockIdx.x] * cols, to = blockIdx.x * cols;
  each_column(j, cols) store(copies, to + j, load(x, from + j));
}

// One block a token: the weighted sum of its copies.
extern "C" __global__ void router_combine(const T *copies, const long long *place, const float *weight, T *y,
                                          long long top_k, long long cols) {
  each_column(j, cols) {
    float sum = 0.0f;
    for (long long k = 0; k < top_k; k++)
      sum += weight[blockIdx.x * top_k + k] * load(copies, place[blockIdx.x * top_k + k] * cols + j);
    store(y, blockIdx.x * cols + j, sum);
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

-- Each kernel in double precision, as a reference; its arguments are lists.
op.doubles = {
  router_top_k = function(scores, probability, weight, chosen, experts, top_k)
    for i, v in ipairs(doubles.softmax(scores, experts)) do probability[i] = v end
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
  router_gather = function(x, order, copies, cols)
    for i = 1, #copies do copies[i] = x[order[(i - 1) // cols + 1] * cols + (i - 1) % cols + 1] end
  end,
  router_combine = function(copies, place, weight, y, top_k, cols)
    for i = 1, #y do
      local token, j, sum = (i - 1) // cols, (i - 1) % cols + 1, 0.0
      for k = token * top_k + 1, (token + 1) * top_k do sum = sum + weight[k] * copies[place[k] * cols + j] end
      y[i] = sum
    end
  end,
  router_scores_backward = function(probability, dweight, chosen, dscores, experts, top_k)
    local dprobability = {}
    for i = 1, #probability do dprobability[i] = 0.0 end
    for k, e in ipairs(chosen) do
      local at = (k - 1) // top_k * experts + e + 1
      dprobability[at] = dprobability[at] + dweight[k]
    end
    for i, v in ipairs(doubles.softmax_backward(probability, dprobability, experts)) do dscores[i] = v end
  end,
}

-- Forward: scores, top-k, gather in expert order, combination after the experts. Backward: the gradients of all four.
function op.kernel(k, s, pass)
  local copies = s.tokens * s.top_k
  local x, y = k.tensor { s.tokens, s.hidden }, k.tensor { s.tokens, s.hidden }
  local gate, scores = k.tensor { s.experts, s.hidden }, k.tensor { s.tokens, s.experts }
  local probability = k.tensor { s.tokens, s.experts, dtype = "fp32", fill = "uniform" }
  local weight = k.tensor { copies, dtype = "fp32", fill = "uniform" }
  local chosen = k.tensor { copies, fill = "index", high = s.experts }
  local order = k.tensor { copies, fill = "index", high = s.tokens }
  local place = k.tensor { copies, fill = "index", high = copies }
  local rows = k.tensor { copies, s.hidden }
  if pass == "forward" then
    k.gemm { a = x, b = gate, c = scores, m = s.tokens, n = s.experts, k = s.hidden, trans_b = true, wide = true }
    launch.elements(k, "router_top_k", op.cuda, s.tokens, { scores, probability, weight, chosen, s.experts, s.top_k })
  else
    launch.elements(k, "router_scores_backward", op.cuda, s.tokens,
      { probability, weight, chosen, scores, s.experts, s.top_k })
    k.gemm { a = scores, b = gate, c = y, m = s.tokens, n = s.hidden, k = s.experts, wide = true }
    k.gemm { a = scores, b = x, c = gate, m = s.experts, n = s.hidden, k = s.tokens, trans_a = true, wide = true }
  end
  launch.rows(k, "router_gather", op.cuda, copies, s.hidden, { x, order, rows })
  launch.rows(k, "router_combine", op.cuda, s.tokens, s.hidden, { rows, place, weight, y, s.top_k })
end

op.torch = [[
x, gate = tensor(s.tokens, s.hidden), tensor(s.experts, s.hidden)
def route():
    weight, chosen = F.softmax(F.linear(x, gate).float(), -1).topk(s.top_k, -1)
    order = chosen.flatten().argsort()
    copies = x[order // s.top_k]
    back = torch.empty_like(copies)
    back = back.index_copy(0, order, copies)
    return (back.view(s.tokens, s.top_k, -1) * weight.unsqueeze(-1).to(x.dtype)).sum(1)
return route
]]

return op
