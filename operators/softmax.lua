--- Softmax over the keys.
local launch = require "ett.operator.launch"
local memory = require "ett.operator.memory"
local shapes = require "ett.operator.shapes"

local op = { name = "softmax", aliases = {}, family = "softmax", summary = "softmax over the keys" }

op.schema = { batch = "count", heads = "count", seq_q = "count", seq_k = "count" }

function op.shape(c)
  return { batch = c.micro_batch, heads = shapes.local_heads(c),
    seq_q = shapes.divide("seq", c.seq, "cp", c.cp or 1), seq_k = c.seq }
end

function op.kernel_shape(s)
  return { rows = s.batch * s.heads * s.seq_q, cols = s.seq_k, seq_q = s.seq_q }
end

-- Forward reads the scores and writes the probabilities; backward reads both and writes the scores' gradient.
memory.define(op, {
  forward = { reads = 1, writes = 1, flops = 5 },
  backward = { reads = 2, writes = 1, flops = 4 },
  saved = 1,
})
op.reference = shapes.reference(op, { "mp", "b", "h", "l" }, { "softmax" })

op.cuda = [[
extern "C" __global__ void softmax_forward(const T *x, T *y, long long cols) {
  const long long row = blockIdx.x * cols;
  const long long seen = cols;
  float most = -3.4e38f, sum = 0.0f;
  for (long long j = threadIdx.x; j < seen; j += blockDim.x) most = fmaxf(most, load(x, row + j));
  most = block_max(most);
  for (long long j = threadIdx.x; j < seen; j += blockDim.x) sum += expf(load(x, row + j) - most);
  float inverse = 1.0f / block_sum(sum);
  for (long long j = threadIdx.x; j < cols; j += blockDim.x)
    store(y, row + j, j < seen ? expf(load(x, row + j) - most) * inverse : 0.0f);
}

// dx = y (dy - sum(y dy))
extern "C" __global__ void softmax_backward(const T *y, const T *dy, T *dx, long long cols) {
  const long long row = blockIdx.x * cols;
  const long long seen = cols;
  float sum = 0.0f;
  for (long long j = threadIdx.x; j < seen; j += blockDim.x) sum += load(y, row + j) * load(dy, row + j);
  sum = block_sum(sum);
  for (long long j = threadIdx.x; j < cols; j += blockDim.x)
    store(dx, row + j, j < seen ? load(y, row + j) * (load(dy, row + j) - sum) : 0.0f);
}
]]

function op.kernel(k, s, pass)
  local rows, args = s.batch * s.heads * s.seq_q, {}
  for i = 1, pass == "backward" and 3 or 2 do args[i] = k.tensor { rows, s.seq_k } end
  launch.rows(k, "softmax_" .. pass, op.cuda, rows, s.seq_k, args)
end

op.torch = [[
x = tensor(s.batch, s.heads, s.seq_q, s.seq_k)
return lambda: F.softmax(x, -1)
]]

return op
