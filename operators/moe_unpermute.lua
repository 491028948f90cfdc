--- Return of the experts' outputs to the order of tokens: the sum of a token's copies, weighted by the router.
local launch = require "ett.operator.launch"
local shapes = require "ett.operator.shapes"
local width = require("ett.operator.memory").width

local op = { name = "moe_unpermute", family = "router", gathers = true,
  summary = "weighted sum of experts' outputs, by token" }

-- slots, seq: places and tokens of a one-hot mask (shapes.mask)
op.schema = { tokens = "count", hidden = "count", top_k = "count", slots = "count?", seq = "count?" }

function op.shape(c)
  local slots, seq = shapes.mask(c)
  return { tokens = shapes.returned_tokens(c), hidden = c.hidden, top_k = c.top_k, slots = slots, seq = seq }
end

--- Forward weighs and sums. Backward weighs the gradient, and multiplies it with the copies for the weights' gradient.
function op.flops(s, pass) return (pass == "backward" and 3.0 or 2.0) * s.tokens * s.hidden * s.top_k end

local function row(s, dtype) return (s.tokens + 0.0) * s.hidden * width(dtype) end

--- Forward reads the copies and writes one row per token. Backward reads that row's gradient and the copies, and writes
--- the copies' gradients.
function op.bytes(s, dtype, pass) return row(s, dtype) * (1 + (pass == "backward" and 2 or 1) * s.top_k) end

--- Stores the copies, for the gradient of the weights; only the fp32 weights if the activation of the experts already
--- applied them (Megatron-Core's memory-efficient permutation, arXiv 2603.07685). A one-hot mask holds the weights.
function op.activation_bytes(s, dtype, stack)
  if stack and stack.weighs_activations then return 4.0 * s.tokens * s.top_k end
  return row(s, dtype) * s.top_k + shapes.mask_bytes(s, dtype)
end

--- The gradients of tokens and copies.
function op.working_bytes(s, dtype) return row(s, dtype) * (1 + s.top_k) end

op.cuda = [==[
// One block a token: the weighted sum of its copies.
extern "C" __global__ void unpermute_combine(const T *copies, const long long *place, const float *weight, T *y,
                                             long long top_k, long long cols) {
  each_column(j, cols) {
    float sum = 0.0f;
    for (long long k = 0; k < top_k; k++)
      sum += weight[blockIdx.x * top_k + k] * load(copies, place[blockIdx.x * top_k + k] * cols + j);
    store(y, blockIdx.x * cols + j, sum);
  }
}

// One block a copy: the gradients of the copy and of its weight. order: the token of each copy.
extern "C" __global__ void unpermute_backward(const T *copies, const T *dy, const long long *order,
                                              const float *weight, T *dcopies, float *dweight, long long cols) {
  const long long from = order[blockIdx.x] * cols, to = blockIdx.x * cols;
  float dot = 0.0f;
  each_column(j, cols) {
    const float g = load(dy, from + j);
    dot += g * load(copies, to + j);
    store(dcopies, to + j, weight[blockIdx.x] * g);
  }
  dot = block_sum(dot);
  if (threadIdx.x == 0) dweight[blockIdx.x] = dot;
}
]==]

op.doubles = {
  unpermute_combine = function(copies, place, weight, y, top_k, cols)
    for i = 1, #y do
      local token, j, sum = (i - 1) // cols, (i - 1) % cols + 1, 0.0
      for k = token * top_k + 1, (token + 1) * top_k do sum = sum + weight[k] * copies[place[k] * cols + j] end
      y[i] = sum
    end
  end,
  unpermute_backward = function(copies, dy, order, weight, dcopies, dweight, cols)
    for r = 1, #order do
      local dot = 0.0
      for j = 1, cols do
        local at, g = (r - 1) * cols + j, dy[order[r] * cols + j]
        dot, dcopies[at] = dot + g * copies[at], weight[r] * g
      end
      dweight[r] = dot
    end
  end,
}

function op.kernel(k, s, pass)
  local n = s.tokens * s.top_k
  local copies, y = k.tensor { n, s.hidden }, k.tensor { s.tokens, s.hidden }
  local weight = k.tensor { n, dtype = "fp32", fill = "uniform" }
  if pass == "forward" then
    local place = k.tensor { n, fill = "index", high = n }
    return launch.rows(k, "unpermute_combine", op.cuda, s.tokens, s.hidden, { copies, place, weight, y, s.top_k })
  end
  local order, dcopies = k.tensor { n, fill = "index", high = s.tokens }, k.tensor { n, s.hidden }
  local dweight = k.tensor { n, dtype = "fp32" }
  launch.rows(k, "unpermute_backward", op.cuda, n, s.hidden, { copies, y, order, weight, dcopies, dweight })
end

--- On the CPU, without weights: rows are added to those of a table; backward copies them.
function op.cpu(s, pass)
  return { { kind = "embedding", pass = pass == "forward" and "backward" or "forward", rows = s.tokens * s.top_k,
    cols = s.hidden, vocab = s.tokens } }
end

function op.recorded(s) return { what = "moe_unpermute", rows = s.tokens * s.top_k, cols = s.hidden } end

op.torch = [[
copies, weight = tensor(s.tokens * s.top_k, s.hidden), tensor(s.tokens, s.top_k)
place = torch.randperm(s.tokens * s.top_k, device=copies.device)
return lambda: (copies.index_select(0, place).view(s.tokens, s.top_k, -1) * weight.unsqueeze(-1)).sum(1)
]]

return op
