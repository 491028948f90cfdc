--- Vocabulary-parallel cross entropy over fp32 logits (Megatron; Shoeybi et al. 2019).
-- The three reductions over tensor ranks are collectives of the architecture (vocabulary_reduce).
local launch = require "ett.operator.launch"
local losses = require "ett.operator.loss"
local width = require("ett.operator.memory").width
local shapes = require "ett.operator.shapes"

local function doubles() return require "ett.operator.doubles" end -- for tests of kernels alone

local op = { name = "cross_entropy", aliases = { "parallel_cross_entropy" },
  family = "cross_entropy", summary = "cross entropy, vocabulary-parallel" }

-- split: several tensor ranks share the vocabulary.
op.schema = { tokens = "count", vocab = "count", split = "natural?" }

function op.shape(c)
  return { tokens = shapes.tokens(c), vocab = shapes.local_vocab(c), split = c.tp > 1 and 1 or nil }
end

function op.flops(s, pass) return (pass == "backward" and 3.0 or 6.0) * s.tokens * s.vocab end

--- Forward, in fp32: cast (2 + 4), maximum (4), subtract (8), exponential (8), sum (4), divide (8).
--- Backward: read and scale the stored probabilities (8) and cast the gradient (4 + 2).
function op.bytes(s, _, pass) return (pass == "backward" and 14.0 or 38.0) * s.tokens * s.vocab end

--- Bytes of a fused kernel, which reads the logits and, backward, writes their gradient.
function op.least_bytes(s, dtype, pass)
  return (pass == "backward" and 2.0 or 1.0) * width(dtype) * s.tokens * s.vocab
end

-- Kernels that store fp32 probabilities. Others store the logits and recompute the softmax.
local stores_probabilities = { native = true, megatron = true, torch = true, shifted = true }

function op.stores_logits(_, stack)
  return not stores_probabilities[stack and stack.cross_entropy or "megatron"]
end

--- The loss is a part of the head's kernel (ett.operator.loss).
function op.inside(_, stack) return stack.cross_entropy == "recomputed" end

function op.activation_bytes(s, dtype, stack)
  if stack and losses.kernels[stack.cross_entropy] then return 0.0 end
  local each = op.stores_logits(s, stack) and width(dtype) or 4.0
  return each * s.tokens * s.vocab
end

--- Temporary bytes for the gradient: none in place (Transformer Engine, Liger); a tensor of the logits' type
--- (flash-attn: inplace_backward is off); or the fp32 gradients of PyTorch's nll_loss and log_softmax, which exist
--- together. Of a split vocabulary PyTorch holds three fp32 tensors beside the result of log_softmax
--- (torch/distributed/tensor/parallel/loss.py, _nll_loss_and_log_softmax_backward: grad_input, exp(x) and their sum).
--- Megatron-LM writes the gradient in place of the probabilities, and casts it to 16 bits. Its compiled functions
--- (native) write it to a new fp32 tensor first (fused_cross_entropy.py, note on in-place semantics).
--- Transformers' shifted copy of the logits (`shifted`) is freed before the backward pass; log_softmax stores its
--- result.
function op.working_bytes(s, dtype, stack)
  local kernel, each = stack and stack.cross_entropy or "megatron", width(dtype)
  if kernel == "fused" or losses.kernels[kernel] then return 0.0 end
  if kernel == "torch" or kernel == "shifted" then return (s.split and 12.0 or 8.0) * s.tokens * s.vocab end
  if stores_probabilities[kernel] and each == 4 then each = 0 end
  return (each + (kernel == "native" and 4.0 or 0.0)) * s.tokens * s.vocab
end

function op.kernel_shape(s) return { rows = s.tokens, cols = s.vocab } end

op.cuda = [[
// Writes the fp32 probabilities for the backward pass and each token's loss.
extern "C" __global__ void cross_entropy_forward(const T *logits, const long long *target, float *probability,
                                                 float *loss, long long cols) {
  const long long row = blockIdx.x * cols;
  float most = -3.4e38f, sum = 0.0f;
  each_column(j, cols) most = fmaxf(most, load(logits, row + j));
  most = block_max(most);
  each_column(j, cols) {
    float e = expf(load(logits, row + j) - most);
    probability[row + j] = e;
    sum += e;
  }
  sum = block_sum(sum);
  each_column(j, cols) probability[row + j] /= sum;
  if (threadIdx.x == 0) loss[blockIdx.x] = logf(sum) + most - load(logits, row + target[blockIdx.x]);
}

extern "C" __global__ void cross_entropy_backward(const float *probability, const long long *target, const float *dloss,
                                                  T *dlogits, long long cols) {
  const long long row = blockIdx.x * cols;
  each_column(j, cols)
    store(dlogits, row + j, dloss[blockIdx.x] * (probability[row + j] - (j == target[blockIdx.x])));
}
]]

op.doubles = {
  cross_entropy_forward = function(logits, target, probability, loss, cols)
    for i, v in ipairs(doubles().softmax(logits, cols)) do probability[i] = v end
    for row, own in ipairs(target) do loss[row] = -math.log(probability[(row - 1) * cols + own + 1]) end
  end,
  cross_entropy_backward = function(probability, target, dloss, dlogits, cols)
    for i, p in ipairs(probability) do
      local row, column = (i - 1) // cols + 1, (i - 1) % cols
      dlogits[i] = dloss[row] * (p - (column == target[row] and 1 or 0))
    end
  end,
}

function op.kernel(k, s, pass)
  local target = k.tensor { s.tokens, fill = "index", high = s.vocab }
  local probability = k.tensor { s.tokens, s.vocab, dtype = "fp32", fill = "uniform" }
  local loss, logits = k.tensor { s.tokens, dtype = "fp32" }, k.tensor { s.tokens, s.vocab }
  launch.rows(k, "cross_entropy_" .. pass, op.cuda, s.tokens, s.vocab,
    pass == "backward" and { probability, target, loss, logits } or { logits, target, probability, loss })
end

op.torch = [[
logits, target = tensor(s.tokens, s.vocab), index(s.tokens, high=s.vocab)
return lambda: F.cross_entropy(logits.float(), target, reduction="none")
]]

return op
