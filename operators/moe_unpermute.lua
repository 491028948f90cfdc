--- Return of the experts' outputs to the order of tokens: the sum of a token's copies, weighted by the router.
local launch = require "ett.operator.launch"
local shapes = require "ett.operator.shapes"
local width = require("ett.operator.memory").width

local op = { name = "moe_unpermute", family = "router", gathers = true,
  summary = "weighted sum of experts' outputs, by token" }

-- slots, seq: places and tokens of a one-hot mask (shapes.mask). padded: 1 if rows of padding are removed first.
-- scattered, batched: 1 if PyTorch's scatter_add, or a batched product in fp32, sums the copies.
op.schema = { tokens = "count", hidden = "count", top_k = "count", slots = "count?", seq = "count?",
  padded = "natural?", scattered = "natural?", batched = "natural?" }

function op.shape(c)
  local slots, seq = shapes.mask(c)
  return { tokens = shapes.returned_tokens(c), hidden = c.hidden, top_k = c.top_k, slots = slots, seq = seq,
    padded = c.pads_copies and not slots and 1 or nil,
    scattered = c.combine == "scatter_add" and not slots and 1 or nil,
    batched = c.combine == "bmm" and not slots and 1 or nil }
end

--- Forward weighs and sums. Backward weighs the gradient, and multiplies it with the copies for the weights' gradient.
function op.flops(s, pass) return (pass == "backward" and 3.0 or 2.0) * s.tokens * s.hidden * s.top_k end

local function row(s, dtype) return (s.tokens + 0.0) * s.hidden * width(dtype) end

--- Forward reads the copies and writes one row per token. Backward reads that row's gradient and the copies, and writes
--- the copies' gradients.
function op.bytes(s, dtype, pass) return row(s, dtype) * (1 + (pass == "backward" and 2 or 1) * s.top_k) end

--- Bytes beside those of one fused kernel, which moves 2 for each value of the copies and 2 for each of the tokens, and
--- 4 and 2 backward. PyTorch's operators are counted one by one, in bytes for each value of a copy unless stated:
--- padded: index_put on a view (4). Backward: the gradient of a slice, zeros and a copy (6), that of the view, a copy
--- and a clone (8), and a gather (4).
--- scattered: a cast (6), a product (8), a cast (6), zeros (2 a token's value), scatter_add (2, and 6 a token's value).
--- Backward: a gather (2), a cast (6), two products (20), a sum (4), a cast (6).
--- batched: zeros and index_put (6), a cast (6), a product (4, and 4 a token's value), a cast (6 a token's value).
--- Backward: a cast (6 a token's value), two products (8, and 8 a token's value), a cast (6), a gather (4).
function op.beside_bytes(s, pass)
  local token, backward = (s.tokens + 0.0) * s.hidden, pass == "backward"
  local copy, bytes = token * s.top_k, 0.0
  if s.padded then bytes = bytes + (backward and 18 or 4) * copy end
  if s.scattered then bytes = bytes + (backward and 34 * copy or 20 * copy + 6 * token) end
  if s.batched then bytes = bytes + 14 * copy + (backward and 12 or 8) * token end
  return bytes
end

--- Stores the copies, for the gradient of the weights; only the fp32 weights if the activation of the experts already
--- applied them (Megatron-Core's memory-efficient permutation, arXiv 2603.07685). A one-hot mask holds the weights.
function op.activation_bytes(s, dtype, stack)
  if stack and stack.weighs_activations then return 4.0 * s.tokens * s.top_k end
  if s.scattered or s.batched then return 4.0 * s.tokens * s.hidden * s.top_k end -- the product's input
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
