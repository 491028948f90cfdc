--- The optimizer family: Adam over the parameters of one device.
--
-- Bytes per parameter in mixed precision: an update reads the fp32 gradient, the master weight and two moments (16). It
-- writes master weight and moments (12) and the model's weight (its dtype). An fp32 model has no separate master
-- weight. FLOPs: 14, Adam with bias correction and decoupled weight decay (Kingma & Ba 2015, Loshchilov & Hutter 2019).
local dtype_bytes = require("ett.base.schema").dtype_bytes
local launch = require "ett.operator.launch"

local optimizer = {}

optimizer.schema = { params = "count", tensors = "count?", layers = "natural?", hidden = "count?" }

function optimizer.flops(s) return 14.0 * s.params end

function optimizer.bytes(s, dtype)
  local model = dtype_bytes[dtype] >= 4 and 0 or 2
  return (16.0 + 12.0 + model) * s.params
end

function optimizer.kernel_shape(s) return { params = s.params, tensors = s.tensors or 1 } end

--- Constants of an update on all back ends.
optimizer.rate, optimizer.beta1, optimizer.beta2, optimizer.epsilon, optimizer.decay = 1e-3, 0.9, 0.95, 1e-8, 0.01

--- Bias corrections of both moments at a step (from 1): 1 / (1 - beta^step).
function optimizer.corrections(step)
  return { 1 / (1 - optimizer.beta1 ^ step), 1 / (1 - optimizer.beta2 ^ step) }
end

optimizer.cuda = [[
// Adam with bias correction and decoupled weight decay on fp32 master weights; writes the model's copy, too. The
// corrections are in memory, so that a graph of launches serves every step.
extern "C" __global__ void adam(const float *gradient, float *master, float *first, float *second, T *model,
                                const float *correction, double rate, double decay, double epsilon, long long n) {
  const float lr = (float)rate * correction[0], unbias = correction[1], keep = (float)(1.0 - rate * decay);
  each_element(i, n) {
    float g = gradient[i], w = master[i];
    float m = first[i] = 0.9f * first[i] + 0.1f * g;
    float v = second[i] = 0.95f * second[i] + 0.05f * g * g;
    w = keep * w - lr * m / (sqrtf(v * unbias) + (float)epsilon);
    master[i] = w;
    store(model, i, w);
  }
}
]]

optimizer.doubles = {
  adam = function(gradient, master, first, second, model, correction, rate, decay, epsilon)
    for i, g in ipairs(gradient) do
      first[i] = optimizer.beta1 * first[i] + (1 - optimizer.beta1) * g
      second[i] = optimizer.beta2 * second[i] + (1 - optimizer.beta2) * g * g
      local step = rate * correction[1] * first[i] / (math.sqrt(second[i] * correction[2]) + epsilon)
      master[i] = (1 - rate * decay) * master[i] - step
      model[i] = master[i]
    end
  end,
}

function optimizer.kernel(k, s)
  local function state(fill) return k.tensor { s.params, dtype = "fp32", fill = fill } end
  launch.elements(k, "adam", optimizer.cuda, s.params,
    { state(), state(), state(), state("uniform"), k.tensor { s.params },
      k.tensor { 2, dtype = "fp32", fill = "uniform" }, optimizer.rate, optimizer.decay, optimizer.epsilon })
end

--- Parameters and tensors of one GPT encoder layer on one tensor rank: qkv, proj, up and down with biases, and two
--- layer norms: (12 h^2 + 7 h) / tp + 6 h, in 12 tensors.
function optimizer.encoder(c)
  local h, tp = c.hidden, c.tp
  local heads, kv = c.heads or 1, c.kv_heads or c.heads or 1
  local d = c.head_dim or h // heads
  local ffn, up = c.ffn or 4 * h, c.gated_mlp and 2 or 1
  local weights = h * (heads + 2 * kv) * d + heads * d * h + h * ffn * up + ffn * h
  local column_bias = (heads + 2 * kv) * d + ffn * up
  return (weights + column_bias) // tp + 6 * h, 12
end

optimizer.torch = [[
count = s.tensors or 1
weights = [tensor(s.params // count + (i < s.params % count), dtype=torch.float32) for i in range(count)]
for w in weights:
    w.grad = torch.randn_like(w)
fused = {"fused": True} if weights[0].is_cuda else {}
adam = torch.optim.AdamW(weights, lr=1e-3, betas=(0.9, 0.95), weight_decay=0.01, **fused)
return adam.step
]]

-- Muon (Jordan et al. 2024) updates matrices between layers; Adam updates embeddings, heads, norms and biases. It
-- replaces the momentum X of a matrix by an orthogonal one, with Newton-Schulz iterations in 16 bits. For m rows and n
-- columns, m <= n, one iteration is A = X X', B = b A + c A A, X = a X + B X: 4 m^2 n + 2 m^3 FLOPs.

--- The matrices in the weights of an operator: rows and columns of each, and their number in all batches. A joint
--- product counts as one matrix for each of its parts (queries, keys, values; gate, up). {}: Muon does not update it.
---@param op table operator
---@param s table its shape on one device
---@param parts integer[]? widths of its parts
function optimizer.matrices(op, s, parts)
  if op.chunk or not op.parameters or op.parameters(s) == 0 then return {} end
  if op.family == "router" then return { { rows = s.experts, cols = s.hidden, count = 1 } } end
  if op.family ~= "gemm" or not (s.in_features and s.out_features) then return {} end
  local sum, list = 0, {}
  for _, width in ipairs(parts or {}) do sum = sum + width end
  for _, width in ipairs(sum == s.out_features and parts or { s.out_features }) do
    if width > 0 then list[#list + 1] = { rows = width, cols = s.in_features, count = s.batch or 1 } end
  end
  return list
end

--- Seconds of the Newton-Schulz iterations on a matrix.
---@param product fun(m: integer, k: integer, n: integer): number seconds of a product of m x k and k x n
---@param stream fun(elements: number): number seconds to read two tensors of 16 bits and write one
function optimizer.newton_seconds(matrix, steps, product, stream)
  local m, n = math.min(matrix.rows, matrix.cols), math.max(matrix.rows, matrix.cols)
  local one = product(m, n, m) + product(m, m, m) + product(m, m, n) + stream(m * m + 0.0) + stream((m + 0.0) * n)
  return steps * one + 2 * stream((m + 0.0) * n) -- it is also cast and divided by its norm
end

--- Completes the optimizer of one pipeline stage. extra(c): parameters and tensors outside the encoder layers
--- (embedding, final norm and head).
function optimizer.stage(op, extra)
  op.family, op.proportional = "optimizer", "params"
  op.schema = optimizer.schema
  op.passes = { "update" }
  function op.shape(c)
    local params, tensors = optimizer.encoder(c)
    local more, more_tensors = extra(c)
    return { params = c.layers * params + more, tensors = c.layers * tensors + more_tensors,
      layers = c.layers, hidden = c.hidden }
  end
  for _, name in ipairs { "flops", "bytes", "kernel_shape", "cuda", "kernel", "torch", "doubles" } do
    op[name] = optimizer[name]
  end
  return op
end

return optimizer
